"""A case that fails is printed whole, so that it can be read where it cannot be run again."""

from __future__ import annotations

import pytest
from hypothesis import Phase, given, settings

from tests.strategies.executions import Execution, executions
from tests.strategies.files import FileCase, file_cases
from tests.strategies.queries import Case, cases


def test_what_failed_can_be_read() -> None:
    @settings(max_examples=1, phases=[Phase.generate], database=None)
    @given(cases(1), file_cases(1), executions())
    def fails(case: Case, of_files: FileCase, execution: Execution) -> None:
        raise AssertionError("for this test")

    with pytest.raises(AssertionError, match="for this test") as raised:
        fails()
    printed = "".join("\n".join(raised.value.__notes__).split())
    for begins in ("case=Case(query=Query(name='q',streams=(Stream(", "inputs={'s':[Partition(", "of_files=FileCase(query=Query("):
        assert begins in printed
    assert "files={'a.txt':b'" in printed and "execution=Execution(options=Options(" in printed and "seed=" in printed
