"""Which keys may speak on the data plane, and as what: CURVE's key pairs, and what their owners may do.

The cluster's members (instance managers, orchestrators, the metric server) share one key pair. A client has a pair of its own, whose public
key was handed in at the door. A keyring is a value and is replaced whole, also while everything runs (`LinkSockets.rekey`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

MEMBER = "member"
ADMIN = "admin"
ALL_STREAMS = "*"


class Speaker(NamedTuple):
    """Whose key a message was sent under. `key`: the public one, Z85; `until`: the wall clock's second at which it ends, None: it does
    not; `endpoint`: that of the process that speaks, once its link is there."""

    key: str
    name: str
    roles: frozenset[str]
    until: float | None = None
    endpoint: str = ""

    @property
    def is_member(self) -> bool:
        """Is it a process of the cluster itself?"""
        return MEMBER in self.roles

    def holds_at(self, wall_s: float) -> bool:
        """Has its key not ended by then?"""
        return self.until is None or wall_s <= self.until

    def may(self, role: str, stream: str = "") -> bool:
        """Has it the role (`publish`, `subscribe`), for that stream?"""
        wanted = {MEMBER, ADMIN, role, f"{role}:{stream}", f"{role}:{ALL_STREAMS}"} if stream else {MEMBER, ADMIN, role}
        return not self.roles.isdisjoint(wanted)


@dataclass(frozen=True)
class Keyring:
    """The keys of one process.

    Args:
        public, secret: our own pair, as `zmq.curve_keypair` makes it: 40 characters of Z85 each. Of a member, that of all members.
        server: the members' public key, which those that we call have to prove.
        clients: what speaks to us besides members, by public key. A client has none.
    """

    public: str
    secret: str = field(repr=False)
    server: str
    clients: Mapping[str, Speaker] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def pairs(self) -> tuple[str, str, str]:
        """What a connection is made with."""
        return self.public, self.secret, self.server

    def speaker(self, key: str) -> Speaker | None:
        """Whose that public key is; None: it may not speak."""
        if key == self.server:
            return Speaker(key, MEMBER, frozenset((MEMBER,)))
        return self.clients.get(key)
