"""TopN: the first n of what Sort yields, for each TIME window and group.

TIME(20, 10), n 2, order x descending

t            1    8   12   14   25
x            3    5    5    1    2
[-10, 10)    2    1                        out at 9
[0, 20)           1    2                   out at 19
[10, 30)               1         2         out at 29
[20, 40)                         1         out at 39
"""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from cep.dataflow.operators.sort import SortOperator
from cep.dataflow.state import row_panes
from cep.elements import MAX_TIME
from cep.model.operators import TopN
from cep.model.windows import TimeWindow
from tests.cep.dataflow.operators.test_sort import BY, ORDERS, SCHEMA, WINDOWS, Order, ranked, row, timed
from tests.support.single_operator import (
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
    tuples_of,
    watermark,
    without_origins,
)


def operator(window: TimeWindow, by: tuple[str, ...], order: Order, n: int) -> SortOperator:
    return SortOperator(TopN("o", "s", window, by, order, n), SCHEMA, 2, False, 1 << 30)


def test_the_drawing() -> None:
    rows = [(1, 3.0), (8, 5.0), (12, 5.0), (14, 1.0), (25, 2.0)]
    arrivals = timed([Tuple(t, (0, i), {"word": "", "x": x, "n": 0, "yes": None}) for i, (t, x) in enumerate(rows)])
    top = operator(TimeWindow(20, 10), (), (("x", True),), 2)
    list(top.on_batch(batch_of(arrivals, SCHEMA), 0))
    found = [(each.time, each.row["t"], each.row["rank"]) for each in watermark(top, MAX_TIME)]
    assert found == [(9, 8, 1), (9, 1, 2), (19, 8, 1), (19, 12, 2), (29, 12, 1), (29, 25, 2), (39, 25, 1)]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("seed", range(6))
def test_as_the_oracle_however_often_panes_are_cut_down(seed: int, order: Order, monkeypatch: pytest.MonkeyPatch) -> None:
    choose = random.Random(repr((seed, order)))
    monkeypatch.setattr(row_panes, "CUT_ROWS", choose.choice((0, 3, 20)))
    window, by, n = choose.choice(WINDOWS), choose.choice(BY), choose.choice((1, 2, 5))
    arrivals = timed(drawn(choose, choose.randrange(150), row))
    expected = made(ranked(arrivals, window, by, order, n))
    assert made(run_alone(operator(window, by, order, n), arrivals, SCHEMA, choose)) == expected
    assert made(run_restored(lambda: operator(window, by, order, n), by, arrivals, SCHEMA, choose)) == expected


@pytest.mark.parametrize("seed", range(6))
def test_in_a_plan(seed: int) -> None:
    choose = random.Random(seed)
    window, by, order = choose.choice(WINDOWS), choose.choice(BY), choose.choice(ORDERS)
    arrivals = timed(drawn(choose, 100, row))
    ran = run_planned(query_of(SCHEMA, TopN("o", "s", window, by, order, 3)), arrivals, choose)
    assert planned_rows(ran) == without_origins(ranked(as_planned(arrivals), window, by, order, 3))


def test_its_state_stays_small() -> None:
    top = operator(TimeWindow(1000, 1000), ("yes",), (("n", True),), 10)
    choose = random.Random(0)
    largest = 0
    for start in range(0, 60_000, 1000):
        tuples = [Tuple(choose.randrange(1000), (0, start + i), row(choose)) for i in range(1000)]
        list(top.on_batch(batch_of(tuples, SCHEMA), 0))
        largest = max(largest, top.state_bytes)
    rows = sum(len(list(tuples_of(batch))) for batch in top.on_watermark(MAX_TIME))
    assert rows == 30  # of NULL, true and false
    assert largest < 6_000 * 80
    assert top.state_bytes == 0


def test_a_row_that_is_not_among_the_first_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_panes, "CUT_ROWS", 0)
    top = operator(TimeWindow(1000, 1000), ("yes",), (("n", True), ("x", False)), 2)

    def give(first: int, numbers: Iterable[int]) -> int:
        rows = [Tuple(1, (0, first + i), {"t": 1, "word": "w" * 1000, "x": None, "n": n, "yes": True}) for i, n in enumerate(numbers)]
        list(top.on_batch(batch_of(rows, SCHEMA), 0))
        return top.state_bytes

    before = give(0, range(10))
    assert give(10, range(8)) == before  # 9 and 8 stand
    assert give(20, [8, 8]) == before  # of equal ones the earlier stands
    assert give(30, [9]) > before
    assert [(each.row["n"], each.origin) for each in watermark(top, MAX_TIME)] == [(9, (0, 9)), (9, (0, 30))]


@pytest.mark.parametrize("seed", range(6))
def test_orders_by_numbers_with_null_in_some_batches(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    choose = random.Random(seed)
    monkeypatch.setattr(row_panes, "CUT_ROWS", choose.choice((0, 20)))
    by, order = choose.choice(BY), tuple((name, choose.random() < 0.5) for name in choose.sample(("x", "n", "yes"), 2))
    arrivals = timed(drawn(choose, 300, row))
    expected = made(ranked(arrivals, TimeWindow(1000, 1000), by, order, 3))
    top = operator(TimeWindow(1000, 1000), by, order, 3)
    assert made(run_alone(top, arrivals, SCHEMA, choose)) == expected
