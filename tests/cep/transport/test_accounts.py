"""What a connection may have us keep is bounded: one that owes more is cut, and no other takes harm."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from cep.transport import accounts, linked
from cep.transport.accounts import Balance, Passed
from cep.transport.curve import new_pair
from cep.transport.ends import hello_of
from cep.transport.frames import ACK, AGAIN, HEAD_BYTES, HELLO, PROBE, Frame, read
from cep.transport.keyring import Keyring, Speaker
from cep.transport.linked import LinkSockets
from cep.transport.wire import BEAT, Header
from tests.support.waiting import until

MEMBERS, CLIENT = new_pair(), new_pair()
SPEAKER = Speaker(CLIENT.public, "mine", frozenset({"subscribe:s"}))
MiB = 1 << 20


@pytest.fixture
def member(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LinkSockets]:
    monkeypatch.setattr(accounts, "LOOK_S", 0.0)
    keyring = Keyring(MEMBERS.public, MEMBERS.secret.text, MEMBERS.public, {CLIENT.public: SPEAKER})
    made = LinkSockets(f"link://h1@127.0.0.1:0{tmp_path}/m", keyring)
    yield made
    made.close()


class Attacker:
    """With a key that is known, and a link of its own."""

    def __init__(self, member: LinkSockets) -> None:
        self.member, self.context = member, zmq.Context()
        self.dealer = self.connect()
        self.dealer.send(Frame(HELLO, 77, 0, limit=1 << 40).pack() + hello_of("link://away@/attacker"))
        until(lambda: member.park(1) or self.dealer.poll(1))
        self.target = read(self.dealer.recv())[0].source

    def connect(self, **options: int) -> zmq.Socket[bytes]:
        """Another connection with the same key."""
        dealer = self.context.socket(zmq.DEALER)
        dealer.curve_publickey, dealer.curve_secretkey = CLIENT.public.encode(), CLIENT.secret.text.encode()
        dealer.curve_serverkey = MEMBERS.public.encode()
        dealer.set_hwm(0)
        for name, value in options.items():
            setattr(dealer, name, value)
        dealer.connect(f"tcp://{address(self.member)}")
        return dealer

    def close(self) -> None:
        self.context.destroy(linger=0)


@pytest.fixture
def attacker(member: LinkSockets) -> Iterator[Attacker]:
    made = Attacker(member)
    yield made
    made.close()


def address(member: LinkSockets) -> str:
    return member.endpoint.removeprefix("link://h1@").partition("/")[0]


def cut(member: LinkSockets) -> int:
    member.park(1)
    assert member._called is not None
    return member._called.accounts.cut


def check_heard(member: LinkSockets, tmp_path: Path, count: int = 3) -> None:
    """Another member is."""
    other = LinkSockets(f"link://h2@127.0.0.1:0{tmp_path}/o", Keyring(MEMBERS.public, MEMBERS.secret.text, MEMBERS.public))
    for number in range(count):
        other.send(member.endpoint, Header(BEAT, 7, number), os.urandom(100))
        assert until(lambda: other.park(1) or member.park(1) or member.receive())[0].sequence == number
    other.close()


@pytest.mark.parametrize("bound", ["COMING_MAX", "ALL_COMING_MAX"])
def test_a_message_that_does_not_end(
    member: LinkSockets, attacker: Attacker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, bound: str
) -> None:
    """In parts of which each may be as large as it is. It is looked at in every turn: a machine may be so quick that all of it comes
    between two looks of a quarter of a second, each time."""
    monkeypatch.setattr(accounts, bound, 8 * MiB)
    monkeypatch.setattr(linked, "LOOK_S", 0.0)
    called, sent = member._called, 0
    assert called is not None

    def is_cut() -> int:
        nonlocal sent
        if called.strays == sent:  # on a busy machine the one before may have come whole between two looks
            sent += 1
            attacker.dealer.send_multipart([bytes(4 * MiB)] * 16, copy=False)
        return cut(member)

    until(is_cut)
    assert "bytes of a message that does not end have come" in caplog.text
    check_heard(member, tmp_path)


def test_what_is_sent_and_not_read(member: LinkSockets, attacker: Attacker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It asks again and again for what it does not take."""
    monkeypatch.setattr(accounts, "GOING_MAX", 8 * MiB)
    for number in range(64):
        member.send("link://away@/attacker", Header(BEAT, 7, number), bytes(60 << 10))
    deaf = attacker.connect(rcvhwm=1, rcvbuf=4096)
    for round_ in range(100):
        deaf.send(Frame(ACK, 77, attacker.target, limit=1 << 40, round=round_, flags=AGAIN).pack())
    until(lambda: cut(member))
    check_heard(member, tmp_path)


def test_frames_that_carry_nothing_take_their_time_too(member: LinkSockets, attacker: Attacker, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many come, others have their turn between."""
    monkeypatch.setattr(linked, "READ_BYTES", 100 * linked.FRAME_BYTES)
    for _ in range(500):
        attacker.dealer.send(Frame(PROBE, 77, attacker.target, limit=1 << 40).pack())
    answered = turns = 0
    while answered < 500:
        member.park(0)
        turns += 1
        while attacker.dealer.poll(0):
            attacker.dealer.recv()
            answered += 1
    assert turns >= 5


def test_a_balance() -> None:
    account = Balance()
    assert account.after(Passed(100, 0, False)) == (100, 0)
    account.has_spoken, account.written = True, 5000
    assert account.after(Passed(900, 1000, True)) == (0, 4000)
    assert account.after(Passed(1900, 1500, True)) == (1000, 3500)
    assert account.after(Passed(1900, 5000 + HEAD_BYTES, False)) == (1000, 0)
    account.written = 10
    assert account.after(Passed(1900, 5000 + HEAD_BYTES, True)) == (1000, 10)
