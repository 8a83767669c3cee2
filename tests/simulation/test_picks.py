"""Queries that recover and only pick columns, whose small messages take the fast path: nothing is lost there.

Tests `simulation/picks.py`.
"""

from __future__ import annotations

from collections import Counter

import pytest

from instance_manager.recovery.kept import KeptChannel
from instance_manager.recovery.runs import Run
from instance_manager.recovery.told import ToldChannel
from simulation.faults import Fault
from simulation.schedule import ScheduleTrace
from simulation.seeds import run_seed
from simulation.workload import PICKS_FROM, SEEDS_OF_A_QUERY, only_picks
from tests.support.recovering import KILLS, OFTEN, PROGRAMS, first_wrong

PICKS = tuple(seed for seed in range(SEEDS_OF_A_QUERY * PICKS_FROM, SEEDS_OF_A_QUERY * PICKS_FROM + 1_000) if only_picks(seed))


@pytest.fixture
def passed(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Messages that have taken the fast path out of a query, by the kind of subscription."""
    counted = Counter[str]()
    for kind in (KeptChannel, ToldChannel):

        def pass_on(self: KeptChannel, run: Run, kind: type[KeptChannel] = kind, was: object = kind.pass_on) -> None:
            counted[kind.__name__] += run.behind - run.first
            was(self, run)  # type: ignore[operator]

        monkeypatch.setattr(kind, "pass_on", pass_on)
    return counted


@pytest.mark.parametrize("faults", [KILLS, OFTEN, PROGRAMS], ids=["kills", "often", "programs"])
def test_answers_are_the_references_though_processes_die(passed: Counter[str], faults: list[Fault]) -> None:
    recoveries = 0
    for seed in (PICKS[0], PICKS[7], PICKS[11]):  # by both ways out, whatever dies
        for at_once in (True, False):
            found = run_seed(seed, ScheduleTrace(), faults, False, at_once)
            assert found.wrong == []
            recoveries += found.recoveries
    assert recoveries > 5 and passed["ToldChannel"] > 20 and passed["KeptChannel"] > 20


class TestPlanted:
    """Bugs of a line each, which the simulation finds."""

    def test_what_is_told_is_not_kept(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(ToldChannel, "pass_on", lambda self, run: self.sockets.relay(self.terms.endpoint, run.laid))
        assert first_wrong(801_079, PICKS, at_once=True)

    @pytest.mark.parametrize("at_once", [True, False])
    def test_runs_that_are_in_no_checkpoint(self, monkeypatch: pytest.MonkeyPatch, at_once: bool) -> None:
        kept = KeptChannel.kept
        monkeypatch.setattr(KeptChannel, "kept", lambda self: (each for each in kept(self) if not isinstance(each, Run)))
        assert first_wrong(801_079 if at_once else 800_071, PICKS, at_once=at_once)
