"""Instance managers of this machine that end: the kernel says so at once (pidfd), long before their sessions with ZooKeeper are over."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress

from cep.world.births import born, machine
from orchestrator.records import InstanceManager, Process

_Key = tuple[str, Process]


class DeathWatch:
    """Calls `died`, in a thread of its own, when a process of an instance manager has ended that `watch` has named."""

    def __init__(self, died: Callable[[str, Process], None], live: Callable[[frozenset[_Key]], None]) -> None:
        self._died, self._live, self._machine = died, live, machine()
        self._epoll = select.epoll()
        self._lock = threading.Lock()
        self._watched: dict[int, _Key] = {}  # by pidfd
        self._known: set[_Key] = set()
        self._thread = threading.Thread(target=self._run, name="cep-deaths", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def watch(self, managers: Mapping[str, InstanceManager]) -> None:
        """These are there. Those of other machines are not seen from here. Calls `died` for each that is over, whenever it is named, for it
        may be a new leader that asks, and then `live` with the others."""
        here = {(im, each.process): each for im, each in managers.items() if each.info.get("machine") == self._machine}
        for key in here.keys() - self._known:
            self._begin(key, str(here[key].info.get("born")))
        self._known = set(here)
        with self._lock:
            living = here.keys() & set(self._watched.values())
        for key in here.keys() - living:
            self._died(*key)
        self._live(frozenset(living))

    def _begin(self, key: _Key, known_birth: str) -> None:
        pid = key[1].pid
        try:
            descriptor = os.pidfd_open(pid)
        except OSError:  # it is gone
            return
        if born(pid) != known_birth:  # that is another one by now
            os.close(descriptor)
            return
        with self._lock:
            self._watched[descriptor] = key
            self._epoll.register(descriptor, select.EPOLLIN)

    def _run(self) -> None:
        while True:
            for descriptor, _ in self._epoll.poll():
                with self._lock, suppress(OSError):
                    self._epoll.unregister(descriptor)
                    os.close(descriptor)
                    key = self._watched.pop(descriptor)
                self._died(*key)
