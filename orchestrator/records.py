"""What the orchestrator keeps in ZooKeeper and what it reads there, as frozen values with their JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, NamedTuple

from cep.errors import ProtocolError, QueryFailed
from cep.model.hosts import AgentProcess
from cep.model.limits import CAUSE_CHARS_MAX, EPOCH_MAX, KEEP_S_MAX, KEEP_S_MIN, checked, checked_endpoint, shown
from cep.model.shapes import read_shape
from cep.transport.endpoints import host_of
from cep.world.clock import Clock
from orchestrator.state.life_cycle import LIFE_CYCLE

KEEP_S = 60.0
"""How long what is over stays readable, unless a subscription says otherwise (rule 5.9)."""


class Now(NamedTuple):
    """The time, as the service gives it to the pure core: `steady` never jumps, `wall` is for people."""

    steady: float
    wall: float

    @staticmethod
    def by(clock: Clock) -> Now:
        return Now(clock.steady_ns() / 1e9, clock.wall_ns() / 1e9)


def death_key(im: str, process: Process) -> str:
    """Names the death of an instance manager."""
    return f"{im}, process {process.pid}, {process.started}"


class Process(NamedTuple):
    """One process of an instance manager: the next one of the same id knows nothing of what it had. In a container each next one may
    have the same `pid`, so there is also when it was `started`, in µs since 1970."""

    pid: int
    started: int


@dataclass(frozen=True, slots=True)
class _Registration:
    """What is needed here of what an instance manager says of itself."""

    id: str
    endpoint: str
    pid: int = 0
    started: int = 0
    node: int | None = None
    core: int | None = None
    refused: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InstanceManager:
    """An instance manager as it registered itself; `info` is everything it said."""

    im: str
    endpoint: str
    process: Process
    node: int | None
    core: int | None
    info: Mapping[str, Any]
    refused: Mapping[str, str] = field(default_factory=dict)  # assignments that it cannot read, and why

    @property
    def host(self) -> str:
        """The name of its host; empty in a cluster of one machine."""
        return host_of(self.endpoint)

    @staticmethod
    def from_json(d: Mapping[str, Any]) -> InstanceManager:
        """Raises ProtocolError: it is no registration."""
        found = read_shape(_Registration, d)
        process = Process(found.pid, found.started)
        return InstanceManager(found.id, checked_endpoint(found.endpoint), process, found.node, found.core, d, found.refused)


@dataclass(frozen=True, slots=True)
class _FailedAt:
    """A subquery and its instance; none where all are meant."""

    at: tuple[str, int | None]


@dataclass(frozen=True, slots=True)
class StoredPiece:
    """An instance's piece of checkpoint `number`: the name of its file, or the `error` for which there is none. `took_us`: so long the
    instance stood still; `wrote_us`: CPU time of making bytes of it and writing them, beside it; `oldest`: it needs pieces of checkpoints
    from there on; `whole`: no operator leaves anything to earlier ones, so the next one costs as much."""

    number: tuple[int, int, int]
    piece: str
    crc: int
    bytes: int
    took_us: int
    error: str = ""
    wrote_us: int = 0
    oldest: tuple[int, int, int] | None = None  # its own
    whole: bool = False


@dataclass(frozen=True, slots=True)
class CommittedCheckpoint:
    """What a recovery goes on from: the name and CRC of its manifest. `bytes`: of its pieces; `at`: when, in seconds since 1970."""

    number: tuple[int, int, int]
    manifest: str
    crc: int
    bytes: int = 0
    at: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"number": list(self.number)}


@dataclass(frozen=True, slots=True)
class QueryCheckpoints:
    """What stands in `/checkpoints/<query>`: the checkpoint that was asked for last, and the last that is committed. `pauses`: behind the
    one that was asked for its instances stand still."""

    asked: tuple[int, int, int] = (0, 0, 0)
    committed: CommittedCheckpoint | None = None
    pauses: bool = False

    @property
    def is_committed(self) -> bool:
        """Is the one that was asked for last?"""
        return self.committed is not None and self.committed.number == self.asked

    def to_json(self) -> dict[str, Any]:
        return {"asked": list(self.asked), "committed": self.committed and self.committed.to_json(), "pauses": self.pauses}

    @staticmethod
    def from_json(d: Any) -> QueryCheckpoints:
        """Raises ProtocolError."""
        return read_shape(QueryCheckpoints, d)


@dataclass(frozen=True, slots=True)
class Unused:
    """What instances have not used of their input.

    Args:
        late: rows further behind than their stream's disorder allows.
        odd_times: rows with event times outside the years that their stream allows.
        before_since: rows before the time from which the query is to answer.
        dead_letters: operator or source -> records and rows that could not be used.
    """

    late: int = 0
    odd_times: int = 0
    before_since: int = 0
    dead_letters: Mapping[str, int] = field(default_factory=dict)

    @staticmethod
    def together(parts: Iterable[Unused]) -> Unused:
        found, dead = list(parts), Counter[str]()
        for each in found:
            dead.update(each.dead_letters)
        late, odd_times = sum(each.late for each in found), sum(each.odd_times for each in found)
        return Unused(late, odd_times, sum(each.before_since for each in found), dict(sorted(dead.items())))


@dataclass(frozen=True, slots=True)
class Status:
    """What an instance manager says of an instance.

    Args:
        epoch: the deployment it speaks of.
        state: one of deploying, ready, running, ended, stopped, failed.
        cause: of a failure.
        failed_at: subquery and instance of that, if it is another's that it has heard of.
        rows: output stream -> rows that came out.
        operators: of an instance that is over, what its operators and other steps took in, gave out and cost.
        unused: of one that is over; None: it has not said.
        table: the version of the table by which its buckets are where they are.
        step: of a move of an instance of its query, the last that it has done (`Relocation.step`).
        attempt: the attempt of that deployment of which it is.
        stored: its last piece of a checkpoint.
        wants: another checkpoint should be taken at once.
        news: there is something that its last piece has not.
        lost: stream, id and endpoint of subscriptions that its assignment has and it has no more.
    """

    epoch: int
    state: str
    cause: str | None = None
    rows: Mapping[str, int] = field(default_factory=dict)
    operators: Sequence[Mapping[str, Any]] = ()
    unused: Unused | None = None
    table: int = 0
    step: int = 0
    failed_at: Sequence[Any] = ()
    attempt: int = 0
    stored: StoredPiece | None = None
    wants: bool = False
    news: bool = True
    lost: Sequence[tuple[str, str, str]] = ()

    @staticmethod
    def from_json(d: Mapping[str, Any]) -> Status:
        """Raises ProtocolError: it is no status."""
        found = read_shape(Status, {key: value for key, value in d.items() if value is not None} if isinstance(d, dict) else d)
        check_operators(found.operators)
        read_shape(_FailedAt, {"at": list(found.failed_at) or ["", None]})
        return replace(found, cause=None if found.cause is None else found.cause[:CAUSE_CHARS_MAX])


@dataclass(frozen=True, slots=True)
class FailureCause:
    """Why a query failed, and where."""

    subquery: str
    instance: int | None
    text: str

    def to_json(self) -> dict[str, Any]:
        return {"subquery": self.subquery, "instance": self.instance, "cause": self.text}


@dataclass(frozen=True, slots=True)
class BucketTable:
    """Bucket -> instance, as it is to be; version 0 is the plan's."""

    version: int
    table: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        return {"version": self.version, "table": list(self.table)}

    @staticmethod
    def from_json(d: Mapping[str, Any]) -> BucketTable:
        """Raises ProtocolError: it is no table."""
        return read_shape(BucketTable, d)


