"""Both transports keep the same promises: messages arrive whole, in order, whatever their size, and outlive a peer that comes late.

Tests `sockets.py`, `connections.py`, `local.py`.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zmq
from hypothesis import given
from hypothesis import strategies as st

from cep.errors import ProtocolError
from cep.transport import wire
from cep.transport.connections import Inbound, Room, arrow_room, heap_room
from cep.transport.keyring import Keyring
from cep.transport.local import LocalSockets
from cep.transport.sockets import Sockets, open_sockets
from cep.transport.wire import Header
from simulation.clock import ProcessClock
from simulation.schedule import SeededSchedule
from simulation.sockets import SimulatedNetwork
from tests.support.waiting import until

SIZES = [0, 1, 7, 8, 5_000, 16_383, 16_384, 65_536, 262_143, 262_144, 300_001, 5 << 20]


@pytest.fixture(params=["ipc", "link", "curve", "client", "simulated"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Sockets, Sockets]]:
    match request.param:
        case "simulated":
            found = simulated(*[f"ipc://{tmp_path}/{name}" for name in ("a", "b")])
        case "ipc":
            found = [open_sockets(f"ipc://{tmp_path}/{name}") for name in ("a", "b")]
        case _:
            found = linked(request.param, tmp_path)
    yield found[0], found[1]
    close(*found)


def close(*opened: Sockets) -> None:
    """All at once: an end of a link that closes waits for what the other one acknowledges."""
    closing = [threading.Thread(target=sockets.close) for sockets in opened]
    for thread in closing:
        thread.start()
    for thread in closing:
        thread.join()


def linked(kind: str, folder: Path) -> list[Sockets]:
    """Of two hosts, on loopback: two members, without keys and with them; or a client without an address, which has called."""
    keys = keyring() if kind == "curve" else None
    here = "link://h1@" if kind == "client" else "link://h1@127.0.0.1:0"
    one, other = open_sockets(f"{here}{folder}/a", keys), open_sockets(f"link://h2@127.0.0.1:0{folder}/b", keys)
    for source, target in ((one, other), (other, one)):  # they meet: that takes looks of both
        source.send(target.endpoint, message(-1 % 1000), b"hello")
        assert received(target, 1, source) == [(999, b"hello")]
    return [one, other]


def keyring() -> Keyring:
    public, secret = (key.decode() for key in zmq.curve_keypair())
    return Keyring(public, secret, public)


def simulated(*endpoints: str) -> list[Sockets]:
    schedule = SeededSchedule(0)
    network = SimulatedNetwork(schedule)
    return [network.open(endpoint, ProcessClock(schedule), lambda: None) for endpoint in endpoints]


def received(sockets: Sockets, count: int, *senders: Sockets) -> list[tuple[int, bytes]]:
    """(sequence, body) of the next `count` messages. `senders` look, too: what the kernel has no room for leaves when they do."""
    found: list[tuple[int, bytes]] = []

    def enough() -> bool:
        for each in (*senders, sockets):
            each.park(10)
        while (message := sockets.receive()) is not None:
            found.append((message[0].sequence, bytes(message[1])))
        return len(found) >= count

    until(enough)
    assert len(found) == count
    return found


def body(number: int, size: int) -> bytes:
    return np.random.default_rng(number).bytes(size)


def message(number: int) -> Header:
    return Header(wire.BATCH, 1, number)


def test_messages_of_all_sizes_arrive_whole_and_in_order(pair: tuple[Sockets, Sockets]) -> None:
    here, there = pair
    for number, size in enumerate(SIZES):
        here.send(there.endpoint, message(number), body(number, size) if size else None)
    assert received(there, len(SIZES), here) == [(number, body(number, size)) for number, size in enumerate(SIZES)]


def test_a_body_lies_where_kernels_can_read_words_from(tmp_path: Path) -> None:
    here, there = (LocalSockets(f"ipc://{tmp_path}/{name}") for name in ("a", "b"))
    for number, size in enumerate(SIZES[1:]):
        here.send(there.endpoint, message(number), body(number, size))
        until(lambda: here.park(10) or there.park(10) or bool(there._arrived))
        found = there.receive()
        assert found is not None
        assert np.frombuffer(found[1], np.uint8).__array_interface__["data"][0] % 8 == 0
    here.close()
    there.close()


@pytest.mark.parametrize("room", [heap_room, arrow_room])
def test_what_waits_is_taken_together_though_there_is_no_room_for_all_at_once(tmp_path: Path, room: Room) -> None:
    here, there = (LocalSockets(f"ipc://{tmp_path}/{name}") for name in ("a", "b"))
    there.inbound = Inbound(np.empty(4096, np.uint8), room)
    sizes = [3000, 0, 9000, 1, 4000, 2000, 20_000, 5]
    for number, size in enumerate(sizes):
        here.send(there.endpoint, message(number), body(number, size) if size else None)
    until(lambda: there.receive() is not None)  # the peer is let in at the first look
    found = []
    while (each := there.receive(look=False)) is not None:
        found.append((each[0].sequence, bytes(each[1])))
    assert found == [(number, body(number, size)) for number, size in enumerate(sizes)][1:]
    here.close()
    there.close()


def test_what_nobody_takes_waits_and_leaves_nobody_else_waiting(pair: tuple[Sockets, Sockets], tmp_path: Path) -> None:
    """The sender goes on: 20 MiB are more than the kernel holds."""
    here, there = pair
    for number in range(20):
        here.send(there.endpoint, message(number), body(number, 1 << 20))
    there.send(here.endpoint, message(99), b"hello")
    assert received(here, 1, there) == [(99, b"hello")]
    assert received(there, 20, here) == [(number, body(number, 1 << 20)) for number in range(20)]


def test_what_was_sent_leaves_at_the_end(pair: tuple[Sockets, Sockets]) -> None:
    here, there = pair
    taken: list[tuple[int, bytes]] = []
    reader = threading.Thread(target=lambda: taken.extend(received(there, 8)))
    for number in range(8):
        here.send(there.endpoint, message(number), body(number, 1 << 20))
    reader.start()
    here.close()
    reader.join()
    assert [number for number, _ in taken] == list(range(8))


def test_a_peer_may_come_late_and_come_again(tmp_path: Path) -> None:
    here, late = LocalSockets(f"ipc://{tmp_path}/here"), f"ipc://{tmp_path}/late"
    here.send(late, message(0), b"early")
    there = LocalSockets(late)
    assert received(there, 1, here) == [(0, b"early")]
    there.close()
    here.send(late, message(1), b"again")  # finds none there
    there = LocalSockets(late)
    assert received(there, 1, here) == [(1, b"again")]
    here.close()
    there.close()


def test_a_message_that_did_not_get_through_whole_is_sent_again_whole(tmp_path: Path) -> None:
    here, path = LocalSockets(f"ipc://{tmp_path}/here"), tmp_path / "there"
    with socket.socket(socket.AF_UNIX) as first:
        first.bind(str(path))
        first.listen()
        for number in range(2):
            here.send(f"ipc://{path}", message(number), body(number, 8 << 20))
        taker, _ = first.accept()
        taker.recv(1000)
        taker.close()
    there = LocalSockets(f"ipc://{path}")
    assert received(there, 2, here) == [(number, body(number, 8 << 20)) for number in range(2)]
    here.close()
    there.close()


def test_the_path_of_a_process_that_was_killed_is_taken_over(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("")
    sockets = LocalSockets(f"ipc://{tmp_path}/x")
    sockets.close()
    assert not (tmp_path / "x").exists()


def test_hanging_up_lets_what_was_sent_arrive(pair: tuple[Sockets, Sockets]) -> None:
    here, there = pair
    here.send(there.endpoint, message(0), body(0, 5 << 20))
    here.hang_up(there.endpoint)
    here.hang_up("ipc:///nothing")
    assert received(there, 1, here) == [(0, body(0, 5 << 20))]


def test_who_is_given_up_is_not_waited_for(tmp_path: Path) -> None:
    """It is there and takes nothing, or is not there at all: a second later nothing is kept for it."""
    here, there = (LocalSockets(f"ipc://{tmp_path}/{name}") for name in ("a", "b"))
    for endpoint in (there.endpoint, f"ipc://{tmp_path}/nobody"):
        here.send(endpoint, message(0), body(0, 20 << 20))
        here.hang_up(endpoint)
    assert len(here._watched) == 2
    until(lambda: here.park(10) or not (here._writing or here._watched))
    here.close()
    there.close()


def test_sleep_ends_when_somebody_wakes(pair: tuple[Sockets, Sockets]) -> None:
    here, _ = pair
    sleeper = threading.Thread(target=here.park, args=(60_000,))
    sleeper.start()
    here.wake()
    sleeper.join(30)
    assert not sleeper.is_alive()


def test_looking_awake_sees_a_message_and_ends_without(pair: tuple[Sockets, Sockets]) -> None:
    here, there = pair
    assert not there.poll(1_000_000)
    here.send(there.endpoint, message(0), b"x")
    assert there.poll(30_000_000_000)
    assert received(there, 1) == [(0, b"x")]


@given(st.binary(max_size=300), st.booleans())
def test_nonsense_is_an_error_and_closes_its_connection(tmp_path_factory: pytest.TempPathFactory, nonsense: bytes, behind: bool) -> None:
    folder = tmp_path_factory.mktemp("s")
    here, there = (LocalSockets(f"ipc://{folder}/{name}") for name in ("a", "b"))
    prefix = (3).to_bytes(8, "little") + message(0).pack() + b"abc" if behind else b""
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(f"{folder}/b")
        stranger.sendall(prefix + nonsense)
    here.send(there.endpoint, message(7), b"sense")
    found: list[Any] = []

    def done() -> bool:
        there.park(10)
        try:
            while (next_ := there.receive()) is not None:
                found.append((next_[0].sequence, bytes(next_[1])))
        except ProtocolError as error:
            assert "expected" in str(error)
        return (7, b"sense") in found

    until(done)
    assert ((0, b"abc") in found) == behind
    here.close()
    there.close()


def test_no_descriptor_is_left_behind(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        here, there = (LocalSockets(f"ipc://{tmp_path}/{name}") for name in ("a", "b"))
        here.send(there.endpoint, message(0), b"x")
        here.send(f"ipc://{tmp_path}/nobody", message(0), b"x")
        assert received(there, 1) == [(0, b"x")]
        here.hang_up(f"ipc://{tmp_path}/nobody")
        here.close()
        there.close()
    assert len(os.listdir("/proc/self/fd")) == before
