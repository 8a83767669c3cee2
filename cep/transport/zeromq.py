"""ZeroMQ as the carrier of links: a ROUTER that is called, a DEALER for each endpoint that we call, and CURVE on both.

ZeroMQ connects, frames, encrypts, and says whose key a message was sent under. It may lose what lay in a connection that is cut: links
(`cep.transport.link`) do not rely on it. The kernel finds dead connections, not ZeroMQ's heartbeats: these abort the process where one is
due on a connection that is closed by the other end while ours does not read it (libzmq#4364), as it does not where much has come and the
engine is busy, or when it closes itself.
"""

from __future__ import annotations

import logging
import socket as sockets
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import zmq
from zmq.auth.thread import ThreadAuthenticator
from zmq.utils import monitor

from cep.errors import ProtocolError
from cep.transport import frames, tcp
from cep.transport.frames import Frame
from cep.transport.keyring import Keyring

SOCKETS_MAX = 16_384  # peers and clients of one process
COPY_BYTES_MAX = 64 << 10  # below this a copy is quicker than ZeroMQ's bookkeeping for a shared buffer
JOIN_BYTES_MAX = 16 << 10  # a smaller payload goes in one part with the head of its frame
PART_BYTES_MAX = 8 << 20  # of one part of a frame; a connection that announces more is closed
INBOUND_MAX = 16_384  # frames that one connection may have waiting here before it is not read from
BACKLOG = 4096
LOGGED = 20
#: Milliseconds, or seconds where TCP has those. A connection counts as cut when for two to three seconds nothing comes back on it, what is
#: sent or, where nothing is, the kernel's probes; and is tried again until it is there: an attempt that nothing answers is given up soon,
#: for the one that follows finds a network that has healed.
_PATIENCE = {
    zmq.TCP_MAXRT: 2_500,
    zmq.TCP_KEEPALIVE: 1,
    zmq.TCP_KEEPALIVE_IDLE: 1,
    zmq.TCP_KEEPALIVE_INTVL: 1,
    zmq.TCP_KEEPALIVE_CNT: 2,
    zmq.HANDSHAKE_IVL: 5_000,
    zmq.RECONNECT_IVL: 50,
    zmq.RECONNECT_IVL_MAX: 200,
    zmq.CONNECT_TIMEOUT: 500,
}
_MORE, _LAST = int(zmq.SNDMORE | zmq.NOBLOCK), int(zmq.NOBLOCK)  # an operation on its enumerations takes a microsecond
_POLLIN, _EVENTS = int(zmq.POLLIN), int(zmq.EVENTS)
_REFUSED = zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
LOG = logging.getLogger(__name__)


def make_context() -> zmq.Context[zmq.Socket[bytes]]:
    context = zmq.Context()
    context.set(zmq.MAX_SOCKETS, SOCKETS_MAX)
    return context


def listen(address: str) -> sockets.socket:
    """A socket that listens at `HOST:PORT`. Raises OSError."""
    host, _, port = address.rpartition(":")
    family, kind, number, _, where = sockets.getaddrinfo(host.strip("[]"), int(port), type=sockets.SOCK_STREAM, flags=sockets.AI_PASSIVE)[0]
    listening = sockets.socket(family, kind, number)
    try:
        listening.setsockopt(sockets.SOL_SOCKET, sockets.SO_REUSEADDR, 1)
        listening.bind(where)
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise OSError(error.errno, f"the address {address} for links cannot be had: {error.strerror}") from None
    listening.setblocking(False)
    return listening


def make_router(context: zmq.Context[zmq.Socket[bytes]], listening: sockets.socket, keyring: Keyring | None) -> zmq.Socket[bytes]:
    """It takes a duplicate of the socket that listens, so that another ROUTER may come in its place and the port is never free."""
    router = context.socket(zmq.ROUTER)
    _prepare(router)
    router.rcvhwm = INBOUND_MAX
    router.setsockopt(zmq.USE_FD, sockets.dup(listening.fileno()))
    if keyring is not None:
        router.curve_server = True
        router.curve_publickey, router.curve_secretkey = keyring.public.encode(), keyring.secret.encode()
    host, port = listening.getsockname()[:2]
    router.bind(f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}")
    return router


def make_dealer(context: zmq.Context[zmq.Socket[bytes]], keyring: Keyring | None) -> zmq.Socket[bytes]:
    """It connects when it is told to: what watches it has to be there before."""
    dealer = context.socket(zmq.DEALER)
    _prepare(dealer)
    if keyring is not None:
        dealer.curve_publickey, dealer.curve_secretkey = keyring.public.encode(), keyring.secret.encode()
        dealer.curve_serverkey = keyring.server.encode()
    return dealer


