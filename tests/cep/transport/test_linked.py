"""Links over ZeroMQ: which end may call, what is told, and that what is wrong harms its own link alone.

Tests `linked.py`, `arrivals.py`, `called.py`, `calling.py`, `keyring.py`, `zeromq.py`, `benchmarks/faults/fuzz_links.py`.
"""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
import zmq

from benchmarks.faults.fuzz_links import GROWTH_BYTES, attacked
from cep.transport import frames, wire
from cep.transport.endpoints import Endpoint
from cep.transport.ends import LinkBroken, hello_of
from cep.transport.frames import DATA, HELLO, WELCOME, Frame
from cep.transport.keyring import MEMBER, Keyring, Speaker
from cep.transport.linked import LinkSockets
from cep.transport.sockets import is_endpoint, is_gone
from cep.transport.wire import Header
from tests.support.paths import ROOT
from tests.support.recorder import Recorder
from tests.support.waiting import HANG_S, until

Pair = tuple[str, str]
Open = Callable[..., LinkSockets]


def pair() -> Pair:
    public, secret = zmq.curve_keypair()
    return public.decode(), secret.decode()


MEMBERS, JOE, STRANGER = pair(), pair(), pair()
CLIENTS = {JOE[0]: Speaker(JOE[0], "joe", frozenset({"publish:s"}))}
RING = Keyring(*MEMBERS, MEMBERS[0], CLIENTS)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    made: list[LinkSockets] = []

    def open_(name: str, keyring: Keyring | None = None, address: str = "127.0.0.1:0") -> LinkSockets:
        made.append(LinkSockets(f"link://{name}@{address}{tmp_path}/{name}", keyring))
        return made[-1]

    yield open_
    closing = [threading.Thread(target=each.close) for each in made]
    for thread in closing:
        thread.start()
    for thread in closing:
        thread.join()


def exchange(source: LinkSockets, target: LinkSockets, number: int = 1, others: tuple[LinkSockets, ...] = ()) -> Speaker | None:
    """A message goes there. Who has sent it?"""
    source.send(target.endpoint, Header(wire.BATCH, 1, number), b"x")
    header, body = until(lambda: [each.park(5) for each in (source, *others)] and (target.park(5) or target.receive()))
    assert (header.sequence, bytes(body)) == (number, b"x")
    return target.speaker


def told(sockets: LinkSockets, *others: LinkSockets) -> LinkBroken:
    """That a link has broken."""

    def look() -> LinkBroken | None:
        for each in (*others, sockets):
            each.park(5)
        try:
            sockets.receive()
        except LinkBroken as error:
            return error
        return None

    found = until(look)
    assert found is not None
    return found


def address_of(sockets: LinkSockets) -> str:
    return Endpoint.parse(sockets.endpoint).address


def test_a_message_says_whose_it_was(opened: Open) -> None:
    one, other, joe = opened("h1", RING), opened("h2", RING), opened("h3", Keyring(*JOE, MEMBERS[0]), "")
    found = exchange(one, other)
    assert found is not None and found.is_member
    assert exchange(joe, other) == CLIENTS[JOE[0]]._replace(endpoint=joe.endpoint)
    answered = exchange(other, joe)
    assert answered is not None and answered.is_member


def test_without_keys_nothing_is_said(opened: Open) -> None:
    assert exchange(opened("h1"), opened("h2")) is None


def test_a_process_of_the_same_host_needs_no_key(tmp_path: Path, opened: Open) -> None:
    one = opened("h1", RING)
    other = LinkSockets(f"link://h1@{tmp_path}/client", Keyring(*STRANGER, MEMBERS[0]))
    assert exchange(other, one) is None and exchange(one, other) is None
    other.close()


def test_a_key_that_is_not_known_is_refused_and_logged(opened: Open, caplog: pytest.LogCaptureFixture) -> None:
    member, stranger = opened("h1", RING), opened("h2", Keyring(*STRANGER, MEMBERS[0]), "")
    joe = opened("h3", Keyring(*JOE, MEMBERS[0]), "")
    with caplog.at_level(logging.WARNING):
        stranger.send(member.endpoint, Header(wire.BATCH, 1, 66), b"x")
        until(lambda: stranger.park(5) or STRANGER[0] in caplog.text)
        exchange(joe, member)
    assert STRANGER[1] not in caplog.text


