"""What the control thread asks of the loop: a value for each kind, for one instance unless it says otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cep.elements import TableBarrier
from instance_manager.control.assignment_checks import Checkpointing, Followed, Moving
from instance_manager.hosting import InstanceHost
from instance_manager.recovery.checkpoints import PieceStored


@dataclass(frozen=True, slots=True)
class AddInstance:
    """It is built, and comes home."""

    hosted: InstanceHost

    @property
    def key(self) -> str:
        return self.hosted.key


@dataclass(frozen=True, slots=True)
class ExpectInstance:
    """It is built, and comes home when all of its attempt are; until then what others send it is kept for it."""

    hosted: InstanceHost

    @property
    def key(self) -> str:
        return self.hosted.key


@dataclass(frozen=True, slots=True)
class ExpectNoMore:
    """It does not come after all."""

    hosted: InstanceHost

    @property
    def key(self) -> str:
        return self.hosted.key


@dataclass(frozen=True, slots=True)
class RemoveInstance:
    """It goes, once its readers have read it to the end."""

    key: str


@dataclass(frozen=True, slots=True)
class RunInstance:
    """All of its query are ready."""

    key: str


@dataclass(frozen=True, slots=True)
class DrainInstance:
    """Its sources end, and its windows fire."""

    key: str


@dataclass(frozen=True, slots=True)
class StopInstance:
    """It ends at once."""

    key: str


@dataclass(frozen=True, slots=True)
class FailInstance:
    """Its query has failed: at `instance` of `subquery`, or at all of them."""

    key: str
    subquery: str
    instance: int | None
    cause: str


@dataclass(frozen=True, slots=True)
class RerouteBuckets:
    """Buckets of subqueries that it sends to, or is one of, are where `tables` say: subquery -> its table."""

    key: str
    tables: Mapping[str, TableBarrier]


@dataclass(frozen=True, slots=True)
class TakeMoveStep:
    """What it has to do for the move of an instance of its query; None: there is none any more."""

    key: str
    move: Moving | None


@dataclass(frozen=True, slots=True)
class AddSubscriptions:
    """Its outputs are read by these too."""

    key: str
    subscriptions: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class DropSubscriptions:
    """These are read no more, and perhaps their clients could not say so here: after a recovery an instance is elsewhere."""

    key: str
    ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class FollowFeeds:
    """Queries that it reads have begun another attempt: stream -> which, and where its producers are."""

    key: str
    feeds: Mapping[str, Followed]


@dataclass(frozen=True, slots=True)
class LoseStreams:
    """Streams of other queries that it reads have not ended and will not go on: stream -> why."""

    key: str
    streams: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class HearCheckpoints:
    """What stands in `/checkpoints/<query>` of its query."""

    key: str
    said: Checkpointing


@dataclass(frozen=True, slots=True)
class NotePiece:
    """Its piece of a checkpoint is on the disk, or cannot be."""

    stored: PieceStored

    @property
    def key(self) -> str:
        return self.stored.key


@dataclass(frozen=True, slots=True)
class Confirm:
    """For none: what should be true has been read since the loop was away."""


InstanceCommand = (
    AddInstance
    | ExpectInstance
    | ExpectNoMore
    | RemoveInstance
    | RunInstance
    | DrainInstance
    | StopInstance
    | FailInstance
    | RerouteBuckets
    | TakeMoveStep
    | AddSubscriptions
    | DropSubscriptions
    | FollowFeeds
    | LoseStreams
    | HearCheckpoints
    | NotePiece
)
Command = InstanceCommand | Confirm

GIVEN = AddInstance | ExpectInstance | ExpectNoMore
"""With an instance that may not be at home."""
