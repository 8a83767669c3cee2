"""Where a query that recovers goes on after everything was started anew, and when.

Tests `checkpoints.py`, `assignments.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from cep.config import instance_node
from cep.errors import Conflict, QueryError
from orchestrator.records import InstanceManager, Status, StoredPiece
from orchestrator.state.evacuations import LOOK_S, PATIENCE_S
from orchestrator.state.events import (
    ClusterCommand,
    Delete,
    EvacuateHost,
    HostsSeen,
    ManagerDied,
    ManagersLive,
    MoveBuckets,
    MoveInstance,
    Put,
    StatusesSeen,
    SubmitQuery,
    Tick,
)
from tests.orchestrator.state.test_cluster_state import IMS, TIMEOUT_S, Cluster, manager, query
from tests.orchestrator.state.test_evacuations import host, on_host
from tests.orchestrator.state.test_feeds import planned, reader


class WithoutDisk(Cluster):
    """What is done in files leaves no trace."""

    def obey(self, commands: Iterable[ClusterCommand]) -> None:
        super().obey(each for each in commands if isinstance(each, Put | Delete))

    def says(self, im: str, key: str, state: str, cause: str | None = None, rows: int = 0) -> None:
        record = self.state.queries["per-ip"]
        self.do(StatusesSeen(im, {key: Status(record.epoch, state, cause, {}, attempt=record.attempt)}))

    def stores(self, state: str = "running", error: str = "") -> None:
        """The checkpoint that is asked for, all instances of them in that state; then time passes, but none to speak of."""
        record, number = self.state.queries["per-ip"], self.state.checkpoints["per-ip"].asked
        for instance in self.state.plans["per-ip"].instances:
            piece = StoredPiece(number, "" if error else "a-piece", 7, 100, 1_000, error)
            status = Status(record.epoch, state, attempt=record.attempt, stored=piece)
            self.do(StatusesSeen(instance.im, {instance_node("per-ip", instance.subquery, instance.index): status}))
        self.do(Tick())


def started_anew(*ims: str) -> WithoutDisk:
    """The next leader of a cluster that was killed, with these instance managers."""
    before = WithoutDisk()
    plain = query()
    before.submit(replace(plain, options=replace(plain.options, recover="on-commit")))
    for state in ("ready", "running"):
        before.all_say(state)
    after = WithoutDisk()
    after.nodes, after.managers = before.nodes, {im: manager(im, pid=2) for im in ims}
    after.obey(after.state.restore(before.nodes, after.now))
    after.see()
    return after


def places(cluster: Cluster) -> set[str]:
    return {instance.im for instance in cluster.state.plans["per-ip"].instances}


def test_after_a_cold_start_it_recovers_when_all_instance_managers_have_come() -> None:
    cluster = started_anew("im-0")
    assert cluster.state_of() == "running", "the other one may come yet"
    cluster.see(im_1=manager("im-1", pid=2))
    assert cluster.state_of() == "recovering" and places(cluster) == set(IMS)
    assert cluster.state.queries["per-ip"].attempt == 1


def test_after_a_cold_start_those_that_are_seen_to_be_dead_may_come_anew() -> None:
    """Their nodes of before are there until their sessions end."""
    cluster = started_anew()
    cluster.see(im_0=manager("im-0"), im_1=manager("im-1"))
    for im in IMS:
        cluster.do(ManagerDied(im, manager(im).process))
    cluster.see(im_1=manager("im-1", pid=2))
    assert cluster.state_of() == "running", "the other one may come yet"
    cluster.see(im_0=manager("im-0", pid=2))
    assert cluster.state_of() == "recovering" and places(cluster) == set(IMS)


@pytest.mark.parametrize("seen_first", ["death", "life"])
def test_a_new_leader_that_sees_others_live_waits_for_no_process_that_is_seen_to_be_dead(seen_first: str) -> None:
    """It is no cold start, in which all of before are dead."""
    cluster = started_anew()
    cluster.see(im_0=manager("im-0"), im_1=manager("im-1"))
    died, live = ManagerDied("im-0", manager("im-0").process), ManagersLive(frozenset({("im-1", manager("im-1").process)}))
    first, second = (died, live) if seen_first == "death" else (live, died)
    cluster.do(first)
    assert cluster.state_of() == "running"
    cluster.do(second)
    assert cluster.state_of() == "recovering" and places(cluster) == {"im-1"}


def test_one_that_lives_and_came_after_a_cold_start_says_nothing_of_those_before() -> None:
    cluster = started_anew()
    cluster.see(im_0=manager("im-0"), im_1=manager("im-1"))
    for im in IMS:
        cluster.do(ManagerDied(im, manager(im).process))
    cluster.see(im_1=manager("im-1", pid=2))
    cluster.do(ManagersLive(frozenset({("im-1", manager("im-1", pid=2).process)})))
    assert cluster.state_of() == "running", "the other one may come yet"


def test_one_that_does_not_come_is_not_waited_for_for_ever() -> None:
    cluster = started_anew("im-0")
    cluster.pass_time(TIMEOUT_S)
    assert cluster.state_of() == "recovering" and places(cluster) == {"im-0"}


def test_without_any_it_waits() -> None:
    cluster = started_anew()
    cluster.pass_time(2 * TIMEOUT_S)
    assert cluster.state_of() == "running"
    cluster.see(im_1=manager("im-1", pid=2))
    assert cluster.state_of() == "recovering" and places(cluster) == {"im-1"}


def test_it_goes_on_at_the_next_that_comes_though_that_one_never_had_any_of_it() -> None:
    cluster = running({"im-2": manager("im-2")})
    cluster.pass_time(TIMEOUT_S)
    cluster.managers = {}
    cluster.see()  # a checkpoint may be under way, so nothing is due
    cluster.see(im_9=manager("im-9", pid=9))
    assert cluster.state_of() == "recovering" and places(cluster) == {"im-9"}
    cluster.managers = {}
    cluster.see()
    cluster.see(im_3=manager("im-3"))
    assert places(cluster) == {"im-3"}


def test_one_that_is_set_aside_keeps_no_other_from_hearing_of_deaths() -> None:
    cluster = running({im: manager(im) for im in IMS})
    cluster.submit(query("plain", "other"))
    for state in ("ready", "running"):
        cluster.all_say(state, "plain")
    cluster.pass_time(2 * TIMEOUT_S)
    cluster.state._deployments.set_aside("per-ip", "a bug")
    cluster.managers = {}
    cluster.see()
    assert cluster.state_of("plain") == "failed"


# --- moves: it goes on from its last checkpoint, at other places ----------------------------------------------------------


def running(managers: dict[str, InstanceManager]) -> WithoutDisk:
    cluster = WithoutDisk()
    cluster.managers = dict(managers)
    cluster.see()
    plain = query()
    cluster.submit(replace(plain, options=replace(plain.options, recover="on-commit")))
    for state in ("ready", "running"):
        cluster.all_say(state)
    return cluster


def at_home() -> WithoutDisk:
    return running({im: manager(im) for im in IMS})


def on_hosts(*hosts: str) -> WithoutDisk:
    """With two instance managers each."""
    cluster = running({f"{name}-im-{i}": on_host(name, f"{name}-im-{i}") for name in hosts for i in (0, 1)})
    cluster.do(HostsSeen({name: host(name) for name in hosts}))
    return cluster


def where(cluster: Cluster, subquery: str, index: int) -> str:
    return next(i.im for i in cluster.state.plans["per-ip"].instances if (i.subquery, i.index) == (subquery, index))


def hosts_of(cluster: Cluster) -> set[str]:
    return {im[:2] for im in places(cluster)}


def test_an_instance_moves_as_after_a_loss() -> None:
    cluster = at_home()
    before = {(i.subquery, i.index): i.im for i in cluster.state.plans["per-ip"].instances}
    (subquery, index), im = next(iter(before.items()))
    target = next(each for each in IMS if each != im)
    cluster.do(MoveInstance("per-ip", subquery, index, target))
    record = cluster.state.queries["per-ip"]
    assert (record.state, record.attempt, record.moves, record.move) == ("recovering", 1, 1, None)
    assert record.reason == f"{subquery}/{index} moves to {target!r}" and record.strikes == 0
    assert {(i.subquery, i.index): i.im for i in cluster.state.plans["per-ip"].instances} == before | {(subquery, index): target}
    for state in ("ready", "running"):
        cluster.all_say(state)
    assert cluster.state_of() == "running"


def test_a_query_that_reads_it_is_told_of_its_next_attempt_be_it_deployed_before_or_behind() -> None:
    cluster = at_home()
    cluster.do(SubmitQuery(planned(cluster, reader())))

    def told(name: str) -> list[Any]:
        found = [each["feeds"] for each in cluster.assignments().values() if each["query"] == name]
        return [each for each in found if each]

    assert told("second") == []
    source = where(cluster, "SQ2", 0)
    cluster.do(MoveInstance("per-ip", "SQ2", 0, next(each for each in IMS if each != source)))
    producers = [[i.index, f"ipc:///{i.im}"] for i in cluster.state.plans["per-ip"].instances_of("SQ2")]
    assert told("second") == [{"per_ip": {"attempt": 1, "producers": producers}}]
    cluster.do(SubmitQuery(planned(cluster, reader("third"))))
    assert told("third") == told("second")


def test_nothing_is_placed_on_a_process_that_is_dead() -> None:
    cluster = at_home()
    cluster.do(ManagerDied("im-0", manager("im-0").process))
    assert [worker.im for worker in cluster.state.workers()] == ["im-1"]
    cluster.see(im_0=manager("im-0", pid=2))
    assert [worker.im for worker in cluster.state.workers()] == ["im-0", "im-1"]


def test_what_cannot_move_is_refused_and_it_runs_on() -> None:
    cluster = at_home()
    im = where(cluster, "SQ1", 0)
    with pytest.raises(Conflict, match=f"SQ1/0 of query 'per-ip' is on '{im}' already"):
        cluster.do(MoveInstance("per-ip", "SQ1", 0, im))
    with pytest.raises(QueryError, match="there is no instance manager 'im-9'"):
        cluster.do(MoveInstance("per-ip", "SQ1", 0, "im-9"))
    with pytest.raises(QueryError, match="expected an instance for each of 4096 buckets, got 7"):
        cluster.do(MoveBuckets("per-ip", "SQ2", (0,) * 7))
    assert cluster.state_of() == "running" and cluster.state.queries["per-ip"].attempt == 0


def test_it_moves_only_while_it_runs() -> None:
    cluster = at_home()
    target = next(each for each in IMS if each != where(cluster, "SQ1", 0))
    cluster.do(MoveInstance("per-ip", "SQ1", 0, target))
    with pytest.raises(Conflict, match="is recovering: instances move only while it is running"):
        cluster.do(MoveInstance("per-ip", "SQ1", 0, where(cluster, "SQ2", 0)))


def test_it_does_not_move_to_a_process_that_is_gone() -> None:
    cluster = at_home()
    target = next(each for each in IMS if each != where(cluster, "SQ1", 0))
    cluster.do(ManagerDied(target, cluster.managers[target].process))
    for state in ("ready", "running"):
        cluster.all_say(state)
    with pytest.raises(Conflict, match="its process is gone"):
        cluster.do(MoveInstance("per-ip", "SQ1", 0, target))


def test_from_a_host_that_is_left_it_goes_at_once_and_as_a_whole() -> None:
    cluster = on_hosts("h1", "h2")
    assert hosts_of(cluster) == {"h1", "h2"}
    cluster.do(EvacuateHost("h1"))
    record = cluster.state.queries["per-ip"]
    assert record.state == "recovering" and record.reason == "host 'h1' is leaving" and hosts_of(cluster) == {"h2"}
    for state in ("ready", "running"):
        cluster.all_say(state)
    cluster.pass_time(PATIENCE_S + LOOK_S)
    assert cluster.state_of() == "running" and cluster.state.queries["per-ip"].attempt == 1, "once is enough"


def test_what_dies_elsewhere_does_not_go_to_a_host_that_is_left() -> None:
    cluster = on_hosts("h1", "h2", "h3")
    cluster.do(EvacuateHost("h1"))
    for state in ("ready", "running"):
        cluster.all_say(state)
    cluster.see(h2_im_0=None, h2_im_1=None)
    cluster.pass_time(2 * TIMEOUT_S)
    assert hosts_of(cluster) == {"h3"}


def test_a_host_that_is_left_is_a_refuge_while_there_is_no_other() -> None:
    cluster = on_hosts("h1", "h2")
    cluster.do(EvacuateHost("h1"))
    for state in ("ready", "running"):
        cluster.all_say(state)
    cluster.see(h2_im_0=None, h2_im_1=None)
    cluster.pass_time(2 * TIMEOUT_S)
    assert hosts_of(cluster) == {"h1"}
    cluster.see(h2_im_0=on_host("h2", "h2-im-0", pid=2))
    cluster.pass_time(LOOK_S)
    assert places(cluster) == {"h2-im-0"} and cluster.state_of() == "recovering"


def test_without_another_host_it_stays_and_goes_when_one_comes() -> None:
    cluster = on_hosts("h1")
    cluster.do(EvacuateHost("h1"))
    cluster.pass_time(PATIENCE_S + LOOK_S)
    assert cluster.state_of() == "running" and cluster.state.queries["per-ip"].attempt == 0
    cluster.see(h2_im_0=on_host("h2", "h2-im-0"))
    cluster.do(Tick())
    assert cluster.state_of() == "recovering" and hosts_of(cluster) == {"h2"}