def test_a_client_does_not_speak_to_a_server_with_another_key(opened: Open) -> None:
    member, joe = opened("h1", RING), opened("h2", Keyring(*JOE, STRANGER[0]), "")
    joe.send(member.endpoint, Header(wire.BATCH, 1, 66), b"x")
    for _ in range(60):
        joe.park(5)
        member.park(5)
        assert member.receive() is None


def test_what_was_listened_to_is_of_no_use_when_it_is_said_again(opened: Open) -> None:
    """A connection of joe's, its handshake and a message, byte for byte: the server's part of the handshake is new each time."""
    member, joe = opened("h1", RING), opened("h3", Keyring(*JOE, MEMBERS[0]), "")
    at = address_of(member)
    recorder = Recorder(at)
    try:
        joe.send(member.endpoint.replace(at, recorder.address), Header(wire.BATCH, 1, 1), b"x")
        until(lambda: joe.park(5) or member.park(5) or member.receive())
        said = bytes(recorder.said)
    finally:
        recorder.close()
    with socket.create_connection(("127.0.0.1", int(at.rpartition(":")[2]))) as again:
        again.settimeout(HANG_S)
        heard, hello = b"", 64 + 202  # ZMTP's greeting, and CURVE's first command
        again.sendall(said[:hello])
        while b"WELCOME" not in heard:
            heard += (piece := again.recv(4096))
            assert piece, "it was closed before the handshake"
        again.sendall(said[hello:])
        with suppress(ConnectionResetError):
            assert not again.recv(4096), "the member closes the connection"
    assert len(said) > hello + 400
    assert member.receive() is None
    exchange(opened("h4", Keyring(*JOE, MEMBERS[0]), ""), member)


def test_keys_are_replaced_while_links_are_open(opened: Open) -> None:
    """What was under way is not lost: both ends only come again."""
    new = pair()
    one, other, joe = opened("h1", RING), opened("h2", RING), opened("h3", Keyring(*JOE, MEMBERS[0]), "")
    exchange(one, other, 1)
    exchange(joe, other, 2)
    one.send(other.endpoint, Header(wire.BATCH, 1, 3), bytes(3 << 20))
    ring = Keyring(*new, new[0], CLIENTS)
    for sockets, keyring in ((one, ring), (other, ring), (joe, Keyring(*JOE, new[0]))):
        sockets.rekey(keyring)
    header, _ = until(lambda: one.park(5) or other.park(5) or other.receive())
    assert header.sequence == 3
    exchange(joe, other, 4, (one,))
    exchange(other, joe, 5, (one,))
    exchange(other, one, 6, (joe,))


def test_the_keys_of_clients_come_and_go_without_a_cut(opened: Open) -> None:
    """Each program that begins hands one in, whatever its token may do: no link of others is to notice."""
    ann = pair()
    one, other, joe = opened("h1", RING), opened("h2", RING), opened("h3", Keyring(*JOE, MEMBERS[0]), "")
    exchange(one, other, 1)
    exchange(joe, other, 2, (one,))
    assert other._called is not None
    there = [other._called.socket, *(end.socket for end in one._calling.values())]
    for sockets in (one, other):
        sockets.rekey(Keyring(*MEMBERS, MEMBERS[0], CLIENTS | {ann[0]: Speaker(ann[0], "ann", frozenset())}))
    assert [other._called.socket, *(end.socket for end in one._calling.values())] == there
    assert not any(socket.closed for socket in there)
    new = opened("h4", Keyring(*ann, MEMBERS[0]), "")
    assert exchange(new, other, 3, (one, joe)) == Speaker(ann[0], "ann", frozenset(), endpoint=new.endpoint)


