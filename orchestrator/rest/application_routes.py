"""REST: applications, which are names for streams, queries and connectors that were declared together."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path

from cep.model.limits import NAME_CHARS_MAX, check_name
from orchestrator.records import ApplicationRecord
from orchestrator.rest import models
from orchestrator.rest.api import InjectedApi
from orchestrator.rest.bodies import DocumentRoute
from orchestrator.state.events import ForgetApplication, KeepApplication

router = APIRouter(route_class=DocumentRoute)
ApplicationName = Annotated[str, Path(min_length=1, max_length=NAME_CHARS_MAX)]


@router.get("/applications", response_model=list[models.ApplicationInfo])
async def applications(api: InjectedApi) -> Any:
    """All applications, by name."""
    found = await api.ask(lambda state: dict(state.applications.by_name))
    return [found[name].to_json() for name in sorted(found)]


@router.get("/applications/{name}", response_model=models.ApplicationInfo)
async def application(name: ApplicationName, api: InjectedApi) -> Any:
    """What belongs to an application."""
    return await api.ask(lambda state: state.applications[name].to_json())


@router.put("/applications/{name}", response_model=models.ApplicationInfo)
async def keep(name: ApplicationName, parts: models.ApplicationParts, api: InjectedApi) -> Any:
    """Says what belongs to an application, whether it is there already or not; nothing else is done. `cep apply` says it before it
    changes anything, so that nothing is left of what it made."""
    check_name("an application", name, "")
    own = (tuple(dict.fromkeys(each)) for each in (parts.streams, parts.queries, parts.connectors))
    await api.do(KeepApplication(ApplicationRecord(name, *own)))
    return await api.ask(lambda state: state.applications[name].to_json())


@router.delete("/applications/{name}", status_code=204)
async def forget(name: ApplicationName, api: InjectedApi) -> None:
    """Forgets an application of which nothing is there any more."""
    await api.do(ForgetApplication(name))
