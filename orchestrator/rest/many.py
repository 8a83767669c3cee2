"""REST for clients with many queries, publishers and subscriptions: what other routes do for one, for many in one request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import APIRouter, Body, Query, Request
from starlette.concurrency import run_in_threadpool

from cep.errors import CepError
from cep.model import query as queries
from cep.model.limits import MANY_MAX, check_name
from cep.model.query import Query as CepQuery
from cep.model.streams import Stream
from cep.plan.physical import FilesByStream
from cep.service.access import Role
from orchestrator.file_sources import checked_files
from orchestrator.records import PublisherRecord
from orchestrator.rest import audit, models, problems, views
from orchestrator.rest.api import POLL_S_MAX, Asking, InjectedApi, Timeout, confirmed
from orchestrator.rest.bodies import DocumentRoute
from orchestrator.rest.client import client_of
from orchestrator.rest.disk_room import check_room
from orchestrator.rest.query_routes import has_settled
from orchestrator.rest.stream_routes import published
from orchestrator.state.cluster_state import ClusterState
from orchestrator.state.events import ClosePublisher

QUERIES_MAX = 1000
TOGETHER, OPERATORS_TOGETHER = 100, 500
"""Queries deployed in one turn of the orchestrator, which does nothing else meanwhile, and operators in them."""


router = APIRouter(route_class=DocumentRoute)


@router.post("/queries:bulk", response_model=list[models.DeployOutcome])
async def deploy_all(
    documents: Annotated[list[Any], Body(max_length=QUERIES_MAX)], request: Request, api: InjectedApi, start: bool = True
) -> Any:
    """Deploys many queries, in their order; one that cannot be harms no other. The answer, in the same order, comes when all is written;
    wait for them with `/queries:wait`."""
    check_room(api.store, api.config.home)
    known = await api.ask(lambda state: dict(state.streams))
    read = await run_in_threadpool(read_documents, documents, known, api.config.data)
    await api.forget_vanished()
    wanted = [each for each in read if not isinstance(each, CepError)]
    owner = client_of(request.scope)
    errors = iter([error for chunk in _chunks(wanted) for error in await confirmed(api.service.deploy_all(chunk, start, owner))])
    wrong = [found if isinstance(found, CepError) else next(errors) for found in read]
    for document, error in zip(documents, wrong, strict=True):
        audit.about(request, str(_name(document)), error)
    return [_outcome(document, error) for document, error in zip(documents, wrong, strict=True)]


@router.post("/queries:wait", response_model=list[models.DeployOutcome])
async def wait_for_all(waiting: models.Waiting, api: InjectedApi, timeout: Timeout = 60.0) -> Any:
    """The states of queries, as soon as each is in the state waited for, or over, or gone; at the latest at the time-out."""
    unsettled = list(waiting.names)

    def reached(state: ClusterState) -> bool | None:
        unsettled[:] = [name for name in unsettled if not has_settled(state, name, waiting.state)]
        return None if unsettled else True

    await api.wait(reached, timeout)
    return await api.ask(lambda state: [_state_of(state, name) for name in waiting.names])


@router.post("/publishers", status_code=201, response_model=models.OpenedAll)
async def open_publishers(openings: Annotated[list[models.OpeningOf], Body(max_length=MANY_MAX)], api: InjectedApi) -> Any:
    """Opens many publishers of one client; the answer says, in their order, where each sends. None is opened if one cannot be."""
    for i, opening in enumerate(openings):
        check_name("a publisher", opening.name, f"/{i}/name")

    def check(state: ClusterState) -> None:
        for opening in openings:
            published(state, opening.stream)

    await api.ask(check)
    await api.open_publishers([PublisherRecord(o.stream, o.name, o.endpoint) for o in openings])

    def opened(state: ClusterState) -> dict[str, Any]:
        found = [{"stream": views.declaration(state, o.stream), "readers": views.stream_readers(state, o.stream)} for o in openings]
        return {"after": api.change(state), "opened": found}

    return await api.ask(opened)


@router.get("/publishers", response_model=models.ReadersNews)
async def news_for_publishers(
    endpoint: str, api: InjectedApi, access: Asking, after: str = "", wait: Annotated[float, Query(ge=0, le=POLL_S_MAX)] = 0.0
) -> Any:
    """The readers of the streams published at `endpoint`, where there is news of them; with `wait`, as soon as there is. A client that
    asks is alive. Streams that the token may not publish are left out."""

    def news(state: ClusterState) -> dict[str, Any] | None:
        streams = [name for name in state.read_anew(endpoint, api.since(after)) if access.allows(Role("publish", name))]
        return {"after": api.change(state), "streams": {name: views.stream_readers(state, name) for name in streams}} if streams else None

    for stream, name in await api.ask(lambda state: state.opened_at(endpoint)):
        if access.allows(Role("publish", stream)):
            api.hear(stream, name)
    found = await api.wait(news, wait) if wait else await api.ask(news)
    return found or await api.ask(lambda state: {"after": api.change(state), "streams": {}})


@router.post("/publishers:close", response_model=list[models.ClosedOf])
async def close_publishers(closings: Annotated[list[models.ClosingOf], Body(max_length=MANY_MAX)], api: InjectedApi) -> Any:
    """Closes publishers; the answer says for each, in their order, which readers it has to tell, and of what."""

    def due(state: ClusterState) -> list[ClosePublisher]:
        asked = [ClosePublisher(c.stream, c.name, c.endpoint) for c in closings if not _is_replaced(state, c)]
        return [*asked, *api.vanished(state, sorted({c.stream for c in closings}))]

    await api.close_publishers(due)
    return await api.ask(lambda state: [_closed(state, closing) for closing in closings])


@router.post("/streams:producers", response_model=list[models.Producing | None])
async def producers(streams: Annotated[list[str], Body(max_length=MANY_MAX)], api: InjectedApi) -> Any:
    """The producers of each of these output streams now; null where there is none."""
    return await api.ask(lambda state: [views.producing(state, stream) for stream in streams])


# --- parts of answers ---


def _chunks(wanted: list[tuple[CepQuery, FilesByStream]]) -> Iterator[list[tuple[CepQuery, FilesByStream]]]:
    """What is deployed in one turn, in turn."""
    chunk: list[tuple[CepQuery, FilesByStream]] = []
    operators = 0
    for query, files in wanted:
        chunk.append((query, files))
        operators += len(query.operators)
        if len(chunk) == TOGETHER or operators >= OPERATORS_TOGETHER:
            yield chunk
            chunk, operators = [], 0
    if chunk:
        yield chunk


def _state_of(state: ClusterState, name: str) -> dict[str, Any]:
    record = state.queries.get(name)
    cause = None if record is None or record.cause is None else record.cause.to_json()
    return {"name": name, "state": None if record is None else record.state, "cause": cause}


def read_documents(
    documents: list[Any], known: dict[str, Stream], folders: tuple[str, ...]
) -> list[tuple[CepQuery, FilesByStream] | CepError]:
    """The queries with their files, or what is wrong with each. A query knows the streams that those before it declare."""
    found: list[tuple[CepQuery, FilesByStream] | CepError] = []
    for document in documents:
        try:
            query = queries.from_json(document)
            found.append((query, checked_files(query, known, folders)))
            known |= {stream.name: stream for stream in query.streams if stream.name not in known}
        except CepError as error:
            found.append(error)
    return found


def _outcome(document: Any, error: CepError | None) -> dict[str, Any]:
    found = {"name": _name(document), "state": None if error else "deploying"}
    return found | {"error": None if error is None else problems.problem_of(error)}


def _name(document: Any) -> str | None:
    name = document.get("name") if isinstance(document, dict) else None
    return name if isinstance(name, str) else None


def _closed(state: ClusterState, closing: models.ClosingOf) -> dict[str, Any]:
    readers = views.stream_readers(state, closing.stream)
    return {"others": sorted(state.publishers[closing.stream]), "readers": readers, "replaced": _is_replaced(state, closing)}


def _is_replaced(state: ClusterState, closing: models.ClosingOf) -> bool:
    return state.is_replaced(closing.stream, closing.name, closing.endpoint)
