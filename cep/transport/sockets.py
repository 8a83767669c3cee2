"""The data plane between processes: an endpoint that takes what others send, and a way to each of theirs.

`ipc://PATH` is for processes of one machine (`cep.transport.local`), `tcp://HOST:PORT` for those of several (`cep.transport.network`). A
process's own endpoint decides which it speaks. Neither limits what is under way: the byte credits of `cep.dataflow.channel` do.
"""

from __future__ import annotations

import socket
from typing import Any, Protocol

from cep.transport.ipc import MessageLayout
from cep.transport.local import SCHEME, LocalSockets, is_path
from cep.transport.network import NetworkSockets, is_address
from cep.transport.wire import Header

KNOCK_S = 1.0  # between machines


class Sockets(Protocol):
    """A process's sockets: one thread receives; `send`, `hang_up` and `wake` may come from others if they take turns."""

    endpoint: str

    def send(self, endpoint: str, header: Header, body: Any = None) -> None:
        """Hands a message to the transport, which owns `body` until it has let go: it is never written to again."""

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


def is_endpoint(endpoint: str, ours: str) -> bool:
    """Is it an address that a process with the endpoint `ours` can send to?"""
    return is_path(endpoint) if ours.startswith(SCHEME) else is_address(endpoint)


def open_sockets(endpoint: str) -> Sockets:
    """Raises OSError: the endpoint cannot be had."""
    return LocalSockets(endpoint) if endpoint.startswith(SCHEME) else NetworkSockets(endpoint)


def is_gone(endpoint: str) -> bool:
    """Does no process listen there any more? Then its process has ended. One that is stopped or busy still listens: the kernel does for it.

    Looked for by a connection that says nothing: not more often than a process may find many of them waiting for it when it wakes up.
    """
    try:
        _knock(endpoint)
    except BlockingIOError:  # so many wait there already
        return False
    except OSError:
        return True
    return False


def _knock(endpoint: str) -> None:
    if endpoint.startswith(SCHEME):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as knocking:
            knocking.connect(endpoint.removeprefix(SCHEME))
        return
    host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
    socket.create_connection((host.strip("[]"), int(port)), timeout=KNOCK_S).close()
