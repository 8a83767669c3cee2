"""REST in front of the orchestrator. Routes only: what they ask is in `views`, what they want done in `state`."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, FastAPI, Query, Request, Response
from fastapi.responses import PlainTextResponse
from starlette.concurrency import run_in_threadpool

from cep.config import ClusterConfig
from cep.errors import ClusterError, Conflict, NotFound, QueryError, QueryFailed
from cep.model import query as queries
from cep.model import streams as stream_documents
from cep.model.limits import DIGITS_MAX, PATH_CHARS_MAX, WAIT_S_MAX, check_name
from cep.model.query import Query as CepQuery
from cep.model.streams import Stream
from cep.plan import physical
from cep.plan.explain import explain
from cep.plan.physical import Files
from cep.reports import read_reports
from cep.serving import Bodies
from orchestrator import models, openapi, problems, views
from orchestrator.bodies import Route, bytes_max, document, json_only
from orchestrator.door import Gateway
from orchestrator.events import (
    ClosePublisher,
    Declare,
    Discard,
    Event,
    Forget,
    OpenPublisher,
    Relocate,
    Reroute,
    Start,
    Stop,
    Subscribe,
    Undeclare,
    Unsubscribe,
)
from orchestrator.examples import EXAMPLES
from orchestrator.file_sources import checked_files
from orchestrator.guard import Guard
from orchestrator.life_cycle import is_over
from orchestrator.metric_client import MetricClient
from orchestrator.records import Publisher, Subscription
from orchestrator.room import check_room, why_no_room
from orchestrator.service import Service
from orchestrator.state import ClusterState
from orchestrator.tables import sole_head

CONFIRM_S = 30.0
"""How long a request waits for ZooKeeper to have what it asked for."""

POLL_S_MAX = 60.0
"""The longest long-poll."""

VANISHED_S = POLL_S_MAX + 10.0
"""A publisher that was not heard of for so long counts as closed: ten seconds past its longest poll."""

REQUESTS_MAX = 2048
"""So many are answered at a time, long-polls among them."""

T = TypeVar("T")
router = APIRouter(route_class=Route)


class Api:
    """What the routes work with."""

    def __init__(self, service: Service, metrics: MetricClient, door: Gateway, config: ClusterConfig) -> None:
        self.service, self.metrics, self.door, self.config = service, metrics, door, config
        self.heard: dict[tuple[str, str], float] = {}  # (stream, publisher) -> when it last asked for its readers

    def hear(self, stream: str, publisher: str | None) -> None:
        """A publisher is alive: its long-polls are its lease, and whoever never named itself has none to lose."""
        if publisher is not None:
            self.heard[stream, publisher] = time.monotonic()

    def has_vanished(self, stream: str, publisher: str) -> bool:
        """It used to ask for its readers and has stopped (DESIGN 4.11)."""
        return time.monotonic() - self.heard.get((stream, publisher), time.monotonic()) > VANISHED_S

    async def forget_vanished(self) -> None:
        """Closes the publishers that have vanished, so that no new query waits for them."""
        for stream, publisher in [each for each in self.heard if self.has_vanished(*each)]:
            await self.do(ClosePublisher(stream, publisher))
            self.heard.pop((stream, publisher), None)

    async def ask(self, question: Callable[[ClusterState], T]) -> T:
        """An answer from the state."""
        return await confirmed(self.service.ask(question))

    async def do(self, event: Event) -> None:
        """Handled and written."""
        await confirmed(self.service.do(event))

    async def wait(self, question: Callable[[ClusterState], T | None], wait_s: float) -> T | None:
        """The first answer, None if there is none in time."""
        try:
            return await asyncio.wait_for(asyncio.wrap_future(self.service.wait(question)), wait_s)
        except TimeoutError:
            return None

    def change(self, state: ClusterState) -> str:
        """Names the cluster's last change, in all terms of office."""
        return f"{self.service.term}.{state.changes}"

    def since(self, change: str) -> int:
        """The number of a change of this term; -1, before all, of another."""
        term, _, number = change.partition(".")
        known = term == str(self.service.term) and number.isascii() and number.isdecimal() and len(number) <= DIGITS_MAX
        return int(number) if known else -1

    async def files(self, query: CepQuery) -> Files:
        known = await self.ask(lambda state: dict(state.streams))
        return await run_in_threadpool(checked_files, query, known, self.config.data)

    async def figures(self, **question: Any) -> dict[str, Any]:
        return await run_in_threadpool(self.metrics.ask, **question)


