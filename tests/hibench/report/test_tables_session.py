"""The Spark that reads records for a report."""

import pytest

from hibench.numa.machine import cores_usable
from hibench.report.tables import session
from tests.support.one_spark import QUICK_JAVA


@pytest.mark.long  # a Spark of its own takes ten seconds of CPU
def test_it_has_a_task_slot_for_each_core(monkeypatch):
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", QUICK_JAVA)
    with session() as spark:
        assert spark.sparkContext.defaultParallelism == cores_usable()
        assert spark.range(3).count() == 3
