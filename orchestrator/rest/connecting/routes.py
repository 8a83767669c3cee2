"""REST: connectors, which bring rows to streams and take answers away; and what the processes ask that run them (docs/connectors.md)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request

from cep.errors import QueryError
from cep.model.limits import check_name
from connectors.documents import Described, kinds
from orchestrator.rest import models, views
from orchestrator.rest.api import Api, InjectedApi
from orchestrator.rest.bodies import DocumentRoute, document
from orchestrator.sinks import check_columns, checked_document
from orchestrator.state.cluster_state import ClusterState
from orchestrator.state.connectors import ConnectorRecord
from orchestrator.state.events import DeclareConnector, ForgetConnector, HoldConnectors

router = APIRouter(route_class=DocumentRoute)

_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"type": "object"}, "example": models.CONNECTOR_EXAMPLE}},
    }
}


@router.get("/connectors", response_model=list[models.ConnectorInfo])
async def list_connectors(api: InjectedApi) -> Any:
    """All connectors: what each is at, how many rows it has brought or taken, and what is wrong with it."""
    return await infos(api)


@router.get("/connectors:kinds")
async def list_kinds() -> list[models.ConnectorKind]:
    """The connectors that there are to be declared, with the JSON schemas of their options."""
    return [models.ConnectorKind(**each) for each in kinds()]


@router.get("/connectors/{name}", response_model=models.ConnectorInfo)
async def get_connector(name: str, api: InjectedApi) -> Any:
    """One connector."""
    return _info(api, await api.ask(lambda state: state.connectors.get(name)))


@router.get("/connectors/{name}/dead-letters", response_model=list[models.ConnectorLetter])
async def connector_letters(name: str, api: InjectedApi) -> Any:
    """The last records that a connector could make no rows of, and why."""
    record = await api.ask(lambda state: state.connectors.get(name))
    return api.connectors.figures(record, api.now()).get("letters", [])


@router.put("/connectors/{name}", response_model=models.ConnectorInfo, openapi_extra=_BODY)
async def declare_connector(name: str, request: Request, api: InjectedApi, dry_run: bool = False) -> Any:
    """Declares a connector, which runs from then on. The same again changes nothing; another document under the name takes its place.
    With `dry_run` nothing is declared, and what is wrong is refused all the same."""
    found = await document(request)
    if isinstance(found, dict) and found.setdefault("name", name) != name:
        raise QueryError(f"the name is {found['name']!r} in the document and {name!r} in the address", "/name")
    check_name("a connector", name, "/name")
    checked = checked_document(found)
    _check_folders(checked, api.config.data)
    if not checked.is_source:
        check_columns(checked, await api.ask(lambda state: views.schema_of(state, checked.stream)))
    if dry_run:
        return _info(api, ConnectorRecord(name, found))
    await api.do(DeclareConnector(name, found))
    return _info(api, await api.ask(lambda state: state.connectors.get(name)))


@router.delete("/connectors/{name}", status_code=204)
async def forget_connector(name: str, api: InjectedApi) -> None:
    """Stops a connector for good. What it has brought stays; one that is declared again under the name goes on where it was."""
    await api.do(ForgetConnector(name))


@router.post("/connectors:work", response_model=models.ConnectorWork)
async def work(said: models.ConnectorReport, api: InjectedApi) -> Any:
    """For processes that run connectors: tells how they do, and answers which it is to run; as soon as these are others than it has, or
    after `wait` seconds."""
    place, incarnation = said.place, said.incarnation
    api.connectors.hear(api.service.term, place, incarnation, [each.model_dump() for each in said.running], api.now())
    running = {(each.name, each.epoch) for each in said.running}

    def other(state: ClusterState) -> bool | None:
        records = state.connectors.records.values()
        held = {(each.name, each.epoch) for each in state.connectors.held_by(place, incarnation)}
        return True if held != running or api.connectors.free(records, place, incarnation, api.now()) else None

    await api.wait(other, said.wait)
    free = await api.ask(lambda state: api.connectors.free(state.connectors.records.values(), place, incarnation, api.now()))
    if free:
        await api.do(HoldConnectors(tuple(free), place, incarnation))
    held = await api.ask(lambda state: state.connectors.held_by(place, incarnation))
    return {"connectors": [{"name": each.name, "epoch": each.epoch, "document": each.document} for each in held]}


async def infos(api: Api) -> list[Mapping[str, Any]]:
    """Of all connectors, by name."""
    return [_info(api, each) for each in await api.ask(_records)]


def _check_folders(found: Described, data: tuple[str, ...]) -> None:
    """Raises QueryError: it would read or write where the cluster's queries may not."""
    for option, folder in found.options.folders():
        if not any(Path(folder).resolve().is_relative_to(Path(each).resolve()) for each in data):
            side = "from" if found.is_source else "to"
            known = ", ".join(data) or "none: `cep up --data FOLDER`"
            raise QueryError(f"{folder!r} is under none of the cluster's folders ({known})", f"/{side}/{option}")


def _records(state: ClusterState) -> list[ConnectorRecord]:
    return [state.connectors.records[name] for name in sorted(state.connectors.records)]


def _info(api: Api, record: ConnectorRecord) -> Mapping[str, Any]:
    told = api.connectors.figures(record, api.now())
    side = "from" if "from" in record.document else "to"
    own = {"name": record.name, "stream": record.document["stream"], "way": side, "connector": record.document[side]["connector"]}
    figures = {key: value for key, value in told.items() if key not in ("letters", "name", "epoch")}
    return own | {"document": record.document, "epoch": record.epoch, "place": record.place} | figures
