"""The shapes of REST's requests and answers, for checking and for the OpenAPI document."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictInt

from cep.model.limits import (
    APPLICATION_PARTS_MAX,
    BUCKETS_MAX,
    INSTANCES_MAX,
    KEEP_S_MAX,
    KEEP_S_MIN,
    MANY_MAX,
    NAME_CHARS_MAX,
    checked_endpoint,
)
from cep.service.keys import KEY_S, KEY_S_MAX, KEY_S_MIN
from orchestrator.rest.problems import Problem
from orchestrator.state.life_cycle import LIFE_CYCLE

QUERY_EXAMPLE: dict[str, Any] = {
    "name": "per-ip",
    "streams": [
        {
            "name": "visits",
            "schema": [{"name": "ip", "type": "string"}, {"name": "ts", "type": "timestamp[ms]"}],
            "event_time": "ts",
            "disorder": "2s",
        }
    ],
    "operators": [
        {
            "name": "window",
            "type": "aggregate",
            "input": "visits",
            "window": {"type": "time", "size": "30s", "advance": "30s"},
            "by": ["ip"],
            "functions": {"visits": {"function": "count"}},
        }
    ],
    "outputs": [{"stream": "per_ip", "input": "window"}],
}
EVENTS_EXAMPLE = 'id: no-token\ndata: [{"ip": "10.0.0.1", "visits": 1}]\n\nevent: end\nid: no-token\ndata: {}\n\n'
STREAM_EXAMPLE = QUERY_EXAMPLE["streams"][0]
SQL_EXAMPLE = """CREATE STREAM visits (ip VARCHAR NOT NULL, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND);
SELECT ip, count(*) AS visits FROM TABLE(TUMBLE(TABLE visits, DESCRIPTOR(ts), INTERVAL '30' SECOND)) GROUP BY ip, window_start, window_end
"""


CONNECTOR_EXAMPLE = {
    "name": "orders",
    "stream": "orders",
    "from": {"connector": "files", "path": "/data/orders", "format": "json"},
}

Name = Annotated[str, Field(min_length=1, max_length=NAME_CHARS_MAX)]
Endpoint = Annotated[str, AfterValidator(lambda endpoint: checked_endpoint(endpoint, "/endpoint"))]


State = Literal[*LIFE_CYCLE]  # type: ignore[valid-type]  # the table's names, once
"""A state of a query."""


class Model(BaseModel):
    """An answer. What is not named here may come in a later version."""

    model_config = ConfigDict(extra="allow")


class Cause(Model):
    """Why a query failed, and where."""

    subquery: str
    instance: int | None
    cause: str


class QuerySummary(Model):
    """A query."""

    name: str
    state: str = Field(description="A state of the life cycle: deploying, ready, running, draining, stopped, ended, failed …")
    cause: Cause | None
    start: bool
    times: dict[str, float] = Field(description="State → when it was entered, seconds since 1970.")
    subqueries: int
    instances: int
    rows: dict[str, int] = Field(description="Output stream → rows that came out, as last reported.")
    recovery: dict[str, Any] | None = Field(
        None,
        description="Of a query that recovers: is it `recovering` now, `attempts`, the `reason` of the last, and its `checkpoints`: "
        "how often one is taken (`interval_s`), for how long its instances stood still (`took_us`), the `last`, with its `age_s`, and "
        "whether there is nothing new since (`rests`): then no other one is taken.",
    )

    lease_s: float = Field(0.0, description="It is a preview, which ends when it was not asked for answers for so long; 0: it is none.")


class SubquerySummary(Model):
    """Operators that run together."""

    name: str
    operators: list[str]
    stateful: bool


class PlanSummary(Model):
    """How the query was cut and placed."""

    subqueries: list[SubquerySummary]
    cost: float
    notes: list[str]


class PlacedInstance(Model):
    """A subquery instance and what is known of it."""

    subquery: str
    instance: int
    replica: int
    im: str
    node: int | None
    core: int | None
    endpoint: str
    state: str | None
    cause: str | None
    waits_for: str | None = Field(None, description="Why nothing comes out of it, from the metric server.")
    metrics: dict[str, Any] | None = None


class StreamProducer(Model):
    """An instance from which an output stream comes."""

    query: str
    subquery: str
    instance: int
    im: str
    endpoint: str
    channel: str
    epoch: int


class StreamRead(Model):
    """An output of another query that a query reads."""

    stream: str
    query: str
    state: str | None = Field(description="Of that query; none where it is gone.")
    lost: str | None = Field(description="Why the stream has not ended and will not go on.")


class BucketsInfo(Model):
    """Where the buckets of a subquery are, since they have moved."""

    subquery: str
    version: int = Field(description="Of the table; the plan's is 0.")
    buckets: list[int] = Field(description="How many each instance has.")
    elsewhere: int = Field(description="How many are not where the plan has them.")
    moving: bool = Field(description="Some instances are not there yet.")


class RebalanceRequest(Model):
    """A table of buckets by hand."""

    subquery: str | None = Field(None, description="Whose; it may be left out where only one has a table.")
    table: list[Annotated[int, Field(ge=0, lt=INSTANCES_MAX)]] = Field(max_length=BUCKETS_MAX, description="Bucket → instance.")


class MoveRequest(Model):
    """An instance that is to move by hand."""

    subquery: str
    instance: int = Field(0, ge=0, lt=INSTANCES_MAX)
    im: str = Field(description="The instance manager where it is to go on.")


class ScaleRequest(Model):
    """Another number of instances of a subquery."""

    subquery: str
    instances: int = Field(ge=1, le=INSTANCES_MAX)


class PartUpgrade(Model):
    """What becomes of a part of a query in an upgrade."""

    part: str = Field(description="Such as operator 'w'.")
    fate: Literal["keeps its state", "has no state", "begins with none", "its state is lost", "refused"]
    note: str = ""
    there: str = Field(description="Of a part that is refused, as what follows.")
    wanted: str
    advice: str


class UpgradeReport(Model):
    """What becomes of each part of a query."""

    name: str
    possible: bool
    parts: list[PartUpgrade]
    text: str = Field(description="The same for a person, a line for each.")
    state: str = Field(description="Of the query, afterwards.")
    cause: dict[str, Any] | None = None
    moved: Moved | None


class Moved(Model):
    """The last move of an instance, or change of the query."""

    number: int = Field(description="Of the moves of this query, those that did not come about too.")
    under_way: str = Field(description="What moves now, from where and to where; empty: nothing.")
    refused: str = Field(description="Why the last move did not come about; empty: it did.")


class UnusedInput(Model):
    """What a query has not used of its input, in all."""

    late: int = Field(description="Rows further behind than their stream's disorder allows.")
    odd_times: int = Field(description="Rows with event times outside the years that their stream allows.")
    before_since: int = Field(description="Rows before the time from which the query is to answer.")
    dead_letters: int = Field(description="Records and rows that could not be used.")


class QueryDetail(QuerySummary):
    """A query with its plan, its instances and where its outputs come from."""

    document: dict[str, Any]
    epoch: int
    attempt: int = Field(0, description="How often it has recovered.")
    recovers: bool = False
    plan: PlanSummary
    placed: list[PlacedInstance]
    outputs: dict[str, list[StreamProducer]]
    schemas: dict[str, list[dict[str, str]]] = Field(description="Output stream → its fields.")
    tables: list[BucketsInfo] = []
    moved: Moved | None = Field(None, description="Since an instance of it was to move.")
    reads: list[StreamRead] = []
    operators: dict[str, list[dict[str, Any]]] = Field(
        {}, description="Of a query that is over: subquery → what each operator and other step took in, gave out and cost, in all."
    )
    unused: UnusedInput | None = Field(
        None, description="Exact of a query that has ended, else as last reported; null: nobody can say now."
    )


class PreviewInfo(Model):
    """A query that shows what another would answer now, and ends by itself."""

    name: str
    streams: dict[str, str] = Field(description="Output stream of the query → the stream in which its answers are.")
    lease_s: float = Field(description="It ends when it was not asked for answers for so long.")


class Flame(Model):
    """What an instance manager did for some seconds."""

    said: str = Field(description="How many samples it is made of, or why there is no picture.")
    picture: str = Field(description="SVG. It has a script of its own, by which it is enlarged; shown as an image it has none.")


class Flames(Model):
    """Flame graphs of the instance managers of a query."""

    managers: dict[str, Flame]
    elsewhere: list[str] = Field(description="Instance managers on other hosts, which are not in it.")


class MetricsInfo(Model):
    """What was measured. All are totals; a rate is the difference of two answers over that of their `reported`."""

    time: float = Field(description="Now, in seconds since 1970.")
    instances: list[dict[str, Any]] = Field(description="Subquery instances, each with its `operators` and `outputs`.")
    managers: list[dict[str, Any]] = Field(description="Instance managers: CPU time of process and engine, memory.")


class FigureSeries(Model):
    """Figures of the last hours, one of each for each time; null: there was none."""

    step_s: float = Field(description="Between two of them.")
    times: list[float] = Field(description="Seconds since 1970.")
    rows_in_s: list[float | None] = Field(description="Rows read of streams and files, a second.")
    rows_out_s: list[float | None] = Field(description="Rows of output streams, a second.")
    cores: list[float | None] = Field(description="CPU time of instances, in cores.")
    lag_s: list[float | None] = Field(description="How far the slowest watermark is behind the clock.")
    latency_p99_s: list[float | None] = Field(description="Of the rows that came out, an upper bound.")


class HistoryEvent(Model):
    """Something that has happened."""

    at: float = Field(description="Seconds since 1970.")
    kind: Literal["asked", "query", "process"] = Field(
        description="asked: a client has, of the audit log, which tokens with the role admin alone see; query: it came into a state; "
        "process: one of the cluster died."
    )
    about: str = Field(description="The query, stream, node or process.")
    what: str = Field(description="The action, the state, or how it died.")
    token: str | None = Field(None, description="Of what was asked: the name of the token; empty: the cluster has none.")
    origin: str | None = Field(None, description="Likewise, the address that it came from.")
    status: int | None = Field(None, description="Likewise, of the answer.")


class History(Model):
    """What has happened, and figures of the last hours."""

    events: list[HistoryEvent] = Field(description="Oldest first.")
    figures: FigureSeries


class TraceInfo(Model):
    """What has held the instance managers up. The causes are told in docs/features/trace.md."""

    time: float = Field(description="Now, in seconds since 1970.")
    managers: list[dict[str, Any]] = Field(
        description="By instance manager: `totals` since `began`, by place and cause, and the `slowest` lately. Times end in `_ns`."
    )


class Explanation(Model):
    """The plan in words; `pictures`: the automaton of each pattern as SVG, by the pattern's name."""

    text: str
    pictures: dict[str, str] = {}


