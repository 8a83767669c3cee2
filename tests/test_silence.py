"""Silence as an instance manager takes it, message by message: whose time is over, and whose silence is its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from test_redirects import ENTRY, Moving, Publisher, moving, publishers
from waiting import HANG_S, until

from cep import wire
from cep.wire import Header
from instance_manager.clients import SILENCE_S, Peer
from instance_manager.hosting import outlet_id
from instance_manager.loop import Command, Loop

__all__ = ["moving"]  # fixture


def tick(moving: Moving) -> None:
    moving.settle(ticks=True)


def peer_of(moving: Moving) -> Peer:
    (peer,) = moving.old.loop.clients.peers.values()
    return peer


def subscribe(moving: Moving, name: str, keep_s: float) -> int:
    """The channel of a new subscription."""
    outlet = outlet_id("q", "answers", 0)
    terms = {"id": name, "endpoint": moving.client.endpoint, "keep_s": keep_s}
    moving.client.send(moving.old.sockets.endpoint, Header(wire.SUBSCRIBE, outlet), wire.to_json(terms))
    moving.settle()
    (answer,) = [found for kind, channel, found in moving.heard if (kind, channel) == (wire.SUBSCRIBED, outlet) and found["id"] == name]
    return int(answer["place"]["channel"])


def test_a_client_loses_those_subscriptions_whose_time_is_over(moving: Moving) -> None:
    short, long = subscribe(moving, "short", 2.0), subscribe(moving, "long", 60.0)
    peer = peer_of(moving)
    for silent_s, left in ((1.0, {short, long}), (5.0, {long}), (30.0, {long})):
        peer.heard = moving.old.loop.clients.ticked - silent_s
        tick(moving)
        assert moving.old.loop.clients.subscriptions.keys() == left
    peer.heard = moving.old.loop.clients.ticked - 61.0
    tick(moving)
    assert not moving.old.loop.clients.subscriptions
    assert [channel for kind, channel, _ in moving.heard if kind == wire.UNSUBSCRIBE] == [short, long]


def test_what_passes_while_nobody_listens_is_nobodys_silence(moving: Moving) -> None:
    (one,) = publishers(moving, "one")
    clients, peer = moving.old.loop.clients, peer_of(moving)
    for heard in (peer, clients):  # an hour ago both were at it
        if isinstance(heard, Peer):
            heard.heard -= 3600.0
        else:
            heard.ticked -= 3600.0
    tick(moving)
    assert set(moving.old.source.publishers) == {"one"} and not moving.old.source.vanished
    peer.heard -= 2 * SILENCE_S
    tick(moving)
    assert set(moving.old.source.vanished) == {"one"}
    assert moving.heard_by(one) == [wire.OPENED, wire.CLOSED] or moving.heard_by(one) == []


def test_who_is_not_known_is_told_so(moving: Moving) -> None:
    """By a process that says which it is; and it may have given up whoever it was."""
    client, old = moving.client, moving.old
    beat = Header(wire.BEAT, wire.name_id(client.endpoint))
    client.send(old.sockets.endpoint, beat, client.endpoint.encode())
    moving.settle()
    (told,) = [found for kind, _, found in moving.heard if kind == wire.UNKNOWN]
    assert told == {"endpoint": old.sockets.endpoint, "process": old.loop.clients.process}
    publishers(moving, "one")
    moving.heard.clear()
    client.send(old.sockets.endpoint, beat, client.endpoint.encode())
    for nonsense in (b"", b"nowhere", b"\xff\xfe"):
        client.send(old.sockets.endpoint, Header(wire.BEAT, 7), nonsense)
    moving.settle()
    assert not [found for kind, _, found in moving.heard if kind == wire.UNKNOWN]


def test_a_last_word_that_is_out_of_order_fails_its_query(moving: Moving) -> None:
    (one,) = publishers(moving, "one")
    one.sequence += 1
    one.close(moving.old)
    moving.settle()
    assert moving.old.state == "failed" and "messages were lost" in moving.old.hosted.instance.cause


def test_a_last_word_may_come_again(moving: Moving) -> None:
    (one,) = publishers(moving, "one")
    one.close(moving.old)
    one.close(moving.old)
    moving.settle()
    assert moving.old.state == "ended"


@pytest.mark.parametrize("lives", [False, True])
def test_the_stream_does_not_end_with_one_that_may_have_sent_more(moving: Moving, lives: bool) -> None:
    silent, last = publishers(moving, "silent", "last")
    moving.old.loop.clients.file_publisher(
        silent.channel, moving.old.hosted, moving.old.hosted.entries[ENTRY], moving.old.source.publishers["silent"], "ipc:///nowhere"
    )
    peer = moving.old.loop.clients.peers[wire.name_id("ipc:///nowhere")]
    if lives:
        peer.endpoint = moving.client.endpoint
    peer.heard = moving.old.loop.clients.ticked - 2 * SILENCE_S
    tick(moving)
    assert set(moving.old.source.vanished) == {"silent"} and moving.old.state == "running"
    last.close(moving.old, "silent")
    tick(moving)
    assert moving.old.state == ("failed" if lives else "ended")
    if lives:
        assert (
            "publisher 'silent' was silent for so long that it counts as closed, its rows up to number 2"
            in moving.old.hosted.instance.cause
        )


@pytest.fixture
def waiting(moving: Moving) -> Iterator[Loop]:
    """A loop in a thread of its own, about to notice that it was away."""
    moving.settle()
    loop = moving.old.loop
    loop.lease_s, loop._next_tick = 1.0, 0
    loop.turned -= 2.0
    thread = threading.Thread(target=loop.run)
    thread.start()
    yield loop
    loop.stop()
    loop.ask(Command("confirm", ""))
    thread.join(HANG_S)


def test_who_was_away_gives_out_nothing_before_it_knows_that_it_counts(moving: Moving, waiting: Loop) -> None:
    until(lambda: waiting.in_doubt)
    heard: list[Any] = []
    one = Publisher(moving, "one")
    one.open(moving.old)
    one.close(moving.old)
    moving.old.ask("fail", cause="it was away for too long")
    until(lambda: moving.old.state == "failed")
    waiting.ask(Command("confirm", ""))

    def answered() -> bool:
        while (message := moving.client.receive()) is not None:
            heard.append((message[0].kind, wire.from_json(message[1]) if message[1] else None))
        return any(kind == wire.CLOSED for kind, _ in heard)

    until(answered)
    assert (wire.OPENED, {"here": False}) in heard
