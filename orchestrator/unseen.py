"""What ZooKeeper has that the orchestrator has not read yet."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from cep.config import ROOT, node
from orchestrator.records import Status
from orchestrator.registry import Registry, unquoted
from orchestrator.state.blame import Deaths
from orchestrator.state.events import Event, HostsSeen, ManagersSeen, StatusesSeen


class Unseen:
    """Notes what has changed, and reads it. What could not be read stays unseen."""

    def __init__(self) -> None:
        self._managers = self._hosts = False
        self._ims: set[str] = set()  # every status of theirs is to be read, and watched anew
        self._listings: set[str] = set()  # statuses of theirs have come or gone
        self._names: defaultdict[str, set[str]] = defaultdict(set)  # instance manager -> names of statuses that have changed

    def note(self, path: str) -> None:
        """A watch has said that what is there has changed."""
        kind, _, rest = path.removeprefix(f"{ROOT}/").partition("/")
        im, _, name = rest.partition("/")
        if kind == "ims":
            self._managers = True
        elif kind == "hosts":
            self._hosts = True
        elif kind == "status" and name:
            self._names[im].add(name)
        elif kind == "status":
            self._listings.add(im)

    def note_all(self, ims: Iterable[str]) -> None:
        """Everything may have changed, and nothing is watched: the registrations, and every status of `ims`."""
        self._managers = self._hosts = True
        self._ims.update(ims)

    def read(self, registry: Registry, known: Callable[[], Iterable[str]], deaths: Callable[[], Deaths]) -> Iterator[tuple[str, Event]]:
        """What is to be told, and of which node; to be taken before the next is asked for.

        Args:
            known: the instance managers of which statuses are watched.
        """
        if self._hosts:
            yield node("hosts"), HostsSeen(registry.hosts())
            self._hosts = False
        if self._managers:
            managers = registry.managers()
            self._ims |= managers.keys() - set(known())
            yield node("ims"), ManagersSeen(managers, deaths())
            self._managers = False
        for im in sorted(self._ims):
            yield from _changed(im, registry.all_statuses(im))
            self._ims.discard(im)
        for im in sorted(self._listings):
            yield from _changed(im, registry.statuses(im))
            self._listings.discard(im)
        for im in sorted(self._names):
            yield from _changed(im, registry.statuses(im, self._names[im]))
            del self._names[im]


def _changed(im: str, statuses: dict[str, Status | None]) -> Iterator[tuple[str, Event]]:
    if statuses:
        yield node("status", im), StatusesSeen(im, unquoted(statuses))
