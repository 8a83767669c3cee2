"""Which instances have something to do, to tell, to report: what a turn of the loop costs is in proportion to these.

An instance is woken by whatever may give it something to do: an element that arrives, credit, a command, a publisher that opens. It is
stepped once for any number of wakes before the step; a wake during or after its step counts for the next turn. Whatever has been stepped
is ticked once, and reported once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from instance_manager.hosting import Hosted


class Ready:
    """Used by the engine's thread."""

    def __init__(self) -> None:
        self._woken: dict[str, None] = {}  # by key: who is woken by something that he has is not kept by it
        self._untold: dict[str, Hosted] = {}
        self._unreported: dict[str, Hosted] = {}
        self._withdrawn: list[str] = []

    def __bool__(self) -> bool:
        return bool(self._woken)

    def wake(self, key: str) -> None:
        """The instance of that key has something to do."""
        self._woken[key] = None

    def take(self, at_home: Mapping[str, Hosted]) -> list[Hosted]:
        """Those to be stepped now, in the order in which they were woken; who has left meanwhile is not among them."""
        taken = {key: at_home[key] for key in self._woken if key in at_home}
        self._woken = {}
        self._untold |= taken
        self._unreported |= taken  # whoever is in it keeps its place
        return list(taken.values())

    def forget(self, hosted: Hosted) -> None:
        """It is not at home any more."""
        self._woken.pop(hosted.key, None)
        for kept in (self._untold, self._unreported):
            if kept.get(hosted.key) is hosted:
                del kept[hosted.key]
        self._withdrawn.append(hosted.instance.name)

    def untold(self) -> list[Hosted]:
        """Those stepped since the last call: they may have watermarks that nobody was told of."""
        untold, self._untold = self._untold, {}
        return list(untold.values())

    @property
    def has_unreported(self) -> bool:
        return bool(self._unreported)

    def withdrawn(self) -> list[str]:
        """The names of those that have left since the last call."""
        withdrawn, self._withdrawn = self._withdrawn, []
        return withdrawn

    def report(self, hosted: Hosted) -> None:
        """Its figures change although it does nothing."""
        self._unreported.setdefault(hosted.key, hosted)

    def unreported(self) -> Iterator[Hosted]:
        """Those whose figures may have changed since they last came out here: who is over, then who has waited longest."""
        over = [hosted for hosted in self._unreported.values() if hosted.instance.done]
        for hosted in (*over, *self._unreported.copy().values()):
            if self._unreported.pop(hosted.key, None) is not None:
                yield hosted
