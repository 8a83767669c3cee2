"""When each of many is due: what comes first is known without a look at all of them, for there may be thousands. Pure."""

from __future__ import annotations

from heapq import heappop, heappush


class Deadlines:
    """By name, one each; times are of the steady clock, in seconds."""

    def __init__(self) -> None:
        self._due: dict[str, float] = {}
        self._first: list[tuple[float, str]] = []  # a heap, with what counts no more

    def put(self, name: str, due: float) -> None:
        """Instead of when it was due before."""
        if self._due.get(name) != due:
            self._due[name] = due
            heappush(self._first, (due, name))
            self._tidy()

    def drop(self, name: str) -> None:
        """It is not due any more, if it was."""
        self._due.pop(name, None)
        self._tidy()

    def _tidy(self) -> None:
        """At most as much counts no more as counts."""
        if len(self._first) > 2 * len(self._due):
            self._first = sorted((due, name) for name, due in self._due.items())

    @property
    def first(self) -> float | None:
        """When the first is due; None: none is."""
        while self._first and self._due.get(self._first[0][1]) != self._first[0][0]:
            heappop(self._first)
        return self._first[0][0] if self._first else None

    def take(self, now: float) -> list[str]:
        """Those that are due by now, which then are so no more."""
        taken = list[str]()
        while (first := self.first) is not None and first <= now:
            _, name = heappop(self._first)
            self.drop(name)
            taken.append(name)
        return taken
