"""A link gives every packet once and in order, whatever becomes of its connections; it breaks where a process is not the one of before.

Tests `link.py`, `ends.py`, `frames.py`, `switchboard.py`.
"""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.errors import ProtocolError
from cep.transport import frames
from cep.transport.ends import endpoint_of, hello_of
from cep.transport.frames import ACK, AGAIN, DATA, HEAD_BYTES, HELLO, PROBE, REFUSED, UNKNOWN, WELCOME, Frame, OtherVersion
from cep.transport.link import ACK_S, HELLO_S, KEEP_S, LOT_PACKETS, PROBE_S, Link, Packet
from tests.support.link_world import SIZE_MAX, WINDOW, LinkWorld

SIZES, FEW = st.integers(0, SIZE_MAX), st.integers(0, 4)
STEPS = st.one_of(
    st.tuples(st.just("send"), SIZES),
    st.tuples(st.just("answer"), SIZES),
    st.tuples(st.just("deliver"), FEW),
    st.tuples(st.just("deliver"), FEW, st.just(True)),
    st.tuples(st.just("take")),
    st.tuples(st.just("pass_time"), st.sampled_from((0.0, ACK_S, 0.1, PROBE_S, HELLO_S, 2.0))),
    st.tuples(st.just("cut"), FEW, FEW, FEW, FEW),
    st.tuples(st.just("duplicate")),
    st.tuples(st.just("freeze"), st.sampled_from(("called", "caller"))),
    st.tuples(st.just("thaw")),
)
RESTARTS = st.sampled_from((("restart_caller",), ("restart_called",)))


def play(world: LinkWorld, steps: list[tuple]) -> None:  # type: ignore[type-arg]
    for name, *given_ in steps:
        match name:
            case "freeze":
                world.frozen.add(given_[0])
            case "thaw":
                world.frozen.clear()
            case _:
                getattr(world, name)(*given_)
        world.check()


def met() -> LinkWorld:
    """The two have met, and nothing is under way."""
    world = LinkWorld()
    world.settle()
    assert world.caller.is_up and not world.connection.to_called
    return world


@given(st.lists(STEPS, max_size=80))
def test_all_arrive_once_and_in_order_however_often_it_is_cut(steps: list[tuple]) -> None:  # type: ignore[type-arg]
    world = LinkWorld()
    play(world, steps)
    world.settle()
    world.check()
    caller, called = world.last
    assert len(called.got) == len(caller.sent) and len(caller.got) == len(called.sent)
    assert world.told_caller == [] and world.told_called == [], "nothing broke it"
    assert world.caller.is_settled and world.caller.due > world.now + 1, "it is quiet"


@given(st.lists(st.one_of(STEPS, STEPS, STEPS, RESTARTS), max_size=80))
def test_a_process_that_is_another_one_breaks_it_and_is_told(steps: list[tuple]) -> None:  # type: ignore[type-arg]
    world = LinkWorld()
    play(world, steps)
    world.settle()
    world.check()
    caller, called = world.last
    assert len(called.got) == len(caller.sent) and len(caller.got) == len(called.sent), "the last link works"


def test_the_called_process_starts_anew() -> None:
    world = met()
    world.send(10)
    world.settle()
    world.restart_called()
    world.send(20)
    world.settle()
    assert len(world.told_caller) == 1 and "another one than before" in world.told_caller[0]
    world.send(30)
    world.settle()
    assert len(world.last[1].got) == 1


def test_the_caller_starts_anew() -> None:
    world = met()
    before = world.board.by_endpoint["link://h1@/caller"]
    world.answer(10)
    world.restart_caller()
    world.settle()
    assert world.told_called == [before] and "another one than before" in str(before.broken())
    assert world.board.by_endpoint["link://h1@/caller"] is not before


def test_what_an_old_caller_said_does_not_bring_it_back() -> None:
    """Its HELLO comes late, by a connection that was cut, behind that of the process in its place."""
    world = met()
    old = world.caller
    world.restart_caller()
    world.settle()
    world.board.hear(b"c0", Frame(HELLO, old.incarnation, 0, limit=WINDOW), [hello_of("link://h1@/caller")], None, world.now)
    world.send(10)
    world.settle()
    assert len(world.last[1].got) == 1 and world.told_caller == []


