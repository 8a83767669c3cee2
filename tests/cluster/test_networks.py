"""Three hosts in network namespaces, with keys, tokens and TLS, and a client on none: answers as of one host, and cuts under load.

Tests `benchmarks/faults/cuts.py`, `benchmarks/faults/hosts.py`, `benchmarks/faults/namespaces.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.faults.cuts import LONG_SESSION_S, PacedFlow, cut
from benchmarks.faults.hosts import HostCluster, host_cluster
from benchmarks.faults.namespaces import HostNetwork, network
from driver import QueryFailed
from tests.cluster.test_moves import Flow as ChainedFlow
from tests.cluster.test_moves import Reading, chained
from tests.cluster.test_moves import expected as chained_answers
from tests.support.host_network import net
from tests.support.joined_hosts import where
from tests.support.visits import answers, expected, rows, windows
from tests.support.visits import visits as declared
from tests.support.waiting import until

__all__ = ["net"]  # a fixture
NETWORK = "tn"
pytestmark = pytest.mark.long  # nine processes start on three hosts; `test_hosts.py` has the same on loopback

RATE = 50_000
SESSION_S = 5.0


@pytest.fixture(scope="module")
def cluster(net: HostNetwork, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostCluster]:
    shared = ("--checkpoint-folder", str(tmp_path_factory.mktemp("checkpoints")))
    with host_cluster(net, tmp_path_factory.mktemp("keys"), SESSION_S, first=shared) as made:
        yield made


def test_three_hosts_answer_as_one(cluster: HostCluster) -> None:
    given = rows(3000)
    with cluster.client() as client:
        running = client.deploy(windows("three", declared("three")))
        assert {im.partition(".")[0] for im in where(client, "three")} == {"h1", "h2", "h3"}
        found = running.subscribe("three.per_ip")
        with client.publisher("three.visits") as out:
            for begin in range(0, len(given), 100):
                out.send(given[begin : begin + 100])
        assert answers(found) == expected(given)
        running.delete()


def test_a_cut_is_not_seen(cluster: HostCluster) -> None:
    found = cut(cluster, "cut-1", RATE, 1.0)
    assert found.is_right, found.error or found


@pytest.mark.long
@pytest.mark.parametrize(("seconds", "out", "into"), [(1.0, True, False), (1.0, False, True), (3.0, True, True), (3.0, True, False)])
def test_nor_one_way(cluster: HostCluster, seconds: float, out: bool, into: bool) -> None:
    """Of a session of 5 s ZooKeeper may have been heard of a third before the cut."""
    found = cut(cluster, f"cut-{seconds:g}-{out}-{into}".lower(), RATE, seconds, out, into)
    assert found.is_right, found.error or found


@pytest.mark.long
def test_a_cut_of_14_s_within_a_session_of_20(net: HostNetwork, tmp_path_factory: pytest.TempPathFactory) -> None:
    with network("tl", 3) as other, host_cluster(other, tmp_path_factory.mktemp("keys"), LONG_SESSION_S) as made:
        found = cut(made, "cut-14", RATE, 14.0)
    assert found.is_right, found.error or found


def test_a_cut_that_is_longer_than_the_session_fails_the_query(cluster: HostCluster) -> None:
    """It never looks complete: neither the query nor its reader ends as if it were."""
    with cluster.client() as client:
        flow = PacedFlow(client, "torn", RATE)
        until(lambda: flow.found.counted > 0)
        cluster.net.cut(2)
        try:
            with pytest.raises(QueryFailed, match=r"'h2\.im-0' \(process \d+\) is gone: its ZooKeeper session ended"):
                flow.running.wait()
        finally:
            cluster.net.heal(2)
        found = flow.end()
        assert not found.ended and "is gone: its ZooKeeper session ended" in found.error
        flow.running.delete()
        until(lambda: {"h2.im-0"} <= {each["id"] for each in client.instance_managers()})
        until(lambda: "h2" in {each["name"] for each in client.hosts()})


def test_keys_are_rotated_and_a_host_leaves_under_load(cluster: HostCluster) -> None:
    with cluster.client() as client:
        running = client.deploy(chained("rotated"))
        reading, flow = Reading(running.subscribe("rotated.out")), ChainedFlow(client.publisher("rotated.in"))
        reading.more(2000)
        client.rotate_members_key()
        reading.more(2000)
        cluster.leave(3)
        assert not any(im.startswith("h3") for im in where(client, "rotated"))
        reading.more(2000)
        sent = flow.end()
        reading.join(60)
        assert reading.error is None and reading.answers == chained_answers(range(sent))
        running.delete()
    cluster.join(3)


def test_what_recovers_goes_on_elsewhere_when_its_host_is_evacuated(cluster: HostCluster) -> None:
    with cluster.client() as client:
        running = client.deploy(chained("kept").options(recover="on-commit", checkpoint="500ms"), start=False)
        reading = Reading(running.subscribe("kept.out"))
        running.start()
        assert any(im.startswith("h3") for im in where(client, "kept"))
        flow = ChainedFlow(client.publisher("kept.in"))
        reading.more(2000)
        assert client.evacuate("h3") == []
        assert running.status()["recovery"]["attempts"] == 1 and not any(im.startswith("h3") for im in where(client, "kept"))
        reading.more(2000)
        sent = flow.end()
        reading.join(60)
        assert reading.error is None and reading.answers == chained_answers(range(sent))
        running.delete()
    cluster.leave(3)
    cluster.join(3)