def make_app(api: Api) -> FastAPI:
    """The application."""
    app = FastAPI(
        title="CEP orchestrator",
        version="1",
        description="Deploys and watches continuous queries. Errors are RFC 9457 problem details.",
        docs_url=None,
        redoc_url=None,
    )
    app.state.api = api
    app.include_router(router)
    problems.install(app)
    openapi.describe(app)
    openapi.add_page(app)
    app.add_middleware(Bodies, most=bytes_max, requests_max=REQUESTS_MAX, refuse=problems.refusal)
    app.add_middleware(Guard, config=api.config)
    return app


def _api(request: Request) -> Api:
    api: Api = request.app.state.api
    return api


Cluster = Annotated[Api, Depends(_api)]
Wait = Annotated[bool, Query(description="Answer only when it is done.")]
Timeout = Annotated[float, Query(gt=0, le=WAIT_S_MAX, description="How long to wait at most, in seconds.")]
Until = Annotated[models.State | None, Query(description="Answer only when the query is in this state, or over.")]


# --- queries ---------------------------------------------------------------------------------------------------------

_QUERY_BODY = {
    "requestBody": {
        "required": True,
        "description": "A query. JSON, or YAML with `Content-Type: application/yaml`.",
        "content": {
            kind: {
                "schema": {"$ref": "#/components/schemas/Query"},
                "examples": {"per ip": {"value": models.QUERY_EXAMPLE}} | {name: {"value": each} for name, each in EXAMPLES.items()},
            }
            for kind in ("application/json", "application/yaml")
        },
    }
}


_NOT_YET: dict[int | str, dict[str, Any]] = {
    202: {"model": models.QueryDetail, "description": "It is deployed, and was not there at the time-out."}
}


@router.post("/queries", status_code=201, response_model=models.QueryDetail, responses=_NOT_YET, openapi_extra=_QUERY_BODY)
async def deploy(
    request: Request, response: Response, api: Cluster, start: bool = True, wait: Wait = False, timeout: Timeout = 600.0
) -> Any:
    """Plans a query, places it and starts it (`start=false`: only makes it ready).

    With `wait` the answer comes when it runs or is ready; 202 if it is still not there at the time-out, 409 with the cause if it
    has failed (it is kept, to be looked at), 409 if somebody has stopped it.
    """
    query = await _query(request)
    check_room(api.config.home)
    files = await api.files(query)
    await api.forget_vanished()
    await confirmed(api.service.deploy(query, files, start))
    goal = "running" if start else "ready"
    settled = await _settled(api, query.name, goal, timeout) if wait else True
    response.status_code = 201 if settled else 202
    detail = await api.ask(_detail(query.name))
    return _started(detail) if wait else detail


@router.get("/queries", response_model=list[models.QuerySummary])
async def list_queries(api: Cluster) -> Any:
    """All queries, over or not, by name."""
    return await api.ask(lambda state: [views.summary(state, state.queries[name]) for name in sorted(state.queries)])


@router.get("/queries/{name}", response_model=models.QueryDetail)
async def inspect(name: str, api: Cluster, until: Until = None, timeout: Timeout = 600.0, figures: bool = True) -> Any:
    """One query: its document, plan, instances, and what each instance waits for.

    With `until` the answer comes when the query is in that state or over, at the latest at the time-out. With `figures=false` nobody is
    asked what the instances have done and wait for, which takes longer than the rest.
    """
    if until is not None:
        await api.ask(_detail(name))
        await _settled(api, name, until, timeout)
    detail = await api.ask(_detail(name))
    return await _with_figures(api, detail) if figures else detail


@router.get("/queries/{name}/plan")
async def plan_of(name: str, api: Cluster) -> dict[str, Any]:
    """The whole physical plan."""
    return physical.to_json(await api.ask(_plan(name)))


