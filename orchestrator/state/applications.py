"""Which streams, queries and connectors each application has, so that what it no longer declares can be found and removed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cep.config import node
from cep.errors import Conflict, NotFound, ProtocolError, meant
from cep.model.limits import APPLICATIONS_MAX
from cep.model.shapes import read_shape
from orchestrator.records import ApplicationRecord
from orchestrator.state.desired_nodes import DesiredNodes
from orchestrator.state.events import ForgetApplication, KeepApplication

_KINDS = {"streams": "stream", "queries": "query", "connectors": "connector"}


class Applications:
    """Changes what should be true in ZooKeeper below `/applications`."""

    def __init__(self, desired: DesiredNodes, is_there: Callable[[str, str], bool]) -> None:
        """`is_there`: is there a stream, a query or a connector (such as "queries", as its record calls it) of that name?"""
        self.by_name: dict[str, ApplicationRecord] = {}
        self._desired, self._is_there = desired, is_there

    def __getitem__(self, name: str) -> ApplicationRecord:
        """Raises NotFound."""
        if name not in self.by_name:
            raise NotFound(f"there is no application {name!r}{meant(name, self.by_name)}")
        return self.by_name[name]

    def take(self, event: KeepApplication | ForgetApplication) -> None:
        """Raises what `put` or `forget` does."""
        match event:
            case KeepApplication(application):
                self.put(application)
            case ForgetApplication(name):
                self.forget(name)

    def put(self, record: ApplicationRecord) -> None:
        """Raises Conflict: another application has one of these, or there are as many applications as may be; TooLarge."""
        if record.name not in self.by_name and len(self.by_name) >= APPLICATIONS_MAX:
            raise Conflict(f"{len(self.by_name):,} applications, expected at most {APPLICATIONS_MAX:,}")
        for other in self.by_name.values():
            for kind, called in _KINDS.items():
                shared = set(getattr(record, kind)).intersection(getattr(other, kind)) if other.name != record.name else ()
                for name in sorted(shared):
                    raise Conflict(f"{called} {name!r} belongs to application {other.name!r}; give it another name, or take it out there")
        self._desired.put(node("applications", record.name), record.to_json())
        self.by_name[record.name] = record

    def forget(self, name: str) -> None:
        """Raises NotFound, or Conflict: something of it is there yet."""
        record = self[name]
        left = [f"{called} {each!r}" for kind, called in _KINDS.items() for each in getattr(record, kind) if self._is_there(kind, each)]
        if left:
            raise Conflict(f"application {name!r} still has {', '.join(left[:10])}; delete them first")
        del self.by_name[name]
        self._desired.delete(node("applications", name))

    def restore(self, path: str, value: Any) -> None:
        """Raises ProtocolError: no application, or another's."""
        record = read_shape(ApplicationRecord, value)
        if path != node("applications", record.name):
            raise ProtocolError(f"this belongs to {node('applications', record.name)}, not to {path}")
        self.by_name[record.name] = record
