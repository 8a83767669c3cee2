"""Who may speak to an instance manager follows what is handed in over REST, while it runs: the real ZooKeeper, real links on loopback.

Tests `key_nodes.py`, `driver/streams/own_keys.py`, `orchestrator/rest/key_routes.py`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cep.service.access import Role
from cep.service.key_nodes import KeyNodes
from cep.service.keys import keyring_of, read_pair
from cep.service.token_file import add_token, remove_token
from cep.transport import wire
from cep.transport.curve import KeyPair, new_pair
from cep.transport.keyring import Keyring
from cep.transport.linked import LinkSockets
from cep.transport.wire import Header
from cep.world.zookeeper import ZooKeeperSession
from driver.cluster import Cluster as Client
from driver.streams.data_plane import DataPlane
from driver.streams.own_keys import OwnKeys
from orchestrator.rest.key_routes import follow_tokens
from orchestrator.state.events import RevokeKey
from tests.cep.service.test_tls import keys as made_keys
from tests.orchestrator.rest.test_app import Server
from tests.support.control_plane import Keeper, cluster
from tests.support.waiting import HANG_S, until


class Member:
    """A process of the cluster with links, whose keys are ZooKeeper's."""

    def __init__(self, zookeeper: str, folder: Path, members: str) -> None:
        self.sockets = LinkSockets(f"link://h1@127.0.0.1:0{folder}/im", keyring_of(read_pair(Path(members))))
        self.rings: list[Keyring | None] = []
        self.changed = threading.Event()
        self.changed.set()
        self.session = ZooKeeperSession(zookeeper, 5.0)
        connected = threading.Event()
        self.session.start(lambda connection: connected.set())
        assert connected.wait(HANG_S)
        self.nodes = KeyNodes(self.session, self.changed.set)

    def look(self) -> None:
        if self.changed.is_set():
            self.changed.clear()
            ring = self.nodes.read()
            self.rings.append(ring)
            if ring is not None:
                self.sockets.rekey(ring)

    def hears(self) -> str | None:
        """The name of what has spoken, if anything has."""
        self.look()
        if self.sockets.receive() is None:
            return None
        speaker = self.sockets.speaker
        return None if speaker is None else speaker.name

    def close(self) -> None:
        self.sockets.close()
        self.session.close()


@pytest.fixture
def parts(zookeeper: Keeper, tmp_path: Path) -> Iterator[tuple[Member, Server, Client]]:
    members = str(made_keys(tmp_path / "keys").members)
    tokens = tmp_path / "tokens"
    token = add_token(tokens, "me", [Role("publish", "a")], "").text
    with cluster(zookeeper.fresh(), tmp_path, 0, rest_port=0, tokens=str(tokens), members=members) as running:
        server = Server(running.services[0], running.config)
        member = Member(running.config.zookeeper, tmp_path, members)
        with Client(server.url, token) as client:
            yield member, server, client
        member.close()
        server.close()


def speak(member: Member, pair: KeyPair, server: str, folder: Path) -> LinkSockets:
    """A client that has said something, on another host."""
    sockets = LinkSockets(f"link://h2@{folder}/{pair.public.encode().hex()[:16]}", Keyring(pair.public, pair.secret.text, server))
    sockets.send(member.sockets.endpoint, Header(wire.CREDIT, 1))
    return sockets


def test_a_key_counts_when_it_is_handed_in_and_no_more_when_it_is_revoked(parts: tuple[Member, Server, Client], tmp_path: Path) -> None:
    member, server, client = parts
    pair = new_pair()
    told = client.register_key(pair.public)
    assert told["roles"] == ["publish:a"] and told["name"] == "me"
    until(lambda: member.look() or (member.rings and member.rings[-1] and pair.public in member.rings[-1].clients))
    mine = speak(member, pair, told["members"], tmp_path)
    try:
        assert until(lambda: (mine.receive() and None) or member.hears()) == "me"  # what has links looks at them, or nothing leaves
    finally:
        mine.close()  # or ZeroMQ waits for it for ever
    server.api.service.do(RevokeKey(pair.public)).result(HANG_S)
    until(lambda: member.look() or pair.public not in member.rings[-1].clients)  # type: ignore[union-attr]


def test_keys_follow_their_tokens(parts: tuple[Member, Server, Client]) -> None:
    """What may do less has keys that may do less, and what is removed has none."""
    _, server, client = parts
    tokens, pair = Path(str(server.api.config.tokens)), new_pair()
    client.register_key(pair.public)

    def roles() -> tuple[str, ...] | None:
        asyncio.run(follow_tokens(server.api))
        key = server.api.service.ask(lambda state: state.keys.clients.get(pair.public)).result(HANG_S)
        return None if key is None else key.roles

    assert roles() == ("publish:a",)
    remove_token(tokens, "me")
    add_token(tokens, "me", [Role("subscribe", "b")], "")
    assert roles() == ("subscribe:b",)
    remove_token(tokens, "me")
    assert roles() is None


def test_the_members_pair_is_another_while_all_runs(parts: tuple[Member, Server, Client]) -> None:
    member, server, client = parts
    until(lambda: member.look() or (member.rings and member.rings[-1]))
    before = member.rings[-1]
    with Client(server.url, _admin(server)) as admin:
        public = admin.rotate_members_key()
    until(lambda: member.look() or (member.rings[-1] is not None and member.rings[-1].public == public))
    assert before is not None and before.public != public and client.rest.get("/keys/members") == {"members": public}


def _admin(server: Server) -> str:
    return add_token(Path(str(server.api.config.tokens)), "admin", [Role("admin")], "").text


def test_a_node_that_is_no_key_shuts_no_other_out(parts: tuple[Member, Server, Client]) -> None:
    member, _, client = parts
    pair = new_pair()
    client.register_key(pair.public)
    member.session.create("/cep/keys/odd", b"{")
    until(lambda: member.look() or (member.rings and member.rings[-1] and pair.public in member.rings[-1].clients))


def test_a_client_follows_the_members_key_while_it_is_open(parts: tuple[Member, Server, Client], tmp_path: Path) -> None:
    member, server, client = parts
    keys = OwnKeys.handed_in(client.rest)
    assert keys is not None
    first = keys.keyring
    until(lambda: member.look() or (member.rings and member.rings[-1] and first.public in member.rings[-1].clients))
    plane = DataPlane(LinkSockets(f"link://h2@{tmp_path}/own", first))
    try:
        keys.keep(plane)
        with Client(server.url, _admin(server)) as admin:
            public = admin.rotate_members_key()
        assert first.server != public

        def follows() -> bool:
            plane.on_beat[keys]()  # once a second, by the plane's thread
            return keys.keyring.server == public

        until(follows)
        assert (keys.keyring.public, keys.keyring.secret) == (first.public, first.secret)
    finally:
        plane.close()
