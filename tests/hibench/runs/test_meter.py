"""What processes use while a run lasts."""

import numpy as np

from hibench.runs.meter import metered


def test_the_meter_sees_cpu_and_memory_of_this_process():
    with metered([("gone", 2**22 - 1)]) as use:
        assert np.ones(4 << 20).sum() > 0
    assert [process.name for process in use.processes] == ["client"]
    assert use.peak_anonymous_bytes > 10 << 20
    assert use.seconds > 0
    assert use.samples[-1].process == "client"
    assert use.samples[-1].cpu_seconds == use.processes[0].cpu_seconds
