from __future__ import annotations

from hypothesis import given

from cep.kernels.jit import interpreted
from tests.reference import assert_same_answer, evaluate
from tests.running import NOW_US, origin_of_engine, outputs_of, run_case
from tests.strategies import Case, Execution, cases, executions


def check(case: Case, execution: Execution) -> None:
    expected = evaluate(case.query, case.inputs, aggregate_origin=origin_of_engine(case.query), now_us=NOW_US)
    ran = run_case(case, execution)
    assert_same_answer(outputs_of(case.query, expected), ran.outputs)
    assert ran.late == sum(map(len, expected.late.values()))
    assert ran.dead == expected.dead_counts()


@given(cases(hash_ties=True), executions())
def test_any_execution_of_a_query_answers_as_the_reference_does(case: Case, execution: Execution) -> None:
    with interpreted():
        check(case, execution)
