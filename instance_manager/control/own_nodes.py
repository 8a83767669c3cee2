"""What is true, to ZooKeeper: this instance manager's registration, and the status of each of its instances. They go with its session."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from typing import Any

from cep.config import node
from cep.dataflow.reports import unused_of
from cep.model.limits import CAUSE_CHARS_MAX
from cep.service.logs import about
from cep.world.coordination import Coordination, Create, Operation, Remove, SetData, transactions, write_ephemeral
from instance_manager.accounts import step_accounts
from instance_manager.hosting import InstanceHost

LOG = logging.getLogger(__name__)
_REFUSED_SHOWN_MAX = 100


class OwnNodes:
    """`facts` is what this instance manager registers: host, pid, node, core, endpoint, binding."""

    def __init__(self, coordination: Coordination, im: str, facts: Mapping[str, Any]) -> None:
        self._coordination, self._im, self._facts = coordination, im, facts
        self.statuses: dict[str, dict[str, Any]] = {}
        self._unwritten: set[str] = set()
        self._gone: set[str] = set()
        self._there: set[str] = set()  # those whose node is there, in this session
        self._told_refused: Mapping[str, str] = {}  # the assignments that cannot be obeyed, as the registration names them

    @property
    def is_written(self) -> bool:
        return not self._unwritten and not self._gone

    def say(self, key: str, status: dict[str, Any]) -> None:
        """So it is with an instance; `write` tells."""
        self.statuses[key] = status
        self._unwritten.add(key)
        self._gone.discard(key)

    def forget(self, keys: Iterable[str]) -> None:
        """They are withdrawn; `write` tells."""
        for key in keys:
            self.statuses.pop(key, None)
            self._unwritten.discard(key)
            self._gone.add(key)

    def register(self, refused: Mapping[str, str]) -> None:
        """Everything anew, for the session may be another; the statuses with the next `write`."""
        self._coordination.ensure([node("ims"), node("assignments", self._im), node("status", self._im)])
        self._write_facts(refused)
        self._there.clear()
        self._unwritten = set(self.statuses)

    def register_refused(self, refused: Mapping[str, str]) -> None:
        """The assignments that cannot be obeyed, and why."""
        if refused != self._told_refused:
            self._write_facts(refused)

    def _write_facts(self, refused: Mapping[str, str]) -> None:
        shown = dict(sorted(refused.items())[:_REFUSED_SHOWN_MAX])
        for key, why in sorted(refused.items() - self._told_refused.items()):
            LOG.error("%s is not obeyed: %s", key, why, extra=about(key.partition("~")[0]))
        document = {**self._facts, "refused": shown} if shown else self._facts
        write_ephemeral(self._coordination, node("ims", self._im), json.dumps(document).encode())
        self._told_refused = dict(refused)

    def write(self) -> None:
        """In transactions, all under way at once; if one cannot be written as it is, each of its statuses is written by itself."""
        writes = {self._path(key): (key, json.dumps(self.statuses[key]).encode()) for key in sorted(self._unwritten)}
        lots = list(transactions(self._operation(key, path, data) for path, (key, data) in writes.items()))
        for lot, failure in zip(lots, self._coordination.commit(lots), strict=True):
            for path in [operation.path for operation in lot]:
                key, data = writes[path]
                if failure is not None:
                    write_ephemeral(self._coordination, path, data)
                self._there.add(key)
                self._unwritten.discard(key)
        self._coordination.commit([[Remove(self._path(key))] for key in sorted(self._gone)])
        self._there -= self._gone
        self._gone.clear()

    def _operation(self, key: str, path: str, data: bytes) -> Operation:
        return SetData(path, data) if key in self._there else Create(path, data, ephemeral=True)

    def _path(self, key: str) -> str:
        return node("status", self._im, key)


def status_of(hosted: InstanceHost) -> dict[str, Any]:
    """What is told of an instance."""
    instance = hosted.instance
    rows = {output.name: output.rows for output in instance.outputs}
    status = {"epoch": hosted.epoch, "state": instance.state, "cause": cut(instance.cause), "rows": rows}
    status |= {"table": hosted.table_version, "step": hosted.step}
    if hosted.lost:
        status["lost"] = hosted.lost
    if hosted.recovery is not None:
        status |= {"attempt": hosted.attempt, "stored": hosted.recovery.stored, "wants": hosted.recovery.wants}
        status["news"] = hosted.recovery.news
        if instance.state == "ended" and not hosted.recovery.covered:
            status["state"] = "running"  # its end is none before it is committed
    if instance.state == "failed":
        status["failed_at"] = instance.failed_at
    if instance.done:
        status |= {"operators": [step.to_json() for step in step_accounts(hosted)], "unused": unused_of(instance)}
    return status


def cut(cause: str | None) -> str | None:
    """A user's function may say megabytes, and a node that is too large loses the connection."""
    return cause if cause is None or len(cause) <= CAUSE_CHARS_MAX else f"{cause[:CAUSE_CHARS_MAX]}…"