@router.get("/queries/{name}/explain", response_model=models.Explanation)
async def explain_query(name: str, api: Cluster) -> Any:
    """The plan of a deployed query, in words, and what was observed of its pre-aggregation."""
    detail = await _with_figures(api, await api.ask(_detail(name)))
    moved = views.moved(detail["tables"]) + views.relocated(detail["moved"])
    return {"text": await run_in_threadpool(explain, await api.ask(_plan(name))) + moved + views.observed(detail["placed"])}


@router.post("/explain", response_model=models.Explanation, openapi_extra=_QUERY_BODY)
async def explain_document(request: Request, api: Cluster) -> Any:
    """The plan a query would get now. Nothing is deployed; what could not be deployed is refused as deploying it would be."""
    query = await _query(request)
    plan = await confirmed(api.service.plan(query, await api.files(query)))
    return {"text": await run_in_threadpool(explain, plan)}


@router.post("/queries/{name}/start", response_model=models.QueryDetail)
async def start_query(name: str, api: Cluster, wait: Wait = False, timeout: Timeout = 600.0) -> Any:
    """Runs a query that was deployed with `start=false`. With `wait` as for deploying one."""
    await api.do(Start(name))
    if not wait:
        return await api.ask(_detail(name))
    await _settled(api, name, "running", timeout)
    return _started(await api.ask(_detail(name)))


@router.post("/queries/{name}/stop", response_model=models.QueryDetail)
async def stop_query(name: str, api: Cluster, drain: bool = False, wait: Wait = False, timeout: Timeout = 600.0) -> Any:
    """Stops a query: nothing more fires. With `drain` its sources end instead, and what is open fires.

    A query that is over lets go of what it still holds for its readers.
    """
    await api.do(Stop(name, drain))
    if wait:
        await _settled(api, name, "stopped", timeout)
    return await api.ask(_detail(name))


@router.post("/queries/{name}/rebalance", response_model=models.QueryDetail)
async def rebalance(name: str, wanted: models.Rebalancing, api: Cluster, wait: Wait = False, timeout: Timeout = 600.0) -> Any:
    """Moves buckets to the instances that the table names, while the query runs; with `wait` the answer comes when they are there."""
    head = await api.ask(lambda state: sole_head(state.plans[state.query(name).name], wanted.subquery))
    await api.do(Reroute(name, head, tuple(wanted.table)))
    if wait:
        await api.wait(lambda state: _has_moved(state, name, head), timeout)
    return await api.ask(_detail(name))


@router.post("/queries/{name}/move", response_model=models.QueryDetail)
async def move(name: str, wanted: models.Moving, api: Cluster, wait: Wait = False, timeout: Timeout = 600.0) -> Any:
    """Moves an instance to another instance manager, while the query runs; with `wait` the answer comes when it is there.

    An instance that cannot move is refused, with the reason; so is, with `wait`, a new place where it cannot be.
    """
    await api.do(Relocate(name, wanted.subquery, wanted.instance, wanted.im))
    number = await api.ask(lambda state: state.query(name).moves)
    if wait:
        await api.wait(lambda state: _is_through(state, name, number), timeout)
        refused = await api.ask(lambda state: state.query(name).refused)
        if refused:
            raise Conflict(refused)
    return await api.ask(_detail(name))


@router.delete("/queries/{name}", status_code=204)
async def delete_query(name: str, api: Cluster, wait: Wait = False, timeout: Timeout = 600.0) -> None:
    """Stops a query and forgets it."""
    await api.do(Forget(name))
    if wait:
        await api.wait(lambda state: True if name not in state.queries else None, timeout)


@router.get("/queries/{name}/dead-letters", response_model=models.DeadLetters)
async def dead_letters(name: str, api: Cluster) -> Any:
    """Bad input and failed functions: exact counts, and the last 10,000."""
    await api.ask(lambda state: state.query(name) and None)
    return await api.figures(get="dead_letters", query=name)


# --- streams ---------------------------------------------------------------------------------------------------------

