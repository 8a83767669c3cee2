"""TRANSACTION windows: from a row that opens to the first from there on that closes.

rows     .  B  .  .  C  .  B  C  B
            └────────┘     └──┘  └     the last one waits: dropped at the end, or what there is of it comes out
outside  .              .
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep.dataflow.dead_letters import DeadLetters
from cep.elements import EVENT_TIME_MAX, MAX_TIME
from cep.kernels.jit import interpreted
from cep.model.expr import col, lit
from cep.model.functions import count, window_end, window_start
from cep.model.windows import TRANSACTION
from tests.support.sequential import FUNCTIONS, Answers, Plan, Row, batch_of, by_key, operator_of, plans, rows, run, sequential, values

FIELDS = (*FUNCTIONS, ("start", window_start()), ("end", window_end()))
WINDOW = TRANSACTION(col("open"), col("close"))


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    sequential(operator_of(WINDOW, FIELDS))


def transactions(group: list[Row]) -> tuple[list[list[Row]], list[Row], int]:
    """Those that are complete, the one that waits, and how many rows are outside."""
    found: list[list[Row]] = []
    waits: list[Row] = []
    outside = 0
    for row in group:
        if not waits and row.open is not True:
            outside += 1
            continue
        waits.append(row)
        if row.close is True:
            found.append(waits)
            waits = []
    return found, waits, outside


def expected(members: list[Row], emit_partial: bool) -> Answers:
    answers: Answers = {}
    for key, group in by_key(members).items():
        found, waits, _ = transactions(group)
        parts = [(part[-1].time, part) for part in found] + [(EVENT_TIME_MAX, waits)] * bool(waits and emit_partial)
        for time, part in parts:
            answer = (time, (*values(part), part[0].time, part[-1].time + 1), part[-1].origin)
            answers.setdefault(key, []).append(answer)
    return answers


@given(rows(keys=4), plans(), st.booleans())
def test_any_rows_cut_anyhow_on_any_instances(members: list[Row], plan: Plan, emit_partial: bool) -> None:
    answers, operators = run(operator_of(WINDOW, FIELDS, emit_partial=emit_partial), members, plan)
    assert answers == expected(members, emit_partial)
    groups = [transactions(group) for group in by_key(members).values()]
    if not emit_partial:
        assert sum(each.incomplete for each in operators) == sum(bool(waits) for _, waits, _ in groups)
    if plan.move is None:
        assert sum(each.outside for each in operators) == sum(outside for _, _, outside in groups)  # type: ignore[attr-defined]


@settings(max_examples=10, deadline=None)
@given(rows(most=15, keys=2), plans(), st.booleans())
def test_interpreted(members: list[Row], plan: Plan, emit_partial: bool) -> None:
    with interpreted():
        assert run(operator_of(WINDOW, FIELDS, emit_partial=emit_partial), members, plan)[0] == expected(members, emit_partial)


def test_a_row_on_which_a_condition_fails_is_a_dead_letter_and_not_taken() -> None:
    """
    n        1  0  2     10 // 0 has no value: the row is in no window, though one is open
    row      B  !  C
    """
    dead_letters = DeadLetters()
    window = TRANSACTION(lit(10) // col("n") == 10, lit(10) // col("n") == 5)
    operator = sequential(operator_of(window, (("rows", count()),)), dead_letters)
    members = [replace(Row(time, time), n=n) for time, n in enumerate((1, 0, 2))]
    list(operator.on_batch(batch_of(members), 0))
    (answer,) = operator.on_watermark(MAX_TIME)
    assert (answer.time.tolist(), answer.columns["rows"].values.tolist()) == ([2], [2])
    (letter,) = dead_letters.letters
    assert letter.operator == "windows" and letter.position.startswith("event time 1970-01-01T00:00:00.000001Z")


def test_long_transactions_of_texts() -> None:
    texts = [f"text {i * 7919 % 1000} of more than fifteen bytes" for i in range(5_000)]
    members = [Row(i, i, "ab"[i % 2], i, 1e300, text, i % 700 == 1, i % 700 == 698) for i, text in enumerate(texts)]
    answers, _ = run(operator_of(WINDOW, FIELDS), members, Plan(20, (64, 1), (1, 2), 2_222))
    assert answers == expected(members, False)