def test_a_stale_welcome_changes_nothing() -> None:
    world = met()
    peer = world.caller.peer
    world.caller.receive(Frame(WELCOME, peer + 1000, world.caller.incarnation, limit=1 << 30), 0, world.now)
    world.caller.receive(Frame(WELCOME, peer, world.caller.incarnation + 1, limit=1 << 30), 0, world.now)
    assert world.caller.peer == peer and world.caller.limit < 1 << 30


def test_of_an_end_that_is_not_known_here_nothing_is_broken() -> None:
    world = met()
    world.caller.receive(Frame(UNKNOWN, 0, world.caller.incarnation, number=world.caller.peer + 1), 0, world.now)
    assert world.caller.broken is None
    world.caller.receive(Frame(UNKNOWN, 0, world.caller.incarnation, number=world.caller.peer), 0, world.now)
    assert world.caller.broken is not None


def test_the_window_is_kept_and_opens_again() -> None:
    world = met()
    for _ in range(20):
        world.send(1000)
    world.deliver(1000)
    assert len(world.last[1].got) == math.ceil(WINDOW / (1000 + 256))
    for _ in range(20):
        world.take()
        world.deliver(1000)
        world.pass_time(0.001)
        world.deliver(1000)
    assert len(world.last[1].got) == 20, "no probe was needed for it"


def test_one_that_is_larger_than_the_window_passes() -> None:
    link = up(WINDOW)
    link.send(Packet((bytes(3 * WINDOW),), 3 * WINDOW), 0.0)
    link.send(Packet((b"x",), 1), 0.0)
    assert [frame.kind for frame, _ in link.frames()] == [DATA]


def up(limit: int, now: float = 0.0) -> Link:
    """A called end that is up, with nothing to say."""
    link = Link(7, now, window=WINDOW)
    link.answer(Frame(HELLO, 3, 0, limit=limit), now)
    link.out.clear()
    return link


def data(number: int, link: Link, round_: int = 0) -> Frame:
    return Frame(DATA, link.peer, link.incarnation, number, 0, 1 << 30, round_)


