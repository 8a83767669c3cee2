"""The builder's calls for operators that take a tuple apart, or take tuples in order: what they say, and that the document says it too.

Tests `query.py`, `given.py`, `streams.py`, `cep/model/contract/forms.py`, `cep/model/operator_documents.py`.
"""

from __future__ import annotations

import json
import math
import struct
from datetime import timedelta

import pytest

from cep.errors import QueryError
from cep.model import query as model
from cep.model.expr import NESTED_MAX, Expr, Literal, col, from_json, lit, to_json
from cep.model.functions import arg_max, count, first, lag, sum_
from cep.model.operator_documents import from_json as from_document
from cep.model.operators import Deduplicate, Delay, Demux, FlatMap, KeepLast, Operator, Over, Sort, StatefulMap, TopN
from cep.model.schema import FLOAT64, INT64, STRING
from cep.model.windows import TIME, TRAILING, TrailingWindow
from driver.builder.query import Query
from driver.builder.streams import files, stream

PACKETS = stream("packets", {"t": "timestamp[ms]", "ip": str, "n": int, "tags": list[str]}, event_time="t", disorder="1s")


def start() -> Query:
    return Query("q").source(PACKETS)


def last(query: Query) -> Operator:
    """The operator made last, after the way through its document and back."""
    built = query.output("out").build()
    assert model.to_json(model.from_json(model.to_json(built))) == model.to_json(built)
    return built.operators[-1]


def test_functions_of_several_columns() -> None:
    asked = start().aggregate("a", TIME("1m"), by="ip", tuples=count(), **arg_max({"most": "n", "when": "t"}, by="n"))
    assert dict(last(asked).functions) == {"tuples": count(), "most": arg_max("n", "n"), "when": arg_max("t", "n")}  # type: ignore[attr-defined]
    asked = start().over("o", TRAILING("1m"), **first({"from": "n"}))
    assert dict(last(asked).functions) == {"from": first("n")}  # type: ignore[attr-defined]


@pytest.mark.parametrize("columns", [["n", "t"], {"m": "n", "u": col("n") * 2}])
def test_one_name_for_several_columns_is_refused(columns: list[str] | dict[str, str | Expr]) -> None:
    with pytest.raises(QueryError, match=r"field 'best': expected a function, got those of 2 columns by name; write \*\*"):
        start().aggregate("a", TIME("1m"), best=arg_max(columns, by="n"), n=sum_(col("n") * 2))  # type: ignore[arg-type]


def same(made: tuple[tuple[str, Expr], ...], /, **other: object) -> bool:
    wanted = {name: value if isinstance(value, Expr) else lit(value) for name, value in other.items()}
    return {name: to_json(expr) for name, expr in made} == {name: to_json(expr) for name, expr in wanted.items()}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -0.0, 5e-324])
def test_a_literal_that_is_any_float(value: float) -> None:
    """JSON has no word for some: strict writers refuse them, and they are texts there."""
    document = json.dumps(to_json(lit(value)), allow_nan=False)
    back = from_json(json.loads(document))
    assert isinstance(back, Literal) and back.type == FLOAT64
    assert struct.pack("d", back.value) == struct.pack("d", value)


def test_a_text_that_reads_like_a_float_stays_text() -> None:
    for document in ("nan", {"literal": "nan", "type": "string"}):
        found = from_json(document)
        assert isinstance(found, Literal) and (found.value, found.type) == ("nan", STRING)


def test_demux() -> None:
    query = start().demux("by size", {"small": col("n") < 10, "large": col("n") > 100}, otherwise="rest")
    found = last(query.at("by size.small").union("u", "by size.small", "by size.large", "by size.rest"))
    assert found.inputs == ("by size.small", "by size.large", "by size.rest")
    (demux,) = query.operators
    assert isinstance(demux, Demux)
    assert demux.branches == found.inputs


def test_flat_map() -> None:
    found = last(start().flat_map("f", explode="tag", tag=col("tags"), n=col("n")))
    assert isinstance(found, FlatMap)
    assert found.explode == "tag"
    assert same(found.fields, tag=col("tags"), n=col("n"))


def test_delay() -> None:
    assert last(start().delay("later", timedelta(seconds=2))) == Delay("later", "packets", 2_000_000)


def test_deduplicate() -> None:
    assert last(start().deduplicate("once", by="ip", ttl="1m")) == Deduplicate("once", "packets", ("ip",), 60_000_000)
    latest = last(start().deduplicate("latest", by="ip", keep="last", window=TIME("1m")))
    assert latest == KeepLast("latest", "packets", TIME("1m"), ("ip",)) and latest.explained() == "last of 1m by ip"
    for given in ({}, {"keep": "last", "ttl": None}, {"keep": "last"}, {"ttl": "1m", "window": TIME("1m")}, {"keep": "any", "ttl": "1m"}):
        with pytest.raises(QueryError, match="operator 'd': deduplicate has a ttl, or None for ever; or keep='last' and a window"):
            start().deduplicate("d", by="ip", **given)
    assert last(start().deduplicate("once", by=["ip", "n"], ttl=None)) == Deduplicate("once", "packets", ("ip", "n"), None)


