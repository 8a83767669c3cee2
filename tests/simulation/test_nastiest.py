"""The nastiest tests that the design of recovery names: faults in the very moment in which they do the most harm.

A moment is the n-th call of a function of the engine; faults strike as soon as the process that calls it pauses, which is before what the
call has led to is known elsewhere. Of the twelve the second is in `tests/cep/dataflow/outputs/test_sink.py`, for files; what the fifth
asks for is refused here, for what is dealt to a reader stays with it, so the subquery behind the readers is scaled; in the eighth the
reading query does not recover itself, which `tests/cluster/test_recovery.py` has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from cep.world.archive import Archive
from driver.streams.sent_log import SentLog
from instance_manager.clients.publishers import Publishers
from instance_manager.recovery import checkpoints as taking
from orchestrator.manifests import Manifests
from orchestrator.state.deployments import Deployments
from simulation.cluster import SimulatedCluster, simulated
from simulation.faults import EVERYTHING, FILL, Fault
from simulation.schedule import MS, S, ScheduleTrace
from simulation.seeds import SeedRun

pytestmark = pytest.mark.long

KILL, FREEZE, LEADER, PROGRAM = "kill instance manager", "freeze instance manager", "kill orchestrator", "kill writer"
AWAY, CUT, READER = "stop ZooKeeper", "cut", "kill reader"
BEHIND_NS = 200 * MS  # the next one, while what the first has led to is under way
Moment = tuple[type, str, int]


class Nastiness:
    """Faults at moments of one run, each once."""

    def __init__(self, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cluster, self.monkeypatch, self.struck = cluster, monkeypatch, 0

    def at(self, moment: Moment, *faults: str | Callable[[SimulatedCluster], object]) -> None:
        """In that moment, and one behind the other."""
        owner, name, number = moment
        whole, calls = getattr(owner, name), iter(range(1, 1 << 30))

        def watched(*given: Any, **named: Any) -> Any:
            answer = whole(*given, **named)
            if next(calls) == number:
                self._strike(faults)
            return answer

        self.monkeypatch.setattr(owner, name, watched)

    def _strike(self, faults: Sequence[str | Callable[[SimulatedCluster], object]]) -> None:
        schedule, strike = self.cluster.schedule, self.cluster.faults.strike
        at_hand = next((each for each in self.cluster.managers if schedule.current in (each.loop_task, each.control_task)), None)
        self.struck += 1
        for i, fault in enumerate(faults):
            act = (lambda fault=fault: strike(fault)) if isinstance(fault, str) else (lambda fault=fault: fault(self.cluster))
            if fault == FREEZE and at_hand is not None:  # the one that it happens in
                act = lambda: self.cluster.faults._freeze_beyond_session(at_hand, 8 * S)  # noqa: E731
            schedule.at(schedule.now_ns + i * BEHIND_NS, act)


def ran(
    seed: int, monkeypatch: pytest.MonkeyPatch, *moments: tuple[Moment, Sequence[str | Callable[[SimulatedCluster], object]]], **ways: Any
) -> SeedRun:
    with simulated(seed, trace := ScheduleTrace(), [Fault("freeze briefly", MS)], **ways) as cluster:
        cluster.faults.hit |= {each.name for each in cluster.managers}  # whatever happens, it was to be
        nasty = Nastiness(cluster, monkeypatch)
        for moment, faults in moments:
            nasty.at(moment, *faults)
        wrong = cluster.run()
    assert nasty.struck == len(moments), "the moment did not come"
    done = cluster.faults.done, cluster.recoveries, wrong
    return SeedRun(seed, trace.digest, trace.count, cluster.moved, *done)


FIRST, SECOND = 208, 244


def commit(number: int) -> Moment:
    """The leader has heard that it is written: it sweeps what is before it. Once it has swept when the query was deployed."""
    return Archive, "sweep", number + 1


@pytest.mark.parametrize("seed", (SECOND, 247))
def test_1_the_leader_dies_between_the_commit_and_what_it_leads_to_and_zookeeper_and_a_publisher_with_it(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = ran(seed, monkeypatch, (commit(1), (KILL, LEADER, AWAY, PROGRAM)))
    assert found.wrong == [] and found.recoveries


@pytest.mark.parametrize("seed", (FIRST, SECOND))
def test_3_an_instance_that_freezes_before_it_has_stored_and_wakes_up_when_another_is_in_its_place(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = ran(seed, monkeypatch, ((taking.Checkpoints, "_take", 2), (FREEZE,)))
    assert found.wrong == [] and found.recoveries


@pytest.mark.parametrize("seed", (FIRST, SECOND))
def test_4_a_commit_of_which_the_outcome_is_not_known_and_another_death_before_the_next_leader_looks(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = ran(seed, monkeypatch, ((Manifests, "write", 2), (CUT, LEADER, KILL)))
    assert found.wrong == [] and found.recoveries


@pytest.mark.parametrize("seed", (4014, 4051))
def test_5_rows_that_were_dealt_by_credit_and_other_numbers_of_instances_at_each_recovery(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = ran(seed, monkeypatch, (commit(2), (KILL,)), (commit(3), (KILL,)))
    assert found.wrong == [] and found.recoveries


@pytest.mark.parametrize("seed", (FIRST, SECOND))
def test_6_a_publisher_that_freezes_while_it_appends_and_another_of_its_name(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found = ran(seed, monkeypatch, ((SentLog, "add", 3), (PROGRAM, KILL)))
    assert found.wrong == [] and found.recoveries


@pytest.mark.parametrize("seed", (FIRST, SECOND))
def test_7_a_death_before_the_first_commit(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found = ran(seed, monkeypatch, ((taking.Checkpoints, "_take", 1), (KILL, KILL)))
    assert found.wrong == []


@pytest.mark.parametrize("seed", (FIRST, SECOND))
def test_9_the_last_publisher_closes_during_alignment_and_a_death_before_the_last_commit(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = ran(seed, monkeypatch, ((Publishers, "close", 1), (KILL, LEADER, KILL)))
    assert found.wrong == []


@pytest.mark.parametrize("seed", (FIRST, SECOND))
def test_10_the_disk_is_full_for_one_of_several_pieces_and_the_next_checkpoint_needs_what_that_had(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = ran(seed, monkeypatch, (commit(1), (FILL, KILL)))
    assert found.wrong == [] and found.recoveries and found.faults[FILL]


@pytest.mark.parametrize("seed", (4007, 4048))
def test_12_everything_dies_between_the_checkpoint_of_a_change_and_its_new_plan(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found = ran(seed, monkeypatch, ((Deployments, "_become", 1), (EVERYTHING,)))
    assert found.wrong == [] and found.recoveries


@pytest.mark.parametrize("seed", (SECOND, 247))
def test_12_a_client_dies_between_saving_its_token_and_acknowledging(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found = ran(seed, monkeypatch, (commit(1), (READER, KILL)), resumes=True)
    assert found.wrong == [] and found.recoveries
