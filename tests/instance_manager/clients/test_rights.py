"""What a client may do on the data plane is what the roles of its key say, and only on channels that it has opened."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq

from cep.elements import MIN_TIME
from cep.errors import ProtocolError
from cep.plan.channels import publisher_channel
from cep.transport import wire
from cep.transport.keyring import MEMBER, Keyring, Speaker
from cep.transport.linked import LinkSockets
from cep.transport.wire import Header
from instance_manager.clients.rights import NotAllowed, Rights
from tests.instance_manager.test_broken_messages import Station
from tests.support.waiting import until

AT = "ipc:///nowhere/client"  # where all of these are


def speaker(name: str, *roles: str) -> Speaker:
    return Speaker(name * 40, name, frozenset(roles), endpoint=AT)


WRITER, OTHER = speaker("writer", "publish:events"), speaker("other", "publish:events", "subscribe:good_answers")
READER, STRANGER = speaker("reader", "subscribe:good_answers"), speaker("stranger", "publish:elsewhere", "subscribe:elsewhere", "read")


@pytest.fixture
def station(tmp_path: Path) -> Iterator[Station]:
    made = Station(tmp_path)
    for number in (1, 2):
        made.host("good", number, "im-0")
    yield made
    made.close()


@pytest.fixture
def rights(station: Station) -> Rights:
    return station.loop.rights


def entry_of(station: Station) -> int:
    return next(iter(station.loop.clients.publishers.entries))


def outlet_of(station: Station) -> int:
    return next(iter(station.loop.clients.subscribers.outlets))


def opening(station: Station, name: str = "p", **more: Any) -> tuple[Header, bytes]:
    document = {"publisher": name, "endpoint": AT, "sent_until": MIN_TIME, **more}
    return Header(wire.OPEN, entry_of(station)), wire.to_json(document)


def subscribing(station: Station, name: str = "s", **more: Any) -> tuple[Header, bytes]:
    return Header(wire.SUBSCRIBE, outlet_of(station)), wire.to_json({"id": name, "endpoint": AT, **more})


def last_word(station: Station, **more: Any) -> bytes:
    return wire.to_json({"entry": entry_of(station), "last": True, "others": [], "endpoint": AT, **more})


def opened(station: Station, rights: Rights) -> int:
    """The channel of a publisher that WRITER has opened."""
    header, body = opening(station)
    rights.check(WRITER, header, body)
    station.loop.clients.handle(header, body)
    return publisher_channel(header.channel, "p")


def test_to_open_a_publisher_takes_the_role_for_its_stream(station: Station, rights: Rights) -> None:
    for allowed in (WRITER, speaker("all", "publish:*"), speaker("boss", "admin"), speaker("im", MEMBER)):
        rights.check(allowed, *opening(station, allowed.name))
    for refused in (READER, STRANGER, speaker("none")):
        with pytest.raises(NotAllowed, match="needs the role publish:events"):
            rights.check(refused, *opening(station, refused.name))


def test_to_subscribe_takes_the_role_for_its_stream(station: Station, rights: Rights) -> None:
    rights.check(READER, *subscribing(station))
    for refused in (WRITER, STRANGER):
        with pytest.raises(NotAllowed, match="needs the role subscribe:good_answers"):
            rights.check(refused, *subscribing(station))


def test_a_publishers_channel_belongs_to_who_has_opened_it(station: Station, rights: Rights) -> None:
    channel = opened(station, rights)
    for kind in (wire.BATCH, wire.WATERMARK, wire.CLOSE):
        rights.check(WRITER, Header(kind, channel), last_word(station))
        with pytest.raises(NotAllowed, match="belongs to writer, and other sent on it"):
            rights.check(OTHER, Header(kind, channel), last_word(station))
    with pytest.raises(NotAllowed, match="belongs to writer"):
        rights.check(OTHER, *opening(station))


def test_a_name_that_was_closed_may_be_opened_by_another(station: Station, rights: Rights) -> None:
    channel = opened(station, rights)
    station.loop.clients.publishers.let_go(channel)
    rights.check(OTHER, *opening(station))
    rights.check(OTHER, Header(wire.BATCH, channel), b"")


def test_a_readers_channel_belongs_to_who_has_subscribed(station: Station, rights: Rights) -> None:
    header, body = subscribing(station)
    rights.check(READER, header, body)
    station.loop.clients.handle(header, body)
    (channel,) = station.loop.clients.subscribers.here
    rights.check(READER, Header(wire.CREDIT, channel, 1), b"")
    for kind in (wire.CREDIT, wire.UNSUBSCRIBE):
        with pytest.raises(NotAllowed, match="belongs to reader"):
            rights.check(OTHER, Header(kind, channel), b"")
    with pytest.raises(NotAllowed, match="belongs to reader"):
        rights.check(OTHER, header, body)


def test_what_instances_say_to_each_other_is_not_for_clients(station: Station, rights: Rights) -> None:
    boss = speaker("boss", "admin")
    for kind in (wire.BATCH, wire.END, wire.CREDIT, wire.SUBSCRIBED, wire.UNKNOWN):
        header = Header(kind, 12345)
        with pytest.raises(NotAllowed):
            rights.check(boss, header, b"")
        rights.check(speaker("im", MEMBER), header, b"")


def test_the_last_word_of_one_that_is_not_known_needs_the_role_too(station: Station, rights: Rights) -> None:
    body = last_word(station)
    rights.check(WRITER, Header(wire.CLOSE, 99), body)
    with pytest.raises(NotAllowed, match="publish:events"):
        rights.check(READER, Header(wire.CLOSE, 99), body)
    with pytest.raises(ProtocolError):
        rights.check(READER, Header(wire.CLOSE, 99), b"nonsense")


def test_an_instance_that_has_moved_away_is_asked_for_with_the_role(station: Station, rights: Rights) -> None:
    header, body = opening(station)
    del station.loop.clients.publishers.entries[header.channel]
    with pytest.raises(NotAllowed, match="publish:events"):
        rights.check(READER, header, body)


def test_the_channel_of_another_stream_is_not_closed_by_the_role_for_this_one(station: Station, rights: Rights) -> None:
    """One that counts as closed may have sent more: its last word says how much, and nothing else does."""
    station.host("twin", 1, "im-0")
    channel = opened(station, rights)
    (publisher,) = station.loop.clients.publishers.here.values()
    publisher.peer.heard -= 60
    station.loop.clients.tick()
    dropped = station.loop.clients.publishers.dropped[channel]
    dropped.entry.source.stream = "another"
    elsewhere = next(id_ for id_, (_, entry) in station.loop.clients.publishers.entries.items() if entry is not dropped.entry)
    with pytest.raises(NotAllowed, match="publish:another"):
        rights.check(OTHER, Header(wire.CLOSE, channel), last_word(station, entry=elsewhere))


def test_a_last_word_that_is_passed_on_is_of_the_channel_that_its_sender_has_opened(station: Station, rights: Rights) -> None:
    """Where it comes to a member has said it."""
    channel, entry = opened(station, rights), entry_of(station)
    station.loop.clients.publishers.let_go(channel)
    station.loop.clients.forwarding.begin((entry,), lambda header, body: None, 0.0)
    rights.check(WRITER, Header(wire.CLOSE, channel), last_word(station))
    for of_others in (channel, 99):
        with pytest.raises(NotAllowed, match="none that it has opened"):
            rights.check(OTHER, Header(wire.CLOSE, of_others), last_word(station))


def test_a_client_speaks_for_itself(station: Station, rights: Rights) -> None:
    """What it names as its endpoint is sent to, by a member: another instance manager would listen to that."""
    elsewhere = "ipc:///run/cep/im-7"
    said = [opening(station, endpoint=elsewhere), subscribing(station, endpoint=elsewhere)]
    said.append((Header(wire.CLOSE, 99), last_word(station, endpoint=elsewhere)))
    said.append((Header(wire.BEAT, wire.name_id(AT)), elsewhere.encode()))
    said.append((Header(wire.BEAT, wire.name_id(elsewhere)), b""))
    for header, body in said:
        for boss in (speaker("boss", "admin"), WRITER._replace(roles=WRITER.roles | READER.roles)):
            with pytest.raises(NotAllowed, match=r"speaks for|another process"):
                rights.check(boss, header, body)
        rights.check(speaker("im", MEMBER), header, body)
    rights.check(speaker("idle", "read"), Header(wire.BEAT, wire.name_id(AT)), AT.encode())


def test_what_a_query_reads_is_not_for_clients(station: Station, rights: Rights) -> None:
    with pytest.raises(NotAllowed, match="is no query"):
        rights.check(READER, *subscribing(station, reader="another query"))
    header, body = subscribing(station, "feed", reader="another query")
    rights.check(speaker("im", MEMBER), header, body)
    station.loop.clients.handle(header, body)
    (channel,) = station.loop.clients.subscribers.here
    for kind in (wire.CREDIT, wire.UNSUBSCRIBE, wire.ACK):
        with pytest.raises(NotAllowed, match="belongs to query 'another query'"):
            rights.check(READER, Header(kind, channel, 1), b"")
    with pytest.raises(NotAllowed, match="belongs to query 'another query'"):
        rights.check(READER, *subscribing(station, "feed"))


def test_what_is_here_is_known_however_many_have_come_and_gone(station: Station, rights: Rights, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("instance_manager.clients.rights.OWNERS_MAX", 1)
    for hosted in station.hosted.values():
        rights.note(hosted)
    assert len(rights.streams) == 1
    with pytest.raises(NotAllowed, match="publish:events"):
        rights.check(READER, *opening(station))
    with pytest.raises(NotAllowed, match="subscribe:good_answers"):
        rights.check(WRITER, *subscribing(station))


def test_a_message_under_a_key_without_the_role_is_not_heard(station: Station, tmp_path: Path) -> None:
    """Over CURVE, from end to end."""
    members, joe = (tuple(key.decode() for key in zmq.curve_keypair()) for _ in range(2))
    keys = Keyring(*members, members[0], {joe[0]: Speaker(joe[0], "joe", frozenset({"publish:events"}))})
    here = LinkSockets(f"link://h1@127.0.0.1:0{tmp_path}/im", keys)
    there = LinkSockets(f"link://h2@{tmp_path}/joe", Keyring(*joe, members[0]))
    station.loop.network.sockets = station.loop.clients.publishers.sockets = here
    before = station.loop.network.strays
    there.send(here.endpoint, *subscribing(station, endpoint=there.endpoint))
    until(lambda: there.park(1) or station.loop.network.receive() or station.loop.network.strays > before)
    assert not station.loop.clients.subscribers.here
    header, body = opening(station, endpoint=there.endpoint)
    there.send(here.endpoint, header, body)
    until(lambda: there.park(1) or station.loop.network.receive() or bool(station.loop.clients.publishers.here))
    there.close()
    here.close()