def test_over() -> None:
    functions = (("total", sum_("n")), ("before", lag("ip", 2)))
    found = last(start().over("o", TRAILING("10m"), by="ip", total=sum_("n"), before=lag(col("ip"), 2)))
    assert found == Over("o", "packets", TrailingWindow(600_000_000, None), ("ip",), functions)
    assert last(start().over("o", TRAILING(rows=100), dict(functions), ttl="5s")) == Over(
        "o", "packets", TrailingWindow(None, 100), (), functions, 5_000_000
    )
    with pytest.raises(QueryError, match=r"operator 'o', field 'total': sum takes columns here, .*compute the expression before"):
        start().over("o", TRAILING("10m"), total=sum_(col("n") * 2))


def test_stateful_map() -> None:
    state = {"count": 0, "before": lit(None, "int64")}
    update = {"before": col("n"), "count": col("count") + 1}
    found = last(start().stateful_map("m", by="ip", ttl="5s", state=state, update=update, fields={"ip": col("ip"), "one": 1}))
    assert isinstance(found, StatefulMap)
    assert (found.by, found.ttl) == (("ip",), 5_000_000)
    assert [(name, literal.value, literal.type) for name, literal in found.state] == [("count", 0, INT64), ("before", None, INT64)]
    assert [name for name, _ in found.update] == ["count", "before"]  # in the order of the state
    assert same(found.update, **update)
    assert same(found.fields, ip=col("ip"), one=1)


def test_state_begins_as_a_constant() -> None:
    with pytest.raises(QueryError, match="operator 'm': state 'count': expected a constant") as error:
        start().stateful_map("m", ttl=None, state={"count": col("n")}, update={"count": col("n")}, fields={"n": col("n")})
    assert error.value.pointer == "/state/count"
    assert isinstance(lit(0), Literal)


def test_every_state_is_updated() -> None:
    with pytest.raises(QueryError, match="update: expected an expression for each of the state's names"):
        start().stateful_map("m", ttl=None, state={"count": 0}, update={"n": col("n")}, fields={"n": col("n")})


def test_sort() -> None:
    assert last(start().sort("s")) == Sort("s", "packets")
    window = TIME("10s", "5s")
    assert last(start().sort("s", window, by="ip", order="-n")) == Sort("s", "packets", window, ("ip",), (("n", True),))
    assert last(start().sort("s", window, order=["ip", "-n"])) == Sort("s", "packets", window, (), (("ip", False), ("n", True)))


def test_top() -> None:
    window = TIME("10s")
    assert last(start().top("t", 3, window, by="ip", order="-n")) == TopN("t", "packets", window, ("ip",), (("n", True),), 3)


def test_message_policy() -> None:
    asked = Query("q").source(stream("s", n=int)).map("m", n=col("n")).output("o").options(message_policy="poll")
    assert model.from_json(asked.to_json()).options.message_policy == "poll"
    with pytest.raises(QueryError, match="message_policy: expected one of"):
        asked.options(message_policy="sleep")


@pytest.mark.parametrize("operations", [NESTED_MAX + 1, 600, 100_000])
def test_operations_inside_each_other_have_an_end(operations: int) -> None:
    """Said where the query is made, whatever Python itself could still take."""
    n = col("n")
    for _ in range(operations):
        n = n + 1
    with pytest.raises(QueryError, match="more than 100 operations inside each other: compute a part of it in a map before"):
        start().map("deep", n=n).output("out").to_json()


def test_a_document_with_operations_inside_each_other() -> None:
    def document(operations: int) -> dict[str, object]:
        expression: object = {"column": "n"}
        for _ in range(operations):
            expression = {"op": "+", "args": [expression, 1]}
        return {"name": "deep", "type": "map", "input": "packets", "fields": {"n": expression}}

    assert from_document(document(NESTED_MAX)).name == "deep"
    for operations in (NESTED_MAX + 1, 100_000):
        with pytest.raises(QueryError, match="more than 100 operations inside each other"):
            from_document(document(operations))


def test_files_take_the_options_of_any_format_by_name() -> None:
    fields = {"t": "timestamp[us]", "n": int}
    named = files("s", fields, paths="/data/a.txt", event_time="t", disorder="0s", separator=";", block_bytes=4096)
    assert files("s", fields, paths="/data/a.txt", event_time="t", disorder="0s", options={"separator": ";", "block_bytes": 4096}) == named
    with pytest.raises(QueryError, match="unknown key 'widths'; files of text have paths, separator, header, block_bytes"):
        files("s", fields, paths="/data/a.txt", event_time="t", disorder="0s", options={"widths": "3,13"})
