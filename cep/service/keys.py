"""The keys of the data plane as they stand in ZooKeeper, below `/keys`: that of the cluster's members, and those of clients.

`members` holds the pair that all processes of the cluster share; the others are named by a client's public key in hex, and say what its
owner may do until when. No process reads them without the cluster's secret.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from cep.config import node
from cep.errors import ClusterError, DataError, ProtocolError
from cep.model.shapes import read_shape
from cep.service.access import Access, Role
from cep.transport.curve import KeyPair, as_hex, pair_of, public_key
from cep.transport.keyring import Keyring, Speaker

MEMBERS = "members"
KEY_S, KEY_S_MIN, KEY_S_MAX = 3600.0, 60.0, 86_400.0
"""How long a client's key counts, unless it asks for less or more. A client hands it in again before that."""


def members_node() -> str:
    return node("keys", MEMBERS)


def client_node(public: str) -> str:
    """Of a public key in z85."""
    return node("keys", as_hex(public))


@dataclass(frozen=True, slots=True)
class ClientKey:
    """A client's key: what its owner may do, as the token could by which it was handed in.

    Args:
        public: in z85.
        name: of the token.
        roles: as `cep.service.access.Role` writes them.
        until: seconds since 1970.
    """

    public: str
    name: str
    roles: tuple[str, ...]
    until: float

    @property
    def path(self) -> str:
        return client_node(self.public)

    @property
    def access(self) -> Access:
        """Raises ClusterError: one of the roles is none."""
        return Access(self.name, tuple(map(Role.parse, self.roles)))

    def to_json(self) -> dict[str, Any]:
        return {"public": self.public, "name": self.name, "roles": list(self.roles), "until": self.until}

    @staticmethod
    def from_json(document: Any) -> ClientKey:
        """Raises ProtocolError: that is no key of a client."""
        found = read_shape(ClientKey, document)
        try:
            if public_key(found.public) != found.public:
                raise ProtocolError("the public key is not in z85")
            _ = found.access
        except (DataError, ClusterError) as error:
            raise ProtocolError(str(error)) from None
        return found


def pair_to_json(pair: KeyPair) -> dict[str, Any]:
    return {"public": pair.public, "secret": pair.secret.text}


def pair_from_json(document: Any) -> KeyPair:
    """Raises ProtocolError: that is no key pair. It does not say what it is, for half of it is secret."""
    try:
        assert isinstance(document, Mapping)
        return pair_of(str(document["public"]), str(document["secret"]))
    except (AssertionError, KeyError, ClusterError):
        raise ProtocolError("expected a key pair with `public` and `secret`, in z85") from None


def read_pair(file: Path) -> KeyPair:
    """What `cep keys` has made for the members. Raises ClusterError: it cannot be read."""
    try:
        return pair_from_json(json.loads(file.read_bytes()))
    except OSError as error:
        raise ClusterError(f"the members' key pair cannot be read: {file}: {error.strerror}") from None
    except (ValueError, ProtocolError):
        raise ClusterError(f"{file} holds no key pair; remove it, and `cep keys` makes another one") from None


def keyring_of(pair: KeyPair, clients: Iterable[ClientKey] = ()) -> Keyring:
    """What a member lets speak."""
    known = {key.public: Speaker(key.public, key.name, frozenset(key.roles), key.until) for key in clients}
    return Keyring(pair.public, pair.secret.text, pair.public, MappingProxyType(known))
