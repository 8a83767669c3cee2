"""Silence as an instance manager takes it, message by message: whose time is over, and whose silence is its own.

Tests `clients.py`, `publishers.py`, `subscribers.py`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from cep.plan.channels import ChannelId
from cep.transport import wire
from cep.transport.wire import Header
from instance_manager.clients.clients import SILENCE_S
from instance_manager.clients.peers import Peer
from instance_manager.clients.publishers import Dropped
from instance_manager.clients.subscribers import NOT_RESUMED
from instance_manager.control.assignment_checks import Assignment
from instance_manager.control.commands import AddSubscriptions, Confirm, FailInstance
from instance_manager.control.own_nodes import status_of
from instance_manager.loop import Loop
from tests.instance_manager.clients.test_redirects import ENTRY, Moving, Publisher, moving, publishers
from tests.support.waiting import HANG_S, until

__all__ = ["moving"]  # fixture


def tick(moving: Moving) -> None:
    moving.settle(ticks=True)


def peer_of(moving: Moving) -> Peer:
    (peer,) = moving.old.loop.clients.peers.known.values()
    return peer


def subscribe(moving: Moving, name: str, keep_s: float) -> int:
    """The channel of a new subscription."""
    outlet = ChannelId.outlet("q", "answers", 0, 1).id
    terms = {"id": name, "endpoint": moving.client.endpoint, "keep_s": keep_s}
    moving.client.send(moving.old.sockets.endpoint, Header(wire.SUBSCRIBE, outlet), wire.to_json(terms))
    moving.settle()
    (answer,) = [found for kind, channel, found in moving.heard if (kind, channel) == (wire.SUBSCRIBED, outlet) and found["id"] == name]
    return int(answer["place"]["channel"])


def test_a_client_loses_those_subscriptions_whose_time_is_over(moving: Moving) -> None:
    short, long = subscribe(moving, "short", 2.0), subscribe(moving, "long", 60.0)
    peer = peer_of(moving)
    for silent_s, left in ((1.0, {short, long}), (5.0, {long}), (30.0, {long})):
        peer.heard = moving.old.loop.clients.peers.ticked - silent_s
        tick(moving)
        assert moving.old.loop.clients.subscribers.here.keys() == left
    peer.heard = moving.old.loop.clients.peers.ticked - 61.0
    tick(moving)
    assert not moving.old.loop.clients.subscribers.here
    assert [channel for kind, channel, _ in moving.heard if kind == wire.UNSUBSCRIBE] == [short, long]


def test_rows_that_were_dropped_are_counted_when_a_subscription_goes(moving: Moving) -> None:
    """Those of both: what had no room, and what waits."""
    subscribers = moving.old.loop.clients.subscribers
    channels = [subscribe(moving, name, 60.0) for name in ("one", "two")]
    _, outlet, subscription, _ = subscribers.here[channels[0]]
    subscription.dropped = 7
    subscription.held.extend((Header(wire.BATCH, channels[0]), b"", rows) for rows in (2, 3))
    subscribers.unsubscribe(channels[0])
    assert outlet.dropped_rows == 12
    subscribers.unsubscribe(channels[1])
    assert outlet.dropped_rows == 12 and not outlet.subscriptions


def test_what_passes_while_nobody_listens_is_nobodys_silence(moving: Moving) -> None:
    (one,) = publishers(moving, "one")
    peers, peer = moving.old.loop.clients.peers, peer_of(moving)
    peers.ticked -= 3600.0  # an hour ago both were at it
    peer.heard -= 3600.0
    tick(moving)
    assert set(moving.old.source.publishers) == {"one"} and not moving.old.source.vanished
    peer.heard -= 2 * SILENCE_S
    tick(moving)
    assert set(moving.old.source.vanished) == {"one"}
    assert moving.heard_by(one) == [wire.OPENED, wire.CLOSED] or moving.heard_by(one) == []


def test_who_is_not_known_is_told_so(moving: Moving) -> None:
    """By a process that says which it is; and it may have given up what it was."""
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
    assert moving.old.state == "ended" and told(moving, one) == [{"heard": True}] * 2


# --- two of something, and states that come one after the other ----------------------------------------------------------


def told(moving: Moving, publisher: Publisher) -> list[Any]:
    """The words with which it was told that it is closed."""
    return [document for kind, channel, document in moving.heard if (kind, channel) == (wire.CLOSED, publisher.channel)]


def fall_silent(moving: Moving, *others: Publisher) -> None:
    """All publishers here; `others` open again."""
    for peer in list(moving.old.loop.clients.peers.known.values()):
        peer.heard = moving.old.loop.clients.peers.ticked - 2 * SILENCE_S
    tick(moving)
    for other in others:
        other.open(moving.old)
    moving.settle()
    moving.heard.clear()


def say_goodbye(moving: Moving, publisher: Publisher, last: bool, *others: str) -> None:
    document = {"last": last, "others": others, "endpoint": moving.client.endpoint, "entry": ENTRY}
    publisher.say(moving.old, wire.CLOSE, document, sequence=publisher.sequence, record=publisher.sent)
    moving.settle()


@pytest.mark.parametrize(
    ("last", "others", "state"), [(True, (), "ended"), (False, (), "running"), (True, ("two",), "running"), (True, ("one",), "ended")]
)
def test_the_last_word_of_one_that_counts_as_closed(moving: Moving, last: bool, others: tuple[str, ...], state: str) -> None:
    """It ends the stream as it would have otherwise: if it was the last, and no other is open."""
    (one,) = publishers(moving, "one")
    fall_silent(moving)
    say_goodbye(moving, one, last, *others)
    assert moving.old.state == state and told(moving, one) == [{"heard": True}]


def test_one_that_sent_more_than_came_hears_so(moving: Moving) -> None:
    (one,) = publishers(moving, "one")
    fall_silent(moving)
    one.sent += 1
    say_goodbye(moving, one, True)
    tick(moving)
    assert told(moving, one) == [{"heard": True, "record": 3}] and moving.old.state == "failed"


def test_one_that_was_refused_and_comes_again_may_end_its_stream(moving: Moving) -> None:
    (one,) = publishers(moving, "one")
    one.say(moving.old, wire.BATCH, b"nonsense", sequence=one.sequence, fingerprint=1)
    moving.settle()
    one.sequence = one.sent = 0
    one.open(moving.old)
    moving.settle()
    fall_silent(moving)
    say_goodbye(moving, one, True)
    assert moving.old.state == "ended"


def test_the_last_word_of_one_that_was_refused_ends_nothing(moving: Moving) -> None:
    """What it sent is not complete."""
    (one,) = publishers(moving, "one")
    one.say(moving.old, wire.BATCH, b"nonsense", sequence=one.sequence, fingerprint=1)
    moving.settle()
    say_goodbye(moving, one, True)
    assert moving.old.state == "running"


def test_one_that_came_again_is_not_counted_by_what_it_was(moving: Moving) -> None:
    (one,) = publishers(moving, "one")
    fall_silent(moving, one)
    one.sequence = one.sent = 0
    for _ in range(2):
        say_goodbye(moving, one, True)
    assert told(moving, one) == [{"heard": True}] * 2 and moving.old.state == "ended"


def test_a_row_that_is_missing_is_missed_though_its_process_has_ended(moving: Moving) -> None:
    silent, last = publishers(moving, "silent", "last")
    hosted = moving.old.hosted
    publishers_here = moving.old.loop.clients.publishers
    publishers_here.file(silent.channel, hosted, hosted.entries[ENTRY], moving.old.source.publishers["silent"], "ipc:///nowhere")
    moving.old.loop.clients.peers.known[wire.name_id("ipc:///nowhere")].heard -= 2 * SILENCE_S
    tick(moving)
    silent.send(moving.old)
    last.close(moving.old, "silent")
    tick(moving)
    assert moving.old.state == "failed" and "it sent more" in moving.old.hosted.instance.cause


def test_one_that_comes_from_another_endpoint_lives_by_its_heartbeat(moving: Moving) -> None:
    (one,) = publishers(moving, "one")
    before, clients, hosted = peer_of(moving), moving.old.loop.clients, moving.old.hosted
    clients.publishers.file(one.channel, hosted, hosted.entries[ENTRY], moving.old.source.publishers["one"], "ipc:///nowhere")
    (peer,) = clients.peers.known.values()
    assert peer is not before and peer.publishers == {one.channel} and not before.publishers


def test_what_has_come_of_a_silent_one_is_taken_before_it_counts_as_closed(moving: Moving) -> None:
    (one,) = publishers(moving, "one")
    clients, source = moving.old.loop.clients, moving.old.source
    source.publishers["one"].inbox.queue.append((None, 0, 0))
    clients.publishers.drop(peer_of(moving))
    assert one.channel in clients.publishers.here and not clients.publishers.dropped and not source.vanished


def test_those_that_are_waited_for_are_not_silent_while_nobody_listens(moving: Moving) -> None:
    publishers_here, source = moving.old.loop.clients.publishers, moving.old.source
    moving.settle()
    source.expected.update({"late"})
    publishers_here.add(moving.old.hosted)
    publishers_here.tick(SILENCE_S, 0.0)
    source.expected_from_us -= 3_600_000_000
    publishers_here.tick(SILENCE_S, 3600.0)
    assert source.expected == {"late"}
    source.expected_from_us -= round(2e6 * SILENCE_S)
    publishers_here.tick(SILENCE_S, 0.0)
    assert not source.expected


def test_an_instance_that_goes_takes_only_its_own_silent_ones_along(moving: Moving) -> None:
    moving.build()
    here = moving.old.loop.clients.publishers
    old, new = moving.old.hosted, moving.new.hosted
    here.dropped = {1: Dropped(old, old.entries[ENTRY], "a"), 2: Dropped(new, new.entries[ENTRY], "b")}
    here.hand_over(old)
    assert here.dropped.keys() == {2}


def test_a_process_that_has_nothing_here_is_forgotten_when_it_is_silent(moving: Moving) -> None:
    peers = moving.old.loop.clients.peers
    peers.meet("ipc:///nowhere", True, peers.ticked - 2 * SILENCE_S)
    tick(moving)
    assert not peers.known


def test_one_that_subscribes_again_has_its_latest_terms(moving: Moving) -> None:
    channel = subscribe(moving, "s", 2.0)
    moving.heard.clear()
    assert subscribe(moving, "s", 60.0) == channel
    subscribed = moving.old.loop.clients.subscribers.here[channel]
    assert subscribed.subscription.terms.keep_s == 60.0 and subscribed.peer.subscriptions == {channel: 60.0}


def test_a_subscription_lives_by_the_endpoint_that_asked_last(moving: Moving) -> None:
    channel = subscribe(moving, "s", 60.0)
    before, clients = peer_of(moving), moving.old.loop.clients
    document = {"id": "s", "endpoint": "ipc:///nowhere", "keep_s": 5.0}
    clients.subscribers.subscribe(Header(wire.SUBSCRIBE, ChannelId.outlet("q", "answers", 0, 1).id), document, clients.peers.ticked)
    (peer,) = clients.peers.known.values()
    assert peer.endpoint == "ipc:///nowhere" and peer.subscriptions == {channel: 5.0} and not before.subscriptions


def test_what_the_orchestrator_says_twice_is_one_subscription(moving: Moving) -> None:
    moving.settle()
    clients, hosted = moving.old.loop.clients, moving.old.hosted
    document = {"id": "s", "endpoint": moving.client.endpoint, "stream": "answers"}
    clients.subscribe_all(hosted, [document])
    (before,) = clients.subscribers.here.values()
    clients.subscribe_all(hosted, [document])
    (after,) = clients.subscribers.here.values()
    assert after.subscription is before.subscription


def test_one_that_the_orchestrator_knows_and_that_is_dropped_is_told_until_it_knows_it_no_more(moving: Moving) -> None:
    hosted, clients = moving.old.hosted, moving.old.loop.clients
    documents = [{"id": name, "endpoint": moving.client.endpoint, "stream": "answers", "keep_s": 2.0} for name in ("dropped", "closed")]
    moving.settle()
    clients.subscribe_all(hosted, documents)
    subscribe(moving, "unknown", 2.0)
    (closed,) = (id_ for id_, each in clients.subscribers.here.items() if each.subscription.terms.id == "closed")
    clients.handle(Header(wire.UNSUBSCRIBE, closed), None)
    now = clients.peers.ticked
    clients.subscribers.tick(now)
    clients.subscribers.drop(hosted, ["closed"])  # its client has told the orchestrator, too
    peer_of(moving).heard = now - 5.0
    tick(moving)
    assert not clients.subscribers.here and not hosted.lost, "it hears so soon, perhaps"
    clients.subscribers.tick(now + 60.0)
    moving.settle()
    assert status_of(hosted)["lost"] == (("answers", "dropped", moving.client.endpoint),) and hosted.reported == hosted.tellable
    clients.subscribers.drop(hosted, ["dropped"])
    clients.subscribers.tick(now + 61.0)
    assert "lost" not in status_of(hosted)


def test_what_is_on_its_way_here_is_not_lost(moving: Moving) -> None:
    moving.settle()
    moving.old.loop.clients.subscribe_all(moving.old.hosted, [{"id": "s", "endpoint": moving.client.endpoint, "stream": "answers"}])
    moving.build()
    (outlet,) = moving.new.hosted.outlets.values()
    outlet.registered["s"] = moving.client.endpoint
    for later in (0.0, 60.0):
        moving.new.loop.clients.subscribers.tick(moving.new.loop.clients.peers.ticked + later)
    assert moving.new.state == "arriving" and not moving.new.hosted.lost
    moving.redirect()
    for later in (0.0, 60.0):
        moving.new.loop.clients.subscribers.tick(moving.new.loop.clients.peers.ticked + later)
    assert moving.new.state == "running" and outlet.subscriptions.keys() == {"s"} and not moving.new.hosted.lost


def test_one_more_than_a_stream_may_have_is_refused(moving: Moving) -> None:
    """Of a query that runs, and does not recover, the orchestrator is not asked."""
    assignment = Assignment("q", "SQ1", 0, 1, (0, 0), "ready", subscribers_max=1)
    moving.settle()
    (outlet,), (made,) = (
        hosted.outlets.values() for hosted in (moving.old.hosted, moving.new.preparation.prepare(moving.plan, assignment, 1, {}))
    )
    outlet.most = made.most
    channel = subscribe(moving, "first", 60.0)
    moving.heard.clear()
    assert subscribe(moving, "first", 60.0) == channel, "it has it already"
    document = {"id": "second", "endpoint": moving.client.endpoint}
    moving.client.send(moving.old.sockets.endpoint, Header(wire.SUBSCRIBE, outlet.channel.id), wire.to_json(document))
    moving.settle()
    refused = "expected at most 1 subscriptions (subscribers_max); end one first; this would be number 2"
    assert moving.heard[-1][2]["refused"] == refused and outlet.subscriptions.keys() == {"first"}


def test_where_nothing_is_kept_a_second_holder_is_refused_and_the_first_goes_on(moving: Moving) -> None:
    """However it is heard of: its query does not recover."""
    channel, outlet = subscribe(moving, "s", 60.0), ChannelId.outlet("q", "answers", 0, 1).id
    second = {"id": "s", "endpoint": moving.client.endpoint, "stream": "answers", "resumable": True, "holder": 1}
    moving.heard.clear()
    moving.old.ask(lambda key: AddSubscriptions(key, [second]))
    moving.client.send(moving.old.sockets.endpoint, Header(wire.SUBSCRIBE, outlet), wire.to_json(second))
    moving.settle()
    said = [found["refused"] for kind, to, found in moving.heard if (kind, to) == (wire.SUBSCRIBED, outlet)]
    assert said == [NOT_RESUMED] * 2
    assert moving.old.state == "running" and moving.old.loop.clients.subscribers.here.keys() == {channel}


def test_a_subscription_that_has_moved_is_nobodys_here(moving: Moving) -> None:
    channel = subscribe(moving, "s", 2.0)
    peer = peer_of(moving)
    moving.begin()
    assert moving.old.state == "moved" and not peer.subscriptions and channel not in moving.old.loop.clients.subscribers.here
    peer.heard -= 5.0
    tick(moving)  # it has not been abandoned
    assert not [kind for kind, *_ in moving.heard if kind == wire.UNSUBSCRIBE]


@pytest.mark.parametrize("lives", [False, True])
def test_the_stream_does_not_end_with_one_that_may_have_sent_more(moving: Moving, lives: bool) -> None:
    silent, last = publishers(moving, "silent", "last")
    moving.old.loop.clients.publishers.file(
        silent.channel, moving.old.hosted, moving.old.hosted.entries[ENTRY], moving.old.source.publishers["silent"], "ipc:///nowhere"
    )
    peer = moving.old.loop.clients.peers.known[wire.name_id("ipc:///nowhere")]
    if lives:
        peer.endpoint = moving.client.endpoint
    peer.heard = moving.old.loop.clients.peers.ticked - 2 * SILENCE_S
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
    loop.lease_ns, loop.next_tick = 1e9, 0
    loop.turned -= 2_000_000_000
    thread = threading.Thread(target=loop.run)
    thread.start()
    yield loop
    loop.stop()
    loop.ask(Confirm())
    thread.join(HANG_S)


def test_one_that_was_away_in_the_middle_of_a_turn_goes_on_with_no_instance(moving: Moving, monkeypatch: pytest.MonkeyPatch) -> None:
    moving.settle()
    loop = moving.old.loop
    loop.lease_ns = 1e9
    receive, step, stepped = loop.network.receive, loop._step, list[str]()

    def stopped_behind_it() -> None:
        receive()
        loop.turned -= 2_000_000_000
        for hosted in loop.hosted.values():
            hosted.wake()

    monkeypatch.setattr(loop.network, "receive", stopped_behind_it)
    monkeypatch.setattr(loop, "_step", lambda hosted, end: stepped.append(hosted.key) or step(hosted, end))
    loop.turn()
    assert loop.in_doubt and loop.ready and not stepped
    monkeypatch.setattr(loop.network, "receive", receive)
    loop.ask(Confirm())
    assert loop.turn() and not stepped, "it was told so, and goes on with the next"
    loop.turn()
    assert not loop.in_doubt and stepped == list(loop.hosted)


def test_who_was_away_gives_out_nothing_before_it_knows_that_it_counts(moving: Moving, waiting: Loop) -> None:
    until(lambda: waiting.in_doubt)
    heard: list[Any] = []
    one = Publisher(moving, "one")
    one.open(moving.old)
    one.close(moving.old)
    moving.old.ask(lambda key: FailInstance(key, "SQ1", None, "it was away for too long"))
    until(lambda: moving.old.state == "failed")
    waiting.ask(Confirm())

    def answered() -> bool:
        while (message := moving.client.receive()) is not None:
            heard.append((message[0].kind, wire.from_json(message[1]) if message[1] else None))
        return any(kind == wire.CLOSED for kind, _ in heard)

    until(answered)
    assert (wire.OPENED, {"here": False, "over": False, "elsewhere": False}) in heard
