"""Whole clusters under a schedule: their answers are the reference's, a seed repeats its trace, and what is broken is found.

Tests `cluster.py`, `__main__.py`, `client.py`, `faults.py`, `processes.py`, `rest.py`, `sockets.py`, `workload.py`,
`driver/streams/following.py`.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterable

import pytest

from cep.dataflow.movement import bucket_move, figures
from cep.dataflow.sources.source import Source
from cep.elements import Fail
from cep.transport import wire
from cep.transport.wire import HEADER_BYTES
from orchestrator.state import losses
from simulation.cluster import simulated
from simulation.faults import Fault
from simulation.schedule import ScheduleTrace
from simulation.seeds import SeedRun, run_seed
from simulation.sockets import SimulatedLink

#: Some in which buckets move, some in which instances do, some in which nothing does; the last two with patterns.
SEEDS = (0, 3, 15, 1224, 1441)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cluster_answers_as_the_reference_does(seed: int) -> None:
    assert run_seed(seed, ScheduleTrace(), ()).wrong == []


@pytest.mark.parametrize("seed", (941187, 960025))
def test_what_went_wrong_once(seed: int) -> None:
    """An instance manager in doubt took a turn each nanosecond of its virtual time; a publisher promised rows that were under way as its
    reader moved."""
    assert run_seed(seed, ScheduleTrace()).wrong == []


def test_the_same_seed_has_the_same_trace() -> None:
    once, again = ScheduleTrace(keep=True), ScheduleTrace(keep=True)
    assert run_seed(15, once, ()).moved == run_seed(15, again, ()).moved
    assert once.lines == again.lines and once.digest == again.digest


def test_nothing_is_left_of_a_cluster() -> None:
    with simulated(0, ScheduleTrace(), ()) as cluster:
        cluster.run()
    left = weakref.ref(cluster)
    del cluster
    gc.unfreeze()
    gc.collect()
    assert left() is None


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_many_seeds() -> None:
    assert [found for seed in range(1000) if (found := run_seed(seed, ScheduleTrace())).wrong] == []


def broken(seeds: Iterable[int]) -> SeedRun:
    """The first run that something was wrong with."""
    return next(found for seed in seeds if (found := run_seed(seed, ScheduleTrace(), ())).wrong)


class TestPlanted:
    """Bugs of a line each."""

    def test_state_of_buckets_that_is_lost_on_its_way(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(bucket_move, "pieces", lambda batch: [])
        assert broken((19, *range(100))).wrong[0].startswith("AnswersAgree: stream")

    def test_counts_that_do_not_move_with_their_instance(self, monkeypatch: pytest.MonkeyPatch) -> None:
        taken = figures._take_source

        def forget(source: Source, found: figures.SourceFigures) -> None:
            taken(source, found)
            source.late_rows = 0

        monkeypatch.setattr(figures, "_take_source", forget)
        assert broken((18, *range(100))).wrong[0].startswith("CountsAgree: late rows")

    def test_a_message_that_gets_lost(self, monkeypatch: pytest.MonkeyPatch) -> None:
        carried, lost = SimulatedLink.carry, list[bytes]()

        def carry(link: SimulatedLink, message: bytes, sent_ns: int) -> None:
            if lost or wire.unpack(message[:HEADER_BYTES]).kind != wire.BATCH:
                carried(link, message, sent_ns)
            else:
                lost.append(message)

        monkeypatch.setattr(SimulatedLink, "carry", carry)
        for seed in range(60):
            lost.clear()
            if any("MessagesLost" in each for each in run_seed(seed, ScheduleTrace(), ()).wrong):
                return
        pytest.fail("expected a run that names what was lost, got none in 60 seeds")


class TestFaults:
    @pytest.mark.parametrize("seed", (1, 6, 9, 10))
    def test_what_was_not_hit_answers_and_what_was_hit_says_so(self, seed: int) -> None:
        found = run_seed(seed, ScheduleTrace())
        assert found.faults and found.wrong == []

    def test_the_same_seed_has_the_same_faults(self) -> None:
        once, again = ScheduleTrace(keep=True), ScheduleTrace(keep=True)
        assert run_seed(1, once).faults == run_seed(1, again).faults
        assert once.lines == again.lines

    def test_a_failure_that_names_no_cause_is_found(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(losses, "missing", lambda model, record: dict.fromkeys(_missing(model, record), "something went wrong"))
        assert "is named as the cause" in hit((2, *range(100))).wrong[0]

    def test_an_end_that_is_none_is_found(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """An instance that fails says that its stream has ended."""
        monkeypatch.setattr(wire, "_KIND_OF", {**wire._KIND_OF, Fail: wire.END})
        assert any("AnswersAgree" in text or "broke off" in text for text in hit(range(100)).wrong)


_missing = losses.missing


def hit(seeds: Iterable[int]) -> SeedRun:
    """The first run that something was wrong with, of those in which an instance manager is killed while the query runs."""
    kills = [Fault("kill instance manager", 200_000_000), Fault("kill instance manager", 100_000_000)]
    return next(found for seed in seeds if (found := run_seed(seed, ScheduleTrace(), kills)).wrong)
