"""How long what has failed is left alone: ever longer, up to a limit, and from the beginning once it has worked for a while."""

from __future__ import annotations

import time

FIRST_S, LAST_S, STEADY_S = 0.2, 30.0, 60.0


class Pauses:
    """Of one thread."""

    def __init__(self) -> None:
        self._next, self._since = FIRST_S, time.monotonic()

    def begun(self) -> None:
        """It is tried again."""
        self._since = time.monotonic()

    def after_failure(self) -> float:
        """So long it is to wait now."""
        if time.monotonic() - self._since >= STEADY_S:
            self._next = FIRST_S
        pause, self._next = self._next, min(2 * self._next, LAST_S)
        return pause
