"""A large state: what its checkpoints cost and how soon it is there again are said as they were."""

from __future__ import annotations

import pytest

from benchmarks.faults.states import StateCost, StateReport, StateRun
from driver import LocalCluster


def test_a_report_says_what_checkpoints_cost_and_whether_recoveries_are_short() -> None:
    with_, without = StateCost("1s", 0.3, 0.2, 0.5, 0.1, 4.0), StateCost("1h", 0.2, 0.1, 0.25, 0.0, 3600.0)
    report = StateReport(2_000_000_000, [with_, without, with_], [1.0, 2.5, 4.0], 9)
    assert list(report.lines()) == [
        "state of 2.00 GB",
        *map(str, (with_, without, with_)),
        "overhead of checkpoints: 50.0% of the instance managers' CPU time",
        "3 recoveries: p50 2.50 s (NOT below 2 s), worst 4.00 s",
        "9 answers compared: equal",
    ]
    assert str(with_) == (
        "checkpoints asked for every 1s, taken every 4.0 s in 0.100 s: 0.300 CPU s a second, load 0.20, longest gap 0.50 s"
    )
    assert list(StateReport(wrong="one more").lines()) == ["state of 0.00 GB", "0 answers compared: WRONG: one more"]


@pytest.mark.long
def test_a_state_is_there_again_when_its_instance_manager_is_killed() -> None:
    with LocalCluster(instances=2) as cluster:
        found = StateRun(cluster, 1, 1_000, 2_000, print).run(2.0, 1, 7)
    assert not found.wrong and found.windows > 10 and found.state_bytes
    assert [each.interval for each in found.costs] == ["1s", "1h", "1s"]
    assert len(found.recovered_s) == 1
