"""REST: streams, their publishers and subscriptions, and the rows of small clients."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import StreamingResponse

from cep.errors import Conflict, NotFound, QueryError
from cep.model import streams as stream_documents
from cep.model.limits import WAIT_S_MAX, check_name
from cep.model.streams import Stream
from orchestrator.records import PublisherRecord, SubscriptionRecord
from orchestrator.rest import models, problems, views
from orchestrator.rest.api import POLL_S_MAX, InjectedApi
from orchestrator.rest.bodies import DocumentRoute, document, json_only
from orchestrator.rest.gateway_proxy import PassedOn
from orchestrator.state.cluster_state import ClusterState
from orchestrator.state.events import (
    ClosePublisher,
    DeclareStream,
    Subscribe,
    UndeclareStream,
    Unsubscribe,
)

router = APIRouter(route_class=DocumentRoute)

_STREAM_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"type": "object"}, "example": models.STREAM_EXAMPLE}},
    }
}
_STREAM_ANSWER: dict[int | str, dict[str, Any]] = {200: {"content": {"application/json": {"example": models.STREAM_EXAMPLE}}}}


@router.get("/streams", response_model=list[models.StreamInfo])
async def list_streams(api: InjectedApi) -> Any:
    """All streams: declared ones, and outputs of queries."""
    return await api.ask(views.streams)


@router.get("/streams/{name}", response_model=models.StreamInfo)
async def get_stream(name: str, api: InjectedApi) -> Any:
    """A stream's declaration, its publishers, its readers and its producers."""
    return await api.ask(lambda state: views.stream_info(state, name))


@router.put("/streams/{name}", response_model=models.StreamInfo, openapi_extra=_STREAM_BODY, responses=_STREAM_ANSWER)
async def declare(name: str, request: Request, api: InjectedApi) -> Any:
    """Declares a stream. The same declaration again changes nothing; one with nullable columns behind the others adds them, also
    while the stream is read; another one is a conflict."""
    found = await document(request)
    if isinstance(found, dict) and found.setdefault("name", name) != name:
        raise QueryError(f"the name is {found['name']!r} in the document and {name!r} in the address", "/name")
    await api.do(DeclareStream(_declared(found)))
    return await api.ask(lambda state: views.stream_info(state, name))


@router.delete("/streams/{name}", status_code=204)
async def undeclare(name: str, api: InjectedApi) -> None:
    """Forgets a declared stream that no query reads and no publisher has open."""
    await api.forget_vanished()
    await api.do(UndeclareStream(name))


@router.get("/streams/{name}/readers", response_model=models.Readers)
async def readers(
    name: str,
    api: InjectedApi,
    after: str | None = None,
    wait: Annotated[float, Query(ge=0, le=POLL_S_MAX)] = 0.0,
    publisher: Annotated[str | None, Query(description="The publisher that asks: one that stops asking counts as closed.")] = None,
) -> Any:
    """The readers of a published stream now; with `after` and `wait`, as soon as that is another version."""

    def is_open(state: ClusterState) -> bool:
        published(state, name)
        return publisher in state.publishers[name]

    if await api.ask(is_open) and publisher is not None:  # what is not open has no lease, and no name to be kept
        api.hear(name, publisher)
    changed = await api.wait(lambda state: _readers(state, name, after), wait) if after is not None and wait else None
    return changed or await api.ask(lambda state: _readers(state, name, None))


@router.post("/streams/{name}/publishers", response_model=models.Readers)
async def open_publisher(name: str, opening: models.Opening, api: InjectedApi) -> Any:
    """Opens a publisher, a partition of the stream; the answer says where it sends. The same name goes on where it was. One that does not
    ask for its readers counts as closed."""
    await api.ask(lambda state: published(state, name))
    check_name("a publisher", opening.name, "/name")
    await api.open_publishers([PublisherRecord(name, opening.name, opening.endpoint)])
    return await api.ask(lambda state: _readers(state, name, None))


@router.delete("/streams/{name}/publishers/{publisher}", response_model=models.PublisherClosing)
async def close_publisher(name: str, publisher: str, api: InjectedApi, keep_open: bool = False, endpoint: str | None = None) -> Any:
    """Closes a publisher; `last`: no other is open, and it has to tell its readers that the stream ends. With `endpoint`, where it is: one
    that another process has opened since under its name stays open."""

    def due(state: ClusterState) -> list[ClosePublisher]:
        asked = [] if state.is_replaced(name, publisher, endpoint) else [ClosePublisher(name, publisher, endpoint)]
        return [*asked, *api.vanished(state, [name])]

    await api.close_publishers(due)
    return {"last": await api.ask(lambda state: not state.publishers[name] and not keep_open)}


@router.post("/streams/{name}/subscriptions", status_code=201)
async def subscribe(name: str, wanted: models.SubscriptionRequest, api: InjectedApi) -> models.SubscriptionInfo:
    """Registers a subscription, also to a stream whose query is not deployed yet: nothing of it is lost. With `resume` the process that
    asks takes over one that another had."""
    check_name("a stream", name, "")
    check_name("a subscription", wanted.id, "/id")
    terms = wanted.on_slow, wanted.keep, wanted.resumable
    record = SubscriptionRecord(name, wanted.id, wanted.endpoint, *terms, claim=wanted.claim)
    await api.do(Subscribe(record, wanted.resume))
    found = await api.ask(lambda state: state.subscriptions[name].get(wanted.id))
    if found is None or found.claim != wanted.claim:
        raise Conflict(f"subscription {wanted.id!r} of stream {name!r} was given up, or taken over by another process, just now")
    return models.SubscriptionInfo(**wanted.model_dump(), holder=found.holder)