class StreamInfo(Model):
    """A stream as declared, or as a query puts it out."""

    name: str
    publishers: list[dict[str, Any]] = []
    read_by: list[str] = []
    fed_by: str | None = None


class Reader(Model):
    """A source instance that reads a published stream."""

    query: str
    subquery: str
    instance: int
    replica: int
    im: str
    endpoint: str
    channel: str
    epoch: int
    attempt: int = Field(0, description="How often its query has recovered.")
    keeps: bool = Field(False, description="Its query recovers: what a publisher sends it is to be kept until a checkpoint covers it.")
    here: bool = Field(True, description="It is built; if not, it is being made anew.")
    relieves: bool = Field(False, description="What was there before it works on until it is.")
    route: dict[str, Any] | None = Field(
        description="How a publisher chooses the replica of a row by its key; null: any reader may get it."
    )


class Readers(Model):
    """The readers of a published stream now. Ask again with `after=version` to learn of the next change."""

    version: str
    readers: list[Reader]


class OpeningOf(BaseModel):
    """A publisher that opens a stream, one of several that one client opens."""

    stream: str
    name: Name = Field(examples=["p1"])
    endpoint: Endpoint = Field(examples=["ipc:///tmp/cep-1/p1"])


class Opened(Model):
    """A stream that was opened: its declaration, and its readers now."""

    stream: dict[str, Any]
    readers: list[Reader]


