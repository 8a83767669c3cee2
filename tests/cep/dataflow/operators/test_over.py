"""Over: every tuple with what trailing windows make of those of its group that came before it.

TRAILING(10), v summed                    TRAILING(rows=2)
t     0    4    9    14   14   25         t     0    4    9    14   14   25
v     1    2    4    8    16   32
sum   1    3    7    30   30   32         sum   1    3    6    12   24   48
      both at 14 see each other           each sees the one before it

Tests `over.py`, `cep/compile/windows/trailing.py`, `cep/compile/windows/trailing_source.py`, `cep/dataflow/state/lags.py`.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from cep.compile.aggregate.spec import AggregateSpec
from cep.compile.windows import trailing
from cep.dataflow.dead_letters import DeadLetters
from cep.dataflow.operators.over import OverOperator
from cep.dataflow.state import lags
from cep.dataflow.state.hold import Hold
from cep.errors import QueryError, StateLimitExceeded
from cep.kernels.jit import compilations
from cep.model import functions
from cep.model.expr import col, lit
from cep.model.functions import Function, UserFunction
from cep.model.operator_documents import from_json, to_json
from cep.model.operators import Aggregate, Map, Over, Union
from cep.model.schema import INT64, Schema
from cep.model.windows import SIZE, TRAILING, TrailingWindow, UnboundedWindow
from tests.reference import over as reference
from tests.reference.rows import Row as ReferenceRow
from tests.support.single_operator import (
    FLOATS,
    WORDS,
    Row,
    Tuple,
    as_planned,
    batch_of,
    drawn,
    made,
    planned_rows,
    query_of,
    run_alone,
    run_planned,
    run_restored,
    watermark,
    without_origins,
)

SCHEMA = Schema.of({"t": "timestamp[us]", "word": "string?", "x": "float64?", "n": "int64?", "m": "int64"})
MAX = 2**63 - 1

#: Fixed width, texts, exact sums that spill, and blocks.
FUNCTIONS: tuple[Function, ...] = (
    functions.count(),
    functions.sum_("m"),
    functions.sum_("x"),
    functions.avg("n"),
    functions.min_("word"),
    functions.max_("x"),
    functions.first("word"),
    functions.last("n"),
    functions.arg_max("word", "n"),
    functions.stddev("x"),
    functions.count_distinct("word"),
    functions.collect("word", 3),
    functions.quantile("x", 0.25),
    functions.approx_count_distinct("word", 4),
    functions.lag("word", 1),
    functions.lag("x", 3),
    functions.lag("t", 2),
    functions.row_number(),
)


def over(window: TrailingWindow, *asked: Function, by: tuple[str, ...] = ("word",), ttl: int | None = None) -> Over:
    return Over("o", "s", window, by, tuple((f"f{i}", function) for i, function in enumerate(asked)), ttl)


CASES = {
    "a span of all functions": over(TrailingWindow(9, None), *FUNCTIONS),
    "rows of all functions": over(TrailingWindow(None, 4), *FUNCTIONS, ttl=15),
    "without a key": over(TrailingWindow(7, None), functions.count(), functions.sum_("m"), functions.lag("word", 3), by=()),
    "rows without a key": over(TrailingWindow(None, 7), functions.max_("word"), functions.avg("x"), by=()),
    "of numbers, with a ttl": over(TrailingWindow(20, None), functions.min_("m"), functions.max_("n"), by=("n",), ttl=6),
    "one row": over(TrailingWindow(None, 1), functions.count(), functions.last("x")),
    "numbers alone": over(TrailingWindow(None, 1), functions.row_number(), by=("word", "n"), ttl=9),
    "numbers of all": over(TrailingWindow(None, 1), functions.row_number(), by=()),
    "lags alone": over(TrailingWindow(None, 1), functions.lag("n", 2), functions.lag("word"), by=("x",), ttl=9),
}


def operator(described: Over, letters: DeadLetters | None = None, limit: int = 1 << 30) -> OverOperator:
    asked = tuple((name, function) for name, function in described.functions if function.name not in functions.OF_OVER)
    aggregate = Aggregate("o", "s", UnboundedWindow(None, None), described.by, asked)
    spec = AggregateSpec.of(aggregate, SCHEMA, frozenset({"t"}), "whole", origin=True) if asked else None
    return OverOperator(described, spec, Hold(SCHEMA, 2, False), limit, DeadLetters() if letters is None else letters)


def row(choose: random.Random) -> Row:
    return {
        "t": 0,
        "word": choose.choice(WORDS),
        "x": choose.choice((*FLOATS, 1e300, -1e300, 5e-324)),
        "n": choose.choice((None, 1, -5)),
        "m": choose.choice((0, 1, 2, 3, MAX)),
    }


def timed(arrivals: Iterable[Tuple]) -> list[Tuple]:
    return [Tuple(each.time, each.origin, {**each.row, "t": each.time}) for each in arrivals]


def expected(tuples: Iterable[Tuple], described: Over) -> tuple[list[Tuple], int]:
    """By the reference engine, and how many dead letters."""
    rows = [ReferenceRow(each.time, each.origin, tuple(each.row.values())) for each in tuples]
    found, dead = reference.over(described, SCHEMA, rows)
    names = (*SCHEMA.names, *(name for name, _ in described.functions))
    return [Tuple(each.time, each.origin, dict(zip(names, each.values, strict=True))) for each in found], len(dead)


def sums(window: TrailingWindow) -> list[tuple[int, Any]]:
    rows = zip((0, 4, 9, 14, 14, 25), (1, 2, 4, 8, 16, 32), strict=True)
    arrivals = timed(Tuple(t, (0, i), {**row(random.Random(0)), "m": m}) for i, (t, m) in enumerate(rows))
    out = run_alone(operator(over(window, functions.sum_("m"), by=())), arrivals, SCHEMA, random.Random(0))
    return [(each.time, each.row["f0"]) for each in out]


def test_the_drawing(as_python: None) -> None:
    assert sums(TrailingWindow(10, None)) == [(0, 1), (4, 3), (9, 7), (14, 30), (14, 30), (25, 32)]
    assert sums(TrailingWindow(None, 2)) == [(0, 1), (4, 3), (9, 6), (14, 12), (14, 24), (25, 48)]


def check(described: Over, choose: random.Random) -> None:
    arrivals = timed(drawn(choose, choose.randrange(200), row))
    letters = DeadLetters()
    wanted, dead = expected(arrivals, described)
    assert made(run_alone(operator(described, letters), arrivals, SCHEMA, choose)) == made(wanted)
    assert letters.counts["o"] == dead
    assert made(run_restored(lambda: operator(described), described.by, arrivals, SCHEMA, choose)) == made(wanted)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", range(4))
def test_as_the_reference(as_python: None, seed: int, case: str) -> None:
    check(CASES[case], random.Random(repr((seed, case))))


#: Few functions, for each takes a second to compile: fixed width, a text, an exact sum, a block; lags.
FEW = (functions.min_("word"), functions.sum_("x"), functions.collect("word", 3), functions.lag("x", 3))


@pytest.mark.parametrize("window", [TrailingWindow(9, None), TrailingWindow(None, 4)], ids=["a span", "rows"])
def test_machine_code_as_the_reference(window: TrailingWindow) -> None:
    for seed in range(4):
        check(over(window, *FEW, ttl=15), random.Random(seed))


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_machine_code_of_all_functions(case: str) -> None:
    for seed in range(100):
        check(CASES[case], random.Random(repr((seed, case))))


@pytest.mark.parametrize("case", CASES)
def test_in_a_plan(as_python: None, case: str) -> None:
    choose, described = random.Random(case), CASES[case]
    arrivals = timed(drawn(choose, 100, row))
    ran = run_planned(query_of(SCHEMA, described), arrivals, choose)
    wanted, dead = expected(as_planned(arrivals), described)
    assert planned_rows(ran) == without_origins(wanted)
    assert ran.dead["o"] == dead


@pytest.mark.parametrize("seed", range(3))
def test_in_a_plan_where_tuples_tie(as_python: None, seed: int) -> None:
    """Two ways from one stream: of one event time and origin, the tuple with the lesser columns is taken first."""
    choose, described = random.Random(seed), replace(CASES["rows of all functions"], input="u")
    arrivals = [replace(each, row={**each.row, "m": choose.randrange(9)}) for each in timed(drawn(choose, 60, row))]
    ways = [
        Map(name, "s", tuple((column, changed if column == "m" else col(column)) for column in SCHEMA.names))
        for name, changed in (("a", col("m") + 1), ("b", lit(2) - col("m")))
    ]
    base = query_of(SCHEMA, *ways, Union("u", ("a", "b")), described)
    both = [(each, m) for each in as_planned(arrivals) for m in sorted((each.row["m"] + 1, 2 - each.row["m"]))]
    doubled = [Tuple(each.time, (*each.origin, i), {**each.row, "m": m}) for i, (each, m) in enumerate(both)]
    assert planned_rows(run_planned(base, arrivals, choose)) == without_origins(expected(doubled, described)[0])


@pytest.mark.parametrize("case", ["a span of all functions", "rows of all functions"])
def test_work_in_pieces_of_any_size(as_python: None, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However little is done and however few answers come out at a time: it goes on where it stopped, in the middle of a flip too."""
    choose, described = random.Random(case), CASES[case]
    arrivals = timed(drawn(choose, 150, row))
    monkeypatch.setattr(trailing, "PIECE_WORK", 1)
    running = operator(described)
    assert running.state is not None
    running.state.rows_max = 3
    assert made(run_alone(running, arrivals, SCHEMA, choose)) == made(expected(arrivals, described)[0])


