"""A cluster as its users see it: deploy, publish, subscribe, status."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Self, overload

from cep.errors import CepError, ClusterError, NotFound, QueryFailed
from cep.model import query as model
from cep.model import streams as stream_documents
from cep.model.growth import wider
from cep.model.streams import Stream
from cep.service.keys import KEY_S
from driver.applications.change import Change
from driver.builder.html import html_table, paragraph
from driver.builder.query import Query
from driver.engines import SparkRunning, check_engine, deploy
from driver.previews import Preview
from driver.processes.run_folder import run_folder
from driver.rest import PATIENCE_S, Rest, error_of, path
from driver.streams.data_plane import DataPlane
from driver.streams.following import Following
from driver.streams.inquiry import PRODUCES
from driver.streams.own_keys import OwnKeys
from driver.streams.own_place import OwnPlace, own_place
from driver.streams.producers import BUDGET_BYTES, WINDOW_BYTES, SubscriptionOptions
from driver.streams.publisher import Publisher
from driver.streams.resuming.tokens import ResumeToken
from driver.streams.subscription import Subscription
from driver.streams.subscriptions import Subscriptions

Deployable = Query | model.Query | Mapping[str, Any]
"""A query from the builder, as a value or as a document."""

POLL_S = 5.0
"""How long one request waits for a query's state. Compiling a query for the first time can take minutes, which no single request
would outlive; and one that is short may be asked again when an orchestrator dies under it."""

TOGETHER = 500
"""Queries in one request."""
LEAVE_S = 2.0
"""How long a client that closes waits for an orchestrator that is away."""
TOGETHER_BYTES = 1 << 20
"""How much the documents of one request hold together; a single one may hold as much."""

MOVED_S = 50.0
"""How long `rebalance` and `move` wait until all is there: less than an answer may take."""

_BEFORE = {
    "ready": frozenset(("accepted", "deploying")),
    "running": frozenset(("accepted", "deploying", "ready")),
    "stopped": frozenset(("accepted", "deploying", "ready", "running", "draining", "stopping", "recovering")),
}
"""Goal -> the states from which a query still comes to it."""


class Running:
    """A deployed query."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster, self.name = cluster, name

    def __repr__(self) -> str:
        return f"Running({self.name!r})"

    def _repr_html_(self) -> str:
        """Its state, and what each of its instances has done and waits for."""
        try:
            return running_html(self.status())
        except CepError as error:
            return paragraph(f"query {self.name}: {error}")

    def _path(self, rest: str = "") -> str:
        """Its address, and what follows it."""
        return path("queries", self.name) + rest

    def start(self) -> Running:
        """Runs a query that was deployed with `start=False`."""
        self.cluster.rest.post(self._path("/start"))
        self._wait("running")
        return self

    def subscribe(
        self,
        stream: str,
        *,
        on_slow: str = "block",
        keep_s: float = 60.0,
        event_time: bool | str = False,
        budget_bytes: int = BUDGET_BYTES,
        resumable: bool = False,
        resume: str | None = None,
    ) -> Subscription:
        """Answers of the output stream `stream` from now on; returns when it is registered: nothing that comes after is lost.

        Args:
            on_slow: what happens when the reader is slower than the query: "block" slows the query, "drop" drops and counts rows.
            keep_s: how long rows are held for a reader that is gone.
            event_time: adds a last column `event_time`, or of the name given, where the stream has a column of that name itself.
                It is NULL at the end of event time.
            budget_bytes: how much each producing instance holds for a reader before it counts as slow.
            resumable: of a query that recovers: it gives tokens (`Subscription.token`), by which another process may go on with it.
            resume: goes on exactly behind the rows that were taken when this token was given; it is resumable again.

        Raises:
            StreamEnded: the query is over; names how many rows came out.
            QueryFailed: it has failed.
            QueryError: the stream has a column of the name that the event time is to have; or it cannot be resumed from that token, and
                why.
        """
        options = SubscriptionOptions(on_slow, keep_s, event_time, budget_bytes, resumable or resume is not None)
        token = None if resume is None else resumed(resume, stream, self.name, options)
        return Subscription(self.cluster.rest, self.cluster.data_plane(), stream, options, resume=token).attach(self.name)

    def status(self) -> dict[str, Any]:
        """State, cause, instances and what each of them waits for."""
        return dict(self.cluster.rest.get(self._path()))

    def explain(self) -> str:
        """The plan in words."""
        return str(self.cluster.rest.get(self._path("/explain"))["text"])

    def pictures(self) -> dict[str, str]:
        """The automaton of each of its patterns as SVG, by the pattern's name."""
        return dict(self.cluster.rest.get(self._path("/explain"))["pictures"])

    def plan(self) -> dict[str, Any]:
        """The physical plan, as JSON."""
        return dict(self.cluster.rest.get(self._path("/plan")))

    def flame(self, seconds: float = 5.0) -> dict[str, str]:
        """What the instance managers that it is on do for so long, as flame graphs: SVG by instance manager, of those on the orchestrator's
        host. Raises ClusterError or Conflict: the sampling profiler is not there or may not look, or nothing runs."""
        found = self.cluster.rest.post(self._path(f"/flame?seconds={seconds:g}"), again=True)
        return {im: made["picture"] for im, made in found["managers"].items() if made["picture"]}

    def dead_letters(self) -> dict[str, Any]:
        """Bad input and failed functions: exact counts, and the last letters."""
        return dict(self.cluster.rest.get(self._path("/dead-letters")))

    def rebalance(self, table: Sequence[int], subquery: str | None = None) -> None:
        """Moves buckets to the instances that `table`, bucket -> instance, names, while the query runs; returns when they are there.

        `subquery`: whose buckets; it may be left out where only one has a table. Answers do not change.
        """
        answer = self.cluster.rest.post(
            self._path(f"/rebalance?wait=true&timeout={MOVED_S:g}"), {"subquery": subquery, "table": list(table)}
        )
        if any(each["moving"] for each in answer["tables"]):
            raise ClusterError(
                f"query {self.name!r}: after {MOVED_S:g} s buckets are still on their way; `status` says what waits for what"
            )

    def move(self, subquery: str, instance: int, im: str) -> None:
        """Moves an instance to the instance manager `im`, with its state, while the query runs; returns when it is there. Answers do not
        change.

        Raises:
            QueryError: there is no such instance or instance manager, or it is one that cannot move: which, and why.
            Conflict: not now, or it could not be there; it stays where it was.
        """
        answer = self.cluster.rest.post(
            self._path(f"/move?wait=true&timeout={MOVED_S:g}"), {"subquery": subquery, "instance": instance, "im": im}
        )
        if answer["state"] == "failed":
            raise _failed(self.name, answer["cause"])
        self._check_through(answer)

    def scale(self, parallelism: Mapping[str, int]) -> None:
        """Gives each subquery that is named so many instances, one subquery after the other, while the query runs; returns when all run.
        The query goes on from its last checkpoint each time; answers do not change.

        Raises:
            QueryError: there is no such subquery, or it cannot have so many instances: which, and why. It runs on with those it has.
            Conflict: not now.
        """
        for subquery, instances in parallelism.items():
            wanted = {"subquery": subquery, "instances": instances}
            answer = self.cluster.rest.post(self._path(f"/scale?wait=true&timeout={MOVED_S:g}"), wanted)
            if answer["state"] == "failed":
                raise _failed(self.name, answer["cause"])
            self._check_through(answer)

    def upgrade(self, query: Deployable, dry_run: bool = False, fresh: bool = False) -> dict[str, Any]:
        """Puts a changed query, of the same name, in its place while it runs: operators of the same name keep their state, subscribers
        and publishers stay. Returns, when it runs, what became of each part: `parts`, and `text`, a line for each. `dry_run`: nothing
        happens, and what would be refused is among them; then it is not `possible`. `fresh`: operators that cannot keep their state begin
        with none, and the first answers are without the rows of before.

        Raises:
            QueryError: it is no query, or a change with which state would have no sense: which, and what to do. It runs on as it is.
            Conflict: not now. QueryFailed: it has failed as the new query.
        """
        ways = f"/upgrade?wait=true&timeout={MOVED_S:g}&dry_run={str(dry_run).lower()}&fresh={str(fresh).lower()}"
        answer = self.cluster.rest.post(self._path(ways), _document(query))
        if answer["state"] == "failed" and not dry_run:
            raise _failed(self.name, answer["cause"])
        if not dry_run:
            self._check_through(answer)
        return dict(answer)

    def _check_through(self, answer: Mapping[str, Any]) -> None:
        """Raises ClusterError: what was asked for has not come about yet."""
        if under_way := answer["moved"]["under_way"]:
            raise ClusterError(f"query {self.name!r}: after {MOVED_S:g} s {under_way} still; `status` says what waits for what")

    def stop(self, drain: bool = False) -> None:
        """Stops it: nothing more fires. `drain`: its sources end instead, and open windows fire."""
        self.cluster.rest.post(self._path(f"/stop?drain={str(drain).lower()}"))
        self._wait("stopped", fails=False)

    def wait(self) -> Running:
        """Returns when it is over: its sources have ended, or it was stopped. Raises QueryFailed."""
        self._wait("stopped")
        return self

    def delete(self) -> None:
        """Stops and forgets it."""
        self.cluster.rest.delete(self._path("?wait=true"))

    def _wait(self, goal: str, fails: bool = True) -> None:
        """Returns when the query has come to `goal`, however long that takes. Raises QueryFailed if it failed instead, unless `fails` is
        False."""
        request = self._path(f"?until={goal}&timeout={POLL_S:g}&figures=false")
        while (answer := self.cluster.rest.get(request))["state"] in _BEFORE[goal]:
            pass
        if fails and answer["state"] == "failed":
            raise _failed(self.name, answer["cause"])