def test_a_key_that_is_taken_away_is_told_and_heard_no_more(opened: Open) -> None:
    member, joe = opened("h1", RING), opened("h2", Keyring(*JOE, MEMBERS[0]), "")
    exchange(joe, member)
    member.rekey(Keyring(*MEMBERS, MEMBERS[0]))
    assert "the key of joe has ended" in str(told(member, joe))
    joe.send(member.endpoint, Header(wire.BATCH, 1, 66), b"x")
    for _ in range(60):
        joe.park(5)
        member.park(5)
        assert member.receive() is None


def test_a_key_lasts_as_long_as_it_says(opened: Open) -> None:
    ended = {JOE[0]: CLIENTS[JOE[0]]._replace(until=1.0)}
    member, joe = opened("h1", Keyring(*MEMBERS, MEMBERS[0], ended)), opened("h2", Keyring(*JOE, MEMBERS[0]), "")
    joe.send(member.endpoint, Header(wire.BATCH, 1, 66), b"x")
    for _ in range(60):
        joe.park(5)
        member.park(5)
        assert member.receive() is None


def test_a_process_that_comes_in_the_place_of_another_is_noticed(opened: Open, tmp_path: Path) -> None:
    one, other = opened("h1"), opened("h2")
    exchange(one, other)
    address = address_of(other)
    killed, other._called = other._called, None
    assert killed is not None
    other.local.unwatch(killed.descriptor)
    killed.close(0)  # it says nothing more

    def open_again() -> LinkSockets | None:  # as soon as ZeroMQ's thread has closed what listened there
        with suppress(OSError):
            return LinkSockets(f"link://h2@{address}{tmp_path}/again")
        return None

    again = until(open_again)
    assert again is not None
    one.send(other.endpoint, Header(wire.BATCH, 1, 2), b"lost")
    error = told(one, again)
    assert error.endpoint == other.endpoint and error.lost_bytes > 0 and "another one than before" in str(error)
    one.send(other.endpoint, Header(wire.BATCH, 1, 3), b"x")
    header, _ = until(lambda: one.park(5) or again.park(5) or again.receive())
    assert header.sequence == 3
    again.close()


class Peer:
    """The other end as a bare DEALER; `keys`: its own, to a member; `name`: that it gives itself."""

    def __init__(self, address: str, keys: Pair | None = None, name: bytes = b"") -> None:
        self.context = zmq.Context()
        self.dealer = self.context.socket(zmq.DEALER)
        self.dealer.linger, self.dealer.rcvtimeo = 0, 5
        if keys is not None:
            self.dealer.curve_publickey, self.dealer.curve_secretkey = (key.encode() for key in keys)
            self.dealer.curve_serverkey = MEMBERS[0].encode()
        if name:
            self.dealer.routing_id = name
        self.dealer.connect(f"tcp://{address}")

    def hear(self, sockets: LinkSockets) -> bytes:
        def look() -> bytes | None:
            sockets.park(5)
            try:
                return self.dealer.recv()
            except zmq.Again:
                return None

        found = until(look)
        assert found is not None
        return found

    def meet(self, sockets: LinkSockets, number: int, endpoint: str = "link://h9@/peer") -> int:
        """The other end's incarnation."""
        self.dealer.send(Frame(HELLO, number, 0, limit=1 << 20).pack() + hello_of(endpoint))
        frame, _ = frames.read(self.hear(sockets))
        assert frame.kind == WELCOME
        return frame.source

    def close(self) -> None:
        self.dealer.close()
        self.context.term()


@pytest.fixture
def called(opened: Open) -> Iterator[tuple[LinkSockets, Peer]]:
    sockets = opened("h1")
    peer = Peer(address_of(sockets))
    yield sockets, peer
    peer.close()


def test_another_major_version_is_refused_with_both(called: tuple[LinkSockets, Peer], caplog: pytest.LogCaptureFixture) -> None:
    sockets, peer = called
    peer.dealer.send(b"\x02\x05" + bytes(100))
    frame, begin = frames.read(found := peer.hear(sockets))
    assert frame.kind == frames.REFUSED and b"expected version 1.x, got 2.5; this end has 1.0" in found[begin:]
    assert "got 2.5" in caplog.text


