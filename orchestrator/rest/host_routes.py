"""REST: the hosts of the cluster, and how one joins and leaves it."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path

from cep.model.limits import NAME_CHARS_MAX
from orchestrator import joining
from orchestrator.rest import models, views
from orchestrator.rest.api import InjectedApi, Timeout, Wait
from orchestrator.rest.bodies import DocumentRoute
from orchestrator.state import evacuations
from orchestrator.state.events import EvacuateHost

router = APIRouter(route_class=DocumentRoute)
HostName = Annotated[str, Path(min_length=1, max_length=NAME_CHARS_MAX)]


@router.get("/hosts", response_model=list[models.HostInfo])
async def hosts(api: InjectedApi) -> Any:
    """The hosts that have joined, and the one on which this orchestrator is."""
    service = api.service
    return await api.ask(lambda state: views.hosts(state, api.config.host, service.topology))


@router.post("/hosts", response_model=models.Membership)
async def join(wanted: models.JoiningHost, api: InjectedApi) -> Any:
    """What a host has to know that wants to join: nothing is written, for its own registration says that it is there."""
    return await api.ask(lambda state: joining.membership(api.config, state.hosts, wanted.name, wanted.version, state.keys.members))


@router.post("/hosts/{name}/evacuate", response_model=models.Evacuated)
async def evacuate(name: HostName, api: InjectedApi, wait: Wait = False, timeout: Timeout = evacuations.PATIENCE_S) -> Any:
    """Moves what is on a host elsewhere; what cannot move, or has not within 20 s, fails by name. Nothing new is placed there."""
    await api.do(EvacuateHost(name))
    if wait:
        await api.wait(lambda state: None if any(evacuations.left_on(state, name)) else True, timeout)
    return await api.ask(lambda state: views.evacuated(state, name))
