"""The data plane between processes: an endpoint that takes what others send, and a way to each of theirs.

A process whose endpoint is `ipc://PATH` has Unix sockets (`cep.transport.local`), in a cluster of one machine. One whose endpoint is
`link://HOST@ADDRESS:PORT/PATH` has links to other hosts beside them (`cep.transport.linked`). What is under way is limited by the byte
credits of `cep.dataflow.channel`, and on a link by its window, too.
"""

from __future__ import annotations

import socket
from typing import Any, Protocol, runtime_checkable

from cep.errors import ProtocolError
from cep.transport.connections import Inbound, Room, heap_room
from cep.transport.endpoints import LOCAL_SCHEME, Endpoint
from cep.transport.ipc import MessageLayout
from cep.transport.keyring import Keyring, Speaker
from cep.transport.linked import LinkSockets
from cep.transport.local import LocalSockets
from cep.transport.wire import Header

KNOCK_S = 1.0  # between machines


class Sockets(Protocol):
    """A process's sockets: one thread receives; `send`, `hang_up` and `wake` may come from others if they take turns."""

    endpoint: str

    @property
    def speaker(self) -> Speaker | None:
        """Whose key the message was sent under that was received last; None: a process of this host's, or there are no keys."""

    def send(self, endpoint: str, header: Header, body: Any = None) -> None:
        """Hands a message to the transport, which owns `body` until it has let go: it is never written to again."""

    def relay(self, endpoint: str, messages: memoryview | bytes) -> None:
        """Sends whole messages, each with its size and header before it; what they lie in may be written to again afterwards."""

    def hang_up(self, endpoint: str) -> None:
        """The peer is gone, or going: what was sent to it may still arrive."""

    def receive(self, look: bool = True) -> tuple[Header, Any] | None:
        """The next message, or None. Raises ProtocolError for one that is none; it is gone then. Without `look`: if it is at hand, where
        it takes a system call to see whether more has come."""

    def join(self, channel: int, layout: MessageLayout | None) -> None:
        """Batches of the channel may come as one where several have come (`cep.transport.coalescing`); None: no longer."""

    def poll(self, span_ns: int) -> bool:
        """Looks for a message again and again, for that long. Threads that wait for the core get it between two looks. Is there one?"""

    def park(self, timeout_ms: int) -> None:
        """Sleeps until a message comes, `wake` is called, or the time is over."""

    def wake(self) -> None:
        """From any thread, and from a signal's handler."""

    def close(self) -> None:
        """What was sent has a second to leave."""


@runtime_checkable
class RelayingSockets(Sockets, Protocol):
    """Sockets whose messages can be taken as they lie where they were read."""

    inbound: Inbound

    @property
    def at_hand(self) -> bool:
        """Is there a message that has been taken apart already, and waits for `receive`?"""


def is_endpoint(endpoint: str, ours: str) -> bool:
    """Is it an endpoint that a process with the endpoint `ours` can send to?"""
    try:
        there, here = Endpoint.parse(endpoint), Endpoint.parse(ours)
    except ProtocolError:
        return False
    return not there.host or bool(here.host)


def open_sockets(endpoint: str, keyring: Keyring | None = None, room: Room = heap_room) -> Sockets:
    """`keyring`: with CURVE on links; of Unix sockets the kernel says which process speaks. `room`: where what comes through these lies.
    Raises OSError: the endpoint cannot be had."""
    return LocalSockets(endpoint, room) if endpoint.startswith(LOCAL_SCHEME) else LinkSockets(endpoint, keyring, room)


def is_gone(endpoint: str, ours: str = "") -> bool:
    """Does no process listen there any more? Then its process has ended. One that is stopped or busy still listens: the kernel does for it.
    Of another host than that of `ours` an address that refuses is one where no process listens; where nothing answers it may be cut off,
    and that is no end. A client that has no address is never known to have gone.

    Looked for by a connection that says nothing: not more often than a process may find many of them waiting for it when it wakes up.
    """
    there = Endpoint.parse(endpoint)
    if not there.host or (ours and Endpoint.parse(ours).host == there.host):
        return _is_path_dead(there.path)
    return bool(there.address) and _refuses(there.address)


def _is_path_dead(path: str) -> bool:
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as knocking:
            knocking.connect(path)
    except BlockingIOError:  # so many wait there already
        return False
    except OSError:
        return True
    return False


def _refuses(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=KNOCK_S).close()
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return False
