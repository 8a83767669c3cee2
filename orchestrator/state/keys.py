"""Who may speak on the data plane: the members' key pair, and the keys that clients have handed in, each with an end."""

from __future__ import annotations

from typing import Any

from cep.errors import Conflict, NotFound, ProtocolError
from cep.service.keys import ClientKey, members_node, pair_from_json, pair_to_json
from cep.transport.curve import KeyPair
from orchestrator.records import Now
from orchestrator.state.desired_nodes import DesiredNodes
from orchestrator.state.events import OfferMembersKey, RegisterKey, RevokeKey, RotateMembersKey

NO_KEYS = "the data plane of this cluster has no keys, for it was started without; `cep keys` makes some, and --keys DIR gives them"

KEYS_MAX = 10_000
KEYS_OF_TOKEN_MAX = 1000
"""Of one token, so that it leaves room for others."""

SWEEP_S = 30.0
"""How long a key that has ended may still stand there, beyond which none is given to any process."""


class ClusterKeys:
    """Changes what should be true in ZooKeeper below `/keys`."""

    def __init__(self, desired: DesiredNodes) -> None:
        self.members: KeyPair | None = None
        self.clients: dict[str, ClientKey] = {}  # by public key
        self.sweep_at: float | None = None  # steady time; None: there is nothing to sweep
        self._desired = desired

    def take(self, event: OfferMembersKey | RotateMembersKey | RegisterKey | RevokeKey, now: Now) -> None:
        """Raises what the event's method does."""
        match event:
            case OfferMembersKey(pair):
                self.offer(pair)
            case RotateMembersKey(pair):
                self.rotate(pair)
            case RegisterKey(key):
                self.register(key, now)
            case RevokeKey(public):
                self.revoke(public)

    def offer(self, pair: KeyPair) -> None:
        """The members' pair, where there is none yet."""
        if self.members is None:
            self.rotate(pair)

    def rotate(self, pair: KeyPair) -> None:
        """The members have another pair from now on."""
        self.members = pair
        self._desired.put(members_node(), pair_to_json(pair))

    def register(self, key: ClientKey, now: Now) -> None:
        """Raises Conflict: the members have no keys, the key is theirs or another token's, or there are too many."""
        if self.members is None:
            raise Conflict(NO_KEYS)
        there = self.clients.get(key.public)
        if key.public == self.members.public or (there is not None and there.name != key.name):
            raise Conflict("this public key belongs to another owner; make a new pair")
        self.sweep(now)
        own = sum(each.name == key.name for each in self.clients.values())
        if there is None and (len(self.clients) >= KEYS_MAX or own >= KEYS_OF_TOKEN_MAX):
            raise Conflict(
                f"{len(self.clients):,} keys of clients, {own:,} of them of token {key.name!r}; "
                f"expected at most {KEYS_MAX:,} and {KEYS_OF_TOKEN_MAX:,}"
            )
        self._put(key, now)

    def revoke(self, public: str) -> None:
        """Raises NotFound."""
        if self.clients.pop(public, None) is None:
            raise NotFound(f"no client has handed in the key {public!r}, or it has ended")
        self._desired.delete(ClientKey(public, "", (), 0.0).path)

    def sweep(self, now: Now) -> None:
        """Removes what has ended."""
        for key in [key for key in self.clients.values() if key.until <= now.wall]:
            self.revoke(key.public)
        self.sweep_at = now.steady + SWEEP_S if self.clients else None

    def restore(self, path: str, value: Any, now: Now) -> None:
        """Raises ProtocolError: no key, or another's."""
        if path == members_node():
            self.members = pair_from_json(value)
            return
        key = ClientKey.from_json(value)
        if path != key.path:
            raise ProtocolError(f"this belongs to {key.path}, not to {path}")
        self.clients[key.public] = key
        self.sweep_at = now.steady

    def _put(self, key: ClientKey, now: Now) -> None:
        self.clients[key.public] = key
        self.sweep_at = self.sweep_at or now.steady + SWEEP_S
        self._desired.put(key.path, key.to_json())