def running_html(status: Mapping[str, Any]) -> str:
    """`status`: as `Running.status` has it."""
    cause = status["cause"]
    state = f"query {status['name']}: {status['state']}" + ("" if cause is None else f": {cause['subquery']}: {cause['cause']}")
    lines = []
    for place in status["placed"]:
        figures = place.get("metrics") or {}
        rows = figures.get("rows_in", ""), figures.get("rows_out", "")
        lines.append((f"{place['subquery']}/{place['instance']}", place["im"], *rows, place.get("waits_for") or ""))
    return paragraph(state) + html_table(("instance", "on", "rows in", "rows out", "waits for"), lines)


def resumed(text: str, stream: str, query: str | None, options: SubscriptionOptions) -> ResumeToken:
    """The token of that text. Raises QueryError: it is none, or of something else."""
    token = ResumeToken.of(text)
    token.check(stream, query, bool(options.event_time))
    return token


def _failed(query: str, cause: dict[str, Any] | None) -> QueryFailed:
    """The error that says so."""
    cause = cause or {}
    return QueryFailed(query, cause.get("subquery", ""), cause.get("instance"), cause.get("cause", "unknown"))


def _document(query: Deployable) -> dict[str, Any]:
    """The document of a query that is a builder, a value or a document."""
    return query.to_json() if isinstance(query, Query) else model.to_json(query) if isinstance(query, model.Query) else dict(query)


