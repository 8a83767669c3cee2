"""Which instances have something to do, to tell, to report: what a turn of the loop costs is in proportion to these.

An instance is woken by whatever may give it something to do: an element that arrives, credit, a command, a publisher that opens. It is
stepped once for any number of wakes before the step; a wake during or after its step counts for the next turn. Of a turn's steps those of
readers come last, so that they find what those before them have sent. Whatever has been stepped is ticked once, and reported once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import attrgetter

from instance_manager.hosting import InstanceHost

_DEPTH = attrgetter("depth")


class Ready:
    """Used by the engine's thread."""

    def __init__(self) -> None:
        self._woken: dict[str, None] = {}  # by key: an instance woken by something that it has is not kept by it
        self._untold: dict[str, InstanceHost] = {}
        self._unreported: dict[str, InstanceHost] = {}
        self._withdrawn: list[tuple[str, str, str]] = []

    def __bool__(self) -> bool:
        return bool(self._woken)

    def wake(self, key: str) -> None:
        """The instance of that key has something to do."""
        self._woken[key] = None

    def take(self, at_home: Mapping[str, InstanceHost]) -> list[InstanceHost]:
        """Those to be stepped now, readers last, otherwise in the order in which they were woken; one that has left meanwhile is not among
        them."""
        taken = {key: at_home[key] for key in self._woken if key in at_home}
        self._woken = {}
        self._untold |= taken
        self._unreported |= taken  # what is in it keeps its place
        return sorted(taken.values(), key=_DEPTH)

    def serve(self, key: str) -> None:
        """It is stepped now, and sees whatever has woken it so far."""
        self._woken.pop(key, None)

    def forget(self, hosted: InstanceHost) -> None:
        """It is not at home any more."""
        self._woken.pop(hosted.key, None)
        for kept in (self._untold, self._unreported):
            if kept.get(hosted.key) is hosted:
                del kept[hosted.key]
        instance = hosted.instance
        self._withdrawn.append((instance.query, instance.subquery, str(instance.index)))

    def untold(self) -> list[InstanceHost]:
        """Those stepped since the last call: they may have watermarks that were not told."""
        untold, self._untold = self._untold, {}
        return list(untold.values())

    @property
    def has_unreported(self) -> bool:
        return bool(self._unreported)

    def withdrawn(self) -> list[tuple[str, str, str]]:
        """Query, subquery and index of those that have left since the last call."""
        withdrawn, self._withdrawn = self._withdrawn, []
        return withdrawn

    def report(self, hosted: InstanceHost) -> None:
        """Its figures change although it does nothing."""
        self._unreported.setdefault(hosted.key, hosted)

    def unreported(self) -> Iterator[InstanceHost]:
        """Those whose figures may have changed since they last came out here: those that are over, then those that have waited longest."""
        over = [hosted for hosted in self._unreported.values() if hosted.instance.done]
        for hosted in (*over, *self._unreported.copy().values()):
            if self._unreported.pop(hosted.key, None) is not None:
                yield hosted
