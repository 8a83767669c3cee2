"""The keys of the data plane in the pure core: whose they are, how many, until when."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cep.config import node
from cep.errors import Conflict, NotFound
from cep.service.keys import ClientKey, client_node, members_node, pair_to_json
from cep.transport.curve import KeyPair, new_pair
from orchestrator.records import Now
from orchestrator.state import keys as keys_module
from orchestrator.state.cluster_state import ClusterState
from orchestrator.state.events import Event, OfferMembersKey, Put, RegisterKey, RevokeKey, RotateMembersKey, Tick
from orchestrator.state.keys import SWEEP_S

MEMBERS, OTHER = new_pair(), new_pair()
PUBLIC = [new_pair().public for _ in range(4)]


class Cluster:
    """A state, and the nodes that its commands make."""

    def __init__(self, nodes: dict[str, Any] | None = None, members: KeyPair | None = MEMBERS) -> None:
        self.state, self.nodes, self.now = ClusterState(6.0), dict(nodes or {}), Now(1000.0, 50_000.0)
        self.obey(self.state.restore(self.nodes, self.now))
        if members is not None:
            self.do(OfferMembersKey(members))

    def do(self, event: Event) -> None:
        self.obey(self.state.handle(event, self.now))

    def obey(self, commands: list[Any]) -> None:
        for command in commands:
            if isinstance(command, Put):
                self.nodes[command.path] = json.loads(json.dumps(command.value))
            else:
                del self.nodes[command.path]

    def register(self, public: str, name: str = "me", until: float = 60_000.0) -> None:
        self.do(RegisterKey(ClientKey(public, name, ("publish:a",), until)))

    def passes(self, seconds: float) -> None:
        self.now = Now(self.now.steady + seconds, self.now.wall + seconds)
        if (deadline := self.state.deadline) is not None and deadline <= self.now.steady:
            self.do(Tick())


def test_a_key_stands_there_until_it_ends() -> None:
    cluster = Cluster()
    cluster.register(PUBLIC[0], until=50_100.0)
    cluster.register(PUBLIC[1], until=50_500.0)
    assert cluster.nodes[client_node(PUBLIC[0])] == {"public": PUBLIC[0], "name": "me", "roles": ["publish:a"], "until": 50_100.0}
    cluster.passes(99)
    assert client_node(PUBLIC[0]) in cluster.nodes
    cluster.passes(SWEEP_S + 1)
    assert client_node(PUBLIC[0]) not in cluster.nodes and client_node(PUBLIC[1]) in cluster.nodes
    cluster.passes(500)
    assert cluster.nodes.keys() == {members_node()} and cluster.state.deadline is None


def test_handed_in_again_it_goes_on() -> None:
    cluster = Cluster()
    cluster.register(PUBLIC[0], until=50_100.0)
    cluster.register(PUBLIC[0], until=50_900.0)
    cluster.passes(200)
    assert cluster.nodes[client_node(PUBLIC[0])]["until"] == 50_900.0


def test_a_key_is_that_of_who_handed_it_in_first() -> None:
    cluster = Cluster()
    cluster.register(PUBLIC[0])
    for public, name in ((PUBLIC[0], "other"), (MEMBERS.public, "me")):
        with pytest.raises(Conflict, match="belongs to another owner"):
            cluster.register(public, name)
    cluster.do(RevokeKey(PUBLIC[0]))
    with pytest.raises(NotFound):
        cluster.do(RevokeKey(PUBLIC[0]))
    cluster.register(PUBLIC[0], "other")


def test_one_token_leaves_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys_module, "KEYS_OF_TOKEN_MAX", 2)
    monkeypatch.setattr(keys_module, "KEYS_MAX", 3)
    cluster = Cluster()
    cluster.register(PUBLIC[0], until=50_010.0)
    cluster.register(PUBLIC[1])
    with pytest.raises(Conflict, match="2 of them of token 'me'"):
        cluster.register(PUBLIC[2])
    cluster.register(PUBLIC[1])  # which it has already
    cluster.register(PUBLIC[2], "other")
    with pytest.raises(Conflict, match="3 keys of clients"):
        cluster.register(PUBLIC[3], "third")
    cluster.now = Now(1011.0, 50_011.0)  # one has ended, if it is not swept yet
    cluster.register(PUBLIC[3])


def test_the_members_have_one_pair_until_they_are_given_another() -> None:
    cluster = Cluster()
    cluster.do(OfferMembersKey(OTHER))
    assert cluster.nodes[members_node()] == pair_to_json(MEMBERS)
    cluster.do(RotateMembersKey(OTHER))
    assert cluster.nodes[members_node()] == pair_to_json(OTHER) and cluster.state.keys.members == OTHER


def test_without_members_keys_no_client_has_any() -> None:
    with pytest.raises(Conflict, match=r"has no keys.*--keys DIR"):
        Cluster(members=None).register(PUBLIC[0])


def test_another_orchestrator_goes_on_with_them() -> None:
    first = Cluster()
    first.register(PUBLIC[0], until=50_100.0)
    second = Cluster(first.nodes, members=OTHER)
    assert second.state.keys.members == MEMBERS and second.state.keys.clients == first.state.keys.clients
    second.passes(101)
    assert second.nodes.keys() == {members_node()}


def test_what_is_no_key_is_set_aside_and_shows_no_secret() -> None:
    key = ClientKey(PUBLIC[0], "me", (), 60_000.0)
    nodes = {
        members_node(): {"public": MEMBERS.public, "secret": "s" * 40},
        client_node(PUBLIC[1]): key.to_json(),  # another's place
        node("keys", "x"): {"public": 1},
    }
    cluster = Cluster(nodes, members=None)
    aside = cluster.state.quarantine.nodes
    assert aside.keys() == nodes.keys() and "ssss" not in aside[members_node()]
    assert "belongs to" in aside[client_node(PUBLIC[1])] and not cluster.state.keys.clients
