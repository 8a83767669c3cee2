"""A connector at work: threads that are tried again, and again, each after a pause, and harm no other connector."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

from cep.errors import CepError
from connectors.contract import ConnectorError, Fenced, ValueFormat
from connectors.documents import Described
from connectors.running.figures import ConnectorFigures
from connectors.running.notes import Notes
from connectors.running.pauses import Pauses
from connectors.running.secrets import Secrets
from driver.cluster import Cluster

LOG = logging.getLogger(__name__)
STOP_S = 10.0
AGAIN_S = 0.2
FENCED_S = 3.0
"""One that is fenced off waits for longer than it takes to hear that its connector is another process's now. If it has it still, it was
fenced by what is over, such as a transaction that the other side gave up while this process was frozen, and opens another writer."""

Made = TypeVar("Made")


class ConnectorRun(ABC):
    """`epoch`: greater than that of whoever ran it before."""

    def __init__(self, described: Described, epoch: int, cluster: Cluster, notes: Notes) -> None:
        self.described, self.epoch, self.cluster, self.notes = described, epoch, cluster, notes
        self.figures, self.secrets = ConnectorFigures(), Secrets()
        self.format: ValueFormat | None = described.format
        self.stopping = threading.Event()
        self.deleted = self.exiting = False  # it stops for good; with its process
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        self.keep("", self.work)

    def made(self, make: Callable[..., Made] | None) -> Made:
        """The source or sink, told its secrets. Raises ConnectorError: one leads nowhere."""
        assert make is not None
        options = self.secrets.resolved(self.described.options)
        if self.described.format is None:
            return make(options)
        self.format = self.secrets.resolved(self.described.format)
        return make(options, self.format)

    @abstractmethod
    def work(self) -> bool:
        """Until it is to stop, or False: there is more to do. Raises whatever has gone wrong."""

    def keep(self, part: str, work: Callable[[], bool]) -> None:
        """Runs `work` in a thread of its own until it says True."""
        name = f"{self.described.name}:{part}" if part else self.described.name
        thread = threading.Thread(target=self._try, args=(name, work), name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def stop(self, deleted: bool = False, exiting: bool = False) -> None:
        """At the next boundary; returns at once. `deleted`: for good; `exiting`: with its process, and the next one goes on at once."""
        self.deleted, self.exiting = deleted, exiting
        self.stopping.set()

    def join(self, seconds: float = STOP_S) -> bool:
        """Has it stopped within that time?"""
        for thread in list(self._threads):
            thread.join(seconds)
        return not any(thread.is_alive() for thread in self._threads)

    def _try(self, name: str, work: Callable[[], bool]) -> None:
        pauses = Pauses()
        while not self.stopping.is_set():
            pauses.begun()
            try:
                if work():
                    return
                self.stopping.wait(AGAIN_S)
            except Exception as error:  # whatever an author's code does
                self._failed(name, error)
                pause = pauses.after_failure()
                self.stopping.wait(max(pause, FENCED_S) if isinstance(error, Fenced) else pause)

    def _failed(self, name: str, error: Exception) -> None:
        kind = "" if isinstance(error, ConnectorError | CepError) else f"{type(error).__name__}: "
        said = self.secrets.without(f"{kind}{error}")
        self.figures.failures += 1
        self.figures.turn("fenced" if isinstance(error, Fenced) else "failing", said[:1000])
        LOG.warning("connector %s: %s", name, said)
