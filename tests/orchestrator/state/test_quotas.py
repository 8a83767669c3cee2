"""What clients may have of a cluster: over a quota is refused by name, and changes nothing."""

from __future__ import annotations

import pytest

from cep.errors import Conflict
from cep.model.limits import SUBSCRIPTIONS_MAX
from orchestrator.records import PublisherRecord, QueryRecord, SubscriptionRecord
from orchestrator.state.events import ClosePublisher, OpenPublisher, StopQuery, SubmitQuery, Subscribe
from orchestrator.state.quotas import Quotas
from tests.orchestrator.state.test_cluster_state import TIMEOUT_S, Cluster, ClusterState, query


def cluster_with(quotas: Quotas) -> Cluster:
    made = Cluster()
    made.state = ClusterState(TIMEOUT_S, quotas=quotas)
    made.obey(made.state.restore({}, made.now))
    made.see()
    return made


def test_queries_of_the_cluster_that_are_not_over() -> None:
    cluster = cluster_with(Quotas(queries_max=2))
    cluster.submit(query("a", "a"))
    cluster.submit(query("b", "b"))
    before = dict(cluster.nodes)
    with pytest.raises(Conflict, match=r"query 'c': expected at most 2 queries in the cluster \(queries_max\); .* number 3"):
        cluster.submit(query("c", "c"))
    assert cluster.nodes == before
    cluster.do(StopQuery("a"))
    cluster.all_say("stopped", "a")
    assert cluster.state.queries["a"].state == "stopped"
    cluster.submit(query("c", "c"))


def test_queries_of_one_client_count_its_own() -> None:
    cluster = cluster_with(Quotas(queries_of_client_max=1))
    cluster.do(SubmitQuery(cluster.plan(query("a", "a")), owner="anna"))
    assert QueryRecord.from_json(cluster.nodes["/cep/queries/a"]).owner == "anna"
    with pytest.raises(Conflict, match=r"query 'b': expected at most 1 queries of a client"):
        cluster.do(SubmitQuery(cluster.plan(query("b", "b")), owner="anna"))
    cluster.do(SubmitQuery(cluster.plan(query("b", "b")), owner="bert"))


def test_publishers_of_one_stream() -> None:
    cluster = cluster_with(Quotas(publishers_max=2))
    opened = [PublisherRecord("visits", name, f"ipc:///{name}") for name in ("p", "q", "r")]
    for each in opened[:2]:
        cluster.do(OpenPublisher(each))
    cluster.do(OpenPublisher(opened[0]))  # the same goes on where it was
    before = dict(cluster.nodes)
    with pytest.raises(Conflict, match=r"stream 'visits': expected at most 2 publishers \(publishers_max\)"):
        cluster.do(OpenPublisher(opened[2]))
    assert cluster.nodes == before
    cluster.do(OpenPublisher(PublisherRecord("clicks", "r", "ipc:///r")))
    cluster.do(ClosePublisher("visits", "p"))
    cluster.do(OpenPublisher(opened[2]))


def test_publishers_that_are_opened_together_are_counted_together() -> None:
    cluster = cluster_with(Quotas(publishers_max=2))
    cluster.do(OpenPublisher(PublisherRecord("visits", "p", "ipc:///p")))
    cluster.state.check_publishers([PublisherRecord("visits", name, "ipc:///c") for name in ("p", "q")])
    with pytest.raises(Conflict, match="publishers_max"):
        cluster.state.check_publishers([PublisherRecord("visits", name, "ipc:///c") for name in ("q", "r")])


def test_subscriptions_of_one_stream() -> None:
    cluster = cluster_with(Quotas(subscribers_max=1))
    cluster.do(Subscribe(SubscriptionRecord("out", "s", "ipc:///s")))
    cluster.do(Subscribe(SubscriptionRecord("out", "s", "ipc:///t")))
    with pytest.raises(Conflict, match=r"stream 'out': expected at most 1 subscriptions \(subscribers_max\)"):
        cluster.do(Subscribe(SubscriptionRecord("out", "t", "ipc:///t")))
    assert {each.get("subscribers_max") for each in cluster.running().assignments().values()} == {1}, "of clients that come later"
    with pytest.raises(Conflict, match=f"at most {SUBSCRIPTIONS_MAX:,}"):
        Quotas(subscribers_max=10 * SUBSCRIPTIONS_MAX).check_subscribers("out", SUBSCRIPTIONS_MAX + 1)
