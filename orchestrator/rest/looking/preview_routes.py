"""REST: what a query would answer now. A preview is a query of its own, with a lease, whose answers go to streams of its own and to no
files; it ends when it was not asked for any more."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from cep.errors import NotFound
from cep.model.query import Query as CepQuery
from orchestrator.rest import audit, models
from orchestrator.rest.api import POLL_S_MAX, InjectedApi, confirmed
from orchestrator.rest.bodies import DocumentRoute
from orchestrator.rest.client import client_of
from orchestrator.rest.disk_room import check_room
from orchestrator.rest.query_routes import QUERY_BODY, read_query
from orchestrator.rest.stream_routes import passed_on, shown_token
from orchestrator.state.events import RenewLease

router = APIRouter(route_class=DocumentRoute)

LEASE_S = 60.0
READER = "preview"


@router.post("/preview", status_code=201, response_model=models.PreviewInfo, openapi_extra=QUERY_BODY)
async def preview(request: Request, api: InjectedApi) -> Any:
    """Runs a query under a name of its own, beside what runs: its answers are read at `/preview/NAME/answers`. It writes no files, does not
    recover, and is deleted when it was not asked for answers for a minute, or by `DELETE /queries/NAME`. Streams that it declares stay."""
    query, streams = previewed(await read_query(request, api, "previewed"), f"preview-{secrets.token_hex(5)}")
    audit.about(request, query.name)
    check_room(api.store, api.config.home)
    await confirmed(api.service.deploy(query, await api.files(query), True, client_of(request.scope), LEASE_S))
    return {"name": query.name, "streams": streams, "lease_s": LEASE_S}


@router.get("/preview/{name}/answers", response_model=models.Answers)
async def preview_answers(
    name: str,
    request: Request,
    api: InjectedApi,
    stream: Annotated[str | None, Query(description="As the query calls it; it may be left out where it has but one.")] = None,
    max: Annotated[int, Query(ge=1, le=10_000)] = 1000,
    wait: Annotated[float, Query(ge=0, le=POLL_S_MAX / 2)] = 0.0,
) -> Any:
    """The next answers of a preview, from the first time on that it is asked for them; rows as in the answers of a stream. Whoever asks
    keeps it, and shares its rows with others that ask."""
    await api.do(RenewLease(name))
    outputs = await api.ask(lambda state: [output.stream for output in state.plans[name].query.outputs])
    wanted = outputs[0] if stream is None else renamed(name, stream)
    if wanted not in outputs:
        raise NotFound(f"preview {name!r} has no stream {stream!r}; it has {', '.join(each.removeprefix(f'{name}.') for each in outputs)}")
    asked = {"stream": wanted, "reader": READER, "most": max, "wait": wait}
    return passed_on(200, *await api.gateway.ask("GET", "/preview", asked, shown=shown_token(request)))


def previewed(query: CepQuery, name: str) -> tuple[CepQuery, dict[str, str]]:
    """The query as a preview of that name, and its streams."""
    outputs = tuple(replace(output, stream=renamed(name, output.stream), files=None) for output in query.outputs)
    late = None if query.late is None else renamed(name, query.late)
    alone = replace(query, name=name, outputs=outputs, late=late, options=replace(query.options, recover="off"))
    return alone, {output.stream: renamed(name, output.stream) for output in query.outputs}


def renamed(name: str, stream: str) -> str:
    return f"{name}.{stream}"
