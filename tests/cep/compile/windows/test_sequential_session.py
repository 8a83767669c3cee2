"""SESSION windows: rows of a group at most a gap apart.

SESSION(10)     0    4        14                26
session         [x────x─────────x) out at 24     |       14 + 10
the next one                                    [x) ...  out at 36

Tests `sequential.py`, `assigner.py`, `cep/kernels/windows/assigners.py`.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep.compile.aggregate.results import origins
from cep.elements import MAX_TIME
from cep.errors import StateLimitExceeded
from cep.kernels.jit import interpreted
from cep.kernels.tables.keys import encode_keys
from cep.model.functions import count, window_end, window_start
from cep.model.windows import SessionWindow
from tests.support.sequential import (
    FUNCTIONS,
    LONG,
    SCHEMA,
    Answers,
    Plan,
    Row,
    batch_of,
    by_key,
    operator_of,
    plans,
    rows,
    run,
    sequential,
    values,
)

FIELDS = (*FUNCTIONS, ("start", window_start()), ("end", window_end()))


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    sequential(operator_of(SessionWindow(1), FIELDS))


def sessions(gap: int, group: list[Row]) -> list[list[Row]]:
    found: list[list[Row]] = []
    for row in group:
        if not found or row.time - found[-1][-1].time > gap:
            found.append([])
        found[-1].append(row)
    return found


def expected(gap: int, members: list[Row]) -> Answers:
    found: Answers = {}
    for key, group in by_key(members).items():
        for session in sessions(gap, group):
            first, end = session[0].time, session[-1].time + gap
            found.setdefault(key, []).append((end, (*values(session), first, end), origin(session[0])))
    return found


def origin(first: Row) -> tuple[int, ...]:
    """The hash of (operator, key, time of the first)."""
    keys = encode_keys(batch_of([first]).columns, (SCHEMA["key"],))
    return tuple(origins("windows", keys, first.time)[0].tolist())


@given(st.integers(1, 12), rows(keys=4), plans())
def test_any_rows_cut_anyhow_on_any_instances(gap: int, members: list[Row], plan: Plan) -> None:
    assert run(operator_of(SessionWindow(gap), FIELDS), members, plan)[0] == expected(gap, members)


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 12), rows(most=15, keys=2), plans())
def test_interpreted(gap: int, members: list[Row], plan: Plan) -> None:
    with interpreted():
        assert run(operator_of(SessionWindow(gap), FIELDS), members, plan)[0] == expected(gap, members)


def test_comes_out_once_the_watermark_is_beyond_the_gap() -> None:
    """
    0      4         14        24  25
    x──────x─────────x─────────)   ^ here, not at 24: a row at 24 would belong to it
    """
    operator = sequential(operator_of(SessionWindow(10), (("rows", count()),)))
    list(operator.on_batch(batch_of([Row(0, 0), Row(4, 1), Row(14, 2)]), 0))
    assert operator.next_end == 1
    assert list(operator.on_watermark(15)) == []
    assert operator.next_end is not None and operator.next_end <= 25
    assert list(operator.on_watermark(24)) == []
    assert operator.next_end == 25
    (answer,) = operator.on_watermark(25)
    assert (answer.time.tolist(), answer.columns["rows"].values.tolist()) == ([24], [3])
    assert operator.next_end is None
    assert list(operator.on_watermark(MAX_TIME)) == []


def test_many_sessions_leave_nothing_behind() -> None:
    """A new key every 5, rows 3 apart: sessions overlap, close by row and by watermark, and are forgotten."""
    members = [Row(5 * i + 3 * k, 0, f"{LONG} {i % 5000}", i, 1e300, f"a text that is {i} long") for i in range(8_000) for k in range(3)]
    members = [Row(row.time, number, row.key, row.n, row.x, row.s) for number, row in enumerate(sorted(members, key=lambda row: row.time))]
    answers, made = run(operator_of(SessionWindow(100), FIELDS), members, Plan(10, (1_000, 17), (2, 3), 30_000))
    assert answers == expected(100, members)
    assert all(each.state.groups.rows < 2_000 and each.state_bytes < 4 << 20 for each in made)  # type: ignore[attr-defined]


def test_too_much_state_names_the_largest_keys() -> None:
    operator = sequential(operator_of(SessionWindow(10), (("rows", count()),)), limit=100_000)
    members = [Row(i, i, "b" if i % 3 else "a") for i in range(3_000)]
    said = r"'windows'.*3000 tuples held, of window SESSION\('10us'\).*key='b' \(2000 rows\).*key='a'"
    with pytest.raises(StateLimitExceeded, match=said):
        list(operator.on_batch(batch_of(members), 0))


def test_long_keys_of_tuples_held_are_counted_together() -> None:
    operator = sequential(operator_of(SessionWindow(10), (("rows", count()),)), limit=100_000)
    members = [Row(i, i, LONG if i % 3 else LONG + "!") for i in range(3_000)]
    with pytest.raises(StateLimitExceeded, match=rf"key='{LONG}' \(2000 rows\).*key='{LONG}!' \(1000 rows\)"):
        list(operator.on_batch(batch_of(members), 0))
