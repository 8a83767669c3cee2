"""A large state: what its checkpoints cost is said as it was measured, and recoveries as they went."""

from __future__ import annotations

import pytest

from benchmarks.faults.states import StateCost, StateReport, StateRun
from driver import LocalCluster


def cost(cpu: float) -> StateCost:
    return StateCost("1s", cpu, 0.75, 0.5, 0.25, 1.5)


def test_a_report_says_what_checkpoints_cost_and_what_recoveries_took() -> None:
    report = StateReport(2_000_000_000, [cost(1.25), cost(1.0), cost(1.75)], [1.0, 1.5, 4.0], 12)
    line = "checkpoints asked for every 1s, taken every 1.5 s in 0.250 s: {} CPU s a second, load 0.75, longest gap 0.50 s"
    assert list(report.lines()) == [
        "state of 2.00 GB",
        *(line.format(cpu) for cpu in ("1.250", "1.000", "1.750")),
        "overhead of checkpoints: 50.0% of the instance managers' CPU time",
        "3 recoveries: p50 1.50 s (below 2 s), worst 4.00 s",
        "12 answers compared: equal",
    ]


def test_what_was_not_measured_is_not_said() -> None:
    assert list(StateReport(1_000_000, wrong="one more").lines()) == ["state of 0.00 GB", "0 answers compared: WRONG: one more"]
    assert list(StateReport(recovered_s=[3.0]).lines())[1] == "1 recoveries: p50 3.00 s (NOT below 2 s), worst 3.00 s"


@pytest.mark.long
def test_a_state_is_measured_and_lost() -> None:
    with LocalCluster(instances=2) as cluster:
        found = StateRun(cluster, 1, 1_000, 2_000, print).run(2.0, 1, 7)
    assert (found.wrong, len(found.costs), len(found.recovered_s)) == ("", 3, 1)
    assert found.windows > 10 and found.state_bytes > 1_000 and 0 < found.recovered_s[0] < 60
