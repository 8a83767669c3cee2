"""REST: queries, from their deployment until they are forgotten."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from cep.errors import ClusterError, Conflict, QueryError, QueryFailed
from cep.model import query as queries
from cep.model.query import Query as CepQuery
from cep.plan import physical
from cep.plan.checkpoints import recovers
from cep.plan.explain import explain
from cep.plan.pictures import pictures
from cep.plan.scaling import why_fixed
from cep.service.flame import pictures_of
from orchestrator.rest import audit, models, views
from orchestrator.rest.api import Api, InjectedApi, Timeout, Until, Wait, confirmed
from orchestrator.rest.bodies import DocumentRoute, document
from orchestrator.rest.client import client_of
from orchestrator.rest.disk_room import check_room
from orchestrator.rest.examples import EXAMPLES
from orchestrator.rest.sql_texts import is_sql, query_of_text
from orchestrator.state.cluster_state import ClusterState
from orchestrator.state.events import (
    ForgetQuery,
    MoveBuckets,
    MoveInstance,
    ScaleSubquery,
    StartQuery,
    StopQuery,
)
from orchestrator.state.life_cycle import is_over
from orchestrator.state.tables import sole_head

router = APIRouter(route_class=DocumentRoute)

FLAME_S_MAX = 30.0

QUERY_BODY = {
    "requestBody": {
        "required": True,
        "description": "A query. JSON, YAML with `Content-Type: application/yaml`, or SQL with `Content-Type: text/sql`.",
        "content": {
            kind: {
                "schema": {"$ref": "#/components/schemas/Query"},
                "examples": {"per ip": {"value": models.QUERY_EXAMPLE}} | {name: {"value": each} for name, each in EXAMPLES.items()},
            }
            for kind in ("application/json", "application/yaml")
        }
        | {"text/sql": {"schema": {"type": "string"}, "example": models.SQL_EXAMPLE}},
    }
}


Name = Annotated[str | None, Query(description="The name of a query that is SQL; a document has its own.")]

_NOT_YET: dict[int | str, dict[str, Any]] = {
    202: {"model": models.QueryDetail, "description": "It is deployed, and was not there at the time-out."}
}


@router.post("/queries", status_code=201, response_model=models.QueryDetail, responses=_NOT_YET, openapi_extra=QUERY_BODY)
async def deploy(
    request: Request,
    response: Response,
    api: InjectedApi,
    start: bool = True,
    wait: Wait = False,
    timeout: Timeout = 600.0,
    name: Name = None,
) -> Any:
    """Plans a query, places it and starts it (`start=false`: only makes it ready).

    With `wait` the answer comes when it runs or is ready; 202 if it is still not there at the time-out, 409 with the cause if it
    has failed (it is kept, to be looked at), 409 if it was stopped.
    """
    query = await read_query(request, api, name)
    audit.about(request, query.name)
    check_room(api.store, api.config.home)
    files = await api.files(query)
    await api.forget_vanished()
    await confirmed(api.service.deploy(query, files, start, client_of(request.scope)))
    goal = "running" if start else "ready"
    settled = await _settled(api, query.name, goal, timeout) if wait else True
    response.status_code = 201 if settled else 202
    detail = await _detail(api, query.name)
    return _started(detail) if wait else detail


@router.get("/queries", response_model=list[models.QuerySummary])
async def list_queries(api: InjectedApi) -> Any:
    """All queries, over or not, by name."""
    return [views.aged(each, api.wall()) for each in await api.ask(views.summaries)]


@router.get("/queries/{name}", response_model=models.QueryDetail)
async def inspect(name: str, api: InjectedApi, until: Until = None, timeout: Timeout = 600.0, figures: bool = True) -> Any:
    """One query: its document, plan, instances, and what each instance waits for.

    With `until` the answer comes when the query is in that state or over, at the latest at the time-out. With `figures=false` the
    instances are not asked what they have done and wait for, which takes longer than the rest.
    """
    if until is not None:
        await _detail(api, name)
        await _settled(api, name, until, timeout)
    detail = await _detail(api, name)
    return await _with_figures(api, detail) if figures else detail


@router.get("/queries/{name}/plan")
async def plan_of(name: str, api: InjectedApi) -> dict[str, Any]:
    """The whole physical plan; `fixed` says of subqueries that cannot be scaled, whatever is asked for, why not."""
    plan = await api.ask(_plan(name))
    why = {each.name: why_fixed(plan, each.name) for each in plan.subqueries}
    return physical.to_json(plan) | {"fixed": {subquery: said for subquery, said in why.items() if said}}


@router.get("/queries/{name}/explain", response_model=models.Explanation)
async def explain_query(name: str, api: InjectedApi) -> Any:
    """The plan of a deployed query, in words, and what was observed of its pre-aggregation."""
    detail = await _with_figures(api, await _detail(api, name))
    moved = views.moved(detail["tables"]) + views.move_lines(detail["moved"])
    plan = await api.ask(_plan(name))
    observed = moved + views.observed_pre_aggregation(detail["placed"])
    return {"text": await run_in_threadpool(explain, plan) + observed, "pictures": await run_in_threadpool(pictures, plan)}


@router.post("/explain", response_model=models.Explanation, openapi_extra=QUERY_BODY)
async def explain_document(request: Request, api: InjectedApi, name: Name = None) -> Any:
    """The plan a query would get now, in place of the deployed one of its name if there is one. Nothing is deployed; what could not be
    deployed is refused as deploying it would be."""
    query = await read_query(request, api, name or "explained")
    plan = await confirmed(api.service.plan(query, await api.files(query)))
    return {"text": await run_in_threadpool(explain, plan), "pictures": await run_in_threadpool(pictures, plan)}


@router.post("/queries/{name}/start", response_model=models.QueryDetail)
async def start_query(name: str, api: InjectedApi, wait: Wait = False, timeout: Timeout = 600.0) -> Any:
    """Runs a query that was deployed with `start=false`. With `wait` as for deploying one."""
    await api.do(StartQuery(name))
    if not wait:
        return await _detail(api, name)
    await _settled(api, name, "running", timeout)
    return _started(await _detail(api, name))


@router.post("/queries/{name}/stop", response_model=models.QueryDetail)
async def stop_query(name: str, api: InjectedApi, drain: bool = False, wait: Wait = False, timeout: Timeout = 600.0) -> Any:
    """Stops a query: nothing more fires. With `drain` its sources end instead, and what is open fires.

    A query that is over lets go of what it still holds for its readers.
    """
    await api.do(StopQuery(name, drain))
    if wait:
        await _settled(api, name, "stopped", timeout)
    return await _detail(api, name)


@router.post("/queries/{name}/rebalance", response_model=models.QueryDetail)
async def rebalance(name: str, wanted: models.RebalanceRequest, api: InjectedApi, wait: Wait = False, timeout: Timeout = 600.0) -> Any:
    """Moves buckets to the instances that the table names, while the query runs; with `wait` the answer comes when they are there.

    A query that recovers has them there from its next attempt on, behind a checkpoint that is taken for it.
    """
    head = await api.ask(lambda state: sole_head(state.plans[state.query(name).name], wanted.subquery))
    await api.do(MoveBuckets(name, head, tuple(wanted.table)))
    if await api.ask(lambda state: recovers(state.plans[state.query(name).name])):
        return await _changed(api, name, timeout if wait else None)
    if wait:
        await api.wait(lambda state: _has_moved(state, name, head), timeout)
    return await _detail(api, name)


@router.post("/queries/{name}/move", response_model=models.QueryDetail)
async def move(name: str, wanted: models.MoveRequest, api: InjectedApi, wait: Wait = False, timeout: Timeout = 600.0) -> Any:
    """Moves an instance to another instance manager, while the query runs; with `wait` the answer comes when it is there.

    An instance that cannot move is refused, with the reason; so is, with `wait`, a new place where it cannot be.
    """
    await api.do(MoveInstance(name, wanted.subquery, wanted.instance, wanted.im))
    return await _changed(api, name, timeout if wait else None)


@router.post("/queries/{name}/scale", response_model=models.QueryDetail)
async def scale(name: str, wanted: models.ScaleRequest, api: InjectedApi, wait: Wait = False, timeout: Timeout = 600.0) -> Any:
    """Gives a subquery of a query that recovers another number of instances; with `wait` the answer comes when it runs so.

    A subquery that cannot have so many is refused, with the reason, and the query runs on as it is.
    """
    await api.do(ScaleSubquery(name, wanted.subquery, wanted.instances))
    return await _changed(api, name, timeout if wait else None)


@router.post("/queries/{name}/upgrade", response_model=models.UpgradeReport, openapi_extra=QUERY_BODY)
async def upgrade(
    name: str,
    request: Request,
    api: InjectedApi,
    dry_run: bool = False,
    fresh: bool = False,
    wait: Wait = False,
    timeout: Timeout = 600.0,
) -> Any:
    """Puts a changed query in the place of the one of its name, which keeps the state of operators with the same name; with `wait` the
    answer comes when it runs.

    A change with which state would have no sense is refused, with the reason, and the query runs on as it is; with `fresh` the operators
    that cannot keep their state begin with none. With `dry_run` nothing happens, and what is refused is among what is answered.
    """
    query = await read_query(request, api, name)
    await api.files(query)  # all its paths may be read
    return await upgraded(name, query, api, dry_run, timeout if wait else None, fresh)


@router.delete("/queries/{name}", status_code=204)
async def delete_query(name: str, api: InjectedApi, wait: Wait = False, timeout: Timeout = 600.0) -> None:
    """Stops a query and forgets it."""
    await api.do(ForgetQuery(name))
    if wait:
        await api.wait(lambda state: True if name not in state.queries else None, timeout)


@router.get("/queries/{name}/dead-letters", response_model=models.DeadLetterReport)
async def dead_letters(name: str, api: InjectedApi) -> Any:
    """Bad input and failed functions: exact counts, and the last 10,000."""
    record = await api.ask(lambda state: state.query(name))
    found = await api.figures(get="dead_letters", query=name)
    if record.unused is not None:  # the metric server, or what would have told it, may have died with the query's last second
        counts = dict(record.unused.dead_letters)
        found |= {"counts": counts, "total": sum(counts.values())}
    return found


@router.post("/queries/{name}/flame", response_model=models.Flames)
async def flame(name: str, api: InjectedApi, seconds: Annotated[float, Query(ge=1, le=FLAME_S_MAX)] = 5.0) -> Any:
    """What the instance managers of a running query do for so long, as flame graphs: SVG, by the sampling profiler py-spy. Of those on the
    host that answers, without the others (`elsewhere`). One is made at a time."""
    if api.flame_turn.locked():
        raise Conflict("another flame graph is being made just now; ask again")
    async with api.flame_turn:
        here, elsewhere = await api.ask(lambda state: views.processes(state, name, api.config.host))
        if not here:
            raise Conflict(f"no instance of query {name!r} is on this host; ask an orchestrator on {', '.join(elsewhere) or 'another'}")
        drawn = await run_in_threadpool(pictures_of, here, seconds)
    return {"managers": {im: {"said": said, "picture": picture} for im, (said, picture) in drawn.items()}, "elsewhere": elsewhere}


async def upgraded(name: str, query: CepQuery, api: Api, dry_run: bool, timeout: float | None, fresh: bool = False) -> dict[str, Any]:
    """What becomes of each part; with a `timeout` when the query runs again. Raises QueryError, Conflict, NotFound."""
    if query.name != name:
        raise QueryError(f"this is query {query.name!r}, expected one of the name {name!r}", "/name")
    found = await confirmed(api.service.upgrade(query, dry_run, fresh))
    if found.refused and not dry_run:
        raise QueryError(f"query {name!r} cannot be upgraded: {'; '.join(map(str, found.refused))}")
    detail = await _changed(api, name, None if dry_run else timeout)
    return views.upgrade(found) | {each: detail[each] for each in ("name", "state", "cause", "moved")}


async def read_query(request: Request, api: Api, name: str | None) -> CepQuery:
    """The query of a document, or of a text of SQL."""
    if is_sql(request):
        return await query_of_text(request, api, name)
    found = await document(request)
    return await run_in_threadpool(lambda: queries.from_json(found))


async def _settled(api: Api, name: str, goal: str, timeout: float) -> bool:
    """Waits until the query is in the state `goal`, or over, or gone."""

    return bool(await api.wait(lambda state: has_settled(state, name, goal) or None, timeout))


def has_settled(state: ClusterState, name: str, goal: str) -> bool:
    record = state.queries.get(name)
    return record is None or record.state == goal or is_over(record.state)


def _started(detail: dict[str, Any]) -> dict[str, Any]:
    """A query that was to run. Raises QueryFailed, or Conflict where it was stopped."""
    if detail["state"] == "failed":
        cause = detail["cause"] or {}
        raise QueryFailed(detail["name"], cause.get("subquery", ""), cause.get("instance"), cause.get("cause", "unknown"))
    if detail["state"] in ("stopping", "stopped") and "running" not in detail["times"]:
        raise Conflict(f"query {detail['name']!r} was stopped before it ran")
    return detail


def _has_moved(state: ClusterState, name: str, head: str) -> bool | None:
    record = state.queries.get(name)
    return True if record is None or is_over(record.state) or not state.is_moving(record, head) else None


async def _changed(api: Api, name: str, timeout: float | None) -> dict[str, Any]:
    """The query when the move or change that was asked for last is over, or after that time, in s; None: now. Raises Conflict: it did not
    come about."""
    number = await api.ask(lambda state: state.query(name).moves)
    is_over = timeout is not None and await api.wait(lambda state: _is_through(state, name, number), timeout)
    if timeout is not None and (refused := await api.ask(lambda state: state.query(name).refused)):
        raise Conflict(refused)
    detail = await _detail(api, name)
    if is_over and detail["moved"]:
        detail["moved"] |= {"under_way": ""}  # what is under way by now is something else, such as a recovery from a loss since
    return detail


def _is_through(state: ClusterState, name: str, number: int) -> bool | None:
    """Is that move over, however?"""
    record = state.queries.get(name)
    if record is None or is_over(record.state):
        return True
    there = record.change is None and (record.move is None or record.move.number > number)
    return True if there and record.state != "recovering" else None


async def _detail(api: Api, name: str) -> dict[str, Any]:
    return views.aged(await api.ask(lambda state: views.detail(state, state.query(name))), api.wall())


def _plan(name: str) -> Callable[[ClusterState], physical.PhysicalPlan]:
    return lambda state: state.plans[state.query(name).name]


_UNUSED = {"late": "late", "odd_times": "odd_times", "before_since": "before_since", "dead_letters": "dead"}
"""Of `UnusedInput` -> what an instance reports."""


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
    if detail["unused"] is None:
        reported = [placed["metrics"] or {} for placed in detail["placed"]]
        detail["unused"] = {total: sum(each.get(name, 0) for each in reported) for total, name in _UNUSED.items()}
    return detail
