"""What the orchestrator's core is told, and what it wants done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cep.model.hosts import Host
from cep.model.streams import Stream
from cep.plan.checkpoints import CheckpointNumber
from cep.plan.physical import PhysicalPlan
from cep.service.keys import ClientKey
from cep.transport.curve import KeyPair
from orchestrator.records import ApplicationRecord, InstanceManager, Process, PublisherRecord, Status, SubscriptionRecord
from orchestrator.state.blame import Deaths

# --- what happens ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SubmitQuery:
    """A planned query is to be deployed, and to run as soon as it is ready if `start`; `owner`: for which client; `lease_s`: until it was
    not asked for during so long, 0: until it is forgotten."""

    plan: PhysicalPlan
    start: bool = True
    owner: str = ""
    lease_s: float = 0.0


@dataclass(frozen=True, slots=True)
class RenewLease:
    """A query that has a lease was asked for."""

    query: str


@dataclass(frozen=True, slots=True)
class StartQuery:
    """A query deployed with `start=False` is to run."""

    query: str


@dataclass(frozen=True, slots=True)
class StopQuery:
    """A query is to stop; draining, its sources end and its windows fire. What is over is withdrawn."""

    query: str
    drain: bool = False


@dataclass(frozen=True, slots=True)
class ForgetQuery:
    """A query is to stop and to vanish."""

    query: str


@dataclass(frozen=True, slots=True)
class MoveBuckets:
    """The buckets of a subquery are to be where `table` says. `unasked`: no user has asked for it."""

    query: str
    subquery: str
    table: tuple[int, ...]
    unasked: bool = False


@dataclass(frozen=True, slots=True)
class MoveInstance:
    """Instance `index` of a subquery is to go on at instance manager `im`. `unasked`: no user has asked for it; where its query recovers it
    goes behind a checkpoint that is taken for it, so that little is made once more."""

    query: str
    subquery: str
    index: int
    im: str
    unasked: bool = False


@dataclass(frozen=True, slots=True)
class ScaleSubquery:
    """A subquery is to have so many instances."""

    query: str
    subquery: str
    instances: int


@dataclass(frozen=True, slots=True)
class UpgradeQuery:
    """A query is to go on as another one of its name, by that plan. `fresh`: operators that cannot keep their state begin with none."""

    plan: PhysicalPlan
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class DeclareStream:
    """A stream is declared."""

    stream: Stream


@dataclass(frozen=True, slots=True)
class UndeclareStream:
    """A declared stream is to be forgotten."""

    stream: str


@dataclass(frozen=True, slots=True)
class KeepApplication:
    """An application has these streams, queries and connectors."""

    application: ApplicationRecord


@dataclass(frozen=True, slots=True)
class ForgetApplication:
    """An application of which nothing is there is to be forgotten."""

    application: str


@dataclass(frozen=True, slots=True)
class DeclareConnector:
    """A connector is to run, as its document says, which was checked."""

    name: str
    document: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ForgetConnector:
    """A connector is to run no more."""

    name: str


@dataclass(frozen=True, slots=True)
class HoldConnectors:
    """That process runs these from now on."""

    names: tuple[str, ...]
    place: str
    incarnation: str


@dataclass(frozen=True, slots=True)
class DiscardNode:
    """A node that is set aside is to be removed; of a query, with all that belongs to it."""

    path: str


@dataclass(frozen=True, slots=True)
class OpenPublisher:
    """A publisher opens its stream."""

    publisher: PublisherRecord


@dataclass(frozen=True, slots=True)
class ClosePublisher:
    """A publisher closes."""

    stream: str
    name: str
    endpoint: str | None = None  # where it is: another process may have its name by now; None: wherever that is


@dataclass(frozen=True, slots=True)
class Subscribe:
    """An output stream will be read. `resumes`: there is such a subscription, which another process has had."""

    subscription: SubscriptionRecord
    resumes: bool = False


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """A subscription has ended."""

    stream: str
    id: str
    claim: str | None = None  # of the process that has it; None: whichever


@dataclass(frozen=True, slots=True)
class ManagersSeen:
    """All instance managers that are registered, and how some have died."""

    managers: Mapping[str, InstanceManager]
    deaths: Deaths = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HostsSeen:
    """All hosts that have joined, by name."""

    hosts: Mapping[str, Host]


@dataclass(frozen=True, slots=True)
class EvacuateHost:
    """A host is to be left."""

    host: str


@dataclass(frozen=True, slots=True)
class StatusesSeen:
    """What changed of the statuses of an instance manager: name under `/status/<im>` -> status, None where it is gone."""

    im: str
    statuses: Mapping[str, Status | None]


@dataclass(frozen=True, slots=True)
class ManagerDied:
    """That process of an instance manager was seen to end."""

    im: str
    process: Process


@dataclass(frozen=True, slots=True)
class ManagersLive:
    """Those processes of instance managers were seen to live, when all of this machine had been looked at."""

    processes: frozenset[tuple[str, Process]]


@dataclass(frozen=True, slots=True)
class ManifestFailed:
    """A manifest could not be written."""

    query: str
    why: str


@dataclass(frozen=True, slots=True)
class OfferMembersKey:
    """The members' key pair, where there is none yet."""

    pair: KeyPair


@dataclass(frozen=True, slots=True)
class RotateMembersKey:
    """The members are to have another key pair."""

    pair: KeyPair


@dataclass(frozen=True, slots=True)
class RegisterKey:
    """A client hands in its public key."""

    key: ClientKey


@dataclass(frozen=True, slots=True)
class RevokeKey:
    """A client's key counts no more."""

    public: str


@dataclass(frozen=True, slots=True)
class Connected:
    """ZooKeeper answers (again)."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed: `deadline` is reached."""


Event = (
    SubmitQuery
    | RenewLease
    | StartQuery
    | StopQuery
    | ForgetQuery
    | MoveBuckets
    | MoveInstance
    | ScaleSubquery
    | UpgradeQuery
    | DeclareStream
    | UndeclareStream
    | KeepApplication
    | ForgetApplication
    | DeclareConnector
    | ForgetConnector
    | HoldConnectors
    | DiscardNode
    | OpenPublisher
    | ClosePublisher
    | Subscribe
    | Unsubscribe
    | EvacuateHost
    | ManagersSeen
    | HostsSeen
    | StatusesSeen
    | ManagerDied
    | ManagersLive
    | ManifestFailed
    | OfferMembersKey
    | RotateMembersKey
    | RegisterKey
    | RevokeKey
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
    """The node is not to be there."""

    path: str


@dataclass(frozen=True, slots=True)
class WriteManifest:
    """A file of the cluster's checkpoints is to be there, before what is put behind this: `text` in file `name` of `folder`. Pieces of
    checkpoints before `oldest` are of no use any more when that is written."""

    query: str
    folder: str
    name: str
    text: str
    oldest: CheckpointNumber


@dataclass(frozen=True, slots=True)
class ForgetCheckpoints:
    """What deployments of a query up to `epoch` have left among the cluster's checkpoints is to go when what is put with this is written; a
    cluster that had the folder before may have left some."""

    query: str
    epoch: int


NodeCommand = Put | Delete
ClusterCommand = NodeCommand | WriteManifest | ForgetCheckpoints
