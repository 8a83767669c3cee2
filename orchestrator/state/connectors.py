"""Connectors as they are declared, and which process has each. What runs them asks for them (`orchestrator.rest.connecting.routes`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from cep.config import node
from cep.errors import NotFound, ProtocolError, meant
from cep.model.shapes import read_shape
from orchestrator.state.desired_nodes import DesiredNodes, encode
from orchestrator.state.events import DeclareConnector, ForgetConnector, HoldConnectors

HOLDER_BYTES = 15_000
"""Of two names, escaped, and a number, which every connector has as soon as a process runs it."""


@dataclass(frozen=True, slots=True)
class ConnectorRecord:
    """`document`: as it was declared. `epoch` is greater with each holder and each change, over all connectors of all times. `place`,
    `incarnation`: of the process that has it; empty: none has."""

    name: str
    document: Mapping[str, Any]
    epoch: int = 0
    place: str = ""
    incarnation: str = ""

    @staticmethod
    def from_json(d: Any) -> ConnectorRecord:
        """Raises ProtocolError."""
        return read_shape(ConnectorRecord, d)


class DeclaredConnectors:
    """Changes what should be true in ZooKeeper below `/connectors`."""

    def __init__(self, desired: DesiredNodes) -> None:
        self.records: dict[str, ConnectorRecord] = {}
        self.epoch = 0
        self._desired = desired

    def get(self, name: str) -> ConnectorRecord:
        """Raises NotFound."""
        if name not in self.records:
            raise NotFound(f"there is no connector {name!r}{meant(name, self.records)}")
        return self.records[name]

    def handle(self, event: DeclareConnector | ForgetConnector | HoldConnectors, wall: float) -> None:
        """`wall`: s since 1970. Raises NotFound, TooLarge."""
        match event:
            case DeclareConnector(name, document):
                self.declare(name, document, wall)
            case ForgetConnector(name):
                self.forget(name)
            case HoldConnectors(names, place, incarnation):
                self.hold(names, place, incarnation, wall)

    def declare(self, name: str, document: Mapping[str, Any], wall: float) -> None:
        """The same again changes nothing; another one is taken by whoever has the one before. Raises TooLarge."""
        known = self.records.get(name)
        if known is None or known.document != document:
            encode(node("connectors", name), asdict(ConnectorRecord(name, document)), HOLDER_BYTES)
            self._put(ConnectorRecord(name, document) if known is None else replace(known, document=document), wall)

    def forget(self, name: str) -> None:
        """Raises NotFound."""
        self.get(name)
        del self.records[name]
        self._desired.delete(node("connectors", name))

    def hold(self, names: Iterable[str], place: str, incarnation: str, wall: float) -> None:
        """That process has them from now on."""
        for name in names:
            known = self.records.get(name)
            if known is not None and (known.place, known.incarnation) != (place, incarnation):
                self._put(replace(known, place=place, incarnation=incarnation), wall)

    def held_by(self, place: str, incarnation: str) -> list[ConnectorRecord]:
        return [each for each in self.records.values() if (each.place, each.incarnation) == (place, incarnation)]

    def restore(self, path: str, value: Any) -> None:
        """Raises ProtocolError: it belongs elsewhere, or is none."""
        record = ConnectorRecord.from_json(value)
        if path != node("connectors", record.name):
            raise ProtocolError(f"this belongs to {node('connectors', record.name)}, not to {path}")
        self.records[record.name] = record
        self.epoch = max(self.epoch, record.epoch)

    def restore_epoch(self, value: Any) -> None:
        """The last of all times. Raises ProtocolError."""
        self.epoch = max(self.epoch, read_shape(_LastEpoch, value).epoch)

    def _put(self, record: ConnectorRecord, wall: float) -> None:
        # What sinks write to outlives the cluster: one that is made anew is later than the one before it.
        numbered = replace(record, epoch=max(self.epoch + 1, int(wall * 1000)))
        self._desired.put(node("connectors", record.name), asdict(numbered))
        self._desired.put(node("connectors"), {"epoch": numbered.epoch})
        self.epoch, self.records[record.name] = numbered.epoch, numbered


@dataclass(frozen=True, slots=True)
class _LastEpoch:
    epoch: int
