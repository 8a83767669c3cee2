"""What has moved away, and for how long messages for it are passed on."""

from __future__ import annotations

from typing import Any

import pytest

from cep.transport import wire
from cep.transport.wire import Header
from instance_manager.clients.forwarding import FORWARD_S, Forwarding

CREDIT = Header(wire.CREDIT, 7)


def test_each_instance_has_a_way_of_its_own() -> None:
    made, first, second = Forwarding(), list[Any](), list[Any]()
    made.begin((1, 2), lambda *message: first.append(message), 0.0)
    made.begin((3,), lambda *message: second.append(message), 0.0)
    assert made.pass_on(2, CREDIT, b"a") and made.pass_on(3, CREDIT, b"b") and not made.pass_on(4, CREDIT, b"c")
    assert (first, second) == ([(CREDIT, b"a")], [(CREDIT, b"b")])


def test_what_comes_back_is_here_again() -> None:
    made = Forwarding()
    made.begin((1, 2), lambda *_: None, 0.0)
    made.end((2, 3))
    assert 1 in made and 2 not in made


@pytest.mark.parametrize(("now", "left"), [(FORWARD_S - 0.1, [1, 2]), (FORWARD_S, [2]), (FORWARD_S + 29.9, [2]), (FORWARD_S + 30.0, [])])
def test_it_ends_a_minute_after_each_move(now: float, left: list[int]) -> None:
    made = Forwarding()
    made.begin((1,), lambda *_: None, 0.0)
    made.begin((2,), lambda *_: None, 30.0)
    made.tick(now)
    assert sorted(made.moved) == left


def test_one_that_moves_again_is_passed_on_by_its_last_way() -> None:
    made, first, second = Forwarding(), list[Any](), list[Any]()
    made.begin((1,), lambda *message: first.append(message), 0.0)
    made.begin((1,), lambda *message: second.append(message), 50.0)
    made.tick(FORWARD_S)
    assert made.pass_on(1, CREDIT, b"") and not first and second