_STREAM_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"type": "object"}, "example": models.STREAM_EXAMPLE}},
    }
}
_STREAM_ANSWER: dict[int | str, dict[str, Any]] = {200: {"content": {"application/json": {"example": models.STREAM_EXAMPLE}}}}


@router.get("/streams", response_model=list[models.StreamInfo])
async def list_streams(api: Cluster) -> Any:
    """All streams: declared ones, and outputs of queries."""
    return await api.ask(views.streams)


@router.get("/streams/{name}", response_model=models.StreamInfo)
async def get_stream(name: str, api: Cluster) -> Any:
    """A stream's declaration, its publishers, who reads it and who feeds it."""
    return await api.ask(lambda state: views.stream(state, name))


@router.put("/streams/{name}", response_model=models.StreamInfo, openapi_extra=_STREAM_BODY, responses=_STREAM_ANSWER)
async def declare(name: str, request: Request, api: Cluster) -> Any:
    """Declares a stream. The same declaration again changes nothing; another one is a conflict."""
    found = await document(request)
    if isinstance(found, dict) and found.setdefault("name", name) != name:
        raise QueryError(f"the name is {found['name']!r} in the document and {name!r} in the address", "/name")
    await api.do(Declare(_declared(found)))
    return await api.ask(lambda state: views.stream(state, name))


@router.delete("/streams/{name}", status_code=204)
async def undeclare(name: str, api: Cluster) -> None:
    """Forgets a declared stream that no query reads and no publisher has open."""
    await api.forget_vanished()
    await api.do(Undeclare(name))


@router.get("/streams/{name}/readers", response_model=models.Readers)
async def readers(
    name: str,
    api: Cluster,
    after: str | None = None,
    wait: Annotated[float, Query(ge=0, le=POLL_S_MAX)] = 0.0,
    publisher: Annotated[str | None, Query(description="Who asks: one that stops asking counts as closed.")] = None,
) -> Any:
    """Who reads a published stream now; with `after` and `wait`, as soon as that is another version."""
    api.hear(name, publisher)
    await api.ask(lambda state: published(state, name))
    changed = await api.wait(lambda state: _readers(state, name, after), wait) if after is not None and wait else None
    return changed or await api.ask(lambda state: _readers(state, name, None))


@router.post("/streams/{name}/publishers", response_model=models.Readers)
async def open_publisher(name: str, opening: models.Opening, api: Cluster) -> Any:
    """Opens a publisher, a partition of the stream; the answer says to whom it sends. The same name goes on where it was."""
    await api.ask(lambda state: published(state, name))
    check_name("a publisher", opening.name, "/name")
    await api.do(OpenPublisher(Publisher(name, opening.name, opening.endpoint)))
    api.heard.pop((name, opening.name), None)
    return await api.ask(lambda state: _readers(state, name, None))


@router.delete("/streams/{name}/publishers/{publisher}", response_model=models.Closing)
async def close_publisher(name: str, publisher: str, api: Cluster, keep_open: bool = False) -> Any:
    """Closes a publisher; `last`: no other is open, and it has to tell its readers that the stream ends."""
    for other in await api.ask(lambda state: list(state.publishers[name])):
        if other == publisher or api.has_vanished(name, other):
            await api.do(ClosePublisher(name, other))
            api.heard.pop((name, other), None)
    return {"last": await api.ask(lambda state: not state.publishers[name] and not keep_open)}


@router.post("/streams/{name}/subscriptions", status_code=201)
async def subscribe(name: str, wanted: models.SubscriptionRequest, api: Cluster) -> models.SubscriptionRequest:
    """Registers a subscription, also to a stream whose query is not deployed yet: nothing of it is lost."""
    check_name("a stream", name, "")
    check_name("a subscription", wanted.id, "/id")
    await api.do(Subscribe(Subscription(name, wanted.id, wanted.endpoint, wanted.on_slow, wanted.keep)))
    return wanted


@router.delete("/streams/{name}/subscriptions/{subscription}", status_code=204)
async def unsubscribe(name: str, subscription: str, api: Cluster) -> None:
    """Takes a subscription back."""
    await api.do(Unsubscribe(name, subscription))


