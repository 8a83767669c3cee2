"""Joins and lookups in the query builder: the operators that they make, and as documents.

Tests `query.py`, `tables.py`.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from cep.errors import QueryError
from cep.model import query as model
from cep.model.operators import AsOfJoin, IntervalJoin, Join, Lookup, Operator, Zip
from cep.model.schema import Schema
from cep.model.tables import StaticTable
from cep.plan.validate import validate
from driver import TIME, Query, col, stream

LEFT = stream("l", t="timestamp[us]", k=int, a=int, event_time="t", disorder="0s")
RIGHT = stream("r", t="timestamp[us]", k=int, b=int, event_time="t", disorder="0s")
BEGUN = Query("q").source(LEFT)
TEN = TIME("10s")


def last_of(query: Query) -> Operator:
    """The operator, as it comes back out of the query's document."""
    built = query.output("out").build()
    again = model.from_json(model.to_json(built))
    assert model.to_json(again) == model.to_json(built)
    return again.operators[-1]


def test_a_window_join() -> None:
    query = BEGUN.join("j", RIGHT, TEN, on="k", how="left", condition=col("a") > col("r_b"), prefix="r_")
    found = last_of(query)
    assert isinstance(found, Join) and found.condition is not None
    assert replace(found, condition=None) == Join("j", "l", "r", TEN, TEN, (("k", "k"),), "left", None, "r_")
    assert [each.name for each in query.streams] == ["l", "r"]
    assert last_of(BEGUN.join("j", RIGHT, TEN, prefix="r_", broadcast="left")) == Join(
        "j", "l", "r", TEN, TEN, (), "inner", None, "r_", "left"
    )


def test_windows_of_two_sizes_and_a_group() -> None:
    found = last_of(BEGUN.join("j", RIGHT, TIME("10s", "5s"), right_window=TIME("20s", "5s"), on={"a": "b"}, by="k", prefix="r_"))
    assert found == Join("j", "l", "r", TIME("10s", "5s"), TIME("20s", "5s"), (("a", "b"), ("k", "k")), "inner", None, "r_")


def test_an_interval_join() -> None:
    found = last_of(BEGUN.interval_join("j", RIGHT, "-5s", timedelta(minutes=1), on=["k", ("a", "b")], how="full", prefix="r_"))
    assert found == IntervalJoin("j", "l", "r", -5_000_000, 60_000_000, (("k", "k"), ("a", "b")), "full", None, "r_")


def test_a_join_that_keeps_its_tuples() -> None:
    found = last_of(BEGUN.join("j", RIGHT, ttl="1m", on={"a": "b"}, by="k", how="left", prefix="r_"))
    assert found == IntervalJoin("j", "l", "r", -60_000_000, 60_000_000, (("a", "b"), ("k", "k")), "left", None, "r_")
    ever = last_of(BEGUN.join("j", RIGHT, ttl=None, on="k", prefix="r_"))
    assert ever == IntervalJoin("j", "l", "r", None, None, (("k", "k"),), "inner", None, "r_")
    assert ever.explained() == "inner join without a time bound on k; keeps all tuples of both for ever"
    assert replace(ever, upper=5).explained() == "inner interval join up to 5us on k; keeps all tuples of the right for ever"
    assert replace(ever, lower=-5).explained() == "inner interval join from -5us on k; keeps all tuples of the left for ever"


@pytest.mark.parametrize(
    "given", [{}, {"window": TEN, "ttl": "1m"}, {"ttl": None, "broadcast": "left"}, {"ttl": "1m", "right_window": TEN}]
)
def test_a_join_has_a_window_or_a_ttl(given: dict[str, Any]) -> None:
    with pytest.raises(QueryError, match=r"operator 'j': a join has a window, such as TIME\(\"1m\"\), or a ttl") as caught:
        BEGUN.join("j", RIGHT, on="k", prefix="r_", **given)
    assert caught.value.pointer == "/window"


def test_an_as_of_join_with_something_named() -> None:
    query = BEGUN.source(RIGHT).filter("some", col("b") > 1).at("l").as_of_join("j", "some", on="k", tolerance="1m", prefix="r_")
    assert last_of(query) == AsOfJoin("j", "l", "some", (("k", "k"),), "inner", 60_000_000, "r_")


def test_a_zip() -> None:
    assert last_of(BEGUN.zip("j", RIGHT, prefix="r_")) == Zip("j", "l", "r", "r_")
    with pytest.raises(QueryError, match="operator 'j': both sides have a column 't'; give a prefix"):
        BEGUN.zip("j", RIGHT).output("out").build()


def test_a_lookup_in_a_file() -> None:
    found = last_of(BEGUN.lookup("j", ("/data/names.csv", {"k": int, "name": "string?"}), on="k", how="left"))
    assert found == Lookup("j", "l", StaticTable(Schema.of({"k": int, "name": "string?"}), "/data/names.csv"), (("k", "k"),), "left")


def test_a_lookup_in_a_table_of_ones_own() -> None:
    columns = {
        "k": pa.array([1, 2], pa.uint32()),
        "small": pa.array([1, 2], pa.uint16()),
        "name": pa.array(["a", None]).dictionary_encode(),
    }
    query = BEGUN.lookup("j", pa.table(columns), on="k")
    found = last_of(query)
    assert isinstance(found, Lookup) and found.table.schema == Schema.of({"k": "int64", "small": "int32", "name": "string?"})
    assert validate(query.output("out").build(), {}).schemas["j"].names == ("t", "k", "a", "small", "name")


def test_what_is_no_table_and_what_are_no_pairs() -> None:
    with pytest.raises(QueryError, match=r"expected a pyarrow\.Table or"):
        BEGUN.lookup("j", "names.csv", on="k")  # type: ignore[arg-type]
    with pytest.raises(QueryError, match=r"column 'x'.*cast it"):
        BEGUN.lookup("j", pa.table({"x": pa.array([1], pa.uint64())}), on="x")
    with pytest.raises(QueryError, match="too large for a query's document"):
        BEGUN.lookup("j", pa.table({"k": range(100_000)}), on="k")
    with pytest.raises(QueryError, match="operator 'j': on: expected"):
        BEGUN.as_of_join("j", RIGHT, on=[("a", "b", "c")])  # type: ignore[list-item]
    with pytest.raises(QueryError, match="lower: expected a whole number"):
        BEGUN.interval_join("j", RIGHT, "soon", "5s", on="k")