@pytest.mark.parametrize("window", [TrailingWindow(40, None), TrailingWindow(None, 40)])
def test_groups_that_are_over_and_regions_that_are_large_are_cut_down(
    as_python: None, window: TrailingWindow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trailing, "WORK_MIN", 1)
    monkeypatch.setattr(trailing, "WATERMARK_ROWS", 1_000)
    described = over(window, functions.sum_("x"), functions.max_("word"), functions.lag("m"), by=("n",), ttl=50)
    choose, running = random.Random(0), operator(described)
    found: list[Tuple] = []
    arrivals: list[Tuple] = []
    for start in range(0, 3_000, 100):
        rows = 200 if start % 1_000 == 0 else 5
        places = [(start + i // 4, (0, start * 10 + i), start // 1_000 + i % 3) for i in range(rows)]
        some = [Tuple(t, origin, {**row(choose), "t": t, "n": n}) for t, origin, n in places]
        arrivals += some
        list(running.on_batch(batch_of(some, SCHEMA), 0))
        found += watermark(running, start + 100)
    assert made(found) == made(expected(arrivals, described)[0])
    assert running.state is not None
    assert running.lags is not None
    assert running.state.groups.rows <= 6
    assert running.state.accumulator.capacity <= trailing.EXCESS * 64


def test_lags_of_many_groups_are_swept(as_python: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lags, "ROWS_MORE", 64)
    monkeypatch.setattr(lags, "GROUPS_MORE", 8)
    described = over(TrailingWindow(None, 1), functions.lag("word", 2), functions.row_number(), by=("m",), ttl=40)
    choose, running = random.Random(3), operator(described)
    arrivals = [Tuple(i // 3, (0, i), {**row(choose), "t": i // 3, "m": i // 50 + choose.randrange(3)}) for i in range(900)]
    found: list[Tuple] = []
    for start in range(0, len(arrivals), 30):
        list(running.on_batch(batch_of(arrivals[start : start + 30], SCHEMA), 0))
        found += watermark(running, arrivals[start].time)
    found += watermark(running, 10**6)
    assert made(found) == made(expected(arrivals, described)[0])
    assert running.lags is not None
    assert running.lags._rows < 300
    assert len(running.lags.numbers) < 20


def test_groups_of_before_1970_come_back_with_the_time_of_their_last_row(as_python: None) -> None:
    """Their `ttl` goes on from there: it would be over at 1970 otherwise, however long before that was."""
    described = over(TrailingWindow(None, 1), functions.lag("m"), functions.last("m"), by=("word",), ttl=10)
    arrivals = timed(Tuple(t, (0, i), {**row(random.Random(0)), "word": "a", "m": i}) for i, t in enumerate((-100, -90, -79, 5)))
    for seed in range(12):
        found = run_restored(lambda: operator(described), described.by, arrivals, SCHEMA, random.Random(seed))
        assert [each.row["f0"] for each in found] == [None, 0, None, None], seed


def test_nothing_compiles_once_it_is_built() -> None:
    described = over(TrailingWindow(9, None), *FEW, ttl=15)
    list(run_alone(operator(described), timed(drawn(random.Random(0), 20, row)), SCHEMA, random.Random(0), end=False))
    running, before = operator(described), compilations()
    run_alone(running, timed(drawn(random.Random(1), 50, row)), SCHEMA, random.Random(1))
    assert compilations() == before


def test_a_state_beyond_its_limit_fails_by_name(as_python: None) -> None:
    running = operator(over(TRAILING("1h"), functions.collect("word", 100)), limit=100_000)
    rows = [Tuple(i, (0, i), {**row(random.Random(i)), "word": "a word that is rather long", "t": i}) for i in range(2_000)]
    with pytest.raises(StateLimitExceeded, match=r"operator 'o'.*word='a word that is rather long'"):
        list(running.on_batch(batch_of(rows, SCHEMA), 0))
        list(running.on_watermark(1_000))


def test_documents() -> None:
    for described in (CASES["a span of all functions"], CASES["rows of all functions"]):
        assert from_json(to_json(described)) == described
    assert to_json(over(TRAILING("10m"), functions.lag("n", 2)))["functions"] == {"f0": {"function": "lag", "column": "n", "k": 2}}
    assert to_json(over(TRAILING(rows=100), functions.count()))["window"] == {"type": "trailing", "rows": 100}
    assert over(TRAILING("10m"), functions.count(), ttl=1).explained() == "over the last 10m by word, ttl 1us: f0 = count()"


@pytest.mark.parametrize(
    ("described", "message", "pointer"),
    [
        (over(TRAILING("1s"), functions.window_start()), "field 'f0': a trailing window has no window_start", "/functions/f0"),
        (
            over(TRAILING("1s"), UserFunction("a:B", arguments=("n",), type=INT64)),
            "field 'f0': a user's function has no state that merges",
            "/functions/f0",
        ),
        (over(TRAILING("1s"), functions.sum_("word")), "expected a number, got string", "/functions/f0/column"),
        (over(TRAILING("1s"), functions.lag("nn")), r"no column 'nn' \(did you mean 'n'", "/functions/f0/column"),
        (over(TRAILING("1s"), functions.count(), by=("z",)), "by: no column 'z'", "/by/0"),
        (over(TRAILING("1s")), "expected at least one function", "/functions"),
        (Over("o", "s", TRAILING("1s"), (), (("n", functions.count()),)), "the input has a column of that name", "/functions/n"),
    ],
)
def test_refused(described: Over, message: str, pointer: str) -> None:
    with pytest.raises(QueryError, match=message) as error:
        described.output_schema(SCHEMA)
    assert error.value.pointer == pointer


def test_windows_that_are_none() -> None:
    with pytest.raises(QueryError, match="expected either a size or a number of rows"):
        TRAILING()
    with pytest.raises(QueryError, match="expected either a size or a number of rows"):
        TRAILING("1s", rows=2)
    with pytest.raises(QueryError, match="window rows: expected 1 to 1048576, got 0"):
        TRAILING(rows=0)
    with pytest.raises(QueryError, match="TRAILING is a window of `over`"):
        Aggregate("a", "s", TRAILING("1s"), (), (("n", functions.count()),))  # type: ignore[arg-type]
    with pytest.raises(QueryError, match=r"expected TRAILING\(\"10m\"\), got SIZE"):
        Over("o", "s", SIZE(3), (), (("n", functions.count()),))  # type: ignore[arg-type]
    with pytest.raises(QueryError, match="field 'n': lag is a function of `over`"):
        Aggregate("a", "s", SIZE(3), (), (("n", functions.lag("m")),)).output_schema(SCHEMA)
    with pytest.raises(QueryError, match="lag: k: expected a whole number between 1 and 64, got 65"):
        functions.lag("m", 65)
