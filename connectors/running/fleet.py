"""The connectors of one process: what the orchestrator says it is to run, it runs; how they do, it tells.

What it hears is absolute: a connector that is not named any more, or with another document or epoch, stops. While no orchestrator answers
all go on as they are.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from cep.errors import CepError
from connectors.documents import Described, WrongDocument, described
from connectors.running.notes import Notes
from connectors.running.run import ConnectorRun
from connectors.running.sink_run import SinkRun
from connectors.running.source_run import SourceRun
from driver.cluster import Cluster

LOG = logging.getLogger(__name__)
WAIT_S = 1.0
AWAY_S = 0.5
STUCK_TURNS = 30
"""Of WAIT_S each. So long one that is to stop may take, while its place is wanted."""


class Fleet:
    """`place`: where the process is; another one of the same place comes only when this one is gone. `incarnation`: which one it is.
    `heard`: a file that is touched when an orchestrator has answered; None: none is."""

    def __init__(self, cluster: Cluster, notes: Path, place: str, incarnation: str, heard: Path | None = None) -> None:
        self.cluster, self.place, self.incarnation, self.heard = cluster, place, incarnation, heard
        self.notes = {True: Notes(notes / "from"), False: Notes(notes / "to")}
        self.running: dict[str, tuple[int, Any, ConnectorRun | None, str]] = {}  # epoch, document, run or why there is none
        self.leaving: dict[ConnectorRun, int] = {}  # and for how many turns
        self.closing = threading.Event()

    def run(self) -> None:
        """Until it is closed."""
        while not self.closing.is_set():
            try:
                answer = self.cluster.rest.post("/connectors:work", self._report(), again=True)
            except CepError as error:
                LOG.warning("the orchestrator cannot be asked: %s", error)
                self.closing.wait(AWAY_S)
                continue
            if self.heard is not None:
                with suppress(OSError):  # a full disk ends no connector; it only looks unheard
                    self.heard.touch()
            self.obey({each["name"]: each for each in answer["connectors"]})
        self.obey({})
        for run in self.leaving:
            run.join()

    def close(self) -> None:
        self.closing.set()

    def obey(self, wanted: Mapping[str, Mapping[str, Any]]) -> None:
        """Runs these, and no others. One begins only when the one of its name before has stopped. One that does not stop, for what it waits
        for never comes, takes its process along: the next process goes on where it was."""
        self.leaving = {old: turns + 1 for old, turns in self.leaving.items() if not old.join(0)}
        for old, turns in self.leaving.items():
            if turns > STUCK_TURNS and old.described.name in wanted:
                LOG.error("connector %s does not stop, and is to begin anew: this process ends", old.described.name)
                self.close()
        for name, (epoch, document, run, _) in list(self.running.items()):
            now = wanted.get(name)
            if now is None or (now["epoch"], now["document"]) != (epoch, document):
                del self.running[name]
                if run is not None:
                    exiting = self.closing.is_set()
                    run.stop(deleted=now is None and not exiting, exiting=exiting)
                    self.leaving[run] = 0
        busy = {run.described.name for run in self.leaving}
        for name, each in wanted.items():
            if name not in self.running and name not in busy:
                self.running[name] = each["epoch"], each["document"], *self._begun(each["document"], each["epoch"])

    def _begun(self, document: Any, epoch: int) -> tuple[ConnectorRun | None, str]:
        try:
            found = described(document)
        except WrongDocument as error:  # the orchestrator, which knows the connector, is of another environment
            LOG.warning("connector %s: %s", document.get("name"), error)
            return None, str(error)
        run = self._made(found, epoch)
        run.start()
        return run, ""

    def _made(self, found: Described, epoch: int) -> ConnectorRun:
        kind = SourceRun if found.is_source else SinkRun
        return kind(found, epoch, self.cluster, self.notes[found.is_source])

    def _report(self) -> dict[str, Any]:
        figures = [self._figures(name, epoch, run, why) for name, (epoch, _, run, why) in self.running.items()]
        return {"place": self.place, "incarnation": self.incarnation, "wait": WAIT_S, "running": figures}

    def _figures(self, name: str, epoch: int, run: ConnectorRun | None, why: str) -> dict[str, Any]:
        told = {"state": "failing", "error": why} if run is None else run.figures.to_json()
        return {"name": name, "epoch": epoch, **told}
