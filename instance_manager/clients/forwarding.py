"""Instances that have moved away: what comes for them here is passed on for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from cep.transport.wire import Header

FORWARD_S = 60.0

Forward = Callable[[Header, Any], None]


class Forwarding:
    """By the ids of their outlets, subscriptions and entries. Times are those of the steady clock, in seconds, handed in."""

    def __init__(self) -> None:
        self.moved: dict[int, tuple[Forward, float]] = {}  # and since when

    def __contains__(self, id_: int) -> bool:
        return id_ in self.moved

    def begin(self, ids: Iterable[int], forward: Forward, now: float) -> None:
        self.moved |= {id_: (forward, now) for id_ in ids}

    def end(self, ids: Iterable[int]) -> None:
        """They are here again."""
        for id_ in ids:
            self.moved.pop(id_, None)

    def pass_on(self, id_: int, header: Header, body: Any) -> bool:
        """A message for what `id_` names. Has that moved?"""
        if id_ not in self.moved:
            return False
        self.moved[id_][0](header, body)
        return True

    def tick(self, now: float) -> None:
        """A client that has not heard by now where it is asks the orchestrator."""
        if self.moved:
            self.moved = {id_: each for id_, each in self.moved.items() if now - each[1] < FORWARD_S}