def _prepare(socket: zmq.Socket[bytes]) -> None:
    socket.set_hwm(0)  # the windows of links bound what is under way
    socket.linger = 0
    socket.setsockopt(zmq.MAXMSGSIZE, PART_BYTES_MAX)
    socket.setsockopt(zmq.IPV6, 1)
    for option, value in _PATIENCE.items():
        socket.setsockopt(option, value)


def write(socket: zmq.Socket[bytes], frame: Frame, parts: tuple[Any, ...], to: bytes = b"") -> None:
    """One frame; `to`: of a ROUTER's connections the one that it is for. Where that is cut, or a DEALER has none, the frame is lost."""
    head = frame.pack()
    with suppress(zmq.Again):
        if to:
            socket.send(to, _MORE)
        _write(socket, head, parts)


def _write(socket: zmq.Socket[bytes], head: bytes, parts: tuple[Any, ...]) -> None:
    if parts and len(parts[0]) < JOIN_BYTES_MAX:
        head, parts = b"".join((head, parts[0])), parts[1:]
    socket.send(head, _MORE if parts else _LAST)
    for left, part in enumerate(parts, 1 - len(parts)):
        socket.send(part, _MORE if left else _LAST, copy=len(part) < COPY_BYTES_MAX)


def read(socket: zmq.Socket[bytes]) -> list[zmq.Frame] | None:
    """The parts of the next message; None: there is none."""
    try:
        parts = [socket.recv(zmq.NOBLOCK, copy=False)]
    except zmq.Again:
        return None
    while parts[-1].more:
        parts.append(socket.recv(copy=False))
    return parts


def taken_apart(parts: list[zmq.Frame]) -> tuple[Frame, list[Any]]:
    """The frame that these parts are, and what it carries. Raises ProtocolError."""
    if not parts:
        raise ProtocolError("link: expected a frame, got nothing")
    found = parts[0].buffer
    frame, begin = frames.read(found)
    payload = [part.buffer for part in parts[1:]]
    return frame, [found[begin:], *payload] if begin < len(found) else payload


def is_readable(socket: zmq.Socket[bytes]) -> bool:
    """Has something come? ZeroMQ says that once only: after every call of the socket it has to be asked for."""
    return bool(int(socket.getsockopt(_EVENTS)) & _POLLIN)


def keep_short(socket: zmq.Socket[bytes], descriptor: int, port: int) -> None:
    """Bounds what the kernel keeps of a connection of the socket: see `tcp.NEAR_BYTES`. `port`: of one of its ends, for it may be closed by
    now, and the descriptor something else."""
    if int(socket.getsockopt(zmq.MECHANISM)) != int(zmq.NULL):
        return
    with suppress(OSError, IndexError), tcp.borrowed(descriptor) as connection:
        if port in (connection.getsockname()[1], connection.getpeername()[1]):
            tcp.keep_short(connection)


class ConnectionWatch:
    """What becomes of a DEALER's connections."""

    def __init__(self, dealer: zmq.Socket[bytes], address: str) -> None:
        self._events = dealer.get_monitor_socket(zmq.EVENT_CONNECTED | zmq.EVENT_HANDSHAKE_SUCCEEDED | _REFUSED)
        self._dealer, self._address, self._refusals = dealer, address, 0
        self.refused = False  # a DEALER that was does not try again

    @property
    def descriptor(self) -> int:
        return int(self._events.getsockopt(zmq.FD))

    def connected(self) -> bool:
        """Has a connection been made since the last look?"""
        found = False
        while is_readable(self._events):
            told = monitor.recv_monitor_message(self._events, zmq.NOBLOCK)
            event = told["event"]
            found |= event == zmq.EVENT_HANDSHAKE_SUCCEEDED
            if event == zmq.EVENT_CONNECTED:
                keep_short(self._dealer, int(told["value"]), int(self._address.rpartition(":")[2]))
            if event & _REFUSED:
                self._note_refusal()
        return found

    def _note_refusal(self) -> None:
        self._refusals += 1
        self.refused = True
        if not self._refusals & self._refusals - 1:
            LOG.warning("%s does not let us in: another key, or no CURVE there (%d times so far)", self._address, self._refusals)

    def close(self) -> None:
        self._dealer.disable_monitor()
        self._events.close(linger=0)


class DoorKeeper:
    """Says to ZeroMQ which keys are let in (ZAP, RFC 27), and what is refused to the log."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], knows: Callable[[str], bool]) -> None:
        self._knows, self._refused = knows, 0
        self._authenticator = ThreadAuthenticator(context)
        self._authenticator.start()
        self._authenticator.configure_curve_callback(credentials_provider=self)

    def callback(self, domain: str, key: bytes) -> bool:
        """Is the owner of the public key let in?"""
        text = key.decode(errors="replace")
        if self._knows(text):
            return True
        self._refused += 1
        if self._refused <= LOGGED or not self._refused & self._refused - 1:
            LOG.warning("a key that is not known here is refused: %s (%d so far)", text, self._refused)
        return False

    def close(self) -> None:
        self._authenticator.stop()
