"""REST: what has happened, and how much was done in the last hours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.concurrency import run_in_threadpool

from cep.service.access import ADMIN
from orchestrator.rest import audit, models, views
from orchestrator.rest.api import Asking, InjectedApi
from orchestrator.rest.bodies import DocumentRoute
from orchestrator.rest.cluster_routes import reported_processes

router = APIRouter(route_class=DocumentRoute)


@router.get("/history", response_model=models.History, response_model_exclude_unset=True)
async def history(
    api: InjectedApi,
    access: Asking,
    query: Annotated[str | None, Query(description="Of one query; default: of all.")] = None,
    last: Annotated[int, Query(ge=1, le=audit.LAST_MAX, description="So many events, the last ones.")] = 200,
) -> Any:
    """When queries came into their states, when processes of the cluster died, and, for a token with the role admin, what was asked for and
    with which token; and figures of the last hours, which the metric server keeps for as long as it lives, six hours at most."""
    found = [*_of_queries(await api.ask(views.summaries)), *_of_processes(await reported_processes(api))]
    if access.allows(ADMIN):
        found += _of_requests(await run_in_threadpool(audit.last_lines, api.config.home, audit.LAST_MAX))
    if query is not None:
        found = [each for each in found if each["about"] == query]
    events = sorted(found, key=lambda each: float(each["at"]))[-last:]
    return {"events": events, "figures": await api.figures(get="history", query=query)}


def _of_queries(summaries: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for each in summaries:
        for state, at in each["times"].items():
            cause = each["cause"] if state == "failed" else None
            what = state if cause is None else f"{state}: {cause['subquery']}: {cause['cause']}"
            yield {"at": at, "kind": "query", "about": each["name"], "what": what}


def _of_processes(reports: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for report in reports:
        for child in report["children"]:
            for death in child["last_deaths"]:
                yield {"at": death["at"], "kind": "process", "about": child["name"], "what": f"died: {death['how']}"}


def _of_requests(lines: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for line in lines:
        said = line.get("detail")
        yield {
            "at": datetime.fromisoformat(line["at"]).timestamp(),
            "kind": "asked",
            "about": line.get("about", ""),
            "what": line.get("action", "") + (f": {said}" if said else ""),
            "token": line.get("token", ""),
            "origin": line.get("from", ""),
            "status": line.get("status", 0),
        }
