"""What the kernel keeps of a link's connection is bounded at both ends where the other end is near, and left to it where it is not."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from cep.transport import tcp, wire
from cep.transport.connections import Message
from cep.transport.curve import new_pair
from cep.transport.keyring import Keyring
from cep.transport.linked import LinkSockets
from cep.transport.wire import Header
from tests.support.waiting import until


@pytest.fixture
def bounds(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bool, int]]:
    """Of each connection that was looked at: is it near, and how much is kept for it at most."""
    found, keep_short = list[tuple[bool, int]](), tcp.keep_short

    def looked(connection: socket.socket) -> bool:
        is_near = keep_short(connection)
        found.append((is_near, connection.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)))
        return is_near

    monkeypatch.setattr(tcp, "keep_short", looked)
    return found


def connect(folder: Path, bounds: list[tuple[bool, int]], looks: int, keyring: Keyring | None = None) -> None:
    """Two ends that have heard of each other, until so many were looked at."""
    one, other = (LinkSockets(f"link://{name}@127.0.0.1:0{folder}/{name}", keyring) for name in ("h1", "h2"))
    try:
        one.send(other.endpoint, Header(wire.BATCH, 1, 1), b"x")

        def received() -> Message | None:
            for end in (one, other):
                end.park(5)
            return other.receive()

        until(received)
        until(lambda: len(bounds) >= looks or received())
    finally:
        one.close()
        other.close()


@pytest.mark.parametrize("near_us", [1_000_000, -1])
def test_both_ends(bounds: list[tuple[bool, int]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, near_us: int) -> None:
    monkeypatch.setattr(tcp, "NEAR_US", near_us)
    connect(tmp_path, bounds, 2)
    for is_near, kept in bounds:
        assert is_near == (near_us > 0)
        assert (kept <= 2 * tcp.NEAR_BYTES) == is_near, bounds  # Linux doubles what is asked for


def test_what_is_encrypted_is_left_to_the_kernel(bounds: list[tuple[bool, int]], tmp_path: Path) -> None:
    keys = new_pair()
    connect(tmp_path, bounds, 0, Keyring(keys.public, keys.secret.text, keys.public))
    assert bounds == []


def test_loopback_is_near() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        for _ in range(20):  # a busy machine may let one wait
            with socket.create_connection(listening.getsockname()) as calling, listening.accept()[0] as called:
                if tcp.keep_short(calling) and tcp.keep_short(called):
                    return
    raise AssertionError("no connection over loopback was near")


def test_what_is_no_tcp_connection() -> None:
    one, other = socket.socketpair()
    with one, other, pytest.raises(OSError):
        tcp.keep_short(one)
