"""Which peers are silent, and for how long: times in, what is over out."""

from __future__ import annotations

import pytest

from cep.transport import wire
from instance_manager.clients.peers import AWAY_S, Peer, Peers


def peers(now: float = 100.0) -> tuple[Peers, list[str]]:
    """And the endpoints that were hung up on."""
    left: list[str] = []
    return Peers(now, left.append), left


@pytest.mark.parametrize(
    ("silent_s", "over"), [(1.0, []), (2.0, []), (2.1, [1]), (9.9, [1]), (10.1, [1, 3]), (60.0, [1, 3]), (60.1, [1, 2, 3])]
)
def test_each_subscription_is_kept_for_as_long_as_it_asked(silent_s: float, over: list[int]) -> None:
    peer = Peer("ipc:///a", True, 0.0, subscriptions={1: 2.0, 2: 60.0, 3: 10.0})
    assert peer.overdue(silent_s) == over


def test_the_same_endpoint_is_the_same_process() -> None:
    made, _ = peers()
    one = made.meet("ipc:///a", True, 100.0)
    one.publishers.add(7)
    assert made.meet("ipc:///a", True, 105.0) is one and one.heard == 105.0
    other = made.meet("ipc:///b", True, 101.0)
    assert (one.heard, other.heard) == (105.0, 101.0)  # what one says is no sign of the other
    assert made.known == {wire.name_id("ipc:///a"): one, wire.name_id("ipc:///b"): other}


def test_a_client_is_hung_up_on_with_the_last_thing_that_it_had() -> None:
    made, left = peers()
    peer = made.meet("ipc:///a", True, 100.0)
    peer.publishers.add(1)
    peer.subscriptions[2] = 5.0
    made.part(peer)
    peer.publishers.clear()
    made.part(peer)
    assert not left and made.known
    peer.subscriptions.clear()
    made.part(peer)
    assert left == ["ipc:///a"] and not made.known


def test_another_instance_manager_is_not_hung_up_on() -> None:
    """Channels of queries lead to it."""
    made, left = peers()
    made.part(made.meet("ipc:///im", False, 100.0))
    assert not left and not made.known


@pytest.mark.parametrize(("passed", "away"), [(0.1, 0.0), (AWAY_S, 0.0), (AWAY_S + 0.5, AWAY_S + 0.5), (3600.0, 3600.0)])
def test_what_passes_while_nobody_listens_is_nobodys_silence(passed: float, away: float) -> None:
    made, _ = peers()
    long, short = made.meet("ipc:///a", True, 95.0), made.meet("ipc:///b", True, 99.5)
    assert made.tick(100.0 + passed) == pytest.approx(away)
    silent = [100.0 + passed - peer.heard for peer in (long, short)]
    assert silent == pytest.approx([5.0 + passed - away, 0.5 + passed - away])
    assert made.tick(100.2 + passed) == 0.0


def test_one_that_was_heard_while_nobody_ticked_is_not_heard_of_in_the_future() -> None:
    made, _ = peers()
    peer = made.meet("ipc:///a", True, 109.0)
    made.tick(110.0)
    assert peer.heard == 110.0
