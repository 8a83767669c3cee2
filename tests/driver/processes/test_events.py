"""What one thread waits for: descriptors, times in their order, signals."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator

import pytest

from driver.processes.events import Events


@pytest.fixture
def events() -> Iterator[Events]:
    """What signals meant to the process, they mean again behind it."""
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    made = Events()
    yield made
    signal.set_wakeup_fd(-1)
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)
    made.close()


def test_a_descriptor_calls_while_it_can_be_read_and_is_listened_to(events: Events) -> None:
    mine, theirs = socket.socketpair()
    with mine, theirs:
        heard: list[bytes] = []
        events.on(mine.fileno(), lambda: heard.append(mine.recv(1)))
        events.step(0)
        assert heard == []
        theirs.send(b"ab")
        for _ in range(3):
            events.step(0)
        assert heard == [b"a", b"b"]
        events.off(mine.fileno())
        theirs.send(b"c")
        events.step(0)
        assert heard == [b"a", b"b"]


def test_times_come_in_their_order_and_once(events: Events) -> None:
    said: list[str] = []
    events.after(0.02, lambda: said.append("later"))
    events.after(0.0, lambda: said.append("first"))
    events.after(0.0, lambda: said.append("second"))
    events.after(3600, lambda: said.append("never"))
    events.step(0)
    assert said == ["first", "second"]
    began = time.monotonic()
    events.step()  # as long as the next one takes
    assert said == ["first", "second", "later"] and time.monotonic() - began < 60
    events.step(0.001)
    assert len(said) == 3


def test_one_that_is_asked_for_by_another_comes_too(events: Events) -> None:
    said: list[int] = []
    events.after(0, lambda: events.after(0, lambda: said.append(1)))
    events.step(0)
    assert said == [1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_it_and_nothing_else(events: Events, number: signal.Signals) -> None:
    events.listen()
    events.step(0)
    assert not events.stopping
    os.kill(os.getpid(), number)
    events.step(60)
    assert events.stopping


def test_behind_a_signal_it_waits_as_before(events: Events) -> None:
    events.listen()
    os.kill(os.getpid(), signal.SIGTERM)
    events.step()
    assert events.stopping
    waited: list[str] = []
    events.after(0.05, lambda: waited.append("until then"))
    events.step()  # it comes back for nothing else
    assert waited