_ROWS_BODY = {
    "requestBody": {
        "required": True,
        "description": "Rows. Timestamps are integers of the declared unit.",
        "content": {"application/json": {"schema": {"type": "array", "items": {"type": "object"}}}},
    }
}


@router.post("/streams/{name}/records", status_code=202, response_model=models.Published, openapi_extra=_ROWS_BODY)
async def publish(name: str, request: Request, api: Cluster, end: bool = False) -> Any:
    """Publishes records, for small clients; `end` closes REST's publisher after them."""
    json_only(request)
    return _passed_on(202, *await api.door.ask("POST", "/records", {"stream": name, "end": end}, await request.body()))


@router.post("/streams/{name}/advance", status_code=202, response_model=models.Published)
async def advance(name: str, wanted: models.Advance, api: Cluster) -> Any:
    """Promises that REST's publisher sends no older row: windows that end by then need not wait for it. What it publishes later and is
    older, is late. A time that has passed already changes nothing."""
    return _passed_on(202, *await api.door.ask("POST", "/advance", {"stream": name}, wanted.model_dump_json().encode()))


@router.get("/streams/{name}/answers", response_model=models.Answers)
async def answers(
    name: str,
    api: Cluster,
    reader: Annotated[
        str, Query(min_length=1, max_length=100, description="Any name, for as long as you read: who has another gets all rows too.")
    ],
    max: Annotated[int, Query(ge=1, le=100_000)] = 1000,
    wait: Annotated[float, Query(ge=0, le=POLL_S_MAX)] = 0.0,
) -> Any:
    """The next rows of an output stream, for small clients.

    Every `reader` is a subscription of its own, which begins with its first request and gets all rows from then on; those who ask under
    the same name share them. A reader that does not ask for 60 s is forgotten. Timestamps are ISO 8601, beyond the year 9999 integers of
    µs; numbers that JSON has not are 'nan', 'inf' and '-inf'.
    """
    return _passed_on(200, *await api.door.ask("GET", "/answers", {"stream": name, "reader": reader, "most": max, "wait": wait}))


# --- the cluster -----------------------------------------------------------------------------------------------------


@router.delete("/cluster/quarantined", status_code=204)
async def discard(node: Annotated[str, Query(max_length=PATH_CHARS_MAX, description="Its path in ZooKeeper.")], api: Cluster) -> None:
    """Removes a node that is set aside; of a query, with all that belongs to it."""
    await api.do(Discard(node))


@router.get("/instance-managers", response_model=list[models.InstanceManagerInfo])
async def instance_managers(api: Cluster) -> Any:
    """Who is registered, where it is bound, and how much it hosts."""
    return await api.ask(views.managers)


@router.get("/cluster", response_model=models.ClusterInfo)
async def cluster(api: Cluster) -> Any:
    """The processes of the cluster, and what is wrong with it. A standby answers too, and without ZooKeeper."""
    folder = api.config.reports
    supervisors = [] if folder is None else await run_in_threadpool(read_reports, Path(folder))
    return {
        "run": api.config.home,
        "supervisors": supervisors,
        "quarantined": api.service.quarantine.to_json(),
        "no_room": why_no_room(api.config.home),
    }


@router.get("/topology")
async def topology(api: Cluster) -> dict[str, Any]:
    """NUMA nodes, their cores and distances, as the planner sees them."""
    return api.service.topology.to_json()


@router.get(
    "/health",
    response_model=models.Health,
    responses={503: {"model": models.Health, "description": "It does not lead, or has no ZooKeeper."}},
)
async def health(api: Cluster, response: Response) -> Any:
    """200 while this orchestrator leads and ZooKeeper answers, else 503."""
    service = api.service
    count = await api.ask(lambda state: (len(state.managers), len(state.queries))) if service.leads else (0, 0)
    response.status_code = 200 if service.leads and service.connected else 503
    return {
        "role": "leader" if service.leads else "standby",
        "leader": service.leader,
        "zookeeper": "connected" if service.connected else "away",
        "instance_managers": count[0],
        "queries": count[1],
    }


