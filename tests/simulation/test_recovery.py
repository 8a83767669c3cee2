"""Queries that recover, whose instance managers, programs and readers are killed: what comes out is the reference's.

Tests `orchestrator/manifests.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any, cast

import pytest

from cep.config import query_of_node
from cep.elements import State
from instance_manager.clients.clients import SILENCE_S
from instance_manager.control import building, control
from instance_manager.control.assignment_checks import Assignment
from instance_manager.control.own_nodes import OwnNodes
from instance_manager.hosting import InstanceHost, Preparation
from instance_manager.recovery.increments import PieceKey, completed
from simulation import cluster
from simulation.clock import ProcessClock
from simulation.faults import IN_A_TURN, Fault
from simulation.schedule import MS, S, ScheduleTrace
from simulation.seeds import run_seed
from tests.support.recovering import CHANGED, COLD, GROUPS, PROGRAMS, PUBLISHED, SEEDS, SELDOM, killed


@pytest.mark.parametrize("seed", (9, 22, 251, 1029))  # 1029: with a pattern, as others from 1,000 on
def test_a_query_whose_instance_managers_die_answers_as_the_reference_does(seed: int) -> None:
    found = killed(seed)
    assert found.wrong == [] and found.recoveries


@pytest.mark.parametrize("seed", (221, 235, 269, 1036))
def test_one_over_published_streams_does_too(seed: int) -> None:
    found = killed(seed)
    assert found.wrong == [] and found.recoveries


def test_pieces_of_one_instance_manager_are_told_of_in_one_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each by itself would cost the orchestrator and ZooKeeper as much again."""
    told: dict[tuple[str, str, tuple[int, ...]], list[tuple[str, int]]] = {}
    write, writes = OwnNodes.write, count()

    def watched(own: OwnNodes) -> None:
        turn = next(writes)
        for key in own._unwritten:
            stored = own.statuses[key].get("stored")
            if stored is not None:
                told.setdefault((own._im, query_of_node(key), tuple(stored["number"])), []).append((key, turn))
        write(own)

    monkeypatch.setattr(OwnNodes, "write", watched)
    several = 0
    for seed in (1029, 235, 269):
        told.clear()
        assert killed(seed).wrong == []
        firsts = [dict(reversed(each)) for each in told.values()]
        assert all(len(set(each.values())) == 1 for each in firsts)
        several += sum(len(each) > 1 for each in firsts)
    assert several > 5


def test_a_publisher_closes_while_it_asks_a_reader_whose_process_is_another_one() -> None:
    """Of a query that does not recover. It waits for the answer: where the numbers of its channel go on only the reader knows."""
    found = killed(65)
    assert found.wrong == [] and not found.recoveries and found.faults["kill instance manager"]


@pytest.mark.parametrize("seed", (209, 220))
def test_one_whose_publishers_are_killed_as_well_does_too(seed: int) -> None:
    """They come again, and go on from the rows that were accepted."""
    found = run_seed(seed, ScheduleTrace(), PROGRAMS)
    assert found.wrong == [] and found.recoveries and found.faults["kill writer"]


def test_three_publishers_of_a_name_of_which_the_first_had_sent_nothing() -> None:
    """A checkpoint knows the first one. It and the second are killed, and what both have kept begins at the same number."""
    found = run_seed(631_075, ScheduleTrace())
    assert found.wrong == [] and found.recoveries and found.faults["kill writer"] == 2


@pytest.mark.parametrize("seed", (11, 46, 223, 1567))
def test_readers_that_die_too_are_gone_on_from(seed: int) -> None:
    found = killed(seed, resumes=True)
    assert found.wrong == [] and found.recoveries


@pytest.mark.parametrize("seed", (20, 22, 221, 1039))  # in the last one a stream grows before its publisher's first row for a reader
def test_a_cold_start_of_everything(seed: int) -> None:
    found = run_seed(seed, ScheduleTrace(), COLD)
    assert found.wrong == [] and found.recoveries


