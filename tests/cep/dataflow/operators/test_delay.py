"""Delay: the same tuples, later in event time; the watermark is shifted with them.

t          0    3    7          W 5
delayed    10   13   17         W 15
"""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from cep.dataflow.operators.delay import DelayOperator
from cep.elements import EVENT_TIME_MAX, MAX_TIME, MIN_TIME, Batch
from cep.errors import DataError
from cep.model.functions import count
from cep.model.limits import SPAN_US_MAX
from cep.model.operators import Aggregate, Deduplicate, Delay
from cep.model.schema import Schema
from cep.model.windows import SizeWindow, TimeWindow
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

SCHEMA = Schema.of({"t": "timestamp[us]", "n": "int64"})


def row(choose: random.Random) -> Row:
    return {"t": 0, "n": choose.randrange(5)}


def timed(arrivals: list[Tuple]) -> list[Tuple]:
    return [Tuple(each.time, each.origin, {**each.row, "t": each.time}) for each in arrivals]


def delayed(arrivals: list[Tuple], by: int) -> list[Tuple]:
    return [Tuple(each.time + by, each.origin, each.row) for each in arrivals]


def test_columns_and_origins_stay() -> None:
    choose = random.Random(0)
    arrivals = timed(drawn(choose, 50, row))
    assert made(run_alone(DelayOperator(Delay("d", "s", 10)), arrivals, SCHEMA, choose)) == made(delayed(arrivals, 10))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (MIN_TIME, MIN_TIME),
        (MIN_TIME + 1, MIN_TIME + 1 + SPAN_US_MAX),
        (5, 5 + SPAN_US_MAX),
        (EVENT_TIME_MAX - 1, EVENT_TIME_MAX),  # where partial windows come out at the end
        (MAX_TIME - 1, EVENT_TIME_MAX),
        (MAX_TIME, MAX_TIME),
    ],
)
def test_the_watermark_moves_too(before: int, after: int) -> None:
    assert DelayOperator(Delay("d", "s", SPAN_US_MAX)).watermark_after(before) == after


def test_beyond_the_end_of_event_time_it_fails_and_does_not_wrap() -> None:
    delay = DelayOperator(Delay("d", "s", SPAN_US_MAX))
    (out,) = delay.on_batch(Batch({}, np.array([2 * EVENT_TIME_MAX - SPAN_US_MAX])), 0)
    assert out.time.tolist() == [2 * EVENT_TIME_MAX]
    with pytest.raises(DataError, match="operator 'd': event times must lie within"):
        list(delay.on_batch(Batch({}, np.array([0, 2 * EVENT_TIME_MAX - SPAN_US_MAX + 1])), 0))


@pytest.mark.parametrize("seed", range(4))
def test_in_a_plan_windows_see_the_later_times(seed: int) -> None:
    """Counted per window of 10 after a delay of 3: in the window of t + 3."""
    choose = random.Random(seed)
    arrivals = timed(drawn(choose, 80, row))
    window = Aggregate("w", "d", TimeWindow(10, 10), ("n",), (("rows", count()),))
    ran = run_planned(query_of(SCHEMA, Delay("d", "s", 3), window), arrivals, choose)
    counts: dict[tuple[int, int], int] = {}
    for each in arrivals:
        where = (each.time + 3) // 10 * 10 + 9, each.row["n"]
        counts[where] = counts.get(where, 0) + 1
    assert planned_rows(ran) == without_origins(Tuple(end, (), {"n": n, "rows": rows}) for (end, n), rows in counts.items())


@pytest.mark.parametrize("seed", range(4))
def test_in_a_plan_before_what_takes_rows_in_order(seed: int) -> None:
    choose = random.Random(seed)
    arrivals = timed(drawn(choose, 80, row))
    ran = run_planned(query_of(SCHEMA, Delay("d", "s", 7), Deduplicate("first", "d", ("n",), None)), arrivals, choose)
    firsts = {each.row["n"]: each for each in reversed(as_planned(arrivals))}
    assert planned_rows(ran) == without_origins(delayed(list(firsts.values()), 7))


@pytest.mark.parametrize("seed", range(4))
def test_partial_windows_behind_it_are_not_older_than_its_watermark(seed: int) -> None:
    """Tuples at the end of event time are delayed beyond it; what is incomplete of them comes out there."""
    choose = random.Random(seed)
    arrivals = [Tuple(EVENT_TIME_MAX - 9 + n, (0, n), {"t": EVENT_TIME_MAX - 9 + n, "n": n % 2}) for n in range(10)]
    pairs = Aggregate("w", "d", SizeWindow(3, 3), ("n",), (("rows", count()),), emit_partial=True)
    counted = Aggregate("c", "w", TimeWindow(SPAN_US_MAX, SPAN_US_MAX), (), (("windows", count()),))
    asked = query_of(SCHEMA, Delay("d", "s", 1000), pairs, counted, disorder=0)
    ran = run_planned(replace(asked, streams=tuple(replace(each, event_times="any") for each in asked.streams)), arrivals, choose)
    ((end, windows),) = ((time, values[0]) for time, values in ran.outputs["out"])
    assert (end + 1) % SPAN_US_MAX == 0 and windows == 4
