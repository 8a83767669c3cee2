"""What ZooKeeper asks of an instance manager, checked: anybody may have written it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cep.config import instance_node
from cep.elements import Barrier, Move
from cep.errors import ProtocolError
from cep.folders import inside
from cep.model.limits import CAUSE_CHARS_MAX, EPOCH_MAX, checked
from cep.model.operators import Lookup
from cep.model.shapes import read
from cep.plan import physical
from cep.plan.physical import PhysicalPlan, Subquery

DESIRED = ("ready", "run", "drain", "stop", "fail")


@dataclass(frozen=True, slots=True)
class Moving:
    """A move as the assignments name it: `instance` of `subquery`, from `source` to `target`, both endpoints."""

    number: int
    step: int
    subquery: str
    instance: int
    im: str
    source: str
    target: str

    @property
    def place(self) -> tuple[str, int]:
        return self.subquery, self.instance

    @property
    def barrier(self) -> Barrier:
        return Barrier(self.number, move=Move(self.subquery, self.instance, self.target))


@dataclass(frozen=True, slots=True)
class Assignment:
    """What an instance manager is to do for an instance. For checking: what is obeyed is the document."""

    query: str
    subquery: str
    instance: int
    epoch: int
    process: tuple[int, int]
    desired: str
    cause: str | None = None
    failed_subquery: str | None = None
    failed_instance: int | None = None
    lost: Mapping[str, str] = field(default_factory=dict)
    subscriptions: Sequence[Mapping[str, Any]] = ()
    tables: Mapping[str, int] = field(default_factory=dict)
    move: Moving | None = None


@dataclass(frozen=True, slots=True)
class Table:
    version: int
    table: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Tables:
    tables: Mapping[str, Table]


def check_assignment(key: str, document: Any) -> None:
    """Raises ProtocolError or QueryError: that is no assignment, or not one of that name."""
    found = read(Assignment, document)
    if (belongs := instance_node(found.query, found.subquery, found.instance)) != key:
        raise ProtocolError(f"this belongs to {belongs!r}")
    checked(found.epoch, "epoch", 0, EPOCH_MAX)
    if found.desired not in DESIRED:  # others of the loop's commands are not for whoever writes here
        raise ProtocolError(f"desired: expected one of {', '.join(DESIRED)}, got {found.desired!r:.200}")


def check_paths(plan: PhysicalPlan, subquery: Subquery, index: int, folders: Sequence[str]) -> None:
    """Raises QueryError: an instance would read or write a file that is not below the cluster's folders, whatever the plan says."""
    sources = [path for stream in subquery.streams for path, _ in plan.files.get(stream, ())]
    tables = [each.table.path for each in plan.query.operators if isinstance(each, Lookup) and each.name in subquery.operators]
    outputs = {edge.consumer for edge in plan.edges_out_of(subquery.name) if edge.is_output}
    files = [(output.files, output.stream) for output in plan.query.outputs if output.files is not None and output.stream in outputs]
    written = [os.path.join(each.folder, each.name(stream, index)) for each, stream in files]
    for path in (*sources, *(table for table in tables if table is not None), *written):
        inside(path, folders)


def tables_of(document: Any) -> dict[str, Barrier]:
    """Subquery -> the table of its buckets, as it comes along the streams. Raises ProtocolError."""
    return {head: Barrier(each.version, each.table) for head, each in read(Tables, document).tables.items()}


def decoded(data: bytes) -> Any:
    """A JSON value; None: it is none."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def plan_of(document: Any) -> PhysicalPlan | ProtocolError:
    try:
        return physical.from_json(document)
    except ProtocolError as error:
        return error


def cut(cause: str | None) -> str | None:
    """A user's function may say megabytes, and a node that is too large loses the connection."""
    return cause if cause is None or len(cause) <= CAUSE_CHARS_MAX else f"{cause[:CAUSE_CHARS_MAX]}…"