def test_a_caller_that_is_refused_says_why(opened: Open) -> None:
    """Its other end is of another major version."""
    context = zmq.Context()
    router = context.socket(zmq.ROUTER)
    router.linger, router.rcvtimeo = 0, 5
    port = router.bind_to_random_port("tcp://127.0.0.1")
    one = opened("h1", address="")
    there = f"link://h2@127.0.0.1:{port}/x"
    one.send(there, Header(wire.BATCH, 1), b"x")

    def heard() -> Any:
        one.park(5)
        try:
            return router.recv_multipart()
        except zmq.Again:
            return None

    connection, *_ = until(heard)
    router.send_multipart([connection, Frame(frames.REFUSED, 0, 0).pack() + b"link: expected version 2.x, got 1.0"])
    assert "expected version 2.x, got 1.0" in str(told(one))
    router.close()
    context.term()


@pytest.mark.parametrize("parts", [[b"nonsense"], [wire.pack_sized(10, Header(wire.BATCH, 1)) + b"short"], [b"", b"x"], [bytes(88)]])
def test_a_packet_that_is_none_breaks_its_own_link_alone(called: tuple[LinkSockets, Peer], opened: Open, parts: list[bytes]) -> None:
    sockets, peer = called
    other = opened("h2")
    exchange(other, sockets)
    target = peer.meet(sockets, 77)
    peer.dealer.send_multipart([Frame(DATA, 77, target, 0, 0, 1 << 20).pack() + parts[0], *parts[1:]])
    assert told(sockets, other).endpoint == "link://h9@/peer"
    exchange(other, sockets, 2)
    exchange(sockets, other, 3)


def test_a_link_goes_on_under_the_same_key_alone(opened: Open) -> None:
    ann = pair()
    ring = Keyring(*MEMBERS, MEMBERS[0], CLIENTS | {ann[0]: Speaker(ann[0], "ann", frozenset())})
    member, joe = opened("h1", ring), opened("h2", Keyring(*JOE, MEMBERS[0]), "")
    exchange(joe, member)
    (end,) = member._called.board.by_endpoint.values()  # type: ignore[union-attr]
    strays = member._called.strays  # type: ignore[union-attr]
    peer = Peer(address_of(member), ann)
    peer.dealer.send(Frame(DATA, end.link.peer, end.link.incarnation, 1, 0, 1 << 20).pack() + wire.pack_sized(0, Header(wire.BATCH, 1)))
    peer.dealer.send(Frame(HELLO, 5, 0, limit=1 << 20).pack() + hello_of(end.endpoint))
    until(lambda: member.park(5) or joe.park(5) or member._called.strays >= strays + 2)  # type: ignore[union-attr]
    assert member.receive() is None
    exchange(joe, member, 2)
    peer.close()


def test_a_connection_that_takes_the_name_of_one_that_is_gone_has_its_own_key(opened: Open) -> None:
    ann = pair()
    speakers = {ann[0]: Speaker(ann[0], "ann", frozenset()), **CLIENTS}
    member = opened("h1", Keyring(*MEMBERS, MEMBERS[0], speakers))
    board = member._called.board  # type: ignore[union-attr]

    def heard(keys: Pair, number: int, endpoint: str) -> Speaker | None:
        """ZeroMQ refuses a name as long as the connection that has it is not gone: so it is tried until it has it."""
        peer = Peer(address_of(member), keys, b"the same")
        peer.dealer.send(Frame(HELLO, number, 0, limit=1 << 20).pack() + hello_of(endpoint))
        for _ in range(20):
            member.park(5)
        peer.close()
        return board.by_endpoint[endpoint].speaker if endpoint in board.by_endpoint else None

    assert until(lambda: heard(JOE, 70, "link://h9@/joe")) == speakers[JOE[0]]._replace(endpoint="link://h9@/joe")
    assert until(lambda: heard(ann, 71, "link://h9@/ann")) == speakers[ann[0]]._replace(endpoint="link://h9@/ann")