class OpenedAll(Model):
    """What was opened, in the order asked for. Ask for news with `after`."""

    after: str
    opened: list[Opened]


class ReadersNews(Model):
    """The readers of the streams that changed since `after`, which is now another."""

    after: str
    streams: dict[str, list[Reader]]


class ClosingOf(BaseModel):
    """A publisher that closes, one of several."""

    stream: str
    name: str
    endpoint: Endpoint | None = Field(
        None, description="Where it is, so that no other is closed that has its name by now; null: whichever has the name."
    )


class ClosedOf(Model):
    """A publisher has closed. It has to tell the readers of its stream, and which `others` count as open yet."""

    others: list[str]
    readers: list[Reader]
    replaced: bool = Field(False, description="Another process has its name and goes on in its place: it has nothing to tell.")


class DeployOutcome(Model):
    """What has become of one query of several."""

    name: str | None = Field(description="None where the document has no name.")
    state: str | None = Field(description="None where it was not deployed, or is gone.")
    cause: Cause | None = None
    error: Problem | None = Field(None, description="Why it was not deployed.")


class Waiting(BaseModel):
    """The queries that are waited for."""

    names: list[str] = Field(max_length=MANY_MAX)
    state: State = Field("running", description="Or until each is over, if that comes first.")


class Producing(Model):
    """The instances that produce an output stream now."""

    query: str
    state: str
    fields: list[dict[str, str]]
    producers: list[StreamProducer]


