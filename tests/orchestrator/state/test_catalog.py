"""Subscriptions of queries that recover, as the orchestrator knows them."""

from __future__ import annotations

import pytest

from cep.config import instance_node, node
from cep.errors import NotFound
from orchestrator.records import Status, SubscriptionRecord
from orchestrator.state.events import StatusesSeen, Subscribe, Unsubscribe
from tests.orchestrator.state.test_recovery import WithoutDisk, at_home


def test_a_subscription_that_is_resumed_has_another_holder() -> None:
    cluster = at_home()
    first, second = (SubscriptionRecord("per_ip", "s1", f"ipc:///{claim}", resumable=True, claim=claim) for claim in ("a", "b"))

    def holders() -> set[tuple[str, int]]:
        return {(each["endpoint"], each["holder"]) for a in cluster.assignments().values() for each in a["subscriptions"]}

    with pytest.raises(NotFound, match="has no subscription 's1' to resume: it was given up or dropped, or its query is over"):
        cluster.do(Subscribe(second, resumes=True))
    cluster.do(Subscribe(first))
    cluster.do(Subscribe(first))  # it has asked again
    assert holders() == {("ipc:///a", 0)}
    cluster.do(Subscribe(second, resumes=True))
    cluster.do(Subscribe(second, resumes=True))
    assert holders() == {("ipc:///b", 1)}
    cluster.do(Unsubscribe("per_ip", "s1", "a"))  # it was thought dead, and gives up what is not its own any more
    assert holders() == {("ipc:///b", 1)}
    cluster.do(Subscribe(first, resumes=True))
    assert holders() == {("ipc:///a", 2)}
    cluster.do(Unsubscribe("per_ip", "s1", "a"))
    assert not holders()


def lost(cluster: WithoutDisk, *there: tuple[str, str, str], attempt: int = 0) -> None:
    """The instance that puts `per_ip` out has these no more."""
    instance = next(each for each in cluster.state.plans["per-ip"].instances if each.subquery == "SQ2")
    status = Status(cluster.state.queries["per-ip"].epoch, "running", attempt=attempt, lost=there)
    cluster.do(StatusesSeen(instance.im, {instance_node("per-ip", "SQ2", instance.index): status}))


def subscribed(cluster: WithoutDisk) -> set[str]:
    """The subscriptions that its instances are told of, which are those that are written."""
    told = {each["id"] for assignment in cluster.assignments().values() for each in assignment["subscriptions"]}
    below = node("subscriptions", "per_ip") + "/"
    assert told == {path.removeprefix(below) for path in cluster.nodes if path.startswith(below)}
    return told


def test_one_that_an_instance_has_dropped_is_ended_at_all_and_counts_no_more() -> None:
    cluster = at_home()
    for name in ("s1", "s2", "s3"):
        cluster.do(Subscribe(SubscriptionRecord("per_ip", name, f"ipc:///{name}")))
    lost(cluster, ("per_ip", "s1", "ipc:///s1"), ("per_ip", "s9", "ipc:///s9"), ("other", "s2", "ipc:///s2"))
    assert subscribed(cluster) == {"s2", "s3"}
    lost(cluster, ("per_ip", "s2", "ipc:///before"))
    assert subscribed(cluster) == {"s2", "s3"}, "another process has it by now"
    lost(cluster, ("per_ip", "s2", "ipc:///s2"), attempt=1)
    assert subscribed(cluster) == {"s2", "s3"}, "it says nothing of this attempt"


def test_the_next_leader_hears_of_it_too() -> None:
    before = at_home()
    before.do(Subscribe(SubscriptionRecord("per_ip", "s1", "ipc:///s1")))
    after = WithoutDisk()
    after.nodes, after.managers = before.nodes, before.managers
    after.obey(after.state.restore(before.nodes, after.now))
    after.see()
    lost(after, ("per_ip", "s1", "ipc:///s1"))
    assert subscribed(after) == set()