@router.get("/figures")
async def figures(api: Cluster) -> models.Figures:
    """What every instance of every query, operator by operator, and every instance manager has done so far, as last reported."""
    return models.Figures(**await api.figures(get="figures"))


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(api: Cluster) -> Any:
    """Everything measured, for Prometheus."""
    found = await api.figures(get="metrics")
    return PlainTextResponse(found["text"], media_type="text/plain; version=0.0.4")


# --- parts of answers ------------------------------------------------------------------------------------------------


async def confirmed(answer: Future[T]) -> T:
    try:
        return await asyncio.wait_for(asyncio.wrap_future(answer), CONFIRM_S)
    except TimeoutError:
        raise ClusterError(f"ZooKeeper did not confirm within {CONFIRM_S:g} s; it may still happen: look before you try again") from None


def _passed_on(success: int, status: int, answer: bytes) -> Response:
    """What the gateway answered, or the problem that it met."""
    if status < 400:
        return Response(answer, success, media_type="application/json")
    told = json.loads(answer)
    return problems.named(str(told["error"]), str(told["detail"]), str(told.get("pointer") or "") or None)


async def _query(request: Request) -> CepQuery:
    """The query of a document."""
    found = await document(request)
    return await run_in_threadpool(lambda: queries.from_json(found))


def _declared(document: Any) -> Stream:
    stream = stream_documents.from_json(document)
    check_name("a stream", stream.name, "/name")
    return stream


async def _settled(api: Api, name: str, goal: str, timeout: float) -> bool:
    """Waits until the query is in the state `goal`, or over, or gone."""

    return bool(await api.wait(lambda state: has_settled(state, name, goal) or None, timeout))


def has_settled(state: ClusterState, name: str, goal: str) -> bool:
    record = state.queries.get(name)
    return record is None or record.state == goal or is_over(record.state)


def _started(detail: dict[str, Any]) -> dict[str, Any]:
    """A query that was to run. Raises QueryFailed, or Conflict where somebody has stopped it."""
    if detail["state"] == "failed":
        cause = detail["cause"] or {}
        raise QueryFailed(detail["name"], cause.get("subquery", ""), cause.get("instance"), cause.get("cause", "unknown"))
    if detail["state"] in ("stopping", "stopped") and "running" not in detail["times"]:
        raise Conflict(f"query {detail['name']!r} was stopped before it ran")
    return detail


def _has_moved(state: ClusterState, name: str, head: str) -> bool | None:
    record = state.queries.get(name)
    return True if record is None or is_over(record.state) or not state.is_moving(record, head) else None


def _is_through(state: ClusterState, name: str, number: int) -> bool | None:
    """Is that move over, however?"""
    record = state.queries.get(name)
    return True if record is None or is_over(record.state) or record.move is None or record.move.number > number else None


def _detail(name: str) -> Callable[[ClusterState], dict[str, Any]]:
    return lambda state: views.detail(state, state.query(name))


def _plan(name: str) -> Callable[[ClusterState], physical.PhysicalPlan]:
    return lambda state: state.plans[state.query(name).name]


def published(state: ClusterState, name: str) -> None:
    """Raises NotFound, or Conflict for a stream that is read from files."""
    if name not in state.streams:
        raise NotFound(f"there is no stream {name!r}: declare it, or deploy a query that does")
    if state.streams[name].files is not None:
        raise Conflict(f"stream {name!r} is read from files; nobody can publish to it")


def _readers(state: ClusterState, name: str, after: str | None) -> dict[str, Any] | None:
    found = views.readers(state, name)
    version = views.version(found)
    return None if version == after else {"version": version, "readers": found}


async def _with_figures(api: Api, detail: dict[str, Any]) -> dict[str, Any]:
    """Adds what the metric server knows of each instance; without it the query is still told."""
    try:
        found = (await api.figures(get="query", query=detail["name"])).get("instances", [])
    except ClusterError:
        return detail
    by_instance = {(each["subquery"], each["instance"]): each for each in found if each.get("epoch") == detail["epoch"]}
    for placed in detail["placed"]:
        figures = by_instance.get((placed["subquery"], placed["instance"]))
        placed |= {"waits_for": figures and figures.get("waits_for"), "metrics": figures}
    return detail
