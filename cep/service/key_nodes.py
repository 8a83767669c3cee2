"""Which keys may speak to this process, as ZooKeeper has them, under watches: the members' pair, and those of clients."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

from cep.config import node
from cep.errors import ProtocolError
from cep.service.keys import ClientKey, keyring_of, members_node, pair_from_json
from cep.transport.curve import KeyPair
from cep.transport.keyring import Keyring
from cep.world.coordination import Coordination, NodeRefused, Znode

LOG = logging.getLogger(__name__)


class KeyNodes:
    """Reads them all at once. `changed` is called when that is to be done again; no two of its calls are for one look."""

    def __init__(self, coordination: Coordination, changed: Callable[[], None]) -> None:
        self._coordination = coordination
        self._watch = lambda path: changed()

    def read(self) -> Keyring | None:
        """Of this member; None: the members have no keys, or none that can be read. Raises ConnectionLost.

        Of a key of a client that cannot be read no other suffers: it may not speak.
        """
        self._coordination.ensure([node("keys")])
        [names] = self._coordination.children([node("keys")], self._watch)
        if names is None or isinstance(names, NodeRefused):
            LOG.error("%s cannot be read: %s", node("keys"), names)
            return None
        paths = [f"{node('keys')}/{name}" for name in names]
        there = dict(zip(paths, self._coordination.get(paths, self._watch), strict=True))
        pair = self._pair(there.pop(members_node(), None))
        clients = [key for path, found in there.items() if (key := self._client(path, found)) is not None]
        return None if pair is None else keyring_of(pair, clients)

    def _pair(self, found: Znode | NodeRefused | None) -> KeyPair | None:
        if not isinstance(found, Znode):
            return None
        try:
            return pair_from_json(_decoded(found.data))
        except ProtocolError as error:
            LOG.error("%s: %s", members_node(), error)
            return None

    def _client(self, path: str, found: Znode | NodeRefused | None) -> ClientKey | None:
        if not isinstance(found, Znode):
            return None  # it has just gone, or is not ours
        try:
            key = ClientKey.from_json(_decoded(found.data))
        except ProtocolError as error:
            LOG.error("%s: %s", path, error)
            return None
        return key if key.path == path else None


def _decoded(data: bytes) -> Any:
    """A JSON value; None: it is none."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None