@router.delete("/streams/{name}/subscriptions/{subscription}", status_code=204)
async def unsubscribe(name: str, subscription: str, api: InjectedApi, claim: str | None = None) -> None:
    """Takes a subscription back; with `claim`, if it is that of the process that has it now."""
    await api.do(Unsubscribe(name, subscription, claim))


_ROWS_BODY = {
    "requestBody": {
        "required": True,
        "description": "Rows. Timestamps are ISO 8601, as answers have them, or integers of the declared unit; bytes are hexadecimal.",
        "content": {
            "application/json": {"schema": {"type": "array", "items": {"type": "object"}}},
            "application/x-ndjson": {"schema": {"type": "string", "description": "An object a line."}},
            "application/vnd.apache.arrow.stream": {"schema": {"type": "string", "format": "binary"}},
        },
    }
}


@router.post("/streams/{name}/records", status_code=202, response_model=models.RowsTaken, openapi_extra=_ROWS_BODY)
async def publish(
    name: str,
    request: Request,
    api: InjectedApi,
    end: bool = False,
    idempotency_key: Annotated[
        str | None,
        Header(min_length=1, max_length=200, description="Rows that were published under it are not published again, for an hour."),
    ] = None,
) -> Any:
    """Publishes records, for small clients; `end` closes REST's publisher after them."""
    json_only(request, rows=True)
    told = {"Content-Type": request.headers.get("content-type"), "Idempotency-Key": idempotency_key}
    asked = {"stream": name, "end": end}
    return passed_on(202, *await api.gateway.ask("POST", "/records", asked, await request.body(), shown_token(request), told))


@router.post("/streams/{name}/advance", status_code=202, response_model=models.RowsTaken)
async def advance(name: str, wanted: models.Advance, request: Request, api: InjectedApi) -> Any:
    """Promises that REST's publisher sends no older row: windows that end by then need not wait for it. What it publishes later and is
    older, is late. A time that has passed already changes nothing."""
    return passed_on(
        202, *await api.gateway.ask("POST", "/advance", {"stream": name}, wanted.model_dump_json().encode(), shown_token(request))
    )


@router.get("/streams/{name}/answers", response_model=models.Answers)
async def answers(
    name: str,
    request: Request,
    api: InjectedApi,
    reader: Annotated[
        str,
        Query(min_length=1, max_length=100, description="Any name, for as long as you read: a reader with another name gets all rows too."),
    ],
    max: Annotated[int, Query(ge=1, le=100_000)] = 1000,
    wait: Annotated[float, Query(ge=0, le=POLL_S_MAX)] = 0.0,
) -> Any:
    """The next rows of an output stream, for small clients.

    Every `reader` is a subscription of its own, which begins with its first request and gets all rows from then on; those that ask under
    the same name share them. A reader that does not ask for 60 s is forgotten. Timestamps are ISO 8601; bytes are hexadecimal; numbers that
    JSON has not are 'nan', 'inf' and '-inf'. What is read so can be published so.
    """
    asked = {"stream": name, "reader": reader, "most": max, "wait": wait}
    return passed_on(200, *await api.gateway.ask("GET", "/answers", asked, shown=shown_token(request)))


_EVENTS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Events: rows, `end`, `error`; each with an id, which is a token where the query recovers.",
        "content": {"text/event-stream": {"example": models.EVENTS_EXAMPLE}},
    },
    204: {"description": "The event of `Last-Event-ID` was the end of the stream."},
}


@router.get("/streams/{name}/events", response_class=StreamingResponse, responses=_EVENTS)
async def events(
    name: str,
    request: Request,
    api: InjectedApi,
    timeout: Annotated[float | None, Query(gt=0, le=WAIT_S_MAX, description="Ends the connection after so many seconds.")] = None,
    last_event_id: Annotated[str | None, Header(description="The id of the last event that was read: it goes on behind that.")] = None,
) -> Response:
    """Rows of an output stream as server-sent events, as they come. A connection that ends without the event `end` or `error` is to be made
    again, with `Last-Event-ID`; `EventSource` does so by itself. Rows as in `answers`."""
    asked = {"stream": name} | ({} if timeout is None else {"timeout": timeout})
    headers = {"authorization": shown_token(request), "last-event-id": last_event_id}
    answer = await api.gateway.open("/events", asked, {key: value for key, value in headers.items() if value is not None})
    if answer.status_code == 200:
        return PassedOn(answer)
    body = await answer.aread()
    return Response(status_code=204) if answer.status_code == 204 else passed_on(200, answer.status_code, body)


def shown_token(request: Request) -> str | None:
    return request.headers.get("authorization")


def passed_on(success: int, status: int, answer: bytes) -> Response:
    """What the gateway answered, or the problem that it met."""
    if status < 400:
        return Response(answer, success, media_type="application/json")
    told = json.loads(answer)
    return problems.peer_problem(str(told["error"]), str(told["detail"]), str(told.get("pointer") or "") or None)


def _declared(document: Any) -> Stream:
    stream = stream_documents.from_json(document)
    check_name("a stream", stream.name, "/name")
    return stream


def published(state: ClusterState, name: str) -> None:
    """Raises NotFound, or Conflict: it is read from files, or an output of a query."""
    if name not in state.streams:
        if feeding := state.putting_out(name):
            raise Conflict(f"stream {name!r} is an output of query {feeding[-1].name!r}; it cannot be published to")
        raise NotFound(f"there is no stream {name!r}: declare it, or deploy a query that does")
    if state.streams[name].files is not None:
        raise Conflict(f"stream {name!r} is read from files; it cannot be published to")


def _readers(state: ClusterState, name: str, after: str | None) -> dict[str, Any] | None:
    found = views.stream_readers(state, name)
    version = views.version(found)
    return None if version == after else {"version": version, "readers": found}
