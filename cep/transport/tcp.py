"""The kernel's side of a connection that ZeroMQ holds, by its descriptor: what has passed over it, and how much of it is on its way."""

from __future__ import annotations

import socket as sockets
from collections.abc import Iterator
from contextlib import contextmanager
from struct import Struct
from typing import NamedTuple

#: Of a connection without CURVE whose round trip is at most `NEAR_US`, the kernel keeps so much that the other end does not have. More of
#: it would be out of the caches again before it is read: between two processes of a machine that costs a quarter of the rate, or half where
#: others compute beside them. At that distance it is 5 GB/s or more. What is encrypted goes through the caches several times anyway.
NEAR_BYTES = 512 << 10
NEAR_US = 100
_INFO = Struct("=24xI92xQQ8xII")  # struct tcp_info of Linux: unacked, bytes_acked, bytes_received, notsent_bytes, min_rtt


class Passed(NamedTuple):
    """What has passed over a connection, bytes. `waits`: is there something that the other end has not acknowledged?"""

    received: int
    acknowledged: int
    waits: bool


@contextmanager
def borrowed(descriptor: int) -> Iterator[sockets.socket]:
    """ZeroMQ's own; it stays open. Raises OSError: it is no socket."""
    connection = sockets.socket(fileno=descriptor)
    try:
        yield connection
    finally:
        connection.detach()


def passed(connection: sockets.socket) -> Passed:
    """Raises OSError: it is no TCP connection."""
    unacked, acknowledged, received, unsent, _ = _info(connection)
    return Passed(received, acknowledged, bool(unacked or unsent))


def keep_short(connection: sockets.socket) -> bool:
    """Is the other end near, by the shortest round trip so far, so that what the kernel keeps for it is bounded now? Raises OSError, as
    `passed`."""
    is_near = bool(_info(connection)[-1] <= NEAR_US)
    if is_near:
        connection.setsockopt(sockets.SOL_SOCKET, sockets.SO_SNDBUF, NEAR_BYTES)
    return is_near


def _info(connection: sockets.socket) -> tuple[int, ...]:
    found = connection.getsockopt(sockets.IPPROTO_TCP, sockets.TCP_INFO, _INFO.size)
    if len(found) < _INFO.size:
        raise OSError(f"the kernel says too little of a TCP connection: expected {_INFO.size} bytes, got {len(found)}")
    return _INFO.unpack(found)
