"""Deadlines, against a mapping that is looked at as a whole."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.deadlines import Deadlines

NAMES, TIMES = st.sampled_from("abc"), st.integers(0, 6)
STEPS = st.lists(st.tuples(st.sampled_from(["put", "put", "drop", "take"]), NAMES, TIMES), max_size=30)


@given(STEPS)
def test_what_is_due_first_is_known_whatever_was_put_off_or_dropped(steps: list[tuple[str, str, int]]) -> None:
    deadlines, known = Deadlines(), dict[str, int]()
    for what, name, time in steps:
        match what:
            case "put":
                deadlines.put(name, time)
                known[name] = time
            case "drop":
                deadlines.drop(name)
                known.pop(name, None)
            case "take":
                due = {each for each, at in known.items() if at <= time}
                assert sorted(deadlines.take(time)) == sorted(due)
                known = {each: at for each, at in known.items() if each not in due}
        assert deadlines.first == min(known.values(), default=None)


def test_what_counts_no_more_does_not_pile_up() -> None:
    deadlines = Deadlines()
    for time in range(1000):
        deadlines.put("a", time)
        deadlines.put("b", 10_000)
        assert len(deadlines._first) <= 4
    assert deadlines.take(1000) == ["a"] and deadlines.first == 10_000
    deadlines.drop("b")
    assert deadlines.first is None and not deadlines._first
