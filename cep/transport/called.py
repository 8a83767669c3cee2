"""The ROUTER at which a process is called, with the links that were (`cep.transport.switchboard`), and the keys that may."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import zmq

from cep.errors import ProtocolError
from cep.transport import zeromq
from cep.transport.accounts import Accounts
from cep.transport.coalescing import Coalescer
from cep.transport.endpoints import Endpoint
from cep.transport.ends import CalledEnd, new_incarnation
from cep.transport.frames import HEAD_BYTES, REFUSED, Frame, OtherVersion
from cep.transport.keyring import Keyring, Speaker
from cep.transport.switchboard import Switchboard

LOG = logging.getLogger(__name__)


class Called:
    """Under the lock of its `LinkSockets`."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        own: Endpoint,
        keyring: Keyring | None,
        coalescers: dict[int, Coalescer],
        on_end: Callable[[CalledEnd], None],
    ) -> None:
        self._context, self.keyring = context, keyring
        self._listening = zeromq.listen(own.address)
        self.address = f"{own.address.rpartition(':')[0]}:{self._listening.getsockname()[1]}"
        self.socket = zeromq.make_router(context, self._listening, keyring)
        self.accounts = self._make_accounts()
        self.board = Switchboard(self._write, new_incarnation, coalescers, on_end, host=own.host)
        self.board.may_go_on = self._may_go_on
        self.strays, self.closed = 0, False

    @property
    def descriptor(self) -> int:
        return int(self.socket.getsockopt(zmq.FD))

    def read(self, now: float) -> tuple[CalledEnd | None, list[Any], int] | None:
        """The next frame: whose it was, if that is known, and the packet that has come by it with its size, or 0. None: there is none."""
        parts = zeromq.read(self.socket)
        if parts is None:
            return None
        connection = parts[0].bytes
        self.accounts.heard(connection, parts[0])
        try:
            frame, payload = zeromq.taken_apart(parts[1:])
            end, size = self.board.hear(connection, frame, payload, self._speaker(parts[1]), now)
            return end, payload, size
        except OtherVersion as error:
            self._stray(connection, error)
            self._write(connection, Frame(REFUSED, 0, 0), (str(error).encode(),))
        except ProtocolError as error:
            self._stray(connection, error)
        return None, [], 0

    def _write(self, connection: bytes, frame: Frame, parts: tuple[Any, ...]) -> None:
        self.accounts.wrote(connection, HEAD_BYTES + sum(map(len, parts)))
        zeromq.write(self.socket, frame, parts, connection)

    def _make_accounts(self) -> Accounts:
        return Accounts(self.socket, self._listening.getsockname()[1])

    def tick(self, now: float) -> None:
        """What is due."""
        self.board.tick(now)
        self.accounts.look(now)

    # keys

    def _speaker(self, part: zmq.Frame) -> Speaker | None:
        """Whose key the frame was sent under. It is asked for each time: another connection may give itself the name of one that is gone.
        Raises ProtocolError: the key is not known any more."""
        if self.keyring is None:
            return None
        key = str(part.get("User-Id"))
        speaker = self.keyring.speaker(key)
        if speaker is None or not speaker.holds_at(time.time()):
            raise ProtocolError(f"link: the key {key} may not speak any more")
        return speaker

    def _may_go_on(self, speaker: Speaker) -> bool:
        """Its key may be another one by now."""
        if speaker.is_member or self.keyring is None:
            return True
        now = time.time()
        return any(each.name == speaker.name and each.holds_at(now) for each in self.keyring.clients.values())

    def rekey(self, keyring: Keyring) -> None:
        """Another ROUTER takes over where this one listens; callers come again."""
        self.accounts.close()
        self.socket.close(linger=0)
        self.keyring = keyring
        self.socket = zeromq.make_router(self._context, self._listening, keyring)
        self.accounts = self._make_accounts()

    def close(self, linger_ms: int) -> None:
        self.closed = True
        self.accounts.close()
        self.socket.close(linger=linger_ms)
        self._listening.close()

    def _stray(self, connection: bytes, error: ProtocolError) -> None:
        self.strays += 1
        if self.strays <= zeromq.LOGGED or not self.strays & self.strays - 1:
            LOG.warning("frame not understood, of connection %s: %s (%d so far)", connection.hex(), error, self.strays)
