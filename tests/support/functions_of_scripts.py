"""Functions that a program has in its own file and gives a cluster along: none of them is in a module that clusters are started with."""

from __future__ import annotations

BONUS = 0.5


def rewarded(ratio: float) -> float:
    return ratio + BONUS


class Greatest:
    def init(self) -> float:
        return 0.0

    def add(self, state: float, ratio: float) -> float:
        return max(state, ratio)

    def result(self, state: float) -> float:
        return state


def poisoned(text: str) -> str:
    """What a text has done to it says what is to go wrong."""
    import ctypes
    import re

    if text == "backtrack":
        return str(re.match(r"(a+)+$", "a" * 60 + "b"))  # keeps Python's lock
    if text == "crash":
        ctypes.string_at(0)
    while text == "turn":
        pass
    return text