@pytest.mark.parametrize("seed", (22, 221, 1036))
def test_one_that_is_frozen_in_the_middle_of_its_turns(seed: int) -> None:
    """For longer than its session: it goes on with what it was at, an attempt later."""
    found = run_seed(seed, ScheduleTrace(), [Fault(IN_A_TURN, 400 * MS), Fault(IN_A_TURN, 200 * MS)])
    assert found.faults[IN_A_TURN] == 2 and found.recoveries and found.wrong == []


@pytest.mark.parametrize("seed", (4005,))
def test_one_that_is_scaled_and_upgraded_meanwhile(seed: int) -> None:
    found = killed(seed, resumes=None)
    assert found.wrong == [] and found.recoveries and found.moved.instances


def test_what_a_leader_decides_while_zookeeper_is_away_is_not_told() -> None:
    """Its successor placed the next attempt elsewhere, and publishers knew where it was, as they had been told."""
    found = run_seed(933004, ScheduleTrace())
    assert found.wrong == [] and found.recoveries


def test_an_instance_that_moved_away_and_back_before_its_process_saw_that() -> None:
    """Its assignment had gone when it was read, and was there again in the listing, and counted as read."""
    assert run_seed(900_148, ScheduleTrace()).wrong == []


def test_one_that_had_ended_is_over_when_its_readers_have_all() -> None:
    """It is scaled when all its instances have ended and readers have not acknowledged that; its first status said that it is over."""
    assert run_seed(400_184, ScheduleTrace()).wrong == []


@pytest.mark.parametrize("seed", (8111,))
def test_one_whose_checkpoints_have_what_has_changed(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is restored lies in several pieces."""
    needed = list[PieceKey]()

    def watched(piece: Sequence[State], number: int, read: Callable[[PieceKey], Iterable[State]]) -> list[State]:
        def noted(key: PieceKey) -> Iterable[State]:
            needed.append(key)
            return read(key)

        return completed(piece, number, noted)

    monkeypatch.setattr(building, "completed", watched)
    found = run_seed(seed, ScheduleTrace(), SELDOM)
    assert found.wrong == [] and found.recoveries and needed


@pytest.mark.parametrize("seed", (412,))
def test_one_that_takes_longer_to_restore_than_a_publisher_may_be_silent(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is restored first waits for the others, and no publisher can know that it is here before they are: nothing is taken from those
    that live."""
    made = Counter[tuple[str, int]]()

    def restored(preparation: Preparation, assignment: Assignment, *others: Any) -> InstanceHost:
        hosted = building.built(preparation, assignment, *others)
        if assignment.restore is not None:
            process = preparation.config.id, assignment.attempt
            made[process] += 1
            if made[process] == 2:
                clock = cast(ProcessClock, preparation.clock)
                clock.schedule.pause_until(clock.now_ns + round(1.5 * SILENCE_S * S))
        return hosted

    monkeypatch.setattr(cluster, "PUBLISHED_GRACE_S", SILENCE_S)
    monkeypatch.setattr(control, "built", restored)
    found = killed(seed)
    assert found.wrong == [] and found.recoveries and max(made.values(), default=0) > 1


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_many_seeds() -> None:
    assert [found for seed in GROUPS if (found := run_seed(seed, ScheduleTrace(), SELDOM)).wrong] == []
    assert [
        found
        for seed in (*SEEDS, *PUBLISHED)
        for found in (killed(seed), killed(seed, resumes=True), run_seed(seed, ScheduleTrace()), run_seed(seed, ScheduleTrace(), COLD))
        if found.wrong
    ] == []
    assert [found for seed in CHANGED for found in (killed(seed, resumes=None), run_seed(seed, ScheduleTrace())) if found.wrong] == []
    assert [found for seed in PUBLISHED if (found := run_seed(seed, ScheduleTrace(), PROGRAMS)).wrong] == []
