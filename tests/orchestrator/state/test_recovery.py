"""Where a query that recovers goes on after everything was started anew, and when."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from orchestrator.state.events import ClusterCommand, Delete, Put
from tests.orchestrator.state.test_cluster_state import IMS, TIMEOUT_S, Cluster, manager, query


class WithoutDisk(Cluster):
    """What is done in files leaves no trace."""

    def obey(self, commands: Iterable[ClusterCommand]) -> None:
        super().obey(each for each in commands if isinstance(each, Put | Delete))


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
