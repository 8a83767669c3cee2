"""A link that is refused, for its key is not known there yet: it calls again, and neither end waits for it with a lock in its hand.

Tests `keyring.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cep.transport import wire
from cep.transport.curve import new_pair
from cep.transport.keyring import Keyring, Speaker
from cep.transport.linked import LinkSockets
from cep.transport.wire import Header
from tests.support.waiting import until

MEMBERS, CLIENT = new_pair(), new_pair()
CLIENTS_KEYS = Keyring(CLIENT.public, CLIENT.secret.text, MEMBERS.public)
MEMBERS_KEYS = Keyring(MEMBERS.public, MEMBERS.secret.text, MEMBERS.public)
SPEAKER = Speaker(CLIENT.public, "mine", frozenset({"publish:*"}))


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[tuple[LinkSockets, LinkSockets]]:
    """A member that does not know the client, and the client."""
    member = LinkSockets(f"link://h1@127.0.0.1:0{tmp_path}/m", MEMBERS_KEYS)
    client = LinkSockets(f"link://elsewhere@{tmp_path}/c", CLIENTS_KEYS)
    yield member, client
    client.close()
    member.close()


def test_a_key_that_becomes_known_is_let_in(ends: tuple[LinkSockets, LinkSockets]) -> None:
    member, client = ends
    client.send(member.endpoint, Header(wire.BEAT, 1, sequence=1), b"first")
    end = client._calling[member.endpoint]

    def refused() -> bool:
        member.park(1)
        client.park(1)
        client.send(member.endpoint, Header(wire.BEAT, 1, sequence=2), b"more")
        return end.watch.refused

    until(refused)
    member.rekey(replace(MEMBERS_KEYS, clients={CLIENT.public: SPEAKER}))

    def heard() -> object:
        client.park(1)
        member.park(1)
        return member.receive()

    header, body = until(heard)  # type: ignore[misc]
    assert (header.sequence, bytes(body)) == (1, b"first") and member.speaker == SPEAKER._replace(endpoint=client.endpoint)
