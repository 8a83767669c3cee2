"""The metric server's keys: those of ZooKeeper, from when they change on, so that instance managers of other hosts reach it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from cep.config import ClusterConfig
from cep.service.key_nodes import KeyNodes
from cep.transport.keyring import Keyring
from cep.world.coordination import Connection, ConnectionLost, CoordinationError
from cep.world.mailbox import Mailbox
from cep.world.zookeeper import ZooKeeperSession

_AGAIN_S = 1.0
_LOG = logging.getLogger(__name__)


class KeyWatch(threading.Thread):
    """Gives `rekey` every keyring that differs from the one before; the first is `known`."""

    def __init__(self, config: ClusterConfig, known: Keyring, rekey: Callable[[Keyring], None]) -> None:
        super().__init__(name="keys", daemon=True)
        self._words: Mailbox[Connection | None] = Mailbox()
        self._known, self._rekey = known, rekey
        self._session = ZooKeeperSession(config.zookeeper, config.session_timeout_s, config.zookeeper_secret, config.zookeeper_credentials)
        self._nodes = KeyNodes(self._session, lambda: self._words.put(None))

    def run(self) -> None:
        self._session.start(self._words.put)
        connected = unread = False
        while True:
            for word in self._words.take(_AGAIN_S if unread else None):
                connected = connected if word is None else word is Connection.CONNECTED
                unread = True
            if connected and unread:
                unread = not self._read()

    def _read(self) -> bool:
        """Could it be?"""
        try:
            found = self._nodes.read()
        except ConnectionLost:
            return False
        except CoordinationError as error:
            _LOG.warning("the keys cannot be read: %s: %s", type(error).__name__, error)
            return False
        if found is not None and found != self._known:
            self._known = found
            self._rekey(found)
        return True