@dataclass(frozen=True, slots=True)
class Relocation:
    """Move `number` of a query: instance `index` of `subquery` goes from instance manager `source` to `target`."""

    number: int
    subquery: str
    index: int
    source: str
    target: str
    endpoint: str  # of the target
    process: Process  # likewise
    redirecting: bool = False  # it cannot be given up any more

    @property
    def step(self) -> int:
        """What is asked of the instances of the query: a later one is greater."""
        return 2 * self.number + self.redirecting

    @property
    def name(self) -> str:
        return f"{self.subquery}/{self.index}"

    @property
    def described(self) -> str:
        how_far = ", where its input goes already" if self.redirecting else ""
        return f"{self.name} is moving from {self.source!r} to {self.target!r}{how_far}"


@dataclass(frozen=True, slots=True)
class SubscriptionRecord:
    """A reader of an output stream. One that is `resumable` may be gone on with by other processes: `holder` of them had it before the
    present one, which has given it the text `claim`, so that it may ask twice."""

    stream: str
    id: str
    endpoint: str
    on_slow: str = "block"
    keep_s: float = KEEP_S
    resumable: bool = False
    holder: int = 0
    claim: str = ""

    def to_json(self) -> dict[str, Any]:
        document = asdict(self)
        return (
            document if self.resumable else {name: each for name, each in document.items() if name not in ("resumable", "holder", "claim")}
        )

    @staticmethod
    def from_json(d: Mapping[str, Any]) -> SubscriptionRecord:
        """Raises ProtocolError or QueryError: it is no subscription."""
        found = read_shape(SubscriptionRecord, d)
        checked(found.keep_s, "keep_s", KEEP_S_MIN, KEEP_S_MAX)
        checked_endpoint(found.endpoint)
        if found.on_slow not in ("block", "drop"):
            raise ProtocolError(f"on_slow: expected 'block' or 'drop', got {shown(found.on_slow)}")
        return found


