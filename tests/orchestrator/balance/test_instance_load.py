"""Which instance moves to which instance manager: tables of cases, and that it comes to rest.

Tests `instance_load.py`, `instances.py`.
"""

from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.balance.instance_load import BUSY, GAIN, SHARE_MIN, START, ManagerLoad, MovableInstance, busiest, chosen_move
from orchestrator.balance.instances import DeployedInstance, InstanceBalancing, Look


def hosts(*busy: float, nodes: tuple[int, ...] = ()) -> list[ManagerLoad]:
    return [ManagerLoad(f"im-{i}", nodes[i] if nodes else 0, each) for i, each in enumerate(busy)]


def decided(there: list[ManagerLoad], *shares: float) -> tuple[object, str] | None:
    source = busiest(there)
    return None if source is None else chosen_move(there, source, [MovableInstance(i, share) for i, share in enumerate(shares)])


@pytest.mark.parametrize(
    ("busy", "shares", "wanted"),
    [
        ((0.9, 0.0), (0.5, 0.4), (0, "im-1")),  # either helps; after the first the busier one has 0.5
        ((0.9, 0.1), (0.2, 0.4, 0.3), (1, "im-1")),  # to 0.5 and 0.5
        ((0.9, 0.1), (0.05, 0.85), None),  # too little, and too much: the load would only be elsewhere
        ((0.9, 0.0), (0.9,), None),
        ((0.49, 0.0), (0.2, 0.29), None),  # none is busy
        ((0.9, 0.8), (0.1, 0.1), None),  # nearly level
        ((1.0, 1.0, 0.1), (0.5, 0.5), (0, "im-2")),
        ((0.9, 0.3, 0.0), (0.2, 0.2), (0, "im-2")),
        ((0.9,), (0.3,), None),
        ((0.9, 0.0), (), None),
        ((0.9, 0.0), (0.01,) * 50, None),  # none is worth a move by itself
    ],
)
def test_what_moves(busy: tuple[float, ...], shares: tuple[float, ...], wanted: tuple[int, str] | None) -> None:
    assert decided(hosts(*busy), *shares) == wanted


def test_the_same_node_is_preferred() -> None:
    assert decided(hosts(0.9, 0.4, 0.0, nodes=(0, 0, 1)), 0.2) == (0, "im-1")
    assert decided(hosts(0.9, 0.9, 0.0, nodes=(0, 0, 1)), 0.2) == (0, "im-2")  # nothing is gained on its own
    assert decided(hosts(0.9, 0.0, nodes=(0, 1)), 0.4) == (0, "im-1")


def test_the_same_host_is_preferred_to_another() -> None:
    def on(*hosts: str) -> list[ManagerLoad]:
        return [ManagerLoad(f"im-{i}", i % 2, busy, host) for i, (busy, host) in enumerate(zip((0.9, 0.4, 0.0), hosts, strict=True))]

    assert decided(on("h1", "h1", "h2"), 0.2) == (0, "im-1"), "another node of its host, though im-2 is on a node of that number"
    assert decided(on("h1", "h2", "h2"), 0.2) == (0, "im-2"), "none on its host: the idlest of all"


def test_an_instance_whose_query_is_on_so_many_hosts_stays_on_its_host() -> None:
    there = [ManagerLoad("im-0", 0, 0.9, "h1"), ManagerLoad("im-1", 0, 0.4, "h1"), ManagerLoad("im-2", 0, 0.0, "h2")]
    assert chosen_move(there, there[0], [MovableInstance("packed", 0.2, stays=True)]) == ("packed", "im-1")
    there[1] = ManagerLoad("im-1", 0, 0.9, "h1")
    assert chosen_move(there, there[0], [MovableInstance("packed", 0.2, stays=True)]) is None
    assert chosen_move(there, there[0], [MovableInstance("packed", 0.3, stays=True), MovableInstance("any", 0.2)]) == ("any", "im-2")


@given(st.lists(st.lists(st.floats(0, 0.5), max_size=8), min_size=1, max_size=6), st.lists(st.integers(0, 1), min_size=6, max_size=6))
def test_it_comes_to_rest(placed: list[list[float]], nodes: list[int]) -> None:
    """While the load stays as it is: no pair gets worse by a move, nothing moves back at once, and there are finitely many moves."""
    for _ in range(200):
        there = [ManagerLoad(f"im-{i}", nodes[i], sum(shares)) for i, shares in enumerate(placed)]
        source = busiest(there)
        if source is None:
            return
        at = int(source.im.removeprefix("im-"))
        wanted = chosen_move(there, source, [MovableInstance(i, share) for i, share in enumerate(placed[at])])
        if wanted is None:
            return
        which, target = wanted
        assert isinstance(which, int) and placed[at][which] >= SHARE_MIN and source.busy >= BUSY
        to = int(target.removeprefix("im-"))
        placed[to].append(placed[at].pop(which))
        assert max(sum(placed[at]), sum(placed[to])) <= (1 - GAIN) * source.busy + 1e-9
    raise AssertionError("it goes on moving")


def test_noise_within_the_gap_moves_nothing() -> None:
    for noise in (0.9, 1.0, START - 0.01):
        assert decided(hosts(0.7 * noise, 0.7, 0.7, 0.7), *(0.1,) * 7) is None


def test_shares_are_of_those_that_stayed_where_they_were() -> None:
    one, two, three = (DeployedInstance("q", 1, "SQ2", i) for i in range(3))
    before = Look({one: ("im-0", 0.0, 10.0), two: ("im-0", 5e8, 10.0)})
    now = Look({one: ("im-0", 2e9, 14.0), two: ("im-1", 9e8, 14.0), three: ("im-1", 1e9, 14.0)})
    assert now.shares(before) == {one: ("im-0", 0.5)}
    assert Look.of([("q", 1, "SQ2", 0, "im-0", 1.0, 2.0)]).found == {one: ("im-0", 1.0, 2.0)}


class NoLoad:
    """A metric server of which nothing reports."""

    def ask(self, **question: Any) -> dict[str, Any]:
        return {"instances": []}


def test_an_instance_that_was_to_move_rests_for_a_while() -> None:
    balancing = InstanceBalancing(cast(Any, None), cast(Any, NoLoad()))
    one, two = (DeployedInstance("q", 1, "SQ2", i) for i in range(2))
    balancing._resting.update({one: 3, two: 1})
    found = []
    for _ in range(3):
        balancing.look(set())
        found.append(dict(balancing._resting))
    assert found == [{one: 2}, {one: 1}, {}]
