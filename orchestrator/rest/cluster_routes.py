"""REST: the cluster itself, what is wrong with it, and what is measured."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import PlainTextResponse
from starlette.concurrency import run_in_threadpool

from cep.model.limits import PATH_CHARS_MAX
from cep.service.access import READ
from cep.service.reports import read_reports
from orchestrator.rest import audit, models, views
from orchestrator.rest.api import Asking, InjectedApi
from orchestrator.rest.bodies import DocumentRoute
from orchestrator.rest.cluster_metrics import cluster_exposition
from orchestrator.rest.connecting.routes import infos
from orchestrator.rest.disk_room import why_no_room
from orchestrator.rest.guard import SCOPE
from orchestrator.state.cluster_state import ClusterState
from orchestrator.state.events import (
    DiscardNode,
)

router = APIRouter(route_class=DocumentRoute)


@router.delete("/cluster/quarantined", status_code=204)
async def discard(node: Annotated[str, Query(max_length=PATH_CHARS_MAX, description="Its path in ZooKeeper.")], api: InjectedApi) -> None:
    """Removes a node that is set aside; of a query, with all that belongs to it."""
    await api.do(DiscardNode(node))


@router.get("/instance-managers", response_model=list[models.InstanceManagerInfo])
async def instance_managers(api: InjectedApi) -> Any:
    """The instance managers: where each is bound, and how much it hosts."""
    return await api.ask(views.managers)


def _elsewhere(own: str, state: ClusterState) -> list[Mapping[str, Any]]:
    """What the supervisors of other hosts report."""
    return [report for name, host in sorted(state.hosts.items()) if name != own for report in host.reports]


@router.get("/cluster", response_model=models.ClusterInfo, response_model_exclude_unset=True)
async def cluster(api: InjectedApi, access: Asking) -> Any:
    """The processes of the cluster, and what is wrong with it. A standby answers too, and without ZooKeeper. A token without the
    role `read` learns of its roles, host and folder alone, where its clients' sockets are looked for."""
    told = {"host": api.config.host, "run": api.config.home, "roles": list(map(str, access.roles))}
    if not access.allows(READ):
        return told
    return told | {
        "supervisors": await reported_processes(api),
        "quarantined": api.service.quarantine.to_json(),
        "no_room": why_no_room(api.store, api.config.home),
    }


@router.get("/topology")
async def topology(api: InjectedApi) -> dict[str, Any]:
    """NUMA nodes, their cores and distances, as the planner sees them: of the host that answers, of each host, and between two."""
    machines = await api.ask(lambda state: state.machines(api.config.host, api.service.topology))
    hosts = {name: topology.to_json() for name, topology in sorted(machines.topologies.items())}
    return api.service.topology.to_json() | {"hosts": hosts, "between_hosts": machines.between}


@router.get(
    "/health",
    response_model=models.Health,
    response_model_exclude_unset=True,
    responses={503: {"model": models.Health, "description": "It does not lead, or has no ZooKeeper."}},
)
async def health(request: Request, api: InjectedApi, response: Response) -> Any:
    """200 while this orchestrator leads and ZooKeeper answers, else 503. Without a token, where there are tokens, that is all it says."""
    service = api.service
    response.status_code = 200 if service.leads and service.connected else 503
    told = {"role": "leader" if service.leads else "standby"}
    if request.scope[SCOPE] is None:
        return told
    count = await api.ask(lambda state: (len(state.managers), len(state.queries))) if service.leads else (0, 0)
    return told | {
        "leader": service.leader,
        "zookeeper": "connected" if service.connected else "away",
        "instance_managers": count[0],
        "queries": count[1],
    }


@router.get("/audit", response_model=list[models.AuditLine], response_model_exclude_unset=True)
async def audit_lines(api: InjectedApi, last: Annotated[int, Query(ge=1, le=audit.LAST_MAX)] = 100) -> Any:
    """The last requests that changed something, oldest first: of which token, from where, and what came of them. Of all orchestrators of
    this machine's folder."""
    return await run_in_threadpool(audit.last_lines, api.config.home, last)


@router.get("/figures")
async def figures(api: InjectedApi) -> models.MetricsInfo:
    """What every instance of every query, operator by operator, and every instance manager has done so far, as last reported."""
    return models.MetricsInfo(**await api.figures(get="figures"))


@router.get("/trace")
async def trace(api: InjectedApi) -> models.TraceInfo:
    """What has held each instance manager up: pieces of its work that took more than a millisecond, by place and cause, and the slowest
    of the last minutes with what the thread had meanwhile."""
    return models.TraceInfo(**await api.figures(get="trace"))


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(api: InjectedApi) -> Any:
    """Everything measured, for Prometheus."""
    found = await api.figures(get="metrics")
    queries = await api.ask(views.summaries) if api.service.leads else []
    connectors = await infos(api) if api.service.leads else []
    text = found["text"] + "".join(cluster_exposition(queries, await reported_processes(api), connectors))
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4")


async def reported_processes(api: InjectedApi) -> list[Mapping[str, Any]]:
    """What those of this host report, and while this orchestrator leads, those of the others."""
    folder = api.config.reports
    here = [] if folder is None else await run_in_threadpool(read_reports, Path(folder))
    return [*here, *(await api.ask(partial(_elsewhere, api.config.host)) if api.service.leads else [])]
