"""The life of a subquery instance, as a table."""

from __future__ import annotations

LIFE: dict[str, dict[str, str]] = {
    "arriving": {"settle": "running", "stop": "stopped", "fail": "failed"},
    "ready": {"run": "running", "stop": "stopped", "fail": "failed", "was over": "ended"},
    "running": {"pause": "paused", "depart": "moved", "end": "ended", "stop": "stopped", "fail": "failed"},
    "paused": {"go on": "running", "stop": "stopped", "fail": "failed"},
    "ended": {},
    "stopped": {},
    "failed": {},
    "moved": {},
}
"""state -> {what happens: next state}. An instance is made `ready`, or, at its new place, `arriving`: it waits for what it had at its
old one. `paused`: behind a Barrier that asks for it. `moved`: it goes on elsewhere. `was over`: so it was at the checkpoint from which it
was made."""

OVER = frozenset(state for state, row in LIFE.items() if not row)


class Life:
    """The state of one instance; `cause` says why it failed."""

    __slots__ = ("cause", "state")

    def __init__(self, state: str = "ready") -> None:
        self.state, self.cause = state, ""

    def enter(self, event: str) -> None:
        """Raises ValueError: that does not happen in this state."""
        if event not in LIFE[self.state]:
            raise ValueError(f"{event!r} of an instance that is {self.state}: expected one of {sorted(LIFE[self.state])}")
        self.state = LIFE[self.state][event]
