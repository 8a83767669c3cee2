"""UNBOUNDED with an answer per tuple: a group's tuples so far. A group begins anew with a tuple more than ttl after its last one.

ttl 10    0   5        15             26
row       x   x        x              x
count     1   2        3              1      26 - 15 > 10

Tests `per_row.py`, `cep/compile/aggregate/answering.py`.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep.kernels.jit import interpreted
from cep.model.functions import count, last, max_, min_, sum_
from cep.model.windows import UnboundedWindow
from tests.support.sequential import LONG, Answers, Plan, Row, by_key, operator_of, plans, rows, run, sequential, values

TTLS = st.none() | st.integers(1, 20)


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    sequential(operator_of(UnboundedWindow(None, None)))


def expected(ttl: int | None, members: list[Row]) -> Answers:
    found: Answers = {}
    for key, group in by_key(members).items():
        so_far: list[Row] = []
        for row in group:
            if so_far and ttl is not None and row.time - so_far[-1].time > ttl:
                so_far = []
            so_far.append(row)
            found.setdefault(key, []).append((row.time, values(so_far), row.origin))
    return found


@given(TTLS, rows(keys=4), plans())
def test_any_rows_cut_anyhow_on_any_instances(ttl: int | None, members: list[Row], plan: Plan) -> None:
    assert run(operator_of(UnboundedWindow(None, ttl)), members, plan)[0] == expected(ttl, members)


@settings(max_examples=10, deadline=None)
@given(TTLS, rows(most=15, keys=2), plans())
def test_interpreted(ttl: int | None, members: list[Row], plan: Plan) -> None:
    with interpreted():
        assert run(operator_of(UnboundedWindow(None, ttl)), members, plan)[0] == expected(ttl, members)


def test_groups_whose_ttl_has_passed_are_forgotten() -> None:
    """A new key every µs, three rows of each, 10 apart: 100 at a time are still alive."""
    members = [Row(i + 10 * k, 0, f"{LONG} {i}", i) for i in range(20_000) for k in range(3)]
    members = [Row(row.time, number, row.key, row.n) for number, row in enumerate(sorted(members, key=lambda row: row.time))]
    operator = operator_of(UnboundedWindow(None, 80), (("rows", count()),))
    answers, (made,) = run(operator, members, Plan(5, (500,)))
    assert len(answers) == 20_000 and all([rest[0] for _, rest, _ in group] == [1, 2, 3] for group in answers.values())
    assert made.state.groups.rows < 8_000 and made.state_bytes < 4 << 20  # type: ignore[attr-defined]


def test_what_changed_texts_leave_behind_is_used_again() -> None:
    members = [Row(i, i, "ab"[i % 2], s=f"{chr(97 + i * 7 % 26)}{'x' * (i % 50)}") for i in range(20_000)]
    answers, (made,) = run(operator_of(UnboundedWindow(None, 3), (("least", min_("s")), ("last", last("s")))), members, Plan(0, (100,)))
    assert len(answers["a"]) == 10_000  # of up to 100 bytes each
    assert made.state_bytes < 1 << 17


def test_a_row_is_taken_once_where_its_answer_and_then_its_group_finds_no_room() -> None:
    """After a recovery: answers had no room yet for the first text, the row was taken, and the arena of groups had no room for another."""
    members = [Row(i, i, f"k{i}", i, s="x" * (40 + i % 3)) for i in range(40)]
    operator = operator_of(UnboundedWindow(None, None), (("total", sum_("n")), ("most", max_("s"))))
    for move in range(1, 40):
        answers, _ = run(operator, members, Plan(0, (1,), (1, 1), move))
        assert {key: rest for key, ((_, rest, _),) in answers.items()} == {row.key: (row.n, row.s) for row in members}, move