def test_acknowledgements_go_in_lots() -> None:
    link = up(1 << 20)
    for number in range(LOT_PACKETS - 1):
        assert link.receive(data(number, link), 1, 0.0)
        link.tick(0.0)
    assert not link.out and link.due == ACK_S
    link.receive(data(LOT_PACKETS - 1, link), 1, 0.0)
    link.tick(0.0)
    assert [(frame.kind, frame.acknowledged) for frame, _ in link.frames()] == [(ACK, LOT_PACKETS)]
    link.receive(data(LOT_PACKETS, link), WINDOW // 2, 0.0)
    link.tick(0.0)
    assert [frame.acknowledged for frame, _ in link.frames()] == [LOT_PACKETS + 1]
    link.receive(data(LOT_PACKETS + 1, link), 1, 0.0)
    link.tick(ACK_S)
    assert [frame.acknowledged for frame, _ in link.frames()] == [LOT_PACKETS + 2]


def test_a_gap_is_asked_for_once_a_round() -> None:
    link = up(1 << 20)
    for number in (1, 2, 3):
        assert not link.receive(data(number, link, 5), 1, 0.0)
    assert [(frame.kind, frame.flags, frame.round, frame.acknowledged) for frame, _ in link.frames()] == [(ACK, AGAIN, 5, 0)]
    link.receive(Frame(PROBE, 3, 7, 4, limit=1 << 30, round=5), 0, 0.0)
    assert [frame.flags for frame, _ in link.frames()] == [AGAIN], "to be asked means that the first word of it was lost"
    link.receive(data(2, link, 6), 1, 0.0)
    assert [(frame.flags, frame.round) for frame, _ in link.frames()] == [(AGAIN, 6)]


def test_one_goes_back_once_for_each_round() -> None:
    link = up(1 << 20)
    for _ in range(3):
        link.send(Packet((b"x",), 1), 0.0)
    link.out.clear()
    again = Frame(ACK, 3, 7, 0, 1, 1 << 20, 0, AGAIN)
    link.receive(again, 0, 0.0)
    assert [(frame.number, frame.round) for frame, _ in link.frames()] == [(1, 1), (2, 1)]
    link.receive(again, 0, 0.0)
    assert not link.out
    link.receive(again._replace(round=1), 0, 0.0)
    assert [frame.number for frame, _ in link.frames()] == [1, 2]


def test_it_is_asked_again_and_again_while_nothing_is_acknowledged() -> None:
    link = up(1 << 20)
    link.send(Packet((b"x",), 1), 0.0)
    link.out.clear()
    for turn in range(1, 4):
        link.tick(turn * PROBE_S)
        assert [(frame.kind, frame.number) for frame, _ in link.frames()] == [(PROBE, 1)]
    link.receive(Frame(ACK, 3, 7, 0, 1, 1 << 20), 0, 1.0)
    assert link.due == math.inf and link.is_settled


def test_a_sender_without_room_asks_too() -> None:
    link = up(0)
    link.send(Packet((b"x",), 1), 0.0)
    assert not link.out and link.due == PROBE_S
    link.tick(PROBE_S)
    assert [frame.kind for frame, _ in link.frames()] == [PROBE]
    link.receive(Frame(ACK, 3, 7, 0, 0, 10), 0, 1.0)
    assert [frame.kind for frame, _ in link.frames()] == [DATA]


def test_one_that_is_quiet_lets_itself_be_heard() -> None:
    world = met()
    world.pass_time(KEEP_S)
    assert world.connection.to_called[0][2] == PROBE


@pytest.mark.parametrize("acknowledged", [1, 2**63])
def test_an_acknowledgement_of_what_was_not_sent_breaks_it(acknowledged: int) -> None:
    link = up(1 << 20)
    link.receive(Frame(ACK, 3, 7, 0, acknowledged, 0), 0, 0.0)
    assert link.broken is not None and "expected an acknowledgement of at most 0 packets" in link.broken


def test_a_sender_that_does_not_mind_the_window_breaks_it() -> None:
    link = up(1 << 20)
    for number in range(3):
        link.receive(data(number, link), WINDOW, 0.0)
    assert link.broken is not None and f"expected at most {WINDOW} bytes beyond those taken" in link.broken


def test_frames_of_a_greater_minor_are_read() -> None:
    found = bytearray(Frame(DATA, 1, 2, 3, 4, 5, 6).pack())
    found[1] += 1
    found[4] += 16
    frame, begin = frames.read(bytes(found) + bytes(16) + b"payload")
    assert frame == Frame(DATA, 1, 2, 3, 4, 5, 6) and begin == HEAD_BYTES + 16


def test_another_major_is_refused_with_both_versions() -> None:
    with pytest.raises(OtherVersion, match=r"expected version 1\.x, got 2\.7; this end has 1\.0"):
        frames.read(bytes([2, 7]))


@given(st.binary(max_size=80))
def test_nonsense_is_a_protocol_error(nonsense: bytes) -> None:
    try:
        frame, begin = frames.read(nonsense)
    except ProtocolError:
        return
    assert frame.kind in frames.NAMES and begin <= len(nonsense)


@pytest.mark.parametrize("hello", [b"", b"[]", b"{}", b'{"endpoint": 3}', b"\xff", b"[" * 5000])
def test_a_hello_says_who_calls(hello: bytes) -> None:
    with pytest.raises(ProtocolError, match="HELLO: expected"):
        endpoint_of(hello)
    assert endpoint_of(b'{"endpoint": "link://h@/p", "more": 1}') == "link://h@/p"


def test_who_is_refused_breaks() -> None:
    link = Link(1, 0.0, b"hello")
    link.receive(Frame(REFUSED, 0, 1), 0, 0.0)
    assert link.broken == "the other end refuses it" and link.due == math.inf