def test_a_client_takes_no_endpoint_of_something_else(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of a member that has not called yet could not call then, and one of our own host would be answered by a Unix socket."""
    monkeypatch.setattr("cep.transport.switchboard.CLIENT_LINKS_MAX", 2)
    member, later = opened("h1", RING), opened("h2", RING)
    called = member._called
    assert called is not None
    peer = Peer(address_of(member), JOE)

    def strays_of(number: int, endpoint: str) -> int:
        before = called.strays
        peer.dealer.send(Frame(HELLO, number, 0, limit=1 << 20).pack() + hello_of(endpoint))
        until(lambda: member.park(5) or called.strays > before or endpoint in called.board.by_endpoint)
        return called.strays - before

    for number, endpoint in enumerate((later.endpoint, "link://h9@10.0.0.9:99/x", "link://h1@/run/cep/h1.im-1"), 1):
        assert strays_of(number, endpoint) == 1
    assert [strays_of(10 + i, f"link://h9@/joe{i}") for i in range(3)] == [0, 0, 1], "of one token so many at most"
    assert exchange(later, member) == Speaker(MEMBERS[0], MEMBER, frozenset((MEMBER,)), endpoint=later.endpoint)
    peer.close()


def test_who_is_not_called_yet_gets_what_was_sent_when_it_calls(opened: Open, tmp_path: Path) -> None:
    member = opened("h1")
    member.send(f"link://h2@{tmp_path}/h2", Header(wire.BATCH, 1, 5), b"early")
    late = opened("h2", address="")
    late.send(member.endpoint, Header(wire.BATCH, 1, 6), b"x")
    header, body = until(lambda: member.park(5) or late.park(5) or late.receive())
    assert (header.sequence, bytes(body)) == (5, b"early")


def test_is_gone_where_an_address_refuses_and_not_where_nothing_answers(opened: Open) -> None:
    sockets = opened("h1")
    assert not is_gone(sockets.endpoint, "link://h2@/x") and not is_gone(sockets.endpoint, sockets.endpoint)
    closed = LinkSockets(sockets.endpoint.replace(address_of(sockets), "127.0.0.1:0").replace("/h1", "/h0"))
    closed.close()
    assert is_gone(closed.endpoint, "link://h2@/x") and is_gone(closed.endpoint, closed.endpoint)
    with ExitStack() as stack:
        full = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):  # as many as wait to be let in
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        assert not is_gone(f"link://h3@127.0.0.1:{full.getsockname()[1]}/x", "link://h2@/x"), "nothing answers there"
    assert not is_gone("link://h3@/x", "link://h2@/x"), "a client of another host cannot be asked"
    assert not is_gone("link://h3@no.such.host.invalid:5/x", "link://h2@/x")


def test_what_can_be_sent_to() -> None:
    assert is_endpoint("link://h@a:1/x", "link://g@/y") and is_endpoint("ipc:///x", "ipc:///y") and is_endpoint("ipc:///x", "link://g@/y")
    assert not is_endpoint("link://h@a:1/x", "ipc:///y") and not is_endpoint("tcp://h:1", "ipc:///y") and not is_endpoint("", "ipc:///y")


def test_an_address_that_is_taken_is_an_error_that_names_it(opened: Open, tmp_path: Path) -> None:
    address = address_of(opened("h1"))
    with pytest.raises(OSError, match=f"the address {address} for links cannot be had"):
        LinkSockets(f"link://h2@{address}{tmp_path}/h2")
    assert not (tmp_path / "h2").exists()


def test_a_connection_that_is_closed_while_it_is_not_read_ends_no_process(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.support.flooded_link", str(tmp_path)]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=HANG_S)
    assert (found.returncode, found.stdout) == (0, "went on\n"), found.stderr


def test_nonsense_at_the_port_harms_no_other() -> None:
    thrown, come, _ = attacked(3.0, 1)
    assert thrown > 50 and come > 100


@pytest.mark.long
@pytest.mark.timeout(600)
def test_nonsense_at_the_port_for_minutes() -> None:
    _, _, growth = attacked(180.0, 2)
    assert growth.grown()["links"] < GROWTH_BYTES
