"""Checkpoints of a query, as planner, orchestrator and instance managers speak of them: numbers, files, and which queries take any."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, NamedTuple
from urllib.parse import quote

from cep.errors import QueryError
from cep.model.expr import Call
from cep.model.limits import name_in_files
from cep.model.query import Query
from cep.plan.physical import PhysicalPlan
from cep.plan.sources import source_of

_TERM_BITS, _COUNT_BITS = 22, 24  # with 16 for the attempt they fit a machine word


class CheckpointNumber(NamedTuple):
    """`attempt` of the deployment, `term` of the leader that asked for it, and that leader's `serial`. Ordered: no two leaders, and no two
    attempts, have the same."""

    attempt: int
    term: int
    serial: int

    @property
    def packed(self) -> int:
        """In the same order, as a Barrier bears it."""
        return (self.attempt << _TERM_BITS + _COUNT_BITS) | self.term << _COUNT_BITS | self.serial

    @staticmethod
    def unpacked(packed: int) -> CheckpointNumber:
        rest, serial = divmod(packed, 1 << _COUNT_BITS)
        return CheckpointNumber(*divmod(rest, 1 << _TERM_BITS), serial)

    def __str__(self) -> str:
        """A part of names of files, in the same order."""
        return f"{self.attempt:06}-{self.term:010}-{self.serial:010}"


MANIFEST = ".manifest"

#: Before all others: none was taken.
NO_CHECKPOINT = CheckpointNumber(0, 0, 0)


def folder_of(query: str, epoch: int) -> str:
    """The name of the folder of a deployment's checkpoints."""
    return f"{stem_of(query)}{epoch}"


def stem_of(query: str) -> str:
    """What the names of the folders of all its deployments begin with."""
    return f"{name_in_files(quote(query, safe=''))}."


def manifest_name(number: CheckpointNumber) -> str:
    return f"{number}{MANIFEST}"


def piece_name(number: CheckpointNumber, subquery: str, index: int, process: tuple[int, int]) -> str:
    """`process`: which writes it, so that a name is never written twice."""
    return f"{number}-{name_in_files(quote(subquery, safe=''))}-{index}-{process[0]}.{process[1]}.piece"


def recovers(plan: PhysicalPlan) -> bool:
    return plan.query.options.recovers


def as_its_cluster(plan: PhysicalPlan, recover: str) -> PhysicalPlan:
    """The plan; if its query does not say whether it recovers, that does so as others of its cluster. Where it cannot, a note says why."""
    if plan.query.options.recover != "auto" or recover == "off":
        return plan
    try:
        return check_recovery(replace(plan, query=with_recovery(plan.query, recover), short=plan.written))
    except QueryError as error:
        note = f"it does not recover, though queries of this cluster do, {recover}: {error.message.removeprefix('recover: ')}"
        return replace(plan, notes=(*plan.notes, note))


def with_recovery(query: Query, recover: str) -> Query:
    """It does so, if it does not say itself whether it recovers."""
    return replace(query, options=replace(query.options, recover=recover)) if query.options.recover == "auto" else query


def tells_at_once(plan: PhysicalPlan) -> bool:
    """Are its answers told as they are made, and not when a checkpoint covers them?"""
    return plan.query.options.recover == "at-once"


def check_recovery(plan: PhysicalPlan) -> PhysicalPlan:
    """The plan. Raises QueryError: it is to recover, and something that it reads cannot be read again, which is named with the reason."""
    if not recovers(plan):
        return plan
    for name in sorted(plan.streams):
        if why := source_of(plan, name).can_replay():
            raise QueryError(f"recover: stream {name!r} cannot be read again after a failure: {why}", "/options/recover")
    refreshed = next((each.name for each in plan.query.operators if getattr(each, "refresh", None) is not None), None)
    if refreshed is not None:
        raise QueryError(f"recover: operator {refreshed!r} reads its table again and again, which is on no record yet", "/options/recover")
    clocked = next((each.name for each in plan.query.operators if reads_clock(each)), None)
    if tells_at_once(plan) and clocked is not None:
        why = f"operator {clocked!r} uses now(), so what has been told could not be made again after a failure"
        raise QueryError(f"recover: {why}; take 'on-commit', which tells what a checkpoint covers", "/options/recover")
    return plan


def reads_clock(part: object) -> bool:
    """Does that part of a query say now() anywhere?"""
    if isinstance(part, Call) and part.function == "now":
        return True
    if is_dataclass(part):
        return any(reads_clock(getattr(part, each.name)) for each in fields(part))
    if isinstance(part, Mapping):
        return any(map(reads_clock, part.values()))
    return isinstance(part, tuple | list) and any(map(reads_clock, part))


@dataclass(frozen=True, slots=True)
class PieceFile:
    """A piece in the folder: its name and CRC."""

    piece: str
    crc: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """All that a recovery needs. `pieces`: by `<subquery>/<index>`."""

    query: str
    epoch: int
    number: tuple[int, int, int]
    plan: Mapping[str, Any]
    pieces: Mapping[str, PieceFile]
