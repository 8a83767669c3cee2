"""The keys of a client in a cluster whose links have CURVE: a pair of its own, handed in under its token, and the members' public key.

The pair counts for an hour and is handed in again long before that. The members' key may be another one from one moment to the next, so
it is asked for every few seconds: until then links to them stand still, and nothing on them is lost.
"""

from __future__ import annotations

from cep.errors import Conflict
from cep.transport.curve import KeyPair, new_pair
from cep.transport.keyring import Keyring
from cep.transport.linked import LinkSockets
from driver.rest import Rest
from driver.streams.data_plane import DataPlane

KEY_S = 3600.0
AGAIN_BEATS = 600
"""Heartbeats, one a second, after which it is handed in again."""
LOOK_BEATS = 3
"""Likewise, between two looks at the members' key."""


class OwnKeys:
    """Made by `handed_in`."""

    def __init__(self, rest: Rest, pair: KeyPair, members: str) -> None:
        self._rest, self._pair, self._members = rest, pair, members
        self._plane: DataPlane | None = None
        self._beats = 0

    @staticmethod
    def handed_in(rest: Rest) -> OwnKeys | None:
        """None: the cluster's links have no keys. Raises ClusterError, Unauthorized."""
        pair = new_pair()
        try:
            return OwnKeys(rest, pair, _hand_in(rest, pair))
        except Conflict:
            return None

    @property
    def keyring(self) -> Keyring:
        return Keyring(self._pair.public, self._pair.secret.text, self._members)

    def keep(self, plane: DataPlane) -> None:
        """They stay good for as long as `plane` is open."""
        self._plane = plane
        plane.on_beat[self] = self._beat

    def _beat(self) -> None:
        self._beats += 1
        if self._beats % AGAIN_BEATS == 0:
            self._rest.aside.ask((self, "again"), lambda: self._take(_hand_in(self._rest, self._pair)))
        elif self._beats % LOOK_BEATS == 0:
            self._rest.aside.ask((self, "look"), lambda: self._take(str(self._rest.get("/keys/members")["members"])))

    def _take(self, members: str) -> None:
        """The members' key is that one now."""
        if members != self._members and self._plane is not None and isinstance(self._plane.sockets, LinkSockets):
            self._members = members
            self._plane.sockets.rekey(self.keyring)


def _hand_in(rest: Rest, pair: KeyPair) -> str:
    """The members' public key."""
    return str(rest.post("/keys", {"public": pair.public, "seconds": KEY_S}, again=True)["members"])
