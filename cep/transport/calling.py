"""The end of a link that calls, by a DEALER of its own."""

from __future__ import annotations

import math
from typing import Any

import zmq

from cep.errors import ProtocolError
from cep.transport import zeromq
from cep.transport.coalescing import Coalescer
from cep.transport.ends import LinkEnd, hello_of, new_incarnation
from cep.transport.frames import REFUSED, Frame
from cep.transport.keyring import Keyring
from cep.transport.link import Link


class Calling(LinkEnd):
    """The end that calls, by a DEALER of its own. `own`: our endpoint."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        endpoint: str,
        address: str,
        own: str,
        keyring: Keyring | None,
        coalescers: dict[int, Coalescer],
        now: float,
    ) -> None:
        self.retry_at = math.inf  # s, after it was refused
        super().__init__(endpoint, Link(new_incarnation(), now, hello_of(own)), coalescers)
        self._context, self._address = context, address
        self._open(keyring)

    def _open(self, keyring: Keyring | None) -> None:
        self.speaker = None if keyring is None else keyring.speaker(keyring.server)
        self.socket = zeromq.make_dealer(self._context, keyring)
        self.watch = zeromq.ConnectionWatch(self.socket, self._address)
        self.socket.connect(f"tcp://{self._address}")

    @property
    def descriptors(self) -> tuple[int, int]:
        return int(self.socket.getsockopt(zmq.FD)), self.watch.descriptor

    def rekey(self, keyring: Keyring | None) -> None:
        """Goes on over another connection."""
        self.close(0)
        self.retry_at = math.inf
        self._open(keyring)

    @property
    def closed(self) -> bool:
        return bool(self.socket.closed)

    def read(self, now: float) -> tuple[LinkEnd, list[Any], int] | None:
        """As `cep.transport.called.Called.read`."""
        parts = zeromq.read(self.socket)
        if parts is None:
            return None
        try:
            frame, payload = zeromq.taken_apart(parts)
        except ProtocolError as error:
            self.link.break_off(str(error))
            return self, [], 0
        if frame.kind == REFUSED and frame.target == 0 and payload:
            self.link.break_off(bytes(payload[0]).decode(errors="replace")[:400])
            return self, [], 0
        return self, payload, self.take_in(frame, payload, now)

    def _write(self, frame: Frame, parts: tuple[Any, ...]) -> None:
        zeromq.write(self.socket, frame, parts)

    def close(self, linger_ms: int) -> None:
        self.watch.close()
        self.socket.close(linger=linger_ms)
