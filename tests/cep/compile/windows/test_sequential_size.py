"""SIZE windows: of each group so many rows, counted in stream order.

row of the group   0  1  2  3  4  5  6
SIZE(3)           [0  1  2][3  4  5][6      the last one waits: dropped at the end, or a part of it comes out
SIZE(3, 2)        [0  1  2]
                        [2  3  4]
                              [4  5  6]
                                    [6      waits too

Tests `sequential.py`, `accumulator.py`, `accumulator_source.py`, `cep/kernels/windows/assign_size.py`, `cep/kernels/windows/programs.py`.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep.elements import EVENT_TIME_MAX
from cep.kernels.jit import interpreted
from cep.model.functions import count, window_end, window_start
from cep.model.windows import SIZE, SizeWindow
from tests.support.sequential import FUNCTIONS, LONG, Answers, Plan, Row, by_key, operator_of, plans, rows, run, sequential, values

BOUNDS = (("start", window_start()), ("end", window_end()))


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    """Hypothesis watches every line that runs inside a property, a compiler's too."""
    sequential(operator_of(SIZE(2, 1), (*FUNCTIONS, *BOUNDS)))


def expected(window: SizeWindow, members: list[Row], emit_partial: bool) -> Answers:
    found: Answers = {}
    for key, group in by_key(members).items():
        answers = []
        for start in range(0, len(group), window.advance):
            part = group[start : start + window.size]
            bounds = (part[0].time, part[-1].time + 1)
            if len(part) == window.size or emit_partial:
                time = part[-1].time if len(part) == window.size else EVENT_TIME_MAX
                answers.append((time, (*values(part), *bounds), part[-1].origin))
        if answers:
            found[key] = answers
    return found


@st.composite
def windows(draw: st.DrawFn) -> SizeWindow:
    size = draw(st.integers(1, 8))
    return SIZE(size, draw(st.integers(1, size)))


@given(windows(), rows(keys=4), plans(), st.booleans())
def test_any_rows_cut_anyhow_on_any_instances(window: SizeWindow, members: list[Row], plan: Plan, emit_partial: bool) -> None:
    operator = operator_of(window, (*FUNCTIONS, *BOUNDS), emit_partial=emit_partial)
    answers, operators = run(operator, members, plan)
    assert answers == expected(window, members, emit_partial)
    if not emit_partial:
        assert sum(each.incomplete for each in operators) == waiting(window, members)


def waiting(window: SizeWindow, members: list[Row]) -> int:
    sizes = map(len, by_key(members).values())
    return sum(start + window.size > n for n in sizes for start in range(0, n, window.advance))


@settings(max_examples=10, deadline=None)
@given(windows(), rows(most=15, keys=2), plans(), st.booleans())
def test_interpreted(window: SizeWindow, members: list[Row], plan: Plan, emit_partial: bool) -> None:
    operator = operator_of(window, (*FUNCTIONS, *BOUNDS), emit_partial=emit_partial)
    with interpreted():
        assert run(operator, members, plan)[0] == expected(window, members, emit_partial)


def test_many_panes_and_groups() -> None:
    window = SIZE(500, 7)
    members = [Row(i, i, [LONG, "b", None][i % 3], i % 5, 0.1 * i, f"text {i % 11} of more than fifteen bytes") for i in range(6_000)]
    operator = operator_of(window, (*FUNCTIONS, *BOUNDS))
    answers, _ = run(operator, members, Plan(20, (100, 1, 1000), (2, 3), 3_000))
    assert answers == expected(window, members, False)


def test_groups_whose_windows_are_complete_are_forgotten() -> None:
    """Two rows of each of many groups: nothing is left of them."""
    window = SIZE(2)
    members = [Row(i, i, f"key {i // 2}") for i in range(40_000)]
    operator = operator_of(window, (("rows", count()),))
    answers, (made,) = run(operator, members, Plan(0, (4_000,)))
    assert len(answers) == 20_000
    assert made.state.groups.rows < 10_000  # type: ignore[attr-defined]
