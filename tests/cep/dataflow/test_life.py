"""The life of an instance: every step of the table, and no other."""

from __future__ import annotations

import itertools

import pytest

from cep.dataflow.life import LIFE, OVER, Life

EVENTS = sorted({event for row in LIFE.values() for event in row})


@pytest.mark.parametrize("state, event", list(itertools.product(LIFE, EVENTS)))
def test_what_the_table_says_happens_and_nothing_else(state: str, event: str) -> None:
    life = Life(state)
    if event in LIFE[state]:
        life.enter(event)
        assert life.state == LIFE[state][event]
    else:
        with pytest.raises(ValueError, match=f"'{event}' of an instance that is {state}"):
            life.enter(event)


def test_every_state_can_be_reached_and_none_is_left_once_it_is_over() -> None:
    reached = {"ready", "arriving"}
    for _ in LIFE:
        reached |= {target for state in reached for target in LIFE[state].values()}
    assert reached == set(LIFE)
    assert {"ended", "stopped", "failed", "moved"} == OVER
