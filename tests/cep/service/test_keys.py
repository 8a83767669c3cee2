"""Keys of the data plane as values: z85 and hexadecimal, pairs, what stands in ZooKeeper."""

from __future__ import annotations

import pytest

from cep.errors import ClusterError, DataError, ProtocolError
from cep.service.keys import ClientKey, client_node, keyring_of, members_node, pair_from_json, pair_to_json
from cep.transport.curve import as_hex, new_pair, pair_of, public_key

PAIR, OTHER = new_pair(), new_pair()


def test_a_key_in_z85_and_in_hex_is_the_same() -> None:
    assert public_key(PAIR.public) == public_key(as_hex(PAIR.public)) == public_key(as_hex(PAIR.public).upper()) == PAIR.public
    assert client_node(PAIR.public) == f"/cep/keys/{as_hex(PAIR.public)}" and members_node() == "/cep/keys/members"


@pytest.mark.parametrize(
    "text",
    ["", "x", PAIR.public[:-1], PAIR.public + "0", as_hex(PAIR.public)[:-2], "é" * 40, " " * 40, "~" * 40],
    ids=["empty", "short", "a character less", "a character more", "hex and a byte less", "not ASCII", "blank", "not z85"],
)
def test_what_is_no_key(text: str) -> None:
    with pytest.raises(DataError, match="expected a CURVE key: 40 characters of z85"):
        public_key(text)


def test_a_pair_belongs_together() -> None:
    assert pair_of(as_hex(PAIR.public), PAIR.secret.text) == PAIR == pair_from_json(pair_to_json(PAIR))
    with pytest.raises(ClusterError, match="the public key is not that of the secret one"):
        pair_of(PAIR.public, OTHER.secret.text)


@pytest.mark.parametrize("document", [None, [], {}, {"public": PAIR.public}, {"public": 1, "secret": PAIR.secret.text}])
def test_what_is_no_pair_is_not_shown(document: object) -> None:
    with pytest.raises(ProtocolError, match="expected a key pair") as refused:
        pair_from_json(document)
    assert PAIR.secret.text not in str(refused.value)


def test_a_clients_key_and_back() -> None:
    key = ClientKey(PAIR.public, "me", ("publish:a", "read"), 10.0)
    assert ClientKey.from_json(key.to_json()) == key and key.path == client_node(PAIR.public)
    for change in ({"public": "x"}, {"public": as_hex(PAIR.public)}, {"roles": ["root"]}, {"until": "x"}, {"name": 1}):
        with pytest.raises(ProtocolError):
            ClientKey.from_json(key.to_json() | change)


def test_a_members_keyring() -> None:
    ring = keyring_of(PAIR, [ClientKey(OTHER.public, "me", ("publish:a",), 10.0)])
    member, client = ring.speaker(PAIR.public), ring.speaker(OTHER.public)
    assert member is not None and member.is_member and ring.server == ring.public and PAIR.secret.text not in repr(ring)
    assert client is not None and (client.name, client.until) == ("me", 10.0)
    assert client.may("publish", "a") and not client.may("publish", "b") and not client.may("subscribe", "a")
    assert ring.speaker(new_pair().public) is None
