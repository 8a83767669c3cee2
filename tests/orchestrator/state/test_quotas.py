"""What clients may have of a cluster: over a quota is refused by name, and changes nothing.

Tests `quotas.py`, `grouped.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

import pytest

from cep.errors import Conflict, TooLarge
from cep.model.limits import NAME_CHARS_MAX, SUBSCRIPTIONS_BYTES_MAX, SUBSCRIPTIONS_MAX
from orchestrator.records import PublisherRecord, QueryRecord, SubscriptionRecord
from orchestrator.state.desired_nodes import NODE_BYTES_MAX, encode
from orchestrator.state.events import ClosePublisher, OpenPublisher, StopQuery, SubmitQuery, Subscribe, Unsubscribe
from orchestrator.state.quotas import GROWTH_BYTES, Quotas, check_size
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


def long_ones(stream: str) -> Iterator[Subscribe]:
    """As long as a subscription may be."""
    for i in count():
        yield Subscribe(SubscriptionRecord(stream, f"{i:04}".rjust(NAME_CHARS_MAX, "é"), f"ipc:///{'c' * 90}"))


def filled(cluster: Cluster, stream: str) -> Subscribe:
    """Subscribes until no more are taken: the first that is not."""
    for each in long_ones(stream):
        before = dict(cluster.nodes)
        try:
            cluster.do(each)
        except Conflict as refused:
            assert f"expected at most {SUBSCRIPTIONS_BYTES_MAX:,}; end some" in str(refused) and cluster.nodes == before
            return each
    raise AssertionError


def fits(cluster: Cluster) -> bool:
    return all(encode(path, value) for path, value in cluster.nodes.items())


def test_a_query_can_be_stopped_and_forgotten_whatever_is_subscribed_to_it() -> None:
    cluster = cluster_with(Quotas())
    refused = filled(cluster, "out")
    cluster.submit(query(output="out"))
    for state in ("ready", "running"):
        cluster.all_say(state)
    with pytest.raises(Conflict, match="stream 'out': the subscriptions"):
        cluster.do(refused)
    cluster.do(StopQuery("per-ip"))
    cluster.all_say("stopped")
    record = cluster.nodes["/cep/queries/per-ip"]
    assert record["state"] == "stopped" and len(record["readers"]) > 50 and fits(cluster)
    taken = Subscribe(SubscriptionRecord("out", "0000".rjust(NAME_CHARS_MAX, "é"), "ipc:///shorter"))
    cluster.do(taken)  # one that is there goes on where it was
    cluster.do(Unsubscribe("out", taken.subscription.id))
    cluster.do(refused)


def test_subscriptions_that_wait_for_all_outputs_of_a_query_are_counted_together() -> None:
    cluster = cluster_with(Quotas())
    for stream in ("a", "b"):
        filled(cluster, stream)
    one = query("one", "a")
    both = replace(query("both", "a"), outputs=(*one.outputs, replace(one.outputs[0], stream="b")))
    with pytest.raises(Conflict, match=r"query 'both': the subscriptions to its outputs would take 99\d,\d{3} bytes"):
        cluster.submit(both)
    cluster.submit(one)
    assert fits(cluster)


def test_what_a_query_is_counts_with_its_subscriptions() -> None:
    most = NODE_BYTES_MAX - GROWTH_BYTES
    check_size("q", most, 0)
    check_size("q", most - SUBSCRIPTIONS_BYTES_MAX, SUBSCRIPTIONS_BYTES_MAX)
    with pytest.raises(Conflict, match=r"query 'q': .* 10 bytes, expected at most 9"):
        check_size("q", most - 9, 10)
    with pytest.raises(TooLarge, match=r"query 'q': 750,001 bytes .* expected at most 750,000"):
        check_size("q", most + 1, 0)


def test_of_one_that_is_gone_no_bytes_are_counted() -> None:
    cluster = cluster_with(Quotas())
    one = SubscriptionRecord("out", "s", "ipc:///s")
    for each in (one, replace(one, endpoint="ipc:///elsewhere")):
        cluster.do(Subscribe(each))
    known = cluster.state.subscriptions
    assert known.total("out") == known.size(replace(one, endpoint="ipc:///elsewhere"))
    cluster.do(Unsubscribe("out", "s"))
    assert known.total("out") == 0
