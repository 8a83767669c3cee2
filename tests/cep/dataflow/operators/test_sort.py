"""Sort: the tuples of each TIME window and group with rank 1, 2, … in the order of columns, ties in stream order.

    TIME(20, 10), order x descending

    t            1    8   12   14   25
    x            3    5    5    1    2
    [-10, 10)    2    1                        out at 9
    [0, 20)      3    1    2    4              out at 19: of equal x the earlier is first
    [10, 30)               1    3    2         out at 29
    [20, 40)                         1         out at 39

Without a window: the tuples in stream order, unchanged.

Tests `sort.py`, `ranking.py`, `sequential.py`, `cep/dataflow/state/row_panes.py`.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from cep.dataflow.operators.sequential import SequentialOperator
from cep.dataflow.operators.sort import SortOperator
from cep.dataflow.state.hold import Hold
from cep.elements import EVENT_TIME_MAX, MAX_TIME
from cep.errors import DataError, StateLimitExceeded
from cep.kernels.jit import interpreted
from cep.model.operators import Sort, TopN, Union
from cep.model.query import Output, Query
from cep.model.schema import Schema
from cep.model.windows import TimeWindow
from tests.support.pausing import without_pauses
from tests.support.single_operator import (
    FLOATS,
    WORDS,
    Row,
    Tuple,
    as_planned,
    batch_of,
    drawn,
    key_of,
    made,
    ordered,
    planned_rows,
    query_of,
    run_alone,
    run_planned,
    run_restored,
    tuples_of,
    watermark,
    without_origins,
)

SCHEMA = Schema.of({"t": "timestamp[us]", "word": "string?", "x": "float64?", "n": "int64", "yes": "bool?"})
Order = tuple[tuple[str, bool], ...]
ORDERS: tuple[Order, ...] = (
    (("x", False),),
    (("x", True),),
    (("word", False), ("n", True)),
    (("word", True), ("x", False)),
    (("yes", True), ("t", True)),
)
BY: tuple[tuple[str, ...], ...] = ((), ("word",), ("x",), ("yes", "word"))
WINDOWS = (TimeWindow(10, 10), TimeWindow(20, 10), TimeWindow(15, 6), TimeWindow(30, 2), TimeWindow(1000, 1000))


def operator(window: TimeWindow, by: tuple[str, ...], order: Order, limit: int = 1 << 30, ties: bool = False) -> SortOperator:
    return SortOperator(Sort("o", "s", window, by, order), SCHEMA, 2, ties, limit)


def row(choose: random.Random) -> Row:
    yes = choose.choice((None, True, False))
    return {"t": 0, "word": choose.choice(WORDS), "x": choose.choice(FLOATS), "n": choose.randrange(-3, 3), "yes": yes}


def timed(arrivals: Iterable[Tuple]) -> list[Tuple]:
    return [Tuple(each.time, each.origin, {**each.row, "t": each.time}) for each in arrivals]


def before(each: Tuple, order: Order) -> tuple[object, ...]:
    return tuple(Descending(ordered(each.row[name])) if descending else ordered(each.row[name]) for name, descending in order)


class Descending:
    def __init__(self, value: tuple[object, ...]) -> None:
        self.value = value

    def __lt__(self, other: Descending) -> bool:
        return other.value < self.value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Descending) and self.value == other.value


def ranked(tuples: Iterable[Tuple], window: TimeWindow, by: tuple[str, ...], order: Order, most: int | None = None) -> list[Tuple]:
    """The oracle."""
    groups: dict[tuple[int, object], list[Tuple]] = {}
    for each in sorted(tuples, key=lambda each: each.place):
        last = each.time // window.advance
        for k in range(last, last - window.size // window.advance - 2, -1):
            if k * window.advance <= each.time < k * window.advance + window.size:
                groups.setdefault((k * window.advance + window.size, key_of(each.row, by)), []).append(each)
    found = []
    for (end, _), members in groups.items():
        inside = sorted(members, key=lambda each: before(each, order))[:most]
        found += [Tuple(end - 1, each.origin, {**each.row, "rank": rank}) for rank, each in enumerate(inside, 1)]
    return found


def test_the_drawing() -> None:
    rows = [(1, 3.0), (8, 5.0), (12, 5.0), (14, 1.0), (25, 2.0)]
    arrivals = timed(Tuple(t, (0, i), {"word": "", "x": x, "n": 0, "yes": None}) for i, (t, x) in enumerate(rows))
    sort = operator(TimeWindow(20, 10), (), (("x", True),))
    assert sort.next_end is None
    assert list(sort.on_batch(batch_of(arrivals, SCHEMA), 0)) == []
    assert sort.next_end == 10
    windows = [[(each.time, each.row["t"], each.row["rank"]) for each in watermark(sort, end)] for end in (9, 10, 25, 30, MAX_TIME)]
    assert windows == [
        [],
        [(9, 8, 1), (9, 1, 2)],
        [(19, 8, 1), (19, 12, 2), (19, 1, 3), (19, 14, 4)],
        [(29, 12, 1), (29, 25, 2), (29, 14, 3)],
        [(39, 25, 1)],
    ]
    assert sort.state_bytes == 0


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("seed", range(6))
def test_as_the_oracle(seed: int, order: Order) -> None:
    choose = random.Random(repr((seed, order)))
    window, by = choose.choice(WINDOWS), choose.choice(BY)
    arrivals = timed(drawn(choose, choose.randrange(150), row))
    expected = made(ranked(arrivals, window, by, order))
    assert made(run_alone(operator(window, by, order), arrivals, SCHEMA, choose)) == expected
    assert made(run_restored(lambda: operator(window, by, order), by, arrivals, SCHEMA, choose)) == expected
    if seed == 0:
        with interpreted():
            assert made(run_alone(operator(window, by, order), arrivals, SCHEMA, choose)) == expected


@pytest.mark.parametrize("seed", range(6))
def test_in_a_plan(seed: int) -> None:
    choose = random.Random(seed)
    window, by, order = choose.choice(WINDOWS), choose.choice(BY), choose.choice(ORDERS)
    arrivals = timed(drawn(choose, 100, row))
    ran = run_planned(query_of(SCHEMA, Sort("o", "s", window, by, order)), arrivals, choose)
    assert planned_rows(ran) == without_origins(ranked(as_planned(arrivals), window, by, order))


def test_the_answers_of_a_large_window_come_in_batches() -> None:
    tuples = [Tuple(0, (0, i), {"t": 0, "word": None, "x": None, "n": -i, "yes": None}) for i in range(70_000)]
    sort = operator(TimeWindow(10, 10), (), (("n", False),))
    list(sort.on_batch(batch_of(tuples, SCHEMA), 0))
    batches = list(without_pauses(sort.on_watermark(10)))
    assert [len(batch) for batch in batches] == [65_536, 4_464]
    assert [each.row["rank"] for batch in batches for each in tuples_of(batch)] == list(range(1, 70_001))
    assert next(tuples_of(batches[0])).row["n"] == -69_999


def test_windows_before_since_are_counted() -> None:
    """Attached at 15: windows of 20 that begin at -10, 0 and 10 did not see all."""
    arrivals = timed(Tuple(t, (0, i), row(random.Random(i))) for i, t in enumerate((15, 16, 31)))
    sort = operator(TimeWindow(20, 10), (), (("n", False),))
    sort.since = 15
    out = run_alone(sort, arrivals, SCHEMA, random.Random(0))
    assert sorted((each.time, each.row["t"]) for each in out) == [(39, 31), (49, 31)]
    assert sort.incomplete == 4


def test_rows_that_tie_in_stream_order_are_in_the_order_of_their_columns() -> None:
    rows = [("b", 0.0), ("a", 0.0), ("a", -0.0), (None, 0.0)]
    arrivals = timed(Tuple(5, (0, 0), {"word": word, "x": x, "n": 0, "yes": None}) for word, x in rows)
    out = run_alone(operator(TimeWindow(10, 10), (), (("n", False),), ties=True), arrivals, SCHEMA, random.Random(0))
    assert [(each.row["word"], str(each.row["x"])) for each in out] == [(None, "0.0"), ("a", "-0.0"), ("a", "0.0"), ("b", "0.0")]


def test_beyond_the_ends_of_event_time_it_fails_by_name() -> None:
    sort = operator(TimeWindow(10, 10), (), (("n", False),))
    with pytest.raises(DataError, match="operator 'o': event times must lie within"):
        list(sort.on_batch(batch_of([Tuple(2 * EVENT_TIME_MAX + 1, (0, 0), row(random.Random(0)))], SCHEMA), 0))


def test_over_its_limit_it_names_window_and_largest_keys() -> None:
    sort = operator(TimeWindow(10, 10), ("word",), (("n", False),), limit=1_000)
    tuples = [Tuple(12, (0, i), {"t": 12, "word": "ab"[i % 3 == 0], "x": None, "n": 0, "yes": None}) for i in range(30)]
    keys = r"largest keys: word='a' \(20 rows\); word='b' \(10 rows\)$"
    said = rf"operator 'o'.*over the limit.*1 panes open from the window ending at 1970-01-01T00:00:00.000020Z; {keys}"
    with pytest.raises(StateLimitExceeded, match=said):
        list(sort.on_batch(batch_of(tuples, SCHEMA), 0))


# --- without a window ------------------------------------------------------------------------------------------------


def in_order(ties: bool = False) -> SequentialOperator:
    return SequentialOperator("o", Hold(SCHEMA, 2, ties), 1 << 30)


@pytest.mark.parametrize("seed", range(6))
def test_in_stream_order(seed: int) -> None:
    choose = random.Random(seed)
    arrivals = timed(drawn(choose, 100, row))
    expected = sorted(arrivals, key=lambda each: each.place)
    assert [each.place for each in run_alone(in_order(), arrivals, SCHEMA, choose)] == [each.place for each in expected]
    assert made(run_restored(in_order, (), arrivals, SCHEMA, choose)) == made(expected)


@pytest.mark.parametrize("seed", range(4))
def test_in_stream_order_in_a_plan(seed: int) -> None:
    choose = random.Random(seed)
    arrivals = timed(drawn(choose, 100, row))
    ran = run_planned(query_of(SCHEMA, Sort("o", "s")), arrivals, choose)
    rows = [repr(tuple(each.row.values())) for each in as_planned(arrivals)]
    assert [repr(values) for _, values in ran.outputs["out"]] == rows


@pytest.mark.parametrize("seed", range(4))
def test_in_a_plan_with_every_tuple_twice(seed: int) -> None:
    """Two ways from one stream: what ties is ordered by all columns, so each rank is one row's."""
    choose = random.Random(seed)
    arrivals = timed(drawn(choose, 60, row))
    window, order = choose.choice(WINDOWS), choose.choice(ORDERS)
    base = query_of(SCHEMA, Sort("a", "s"), Sort("b", "s"), Union("u", ("a", "b")), TopN("o", "u", window, (), order, 7))
    ran = run_planned(Query("q", base.streams, base.operators, (Output("out", "o"),)), arrivals, choose)
    twice = [each for each in as_planned(arrivals) for _ in range(2)]
    assert planned_rows(ran) == without_origins(ranked(twice, window, (), order, 7))
