"""Text files through the whole engine: whatever lies in them and however they are cut and read, the reference's answer."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given

from cep.kernels.jit import interpreted
from tests.reference import assert_same_answer, blocks, evaluate
from tests.running import NOW_US, Ran, origin_of_engine, outputs_of, run_files
from tests.strategies import Execution, FileCase, executions, file_cases


def check(case: FileCase, execution: Execution) -> Ran:
    parts = {case.stream.name: blocks(case.query, case.stream, case.files)}
    expected = evaluate(case.query, parts, aggregate_origin=origin_of_engine(case.query), now_us=NOW_US)
    with tempfile.TemporaryDirectory() as folder:
        ran = run_files(case, execution, Path(folder))
    assert_same_answer(outputs_of(case.query, expected), ran.outputs)
    assert ran.late == sum(map(len, expected.late.values()))
    assert ran.dead == expected.dead_counts()
    return ran


@given(file_cases(), executions())
def test_any_reading_of_files_answers_as_the_reference_does(case: FileCase, execution: Execution) -> None:
    with interpreted():
        check(case, execution)
