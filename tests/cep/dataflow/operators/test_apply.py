"""Apply: a user's function over batches, whatever their cut; each row that it makes is at the event time of the row it is made of.

n  ip                n  origin
2  a        repeated 2  (…, 0)    as many rows as n says, in the opposite order
0  b       ────────▶ 2  (…, 1)
1  c                 1  (…, 0)

Tests `apply.py`, `cep/compile/user/batches.py`.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest

from cep.compile.user.functions import allowed
from cep.dataflow.dead_letters import DeadLetters
from cep.dataflow.operators.apply import ApplyOperator
from cep.errors import QueryError
from cep.model.expr import col
from cep.model.operators import Apply, Deduplicate, Filter
from cep.model.schema import Schema
from driver import Query, stream
from tests.support import functions_of_users as functions
from tests.support.single_operator import (
    Row,
    Tuple,
    as_planned,
    drawn,
    made,
    planned_rows,
    query_of,
    run_alone,
    run_planned,
    without_origins,
)

MODULE = "tests.support.functions_of_users"
SCHEMA = Schema.of({"t": "timestamp[us]", "ip": "string?", "n": "int64"})
N = Schema.of({"n": "int64"})
TWICE = Schema.of({"ip": "string?", "twice": "int64"})


@pytest.fixture(autouse=True)
def _modules() -> Iterator[None]:
    with allowed(MODULE):
        yield


def apply(name: str, columns: tuple[str, ...] = ("n",), schema: Schema = N) -> Apply:
    return Apply("a", "s", f"{MODULE}:{name}", columns, schema)


def row(choose: random.Random) -> Row:
    return {"t": 0, "ip": choose.choice((None, "", "a", "10.0.0.1 and more than fifteen")), "n": choose.choice((0, 1, 2, 3, 13))}


def timed(tuples: Iterable[Tuple]) -> list[Tuple]:
    return [Tuple(each.time, each.origin, {**each.row, "t": each.time}) for each in tuples]


def repetitions(tuples: Iterable[Tuple]) -> list[Tuple]:
    """The oracle of `repeated`."""
    return [Tuple(each.time, (*each.origin, k), {"n": each.row["n"]}) for each in tuples for k in range(each.row["n"])]


def doubles(tuples: Iterable[Tuple]) -> list[Tuple]:
    """The oracle of `doubled`."""
    kept = [each for each in tuples if each.row["n"] != 13]
    return [Tuple(each.time, (*each.origin, 0), {"ip": each.row["ip"], "twice": 2 * each.row["n"]}) for each in kept]


@pytest.mark.parametrize("seed", range(10))
def test_as_the_oracle(seed: int) -> None:
    choose, letters = random.Random(seed), DeadLetters()
    arrivals = timed(drawn(choose, choose.randrange(150), row))
    operator = ApplyOperator(apply("repeated"), SCHEMA, letters)
    assert made(run_alone(operator, arrivals, SCHEMA, choose)) == made(repetitions(arrivals))
    operator = ApplyOperator(apply("doubled", ("ip", "n"), TWICE), SCHEMA, letters)
    assert made(run_alone(operator, arrivals, SCHEMA, choose)) == made(doubles(arrivals))
    assert letters.counts["a"] == sum(each.row["n"] == 13 for each in arrivals)


def test_the_rows_that_fail_are_named() -> None:
    letters = DeadLetters()
    arrivals = [Tuple(k, (0, k), {"t": k, "ip": "a", "n": 13 if k in (3, 7) else 1}) for k in range(20)]
    run_alone(ApplyOperator(apply("doubled", ("ip", "n"), TWICE), SCHEMA, letters), arrivals, SCHEMA, random.Random(0))
    reason = "doubled({'ip': 'a', 'n': 13}): ValueError: thirteen"
    assert [(each.reason, each.position) for each in letters.take(9)] == [
        (reason, "event time 1970-01-01T00:00:00.000003Z, record 3"),
        (reason, "event time 1970-01-01T00:00:00.000007Z, record 7"),
    ]


def test_a_row_that_fails_is_named_whatever_its_instant() -> None:
    """One beyond the year 9999 is a timestamp too, and no datetime."""
    letters = DeadLetters()
    far = 2**61 - 1
    arrivals = [Tuple(0, (0, 0), {"t": far, "ip": None, "n": 13})]
    run_alone(ApplyOperator(apply("doubled", ("t", "ip", "n"), TWICE), SCHEMA, letters), arrivals, SCHEMA, random.Random(0))
    assert [each.reason for each in letters.take(9)] == [f"doubled({{'t': {far}, 'ip': None, 'n': 13}}): ValueError: thirteen"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("wrong_count", "expected 1 rows, or a column '__row' that says of which each is made, got 0 rows"),
        ("wrong_schema", "column 'n': expected int64, got string"),
        ("wrong_row", "column '__row': expected rows from 0 to 0, got 1 to 1"),
        ("no_batch", "expected a pyarrow.RecordBatch, got list"),
        ("doubled", "KeyError"),
    ],
)
def test_what_it_returns_is_checked(name: str, message: str) -> None:
    letters = DeadLetters()
    arrivals = [Tuple(k, (0, k), {"t": k, "ip": "a", "n": 1}) for k in range(3)]
    assert run_alone(ApplyOperator(apply(name), SCHEMA, letters), arrivals, SCHEMA, random.Random(0)) == []
    found = letters.take(9)
    assert len(found) == 3 and all(message in each.reason for each in found)


@pytest.mark.parametrize("seed", range(5))
def test_in_a_plan(seed: int) -> None:
    """Behind it a Deduplicate, which takes its rows in the order of their origins."""
    choose = random.Random(seed)
    arrivals = timed(drawn(choose, 80, row))
    repeats = replace(apply("repeated"), input="f")
    asked = query_of(SCHEMA, Filter("f", "s", col("n") < 13), repeats, Deduplicate("d", "a", ("n",), 5))
    kept: list[Tuple] = []
    last: dict[int, int] = {}
    for each in sorted(repetitions(e for e in as_planned(arrivals) if e.row["n"] < 13), key=lambda each: each.place):
        if each.row["n"] not in last or each.time - last[each.row["n"]] > 5:
            last[each.row["n"]] = each.time
            kept.append(each)
    assert planned_rows(run_planned(asked, arrivals, choose)) == without_origins(kept)


def test_the_builder() -> None:
    visits = stream("s", ip=str, n=int)
    built = Query("q").source(visits).apply("a", functions.doubled, ["ip", "n"], {"ip": "string?", "twice": int}).output("out").build()
    assert built.operators == (apply("doubled", ("ip", "n"), TWICE),)
    with pytest.raises(QueryError, match="expected at least one column for the function"):
        Query("q").source(visits).apply("a", functions.doubled, [], {"n": int})