class Opening(BaseModel):
    """A publisher that opens a stream."""

    name: Name = Field(examples=["p1"])
    endpoint: Endpoint = Field(examples=["ipc:///tmp/cep-1/p1"])


class Advance(BaseModel):
    """How far a publisher promises to be."""

    model_config = ConfigDict(extra="forbid")
    to: StrictInt | str = Field(
        description="An integer of the unit that the stream's event time declares, or ISO 8601; without a zone it is UTC.",
        examples=[1700000000000, "2023-11-14T22:13:20Z"],
    )


class PublisherClosing(Model):
    """A publisher has closed."""

    last: bool = Field(description="It was the last and did not keep the stream open: the stream ends.")


class SubscriptionRequest(BaseModel):
    """A reader to come of an output stream."""

    id: Name = Field(examples=["s1"])
    endpoint: Endpoint = Field(examples=["ipc:///tmp/cep-1/s1"])
    on_slow: Literal["block", "drop"] = "block"
    keep: float = Field(
        60.0, ge=KEEP_S_MIN, le=KEEP_S_MAX, allow_inf_nan=False, description="Seconds that rows are held for a client that is gone."
    )
    resumable: bool = Field(False, description="Another process may go on with it, of a query that recovers.")
    resume: bool = Field(False, description="It goes on with the one of that id, which has to be there.")
    claim: str = Field("", max_length=100, description="Who asks: the same process, asking twice, has it once.")


class SubscriptionInfo(SubscriptionRequest):
    """A reader of an output stream, as it was taken down."""

    holder: int = Field(description="How many processes had it before.")


class InstanceManagerInfo(Model):
    """An instance manager as it registered itself."""

    id: str
    endpoint: str
    instances: int = Field(description="Subquery instances it hosts.")


class HostInfo(Model):
    """A machine of the cluster."""

    name: str = Field(description="Empty in a cluster of one machine.")
    address: str
    nodes: int = Field(description="NUMA nodes.")
    cores: int
    instance_managers: list[str]
    instances: int = Field(description="Subquery instances of queries that are not over.")
    load: float | None = Field(description="Processes that wanted a core in the last minute, as its kernel counts them.")
    clock_ms: int | None = Field(description="How far its clock is ahead of ZooKeeper's.")
    clock_off: bool = Field(description="It is so far off that it should be set.")
    since: float | None = Field(description="When it joined, in seconds since 1970 by its own clock.")
    version: str
    leaving: bool = Field(description="Nothing is placed there any more, and what is there goes elsewhere.")


class JoiningHost(BaseModel):
    """A host that wants to join."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=NAME_CHARS_MAX)
    version: str = Field(max_length=40, description="Of what hosts say to each other.", examples=["1.0"])


class Membership(Model):
    """What a member of the cluster has to know."""

    version: str
    host: str = Field(description="The host that answers.")
    cluster: dict[str, Any] = Field(description="Fields of every member's configuration.")
    files: dict[str, str] = Field(description="Field of the configuration → what is in the file that it names; secrets among them.")


class Remaining(Model):
    """An instance that is still on a host that is leaving."""

    query: str
    subquery: str
    instance: int


class Evacuated(Model):
    """How far the evacuation of a host has come."""

    host: str
    until: float | None = Field(description="When what has not gone fails, in seconds since 1970; null: it is gone already.")
    left: list[Remaining]


class SetAside(Model):
    """A node of ZooKeeper that cannot be read or acted on. It stays as it is until it is mended or removed."""

    node: str
    reason: str


class ClusterInfo(Model):
    """What the cluster is made of, beside its queries."""

    host: str = Field(description="The host that answers; empty in a cluster of one machine.")
    run: str = Field(description="The folder in which its processes have their sockets; clients of the same machine have theirs there too.")
    supervisors: list[dict[str, Any]] = Field(
        default_factory=list,
        description="What each says of the processes it keeps up: up, or waiting to be started again, since when, how often they died, "
        "and how and with which last words.",
    )
    quarantined: list[SetAside] = Field(
        default_factory=list, description="The first thousand nodes of ZooKeeper that are set aside; a query is as a whole."
    )
    no_room: str = Field("", description="Why no new query is taken, where the disk is full; empty: there is room.")
    roles: list[str] = Field(default_factory=list, description="What whoever asks may do: the roles of its token.")


class Health(Model):
    """Whether this orchestrator works."""

    role: Literal["leader", "standby"]
    leader: str | None = None
    zookeeper: Literal["connected", "away"] = Field("away", description="This and what follows is said to those that show a token.")
    instance_managers: int = 0
    queries: int = 0


class HandedKey(Model):
    """A client's public key."""

    public: str = Field(max_length=64, description="40 characters of z85, or 64 hexadecimal digits.")
    seconds: float = Field(KEY_S, ge=KEY_S_MIN, le=KEY_S_MAX, description="How long it is to count.")


