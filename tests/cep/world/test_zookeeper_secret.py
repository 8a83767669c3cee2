"""ZooKeeper's nodes are the cluster's alone: another user of the machine reads and writes none of them."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from cep.config import ROOT, node
from cep.errors import ClusterError
from cep.world.zookeeper import connect
from driver.processes.zookeeper import make_secret
from orchestrator.records import PublisherRecord, SubscriptionRecord
from orchestrator.state.desired_nodes import DEPTHS
from orchestrator.state.events import ClosePublisher, ForgetQuery, OpenPublisher, Subscribe, Unsubscribe
from tests.orchestrator.test_service import deploy, state_is
from tests.support.control_plane import Cluster, Keeper, cluster
from tests.support.waiting import HANG_S


@pytest.fixture
def closed(zookeeper: Keeper, tmp_path: Path) -> Iterator[Cluster]:
    """A cluster with a secret, a query that runs, a publisher and a subscription."""
    make_secret(tmp_path / "secret")
    with cluster(zookeeper.fresh(), tmp_path, zookeeper_secret=str(tmp_path / "secret")) as made:
        service = made.services[0]
        deploy(service)
        state_is(service, "running")
        service.do(
            Subscribe(SubscriptionRecord("out-per-ip", "s", "ipc:///s")), OpenPublisher(PublisherRecord("visits", "p", "ipc:///p"))
        ).result(HANG_S)
        yield made


@pytest.fixture
def stranger(zookeeper: Keeper) -> Iterator[KazooClient]:
    client = connect(zookeeper.server.hosts, 10)
    client.start(timeout=HANG_S)
    yield client
    client.stop()
    client.close()


def test_a_stranger_reads_and_writes_nothing(closed: Cluster, stranger: KazooClient) -> None:
    own = connect(closed.config.zookeeper, 10, closed.config.zookeeper_secret)
    own.start(timeout=HANG_S)
    tree = "/" + closed.config.zookeeper.partition("/")[2]
    paths = list(_all(own, ROOT))
    own.stop()
    own.close()
    kinds = {path.split("/")[2] for path in paths if path != ROOT}
    assert kinds >= DEPTHS.keys() | {"ims", "status", "election", "orchestrator"}
    for path in [tree + path for path in paths]:
        for act in (stranger.get, stranger.get_children, lambda p: stranger.set(p, b"{}"), lambda p: stranger.create(f"{p}/x", b"{}")):
            with pytest.raises(NoAuthError):
                act(path)
        with pytest.raises(NoAuthError):
            stranger.delete(path, recursive=True)
    for act in (lambda: stranger.create(f"{tree}/beside", b""), lambda: stranger.get_children(tree)):
        with pytest.raises(NoAuthError):
            act()


def _all(client: KazooClient, path: str) -> Iterator[str]:
    yield path
    for name in client.get_children(path):
        yield from _all(client, f"{path}/{name}")


def test_a_session_is_not_to_be_had_by_its_number(zookeeper: Keeper) -> None:
    """Whoever could close another's session would take an instance manager's node, and so its life. ZooKeeper asks for its password."""
    own = connect(zookeeper.fresh(), 10)
    own.start(timeout=HANG_S)
    own.create("/alive", b"", ephemeral=True)
    session = own.client_id[0]
    thief = KazooClient(zookeeper.server.hosts, 10, client_id=(session, bytes(16)))
    thief.start(timeout=HANG_S)
    assert thief.client_id[0] != session, "it is given one of its own"
    thief.stop()
    thief.close()
    assert own.exists("/alive") is not None and own.client_id[0] == session
    own.stop()
    own.close()


def test_the_wrong_secret_is_a_strangers(closed: Cluster, tmp_path: Path) -> None:
    make_secret(tmp_path / "another")
    client = connect(closed.config.zookeeper, 10, str(tmp_path / "another"))
    with pytest.raises(NoAuthError):
        client.start(timeout=HANG_S)
    with pytest.raises(NoAuthError):
        client.get(node("queries"))
    client.stop()
    client.close()


def test_the_secret_is_its_owners_alone_and_made_once(tmp_path: Path) -> None:
    make_secret(tmp_path / "secret")
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600
    made = (tmp_path / "secret").read_text()
    assert len(made) == 64
    make_secret(tmp_path / "secret")
    assert (tmp_path / "secret").read_text() == made and [each.name for each in tmp_path.iterdir()] == ["secret"]
    with pytest.raises(ClusterError, match="secret cannot be read"):
        connect("127.0.0.1:1", 10, str(tmp_path / "nowhere"))


def test_nothing_is_left_of_who_published_and_read(closed: Cluster) -> None:
    """A node for every stream ever used stayed."""
    service = closed.services[0]
    service.do(ForgetQuery("per-ip"), ClosePublisher("visits", "p"), Unsubscribe("out-per-ip", "s")).result(HANG_S)
    service.wait(lambda state: "per-ip" not in state.queries or None).result(HANG_S)  # a reader of a query that ends goes with it
    own = connect(closed.config.zookeeper, 10, closed.config.zookeeper_secret)
    own.start(timeout=HANG_S)
    for kind in ("publishers", "subscriptions"):
        assert own.get_children(node(kind)) == []
    assert own.exists(node("publishers", "visits")) is None
    service.do(Subscribe(SubscriptionRecord("out-per-ip", "t", "ipc:///s"))).result(HANG_S)
    assert own.get_children(node("subscriptions", "out-per-ip")) == ["t"]
    own.stop()
    own.close()