def _batched(documents: Iterable[dict[str, Any]], most: int) -> Iterator[list[dict[str, Any]]]:
    """The documents in lists of at most `most`, and of about TOGETHER_BYTES: REST takes a body of 4 MiB."""
    batch: list[dict[str, Any]] = []
    size = 0
    for document in documents:
        batch.append(document)
        size += len(json.dumps(document))
        if len(batch) == most or size > TOGETHER_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


class Cluster:
    """A running cluster at `url`: a method for each thing that can be asked of one. Publishers and subscribers reach its instance managers
    directly, on this machine.

    Args:
        token: what the cluster lets us do is what this token may do; None: for a cluster without tokens.
        ca: the authority by whose certificate an address of https:// is known, a file in PEM; None: those that this machine trusts.
        host: the name of this machine in a cluster of several hosts; None: as what runs here says, else it is none of them.
        patience_s: how long the cluster may stay without an answer before what waits for it raises ClusterError, which names what is gone.
        An
            orchestrator that is away stops nothing that flows: a publisher or subscription raises only if the instance manager that it
            speaks to has ended, too.
    """

    def __init__(
        self, url: str, token: str | None = None, patience_s: float = PATIENCE_S, ca: str | None = None, host: str | None = None
    ) -> None:
        self.rest = Rest(url, token, patience_s, ca)
        self.host = host
        self.folder: str | None = None  # where our sockets are; None: in a private folder each
        self.plane: DataPlane | None = None
        self.following: Following | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @overload
    def deploy(self, query: Deployable, start: bool = ..., *, engine: Literal["cep"] = ..., master: str = ...) -> Running: ...

    @overload
    def deploy(self, query: Deployable, start: bool = ..., *, engine: Literal["spark"], master: str = ...) -> SparkRunning: ...

    def deploy(self, query: Deployable, start: bool = True, *, engine: str = "cep", master: str = "local[*]") -> Running | SparkRunning:
        """Deploys a query (builder, value or document); returns a `Running` when it runs, or with `start=False` when it is ready.

        Args:
            engine: "spark" runs it beside the cluster, on Spark at `master`; see `driver.engines.deploy`.

        Raises:
            QueryError: it is no query. PlacementError: the cluster is too small. Conflict: the name is taken.
            QueryFailed: it could not be started; says where and why.
        """
        check_engine(engine)
        if engine == "spark":
            return deploy(query, engine, master=master, start=start)
        answer = self.rest.post(f"/queries?start={str(start).lower()}", _document(query))
        running = Running(self, answer["name"])
        running._wait("running" if start else "ready")
        if self.following is not None:
            self.following.refresh()
        return running

    def deploy_all(self, queries: Iterable[Deployable], start: bool = True) -> list[Running | CepError]:
        """Deploys many queries, in their order, and waits until all run, or with `start=False` are ready. One that is wrong harms no
        other: in its place stands what `deploy` would have raised."""
        outcomes: list[dict[str, Any]] = []
        for documents in _batched(map(_document, queries), TOGETHER):
            outcomes += self.rest.post(f"/queries:bulk?start={str(start).lower()}", documents)
        deployed = [outcome["name"] for outcome in outcomes if outcome["error"] is None]
        states = self._wait_for_all(deployed, "running" if start else "ready")
        if self.following is not None:
            self.following.refresh()
        return [self._outcome(outcome, states) for outcome in outcomes]

    def _wait_for_all(self, names: list[str], goal: str) -> dict[str, dict[str, Any]]:
        """What has become of them, by name, once each has come to `goal` or is over, however long that takes."""
        waiting = {"names": names, "state": goal}
        while True:
            found = {answer["name"]: answer for answer in self.rest.post(f"/queries:wait?timeout={POLL_S:g}", waiting)}
            if not any(answer["state"] in _BEFORE[goal] for answer in found.values()):
                return found

    def _outcome(self, outcome: dict[str, Any], states: dict[str, dict[str, Any]]) -> Running | CepError:
        if outcome["error"] is not None:
            return error_of(outcome["error"])
        state = states[outcome["name"]]
        return _failed(state["name"], state["cause"]) if state["state"] == "failed" else Running(self, state["name"])

    def query(self, name: str) -> Running:
        """A query that is deployed already. Raises NotFound."""
        self.rest.get(path("queries", name))
        return Running(self, name)

    def queries(self) -> list[dict[str, Any]]:
        return list(self.rest.get("/queries"))

    def apply(
        self, file: str | Path, variables: Mapping[str, Any] | None = None, *, dry_run: bool = False, anew: bool = False
    ) -> list[Change]:
        """Makes the cluster have what the application in `file` declares (docs/applications.md): streams and queries that differ are
        created, changed or removed; returns what changed, or with `dry_run` would. `variables`: in place of their values in the file.
        `anew`: queries that cannot be upgraded may begin anew, without what they know.

        Raises:
            QueryError: the file is wrong: where, and why.
            Conflict: something of it is refused, or would begin anew; nothing has changed.
        """
        applying = import_module("driver.applications.applying").Applying(self, Path(file), variables)
        if dry_run:
            return list(applying.changes)
        return list(applying.run(anew))

    def applications(self) -> list[dict[str, Any]]:
        """The names of all applications, and of what belongs to each."""
        return list(self.rest.get("/applications"))

    def declare(self, stream: Stream) -> None:
        """Declares a stream without a query, or gives it nullable columns more. Raises Conflict if it is declared otherwise."""
        self.rest.put(path("streams", stream.name), stream_documents.to_json(stream))

    def undeclare(self, stream: str) -> None:
        """Forgets a declared stream. Raises Conflict while a query reads it or a publisher has it open; NotFound."""
        try:
            self.rest.delete(path("streams", stream))
        except NotFound as error:
            raise self.rest.nearest(error, "/streams", stream) from None

    def publisher(self, stream: str | Stream, name: str | None = None, keep_open: bool = False) -> Publisher:
        """Opens a publisher of a declared stream; use it as a context manager. `name`: the same name goes on where it was. Of a `Stream`,
        which it declares, its rows have the columns; of a name, all that the stream has by now."""
        if isinstance(stream, Stream):
            self.declare(stream)
            return self.open_publishers([stream], name, keep_open)[0]
        return self.open_publishers([self._declaration(stream)], name, keep_open)[0]

    def renew(self, publisher: Publisher) -> bool:
        """Has the stream of an open publisher got columns since? Then it may send them from now on."""
        declared = self._declaration(publisher.stream.name)
        if wider(publisher.stream, declared) is publisher.stream:
            return False
        publisher.grow(declared)
        return True

    def _declaration(self, stream: str) -> Stream:
        """What is declared by that name now. Raises NotFound."""
        try:
            return stream_documents.of_listing(self.rest.get(path("streams", stream)))
        except NotFound as error:
            raise self.rest.nearest(error, "/streams", stream) from None

    def open_publishers(self, streams: Iterable[Stream], name: str | None = None, keep_open: bool = False) -> list[Publisher]:
        """Opens a publisher of each of many streams, which are declared already, by a query for example; close them with
        `close_publishers`. Raises NotFound, with none opened: a stream is not declared."""
        plane = self.data_plane()
        self.following = self.following or Following(self.rest, plane)
        publishers = [Publisher(plane, stream, name, keep_open, self.following.close) for stream in streams]
        self.following.open(publishers)
        return publishers

    def close_publishers(self, publishers: Iterable[Publisher], keep_open: bool = False) -> None:
        """Closes many publishers together; see `Publisher.close`."""
        if self.following is not None:
            self.following.close(publishers, keep_open)

    def data_plane(self) -> DataPlane:
        """The sockets that all our publishers and subscriptions share."""
        self.plane = self.plane or self._open_plane()
        return self.plane

    def _open_plane(self) -> DataPlane:
        place = self._place()
        keys = OwnKeys.handed_in(self.rest) if place.host else None
        plane = DataPlane.open(place, None if keys is None else keys.keyring)
        if keys is not None:
            keys.keep(plane)
        return plane

    def _place(self) -> OwnPlace:
        """Where our sockets are: where processes of the cluster have theirs, in containers too, if that is here and ours to write."""
        info, own = self.rest.get("/cluster"), run_folder()
        folders = [self.folder, None if own is None else str(own.path), str(info["run"])]
        return own_place(info.get("host", ""), filter(None, folders), self.host)

    def register_key(self, public: str, seconds: float = KEY_S) -> dict[str, Any]:
        """Hands in a public key of CURVE, in z85 or hexadecimal: what our token may do, its owner may do on the data plane, for so long.
        The answer has `members`, the public key of the cluster, and `until`."""
        return dict(self.rest.post("/keys", {"public": public, "seconds": seconds}, again=True))

    def rotate_members_key(self) -> str:
        """Gives the cluster's members a new key pair, while everything runs; the public key."""
        return str(self.rest.post("/keys/members")["members"])

    def audit(self, last: int = 100) -> list[dict[str, Any]]:
        """The last requests that changed something, oldest first: of which token, from where, and what came of them."""
        return list(self.rest.get(f"/audit?last={last}"))

    def subscribe(
        self,
        stream: str,
        *,
        on_slow: str = "block",
        keep_s: float = 60.0,
        event_time: bool | str = False,
        budget_bytes: int = BUDGET_BYTES,
        resumable: bool = False,
        resume: str | None = None,
        window_bytes: int = WINDOW_BYTES,
        apart: bool = False,
    ) -> Subscription:
        """Answers of an output stream, whether its query is deployed already or will be: nothing that comes after is lost. Arguments as
        those of `Running.subscribe`.

        `window_bytes`: of what is held within the budget, how much each producing instance sends before it is taken; the rest waits there.
        `apart`: it is read by `Subscription.next_named`.
        """
        options = SubscriptionOptions(on_slow, keep_s, event_time, budget_bytes, resumable or resume is not None, window_bytes, apart)
        if resume is not None:
            token = resumed(resume, stream, None, options)
            return Subscription(self.rest, self.data_plane(), stream, options, resume=token).attach(token.query)
        producers = [q["name"] for q in self.queries() if q["state"] in PRODUCES]
        for name in producers:
            if stream in self.rest.get(path("queries", name))["outputs"]:
                return Subscription(self.rest, self.data_plane(), stream, options).attach(name)
        return Subscription(self.rest, self.data_plane(), stream, options).register()

    def subscribe_all(self, streams: Sequence[str], **options: Any) -> Subscriptions:
        """Answers of many output streams of queries that are deployed, in one place; options as those of `subscribe`."""
        return Subscriptions(self.rest, self.data_plane(), streams, SubscriptionOptions(**options)).attach()

    def connect(self, connector: Mapping[str, Any], dry_run: bool = False) -> dict[str, Any]:
        """Declares a connector, as its document says, in place of one of its name; it runs from then on (docs/connectors.md). `connectors`
        tells how it does. `dry_run`: nothing is declared. Raises QueryError: it makes no sense; says where."""
        address = path("connectors", str(connector.get("name"))) + f"?dry_run={str(dry_run).lower()}"
        return dict(self.rest.put(address, dict(connector)))

    def connectors(self) -> list[dict[str, Any]]:
        """All connectors: what each is at, how many rows it has brought or taken, and what is wrong with it."""
        return list(self.rest.get("/connectors"))

    def disconnect(self, connector: str) -> None:
        """Stops a connector for good. Raises NotFound."""
        self.rest.delete(path("connectors", connector))

    def explain(self, query: Query | Mapping[str, Any]) -> str:
        """The plan that a query would get now; nothing is deployed."""
        document = query.to_json() if isinstance(query, Query) else dict(query)
        return str(self.rest.post("/explain", document)["text"])

    def pictures(self, query: Query | Mapping[str, Any]) -> dict[str, str]:
        """The automaton of each of its patterns as SVG, by the pattern's name; nothing is deployed."""
        document = query.to_json() if isinstance(query, Query) else dict(query)
        return dict(self.rest.post("/explain", document)["pictures"])

    def preview(self, query: Deployable) -> Preview:
        """Runs a query beside what runs, under a name of its own, to see what it answers: it writes no files, and ends when it is closed or
        was not asked for rows for a minute."""
        found = self.rest.post("/preview", _document(query))
        return Preview(self.rest, found["name"], found["streams"])

    def history(self, query: str | None = None, last: int = 200) -> dict[str, Any]:
        """`events`, the last ones, oldest first: states of queries, deaths of processes, and, for a token with the role admin, what clients
        asked for; `figures` of the last hours. Of one query, or of all."""
        of = "" if query is None else path(query).replace("/", "&query=", 1)
        return dict(self.rest.get(f"/history?last={last}{of}"))

    def metrics(self) -> str:
        """Everything measured, as Prometheus reads it."""
        return self.rest.text("/metrics")

    def instance_managers(self) -> list[dict[str, Any]]:
        return list(self.rest.get("/instance-managers"))

    def hosts(self) -> list[dict[str, Any]]:
        """The machines of the cluster: name, address, nodes, cores, instance managers, instances, load, and how far each clock is off."""
        return list(self.rest.get("/hosts"))

    def evacuate(self, host: str, patience_s: float = 25.0) -> list[str]:
        """Moves what is on a host elsewhere; what cannot move, or has not within 20 s, fails by name, and nothing new is placed there.
        Returns what is left after `patience_s`, such as "SQ1/0 of query 'per-ip'". Raises NotFound."""
        left = self.rest.post(f"{path('hosts', host)}/evacuate?wait=true&timeout={patience_s:g}", again=True)["left"]
        return [f"{each['subquery']}/{each['instance']} of query {each['query']!r}" for each in left]

    def figures(self) -> dict[str, Any]:
        """What every instance of every query, operator by operator, and every instance manager has done so far, as last reported."""
        return dict(self.rest.get("/figures"))

    def trace(self) -> dict[str, Any]:
        """What has held each instance manager up, by place and cause: pieces of work that took more than a millisecond."""
        return dict(self.rest.get("/trace"))

    def info(self) -> dict[str, Any]:
        """`supervisors`: what each says of the processes it keeps up, which are down, since when, and why; `quarantined`: the nodes of
        ZooKeeper that cannot be acted on, and why."""
        return dict(self.rest.get("/cluster"))

    def supervisors(self) -> list[dict[str, Any]]:
        """What each supervisor says of the processes it keeps up: which are down, since when, and why."""
        return list(self.info()["supervisors"])

    def topology(self) -> dict[str, Any]:
        return dict(self.rest.get("/topology"))

    def close(self) -> None:
        """Closes what this client opened; queries go on. Publishers that are still open close without ending their streams."""
        self.rest.patience_s = min(self.rest.patience_s, LEAVE_S)
        self.rest.aside.settle(LEAVE_S)
        if self.following is not None:
            self.following.stop()
            with suppress(CepError):  # the cluster is gone, and the publishers with it
                self.following.close(self.following.core.open, keep_open=True)
        if self.plane is not None:
            self.plane.close()
        self.rest.close()