@dataclass(frozen=True, slots=True)
class PublisherRecord:
    """A partition of a published stream."""

    stream: str
    name: str
    endpoint: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(d: Mapping[str, Any]) -> PublisherRecord:
        """Raises ProtocolError or QueryError: it is no publisher."""
        found = read_shape(PublisherRecord, d)
        checked_endpoint(found.endpoint)
        return found


@dataclass(frozen=True, slots=True)
class ApplicationRecord:
    """What belongs to an application, by name; what each is stands with itself."""

    name: str
    streams: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()
    connectors: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Evacuation:
    """`agent`: of the host that is to be left. `until`: seconds since 1970."""

    host: str
    agent: AgentProcess
    until: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"agent": list(self.agent)}

    @staticmethod
    def from_json(document: Any) -> Evacuation:
        """Raises ProtocolError."""
        return read_shape(Evacuation, document)


@dataclass(frozen=True, slots=True)
class PendingChange:
    """What a query is to become behind a commit: `subquery` has so many `instances`, or its instance `index` is on `im`, or its buckets are
    where `table` says, or it is the query of `document`.

    Args:
        behind: the checkpoint that had been asked for when it was asked for; a later one has to be committed.
        pauses: nothing more comes out behind that, for another query could not make it again.
        fresh: operators that cannot keep their state begin with none.
        unasked: the balancing wants it; it gives way to what a user asks for.
    """

    behind: tuple[int, int, int]
    subquery: str = ""
    instances: int = 0
    document: Mapping[str, Any] | None = None
    pauses: bool = False
    fresh: bool = False
    index: int = 0
    im: str = ""
    table: tuple[int, ...] = ()
    unasked: bool = False

    @property
    def described(self) -> str:
        if self.im:
            return f"{self.subquery}/{self.index} goes on on {self.im} when a checkpoint is committed"
        if self.table:
            return f"buckets of {self.subquery} go elsewhere when a checkpoint is committed"
        what = "another query" if self.document is not None else f"one of {self.instances} instances of {self.subquery}"
        return f"it becomes {what} when a checkpoint is committed"

    def to_json(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)} | {"behind": list(self.behind)}


