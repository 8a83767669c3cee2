"""What ZooKeeper asks of an instance manager, checked: any process may have written it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cep.config import instance_node
from cep.elements import MoveBarrier, TableBarrier
from cep.errors import ProtocolError
from cep.model.limits import EPOCH_MAX, SUBSCRIPTIONS_MAX, checked
from cep.model.shapes import read_shape
from cep.model.sinks import name_of
from cep.plan import physical
from cep.plan.checkpoints import NO_CHECKPOINT, CheckpointNumber
from cep.plan.physical import PhysicalPlan, Subquery
from cep.service.folders import inside

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
    def redirects(self) -> bool:
        """Is its second step asked, to send to the new place? The first is to listen to it."""
        return self.step > 2 * self.number

    @property
    def barrier(self) -> MoveBarrier:
        return MoveBarrier(self.number, self.subquery, self.instance, self.target)


@dataclass(frozen=True, slots=True)
class Restore:
    """The checkpoint from which the attempt goes on."""

    manifest: str
    crc: int


@dataclass(frozen=True, slots=True)
class Followed:
    """A query that it reads has begun that attempt: `producers` are its instances that put the stream out, and their endpoints."""

    attempt: int
    producers: Sequence[tuple[int, str]]


@dataclass(frozen=True, slots=True)
class Assignment:
    """What an instance manager is to do for an instance. `process` is the one of that id that it is for: pid, and when it was started.
    `relieves`: what is there of the attempt before works on until this one is built. `subscribers_max`: subscriptions of each stream."""

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
    feeds: Mapping[str, Followed] = field(default_factory=dict)
    subscriptions: Sequence[Mapping[str, Any]] = ()
    tables: Mapping[str, int] = field(default_factory=dict)
    move: Moving | None = None
    attempt: int = 0
    restore: Restore | None = None
    relieves: bool = False
    subscribers_max: int = SUBSCRIPTIONS_MAX

    def arrives_at(self, im: str) -> bool:
        """Does a move bring the instance to `im`, from where it runs?"""
        return self.move is not None and (*self.move.place, self.move.im) == (self.subquery, self.instance, im)


@dataclass(frozen=True, slots=True)
class AssignedTable:
    version: int
    table: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Tables:
    tables: Mapping[str, AssignedTable]


def assignment_of(key: str, document: Any) -> Assignment:
    """Raises ProtocolError or QueryError: that is no assignment, or not one of that name."""
    found = read_shape(Assignment, document)
    if (belongs := instance_node(found.query, found.subquery, found.instance)) != key:
        raise ProtocolError(f"this belongs to {belongs!r}")
    checked(found.epoch, "epoch", 0, EPOCH_MAX)
    for each in found.subscriptions:  # by which they are known; the rest is for `instance_manager.clients.subscriptions.Terms`
        if not (isinstance(each.get("stream"), str) and isinstance(each.get("id"), str)):
            raise ProtocolError(f"subscriptions: expected each with the texts 'stream' and 'id', got {each!r:.200}")
    if found.desired not in DESIRED:  # others of the loop's commands are not asked for here
        raise ProtocolError(f"desired: expected one of {', '.join(DESIRED)}, got {found.desired!r:.200}")
    return found


def check_paths(plan: PhysicalPlan, subquery: Subquery, index: int, folders: Sequence[str]) -> None:
    """Raises QueryError: an instance would read or write a file that is not below the cluster's folders, whatever the plan says."""
    sources = [path for stream in subquery.streams for path, _ in plan.files.get(stream, ())]
    read = [path for each in plan.query.operators if each.name in subquery.operators for path in each.files]
    outputs = {edge.consumer for edge in plan.edges_out_of(subquery.name) if edge.is_output}
    files = [(output.files, output.stream) for output in plan.query.outputs if output.files is not None and output.stream in outputs]
    written = [os.path.join(each.folder, name_of(each, stream, index)) for each, stream in files]
    for path in (*sources, *read, *written):
        inside(path, folders)


class Checkpointing(NamedTuple):
    """Of a query: the checkpoint that is asked for, and the last that is committed. `pauses`: behind the first of these its instances
    stand still."""

    asked: CheckpointNumber
    committed: CheckpointNumber
    pauses: bool


@dataclass(frozen=True, slots=True)
class _Committed:
    number: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class _Checkpointing:
    asked: tuple[int, int, int]
    committed: _Committed | None = None
    pauses: bool = False


def checkpointing_of(document: Any) -> Checkpointing:
    """Raises ProtocolError."""
    found = read_shape(_Checkpointing, document)
    committed = NO_CHECKPOINT if found.committed is None else CheckpointNumber(*found.committed.number)
    return Checkpointing(CheckpointNumber(*found.asked), committed, found.pauses)


def tables_of(document: Any) -> dict[str, TableBarrier]:
    """Subquery -> the table of its buckets, as it comes along the streams. Raises ProtocolError."""
    return {head: TableBarrier(each.version, each.table) for head, each in read_shape(Tables, document).tables.items()}


def decoded(data: bytes) -> Any:
    """A JSON value; None: it is none."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def assigned_plan(document: Any) -> PhysicalPlan | ProtocolError:
    try:
        return physical.from_json(document)
    except ProtocolError as error:
        return error