class ClientKeyInfo(Model):
    """A client's key, and what its owner may do on the data plane."""

    public: str = Field(description="In z85.")
    name: str = Field(description="Of the token with which it was handed in.")
    roles: list[str]
    until: float = Field(description="Seconds since 1970.")


class RegisteredKey(ClientKeyInfo):
    members: str = Field(description="The members' public key, in z85.")


class MembersKey(Model):
    """The members' public key."""

    members: str = Field(description="In z85.")


_Parts = Annotated[list[Name], Field(max_length=APPLICATION_PARTS_MAX)]


class ApplicationParts(Model):
    """What an application has, by name."""

    streams: _Parts = Field(default_factory=list)
    queries: _Parts = Field(default_factory=list)
    connectors: _Parts = Field(default_factory=list)


class ApplicationInfo(ApplicationParts):
    """An application."""

    name: str


class AuditLine(Model):
    """A request that changed something, or was to: what the audit log says of it."""

    at: str = Field(description="When it was answered, UTC.")
    token: str = Field("", description="The name of its token; empty: the cluster has no tokens.")
    origin: str = Field("", alias="from", description="The address it came from.")
    action: str = Field("", description="Such as deploy, start, stop, delete, move, declare or apply.")
    about: str = Field("", description="The query, stream or node.")
    asked: dict[str, str] = Field(default_factory=dict, description="Parameters.")
    status: int = 0
    error: str | None = None
    detail: str | None = None
    lost: int = Field(0, description="So many lines before this one could not be written.")


class DeadLetterReport(Model):
    """Records that could not be used: exact counts, and the last of them."""

    counts: dict[str, int]
    total: int
    letters: list[dict[str, Any]]


class RowsTaken(Model):
    """Rows were taken."""

    rows: int


class Answers(Model):
    """Rows of an output stream; `ended`: no more will come."""

    rows: list[dict[str, Any]]
    ended: bool


class ConnectorInfo(Model):
    """A connector, and how it does."""

    name: str
    stream: str
    way: Literal["from", "to"] = Field(description="`from`: it brings rows to the stream; `to`: it takes them away.")
    connector: str
    document: dict[str, Any]
    epoch: int
    place: str = Field(description="The process that runs it; empty: none does.")
    state: str
    error: str = ""
    note: str = ""
    since: float = Field(0.0, description="When it came into its state, in seconds since 1970.")
    rows: int = Field(0, description="Since it was started there.")
    dead_letters: int = 0
    failures: int = 0
    behind: int | None = Field(None, description="How many records are known to wait for it.")
    last_row: float | None = None


class ConnectorKind(Model):
    """A connector that may be declared; `from`, `to` and `formats` are JSON schemas of options."""

    connector: str


class ConnectorLetter(Model):
    """A record that is no row."""

    place: str = Field(description="Partition and number: `orders-0@17`.")
    reason: str
    value: str = Field(description="Its beginning.")


class RunningConnector(BaseModel):
    """How one does."""

    model_config = ConfigDict(extra="allow")

    name: Name
    epoch: Annotated[int, Field(ge=0)]
    state: Annotated[str, Field(max_length=40)]
    error: Annotated[str, Field(max_length=4000)] = ""
    note: Annotated[str, Field(max_length=4000)] = ""
    since: float = 0.0
    rows: Annotated[int, Field(ge=0)] = 0
    dead_letters: Annotated[int, Field(ge=0)] = 0
    failures: Annotated[int, Field(ge=0)] = 0
    behind: int | None = None
    last_row: float | None = None
    letters: Annotated[list[ConnectorLetter], Field(max_length=100)] = []


class ConnectorReport(BaseModel):
    """What a process says that runs connectors."""

    place: Name
    incarnation: Name
    running: Annotated[list[RunningConnector], Field(max_length=MANY_MAX)] = []
    wait: Annotated[float, Field(ge=0, le=10)] = 0.0


class AssignedConnector(Model):
    name: str
    epoch: int
    document: dict[str, Any]


class ConnectorWork(Model):
    """What it is to run."""

    connectors: list[AssignedConnector]