@dataclass(frozen=True, slots=True)
class QueryRecord:
    """A query in the cluster.

    Args:
        document: the query's JSON.
        start: it is to run as soon as it is ready.
        state: of `LIFE_CYCLE`.
        desired: what its instances are asked to be.
        epoch: counts deployments in this cluster, so that what an earlier query of the name left behind is known as such.
        hosts: instance manager -> its process at deployment: another process of the same id has none of the state.
        times: state -> when it was entered, in seconds since 1970.
        released: its assignments are withdrawn; nothing of it is left on the instance managers.
        forget: it is to vanish once it is over.
        readers: (stream, id) of the subscriptions it had when it was over: they are its own, later ones are the next query's.
        rows: output stream -> rows that had come out when it was over.
        operators: subquery -> what its operators and other steps had taken in, given out and cost then, all instances together.
        unused: what all its instances had not used of their input then; None: not all of them could say.
        lost: stream that it reads from another query -> why that has not ended and will not go on.
        move: of an instance of it, under way.
        moves: how many there have been, those that did not come about too.
        refused: why the last one did not; empty: it did.
        attempt: how often it has recovered.
        wish: the state to which it goes back when it has.
        restore: the checkpoint that the attempt goes on from; None: it began anew.
        strikes: recoveries by its own doing since the last checkpoint.
        suspect: the instance managers' processes that it has lost since then, as `death_key` names them.
        reason: of the last recovery.
        change: what it is to become as soon as a checkpoint is committed.
        relieves: nothing was lost when this attempt began, and no files are written that both would; so what the one before has at each
            place works on until the next is built there.
        owner: the client that has deployed it, by the name of its token; empty: there was none.
        lease_s: it is forgotten when it was not asked for during so long; 0: it stays.
    """

    name: str
    document: Mapping[str, Any]
    epoch: int
    hosts: Mapping[str, Process]
    start: bool = True
    state: str = "accepted"
    desired: str = "ready"
    cause: FailureCause | None = None
    times: Mapping[str, float] = field(default_factory=dict)
    released: bool = False
    forget: bool = False
    readers: tuple[tuple[str, str], ...] = ()
    rows: Mapping[str, int] = field(default_factory=dict)
    lost: Mapping[str, str] = field(default_factory=dict)
    operators: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    unused: Unused | None = None
    move: Relocation | None = None
    moves: int = 0
    refused: str = ""
    attempt: int = 0
    wish: str = ""
    restore: CommittedCheckpoint | None = None
    strikes: int = 0
    suspect: tuple[str, ...] = ()
    reason: str = ""
    owner: str = ""
    change: PendingChange | None = None
    relieves: bool = False
    lease_s: float = 0.0

    @property
    def broken(self) -> str:
        """Why its outputs have not ended and will not go on; empty if they may, or if they have, as those of a drained query."""
        if self.state == "failed":
            cause = self.cause or FailureCause("", None, "no cause is known")
            return str(QueryFailed(self.name, cause.subquery, cause.instance, cause.text))
        return f"query {self.name!r} was stopped" if self.state == "stopped" and "stopping" in self.times else ""

    def entered(self, state: str, now: Now, desired: str | None) -> QueryRecord:
        """The same query in its next state."""
        return replace(self, state=state, desired=desired or self.desired, times={**self.times, state: round(now.wall, 3)})

    def to_json(self) -> dict[str, Any]:
        cause = None if self.cause is None else self.cause.to_json()
        own = {each.name: getattr(self, each.name) for each in fields(self)}  # not `asdict`, which copies the document deep
        move = None if self.move is None else asdict(self.move) | {"process": list(self.move.process)}
        hosts = {im: list(process) for im, process in self.hosts.items()}
        operators = {subquery: list(figures) for subquery, figures in self.operators.items()}
        readers = [list(reader) for reader in self.readers]
        unused = None if self.unused is None else asdict(self.unused)
        restore = None if self.restore is None else self.restore.to_json()
        own |= {"cause": cause, "hosts": hosts, "move": move, "readers": readers, "operators": operators, "unused": unused}
        change = None if self.change is None else self.change.to_json()
        return own | {"restore": restore, "suspect": list(self.suspect), "change": change}

    @staticmethod
    def from_json(d: Mapping[str, Any]) -> QueryRecord:
        """Raises ProtocolError: it is no record."""
        cause = d.get("cause") if isinstance(d, dict) else None
        found = read_shape(QueryRecord, {**d, "cause": cause | {"text": cause.get("cause")}} if isinstance(cause, dict) else d)
        if found.state not in LIFE_CYCLE:
            raise ProtocolError(f"QueryRecord.state: expected one of {', '.join(LIFE_CYCLE)}, got {shown(found.state)}")
        checked(found.epoch, "epoch", 0, EPOCH_MAX)
        for figures in found.operators.values():
            check_operators(figures)
        return found


def check_operators(figures: Iterable[Mapping[str, Any]]) -> None:
    """Raises ProtocolError: these are not what `added_up` adds up."""
    for each in figures:
        read_shape(_Figures, each)


@dataclass(frozen=True, slots=True)
class _Figures:
    """The figures of an operator, or of a step that is none."""

    name: str
    step: str
    rows_in: int
    cpu_ns: int


def added_up(figures: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Operators and other steps, those of one name together: every instance of a subquery has the same."""
    sums: dict[tuple[str, str], dict[str, Any]] = {}
    for each in figures:
        known = sums.setdefault((each["step"], each["name"]), {"name": each["name"], "step": each["step"]})
        for field_, value in each.items():
            if isinstance(value, int):
                known[field_] = known.get(field_, 0) + value
    return [each | {"ns_per_row": round(each["cpu_ns"] / each["rows_in"], 2) if each["rows_in"] else None} for each in sums.values()]
