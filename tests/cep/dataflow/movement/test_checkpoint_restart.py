"""A run that pauses at a Barrier and goes on from its snapshot, at another parallelism, split and bucket table: the same answers.

Tests `owners.py`.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep.kernels.jit import interpreted
from tests.reference import assert_same_answer
from tests.strategies import Case, Execution, cases, executions
from tests.support.restarting import run_with_pause, run_with_restart
from tests.support.running import Ran, expected_of, outputs_of

pytestmark = pytest.mark.timeout(900)


def check(case: Case, ran: Ran) -> None:
    with interpreted():
        expected = expected_of(case.query, case.inputs)
    assert_same_answer(outputs_of(case.query, expected), ran.outputs)
    assert ran.late == sum(map(len, expected.late.values()))
    assert ran.dead == expected.dead_counts()


@settings(max_examples=10)
@given(cases(), executions(), st.integers(0, 40))
def test_one_that_pauses_and_goes_on_does_too(case: Case, execution: Execution, turns: int) -> None:
    with interpreted():
        ran = run_with_pause(case, execution, turns)
    check(case, ran)


@given(cases(), executions(), executions(), st.integers(0, 40))
def test_a_run_restored_at_another_parallelism_answers_as_the_reference_does(
    case: Case, before: Execution, after: Execution, turns: int
) -> None:
    with interpreted():
        ran = run_with_restart(case, before, after, turns)
    check(case, ran)
