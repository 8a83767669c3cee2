"""What the orchestrator's core is told, and what it wants done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cep.model.streams import Stream
from cep.plan.physical import PhysicalPlan
from orchestrator.blame import Deaths
from orchestrator.records import Manager, Publisher, Status, Subscription

# --- what happens ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Submit:
    """A planned query is to be deployed, and to run as soon as it is ready if `start`."""

    plan: PhysicalPlan
    start: bool = True


@dataclass(frozen=True, slots=True)
class Start:
    """A query deployed with `start=False` is to run."""

    query: str


@dataclass(frozen=True, slots=True)
class Stop:
    """A query is to stop; draining, its sources end and its windows fire. What is over is withdrawn."""

    query: str
    drain: bool = False


@dataclass(frozen=True, slots=True)
class Forget:
    """A query is to stop and to vanish."""

    query: str


@dataclass(frozen=True, slots=True)
class Reroute:
    """The buckets of a subquery are to be where `table` says."""

    query: str
    subquery: str
    table: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Relocate:
    """Instance `index` of a subquery is to go on at instance manager `im`."""

    query: str
    subquery: str
    index: int
    im: str


@dataclass(frozen=True, slots=True)
class Declare:
    """A stream is declared."""

    stream: Stream


@dataclass(frozen=True, slots=True)
class Undeclare:
    """A declared stream is to be forgotten."""

    stream: str


@dataclass(frozen=True, slots=True)
class Discard:
    """A node that is set aside is to be removed; of a query, with all that belongs to it."""

    path: str


@dataclass(frozen=True, slots=True)
class OpenPublisher:
    """A publisher opens its stream."""

    publisher: Publisher


@dataclass(frozen=True, slots=True)
class ClosePublisher:
    """A publisher closes."""

    stream: str
    name: str


@dataclass(frozen=True, slots=True)
class Subscribe:
    """Somebody will read an output stream."""

    subscription: Subscription


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """Somebody reads it no more."""

    stream: str
    id: str


@dataclass(frozen=True, slots=True)
class ManagersSeen:
    """All instance managers that are registered, and how some have died."""

    managers: Mapping[str, Manager]
    deaths: Deaths = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StatusesSeen:
    """What changed of the statuses of an instance manager: name under `/status/<im>` -> status, None where it is gone."""

    im: str
    statuses: Mapping[str, Status | None]


@dataclass(frozen=True, slots=True)
class Connected:
    """ZooKeeper answers (again)."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed: `deadline` is reached."""


Event = (
    Submit
    | Start
    | Stop
    | Forget
    | Reroute
    | Relocate
    | Declare
    | Undeclare
    | Discard
    | OpenPublisher
    | ClosePublisher
    | Subscribe
    | Unsubscribe
    | ManagersSeen
    | StatusesSeen
    | Connected
    | Tick
)


# --- what is to be done ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Put:
    """The node is to have this value."""

    path: str
    value: Any


@dataclass(frozen=True, slots=True)
class Delete:
    """The node is not to be."""

    path: str


Command = Put | Delete
