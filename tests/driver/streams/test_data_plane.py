"""A thread that waits reads for all: none misses what is its own, and heartbeats go on."""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count as numbers
from types import FrameType
from typing import Any

import pytest

from cep.transport import wire
from cep.transport.local import LocalSockets
from cep.transport.wire import Header
from driver.streams.data_plane import BEAT_NS, DataPlane
from driver.streams.messages import Messages
from tests.support.waiting import HANG_S, until

Queue = Messages[tuple[Header, bytes]]


@pytest.fixture
def plane() -> Iterator[DataPlane]:
    made = DataPlane.open()
    yield made
    made.close()


@pytest.fixture
def peer(plane: DataPlane) -> Iterator[LocalSockets]:
    sockets = LocalSockets(f"{plane.endpoint}-peer")
    yield sockets
    sockets.close()


def listening(plane: DataPlane, peer: LocalSockets, channel: int) -> Queue:
    messages: Queue = Messages()
    plane.listen(peer.endpoint, channel, lambda header, body: messages.put((header, body)))
    return messages


def test_readers_find_what_is_theirs_whichever_thread_reads(plane: DataPlane, peer: LocalSockets) -> None:
    """Each answers what it gets; only then does the next message for it come."""
    channels, count = range(4), 300
    queues = [listening(plane, peer, channel) for channel in channels]
    answered = Messages[int]()

    def read(channel: int) -> list[int]:
        found = []
        for _ in range(count):
            found.append(plane.next_of(queues[channel], HANG_S)[0].sequence)
            answered.put(channel)
        return found

    with ThreadPoolExecutor(len(channels)) as pool:
        readers = [pool.submit(read, channel) for channel in channels]
        sent = dict.fromkeys(channels, 0)
        for channel in channels:
            peer.send(plane.endpoint, Header(wire.BATCH, channel, 0))
        for _ in range(count * len(channels)):
            channel = answered.get(timeout=HANG_S)
            sent[channel] += 1
            peer.send(plane.endpoint, Header(wire.BATCH, channel, sent[channel]))
        assert [reader.result(HANG_S) for reader in readers] == [list(range(count))] * len(channels)


def test_what_comes_while_no_thread_waits_is_taken(plane: DataPlane, peer: LocalSockets) -> None:
    mine, other = listening(plane, peer, 1), listening(plane, peer, 2)
    for sequence in range(3):
        peer.send(plane.endpoint, Header(wire.BATCH, 1, sequence))
        assert plane.next_of(mine, HANG_S)[0].sequence == sequence
        peer.send(plane.endpoint, Header(wire.BATCH, 2, sequence))
        plane.attend()
        assert other.get(timeout=HANG_S)[0].sequence == sequence


def test_time_limits_hold(plane: DataPlane, peer: LocalSockets) -> None:
    messages = listening(plane, peer, 1)
    for timeout in (-1.0, 0.0, 0.02):
        with pytest.raises(queue.Empty):
            plane.next_of(messages, timeout)


def test_heartbeats_go_on_while_a_user_reads(plane: DataPlane, peer: LocalSockets) -> None:
    messages = listening(plane, peer, 1)
    with pytest.raises(queue.Empty):
        plane.next_of(messages, 1.5 * BEAT_NS / 1e9)
    found = []
    while (message := peer.receive() or peer.receive()) is not None:
        found.append(message[0].kind)
    assert wire.BEAT in found


def test_closing_waits_for_no_thread_that_reads(plane: DataPlane, peer: LocalSockets) -> None:
    messages = listening(plane, peer, 1)
    left = threading.Event()

    def read() -> None:
        with pytest.raises(queue.Empty):
            plane.next_of(messages, 0.5)
        left.set()

    reader = threading.Thread(target=read)
    reader.start()
    until(lambda: plane.led)
    plane.close()
    assert not plane.reading.locked()
    reader.join(HANG_S)
    assert left.is_set()


def test_one_that_fails_ends_nothing_for_the_others(plane: DataPlane, peer: LocalSockets) -> None:
    def fail(*_: object) -> None:
        raise ValueError("planted")

    ticked, beaten = threading.Event(), threading.Event()
    plane.listen(peer.endpoint, 1, fail)
    messages = listening(plane, peer, 2)
    plane.on_tick |= {"a": fail, "b": ticked.set}
    plane.on_beat |= {"a": fail, "b": beaten.set}
    peer.send(plane.endpoint, Header(wire.UNKNOWN, 7))
    assert plane.next_of(messages, HANG_S)[0].kind == wire.UNKNOWN
    assert ticked.wait(HANG_S) and beaten.wait(HANG_S)


def interrupted(at: int, plane: DataPlane, messages: Queue) -> bool:
    """Waits for a message that does not come, with KeyboardInterrupt at the `at`th place where Python raises one: as a function of Python
    begins, and as another has returned. False: there were fewer."""
    left = at

    def interrupt(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal left
        if event in ("call", "c_return") and (left := left - 1) == 0:
            raise KeyboardInterrupt

    sys.setprofile(interrupt)
    try:
        plane.next_of(messages, 0.02)
    except queue.Empty:
        return False
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(None)
    raise AssertionError("nothing was sent")


def test_an_interrupt_anywhere_leaves_reading_to_others(plane: DataPlane, peer: LocalSockets) -> None:
    """Ctrl-C between taking the lead and reading left a plane that could not be closed: `cep sql` did not end."""
    messages = listening(plane, peer, 1)
    for at in numbers(1):
        was = interrupted(at, plane, messages)
        assert not plane.led
        assert not plane.waiting
        assert plane.reading.acquire(timeout=HANG_S)
        plane.reading.release()
        if not was:
            break
    assert at > 10
    peer.send(plane.endpoint, Header(wire.BATCH, 1, 0))
    assert plane.next_of(messages, HANG_S)[0].channel == 1
