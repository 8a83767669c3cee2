"""Hosts that are left while a query runs: nothing of it takes harm, and what is broken about it is found."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cep.errors import Conflict
from cep.plan.physical import Instance
from orchestrator.records import InstanceManager, QueryRecord
from orchestrator.state import evacuations, moves
from orchestrator.state.cluster_model import ClusterModel
from simulation.schedule import ScheduleTrace
from simulation.seeds import run_seed

_there, _check_now, _why_not = evacuations._there, moves._check_now, moves._why_not


@pytest.mark.parametrize("seed", (63, 111))
def test_a_query_goes_on_elsewhere(seed: int) -> None:
    found = run_seed(seed, ScheduleTrace())
    assert found.left and found.moved.instances and found.wrong == []


@pytest.mark.long
def test_one_that_recovers_stays_while_all_hosts_are_left_and_goes_on_at_what_lives() -> None:
    found = run_seed(300376, ScheduleTrace())
    assert found.left == 2 and found.recoveries == 2 and found.wrong == []


def test_a_publisher_that_opens_as_its_reader_moves_away_and_back_is_heard() -> None:
    found = run_seed(912363, ScheduleTrace())
    assert found.left == 2 and found.wrong == []


def test_a_host_that_the_end_of_a_query_makes_empty_waits_for_its_readers() -> None:
    found = run_seed(970443, ScheduleTrace())
    assert found.left == 2 and found.wrong == []


def test_the_same_seed_leaves_the_same_hosts() -> None:
    once, again = ScheduleTrace(keep=True), ScheduleTrace(keep=True)
    assert run_seed(63, once).left == run_seed(63, again).left
    assert once.lines == again.lines and any("has left host" in line for line in once.lines or ())


def wrong(*likely: int) -> str:
    """What is wrong first, with those seeds or any other."""
    seeds = (*likely, *range(200))
    return next(found.wrong[0] for seed in seeds if (found := run_seed(seed, ScheduleTrace())).wrong)


def test_an_instance_on_its_way_that_counts_as_gone_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its host ends under it."""

    def there(model: ClusterModel, record: QueryRecord) -> Iterator[Instance]:
        move = record.move
        return (each for each in _there(model, record) if move is None or (each.subquery, each.index) != (move.subquery, move.index))

    monkeypatch.setattr(evacuations, "_there", there)
    assert "is gone" in wrong(79)


@pytest.mark.long
def test_a_move_to_a_host_that_is_being_left_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(state: moves.ClusterView, record: QueryRecord, instance: Instance, im: str) -> None:
        try:
            _check_now(state, record, instance, im)
        except Conflict as error:
            if "is leaving" not in str(error):
                raise

    monkeypatch.setattr(moves, "_check_now", check)
    monkeypatch.setattr(moves, "_why_not", lambda *asked: "" if "is leaving" in (why := _why_not(*asked)) else why)
    assert "there is again" in wrong(13)


def test_a_host_from_which_nothing_goes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evacuations, "onward", lambda model, record: record)
    assert "nothing has gone" in wrong(123)


def test_a_refuge_on_the_host_itself_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def staying(model: ClusterModel) -> Iterator[InstanceManager]:
        return iter(model.managers.values())

    monkeypatch.setattr(ClusterModel, "staying", staying)
    assert "nothing has gone" in wrong(98)
