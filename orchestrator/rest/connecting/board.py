"""Which processes that run connectors are alive, and what they say of them. Not written down: they say it every second.

A connector is given to a process that asks where none has it, where the one that has it was not heard of for LEASE_S, or where that was an
earlier process of the same place, which is over: its supervisor has started this one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from orchestrator.state.connectors import ConnectorRecord

LEASE_S = 5.0
"""Half of the cluster's grace: another process has to go on with the publishers of a source before windows cease to wait for them. Else the
partition that comes back first lets windows close, and what follows of the others is late."""

UNHEARD: Mapping[str, Any] = {"state": "waiting", "error": "no process runs it yet: `cep run-connectors`, where `cep up` is not used"}


class ConnectorBoard:
    """Of one orchestrator, in one term of office."""

    def __init__(self) -> None:
        self._term, self._began = -1, 0.0
        self._heard: dict[str, tuple[str, float]] = {}  # place -> incarnation, and when
        self._told: dict[str, Mapping[str, Any]] = {}  # connector -> figures

    def hear(self, term: int, place: str, incarnation: str, figures: Iterable[Mapping[str, Any]], now: float) -> None:
        """A process asks, in that term."""
        if term != self._term:
            self._term, self._began = term, now
            self._heard.clear()
            self._told.clear()
        self._heard[place] = incarnation, now
        self._told |= {each["name"]: each for each in figures}

    def free(self, records: Iterable[ConnectorRecord], place: str, incarnation: str, now: float) -> list[str]:
        """Those that this process is to take: of those that nobody has its share, and all of one before in its place."""
        found = list(records)
        own = [each.name for each in found if each.place == place and each.incarnation != incarnation]
        lost = [each.name for each in found if each.place != place and self._is_lost(each, now)]
        live = 1 + sum(there != place and now - at <= LEASE_S for there, (_, at) in self._heard.items())
        here = sum(each.place == place for each in found)
        return own + lost[: max(0, -(-len(found) // live) - here)]

    def figures(self, record: ConnectorRecord, now: float) -> Mapping[str, Any]:
        """What is told of it."""
        told = self._told.get(record.name)
        if told is None or told["epoch"] != record.epoch:
            return UNHEARD if not record.place else {"state": "starting"}
        incarnation, at = self._heard.get(record.place, ("", 0.0))
        if now - at > LEASE_S or incarnation != record.incarnation:
            return {**told, "state": "lost", "error": f"the process at {record.place} was not heard of for {now - at:.0f} s"}
        return told

    def _is_lost(self, record: ConnectorRecord, now: float) -> bool:
        _, at = self._heard.get(record.place, ("", self._began))
        return not record.place or now - at > LEASE_S
