"""What is asked of the instances of an instance manager: assignments in, commands out. Pure: no ZooKeeper, no thread, no clock.

Rules:
1. Level-triggered: what is asked follows from an assignment as it is and as it was when it was last obeyed, whatever came between.
2. An assignment names the process that it is for. The next one of the same instance manager has none of the state, and leaves it alone.
3. What makes no sense is refused with its reason, and what was deployed by an earlier word of it goes on.
4. A greater epoch or attempt, or a move that brings an instance here, is a deployment of its own: it is asked for everything anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

from cep.elements import TableBarrier
from cep.errors import CepError, ProtocolError
from instance_manager.control.assignment_checks import Assignment, assignment_of
from instance_manager.control.commands import (
    AddSubscriptions,
    DrainInstance,
    DropSubscriptions,
    FailInstance,
    FollowFeeds,
    InstanceCommand,
    LoseStreams,
    RerouteBuckets,
    RunInstance,
    StopInstance,
    TakeMoveStep,
)

_REASON_CHARS_MAX = 1000
NOTHING_ASKED = Assignment("", "", 0, 0, (0, 0), "ready")

#: Subquery -> the table of its buckets.
TablesByHead = Mapping[str, TableBarrier]


class Obligations:
    """`im`: our id; `process`: which process of that id we are."""

    def __init__(self, im: str, process: tuple[int, int]) -> None:
        self.im, self.process = im, process
        self.obeyed: dict[str, Assignment] = {}  # as they were when they were last obeyed
        self.refused: dict[str, str] = {}  # those that make no sense -> why

    def withdrawn(self, there: Set[str]) -> list[str]:
        """These are all assignments that there are: those that were obeyed and are gone, sorted. They are forgotten."""
        gone = sorted(self.obeyed.keys() - there)
        for key in gone:
            del self.obeyed[key]
        self.refused = {key: why for key, why in self.refused.items() if key in there}
        return gone

    def understood(self, found: Mapping[str, object]) -> dict[str, Assignment]:
        """Of what stands there, those that are for us and that have changed since they were obeyed."""
        read = {key: self._understood(key, document) for key, document in found.items()}
        return {key: now for key, now in read.items() if now is not None and now.process == self.process and now != self.obeyed.get(key)}

    def _understood(self, key: str, document: object) -> Assignment | None:
        try:
            if isinstance(document, Exception):
                raise document
            found = assignment_of(key, document)
        except CepError as error:
            self.refuse(key, error)
            return None
        self.refused.pop(key, None)
        return found

    def refuse(self, key: str, error: Exception) -> None:
        """It cannot be obeyed as it is."""
        self.refused[key] = f"{type(error).__name__}: {error}"[:_REASON_CHARS_MAX]

    def is_new(self, key: str, now: Assignment) -> bool:
        """Is the instance to be built?"""
        before = self.obeyed.get(key)
        if before is None or (before.epoch, before.attempt) != (now.epoch, now.attempt):
            return True
        # Perhaps it is back before we heard that what was here is to go.
        return now.move is not None and now.arrives_at(self.im) and (before.move is None or before.move.number != now.move.number)

    def tables_wanted(self, changed: Mapping[str, Assignment]) -> set[str]:
        """The queries of which tables of buckets are to be read, to obey these."""
        return {now.query for key, now in changed.items() if now.tables != self._before(key, now).tables}

    def obey(self, key: str, now: Assignment, tables: TablesByHead | CepError) -> list[InstanceCommand]:
        """What the instance, which is built, is to be asked; from now on it is obeyed, as far as it can be.

        Args:
            tables: of its query, if they are wanted, or what is wrong with them.
        """
        was, commands = self._before(key, now), list[InstanceCommand]()
        self.obeyed[key] = now
        try:
            for command in _commands(key, was, now, tables):
                commands.append(command)
        except Exception as error:  # others are to be obeyed behind it
            self.refuse(key, error)
        return commands

    def _before(self, key: str, now: Assignment) -> Assignment:
        """What had been asked of the instance; of a new one nothing."""
        return NOTHING_ASKED if self.is_new(key, now) else self.obeyed[key]


def _commands(key: str, was: Assignment, now: Assignment, tables: TablesByHead | CepError) -> Iterator[InstanceCommand]:
    if now.feeds and now.feeds != was.feeds:
        yield FollowFeeds(key, now.feeds)
    if now.lost:
        yield LoseStreams(key, now.lost)
    if now.move != was.move:
        yield TakeMoveStep(key, now.move)
    if now.tables != was.tables:
        yield RerouteBuckets(key, {head: _table(head, now, tables) for head in now.tables})
    known = {(each["stream"], each["id"]): each for each in was.subscriptions}
    if added := [each for each in now.subscriptions if each != known.get((each["stream"], each["id"]))]:
        yield AddSubscriptions(key, added)
    if gone := _ids(was.subscriptions) - _ids(now.subscriptions):
        yield DropSubscriptions(key, gone)
    yield from _desired(key, now)


def _ids(subscriptions: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    return frozenset(each["id"] for each in subscriptions)


def _table(head: str, now: Assignment, tables: TablesByHead | CepError) -> TableBarrier:
    if isinstance(tables, CepError):
        raise tables
    if head not in tables:
        raise ProtocolError(f"there is no table of the buckets of {head!r} of query {now.query!r}")
    return tables[head]


def _desired(key: str, now: Assignment) -> Iterable[InstanceCommand]:
    match now.desired:
        case "run":
            return [RunInstance(key)]
        case "drain":
            return [RunInstance(key), DrainInstance(key)] if now.attempt else [DrainInstance(key)]
        case "stop":
            return [StopInstance(key)]
        case "fail":
            subquery = now.subquery if now.failed_subquery is None else now.failed_subquery
            return [FailInstance(key, subquery, now.failed_instance, now.cause or "")]
    return []
