"""UNBOUNDED with an answer every so often: the groups that changed, as they are then.

every 10      0   3   8  10        20    27   30
row           x       x            x      x
answers                  2 at 9                4 at 29     nothing changed in [10, 20)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cep.compile.aggregate.results import origins
from cep.compile.aggregate.spec import AggregateSpec
from cep.dataflow.dead_letters import DeadLetters
from cep.dataflow.operators.operator import AggregateOperator
from cep.elements import MAX_TIME
from cep.kernels.jit import interpreted
from cep.kernels.tables.keys import encode_keys
from cep.model.functions import Function, count, window_end, window_start
from cep.model.windows import UnboundedWindow
from tests.support.pausing import without_pauses
from tests.support.sequential import (
    FUNCTIONS,
    LONG,
    ORIGIN_WORDS,
    SCHEMA,
    Answers,
    Instances,
    Plan,
    Row,
    batch_of,
    by_key,
    operator_of,
    plans,
    rows,
    run,
    values,
)

FIELDS = (*FUNCTIONS, ("start", window_start()), ("end", window_end()))


def making(
    window: UnboundedWindow, stage: str = "whole", fields: Sequence[tuple[str, Function]] = FIELDS
) -> Callable[[], AggregateOperator]:
    carried = {"origin": stage != "partial", "origin_words": ORIGIN_WORDS, "keyed": stage != "whole"}
    spec = AggregateSpec.of(operator_of(window, fields), SCHEMA, frozenset(), stage, **carried)
    return lambda: AggregateOperator("windows", spec, 1 << 30, DeadLetters())


def expected(window: UnboundedWindow, members: list[Row]) -> Answers:
    every, found = window.advance, {}
    assert every is not None
    for key, group in by_key(members).items():
        so_far: list[Row] = []
        answers: dict[int, list[Row]] = {}  # by number of the pane: as it is at its end
        for row in group:
            if so_far and window.ttl is not None and row.time - so_far[-1].time > window.ttl:
                so_far = []
            so_far.append(row)
            answers[row.time // every] = list(so_far)
        found[key] = [
            ((k + 1) * every - 1, (*values(part), k * every, (k + 1) * every), origin(part[0], k * every)) for k, part in answers.items()
        ]
    return found


def origin(row: Row, start: int) -> tuple[int, ...]:
    return tuple(origins("windows", encode_keys(batch_of([row]).columns, (SCHEMA["key"],)), start)[0].tolist())


@st.composite
def windows(draw: st.DrawFn) -> UnboundedWindow:
    every = draw(st.integers(1, 12))
    return UnboundedWindow(every, draw(st.none() | st.integers(every, 25)))


@given(windows(), rows(keys=4), plans())
def test_any_rows_cut_anyhow_on_any_instances(window: UnboundedWindow, members: list[Row], plan: Plan) -> None:
    with interpreted():
        assert run(operator_of(window, FIELDS), members, plan, making(window))[0] == expected(window, members)


def test_machine_code() -> None:
    """Of few functions, for each takes a while to compile."""
    window, fields = UnboundedWindow(7, 12), (*FUNCTIONS[:3], *FIELDS[-2:])
    members = [Row(i // 2, i, [LONG, "b", None][i % 3], i % 5, 0.1 * i) for i in range(200)]
    found, _ = run(operator_of(window, fields), members, Plan(20, (10, 1), (2, 3), 3), making(window, fields=fields))
    wanted = expected(window, members)
    assert found == {key: [(time, (*v[:3], *v[-2:]), where) for time, v, where in group] for key, group in wanted.items()}


@given(windows(), rows(keys=4), st.integers(1, 3), st.integers(1, 3), st.integers(1, 9))
def test_two_stages(window: UnboundedWindow, members: list[Row], makers: int, finals: int, cut: int) -> None:
    """Rows are dealt in turn to those that make partial rows, which go by key."""
    with interpreted():
        assert in_two_stages(window, members, makers, finals, cut) == expected(window, members)


def in_two_stages(window: UnboundedWindow, members: list[Row], makers: int, finals: int, cut: int) -> Answers:
    make = making(window, "final")
    last = Instances(make, ("key",), make().spec.output_schema, finals)
    first = [making(window, "partial")() for _ in range(makers)]
    for start in range(0, len(members), cut):
        part = members[start : start + cut]
        for batch in first[start // cut % makers].on_batch(batch_of(part), 0):
            last.add(batch)
        _advance(first, last, part[-1].time)
    _advance(first, last, MAX_TIME)
    return last.answers


def _advance(first: list[AggregateOperator], last: Instances, watermark: int) -> None:
    for operator in first:
        for batch in without_pauses(operator.on_watermark(watermark)):
            last.add(batch)
    for i in range(last.count):
        last.advance(watermark, i)


def test_groups_whose_ttl_has_passed_are_forgotten() -> None:
    window = UnboundedWindow(10, 20)
    members = [Row(i, i, f"{LONG} {i}", i) for i in range(30_000)]
    operator = operator_of(window, (("rows", count()),))
    spec = AggregateSpec.of(operator, SCHEMA, frozenset(), "whole")
    answers, (made,) = run(operator, members, Plan(0, (1_000,)), lambda: AggregateOperator("windows", spec, 1 << 30, DeadLetters()))
    assert len(answers) == 30_000
    assert made.state_bytes < 6 << 20
    assert made.snapshot()[0].batch.num_rows < 10_000


def test_a_query_that_joins_late_gets_all_periodic_answers(as_python: None) -> None:
    """`since` withholds windows of TIME that began before it; the groups so far are what they are."""
    operator = making(UnboundedWindow(10, None))()
    operator.since = 5
    list(operator.on_batch(batch_of([Row(6, 0), Row(7, 1)]), 0))
    (answer,) = without_pauses(operator.on_watermark(10))
    assert np.array_equal(answer.columns["rows"].values, [2]) and operator.incomplete == 0
