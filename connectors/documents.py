"""The document of a connector, checked: what stands in it, which connector is meant, and its options (docs/connectors.md).

{"name": "orders", "stream": "orders", "from": {"connector": "files", "path": "/data/in", "format": "json"}}
{"name": "alarms-out", "stream": "alarms", "to": {"connector": "files", "path": "/data/out", "format": {"name": "csv", "header": true}}}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

import pyarrow as pa
from pydantic import ValidationError

from connectors.contract import Connector, ConnectorOptions
from connectors.contract.formats import ValueFormat
from connectors.formats.known import FORMATS

GROUP = "numa_cep.connectors"
SHIPPED = {
    "files": "connectors.shipped.files:FILES",
    "http": "connectors.shipped.http:HTTP",
    "kafka": "connectors.shipped.kafka:KAFKA",
    "mqtt": "connectors.shipped.mqtt:MQTT",
    "postgres": "connectors.shipped.postgres:POSTGRES",
    "websocket": "connectors.shipped.websocket:WEBSOCKET",
    "zeromq": "connectors.shipped.zeromq:ZEROMQ",
}


class WrongDocument(ValueError):
    """`pointer`: where in it (RFC 6901)."""

    def __init__(self, what: str, pointer: str = "") -> None:
        super().__init__(what)
        self.pointer = pointer


@dataclass(frozen=True, slots=True)
class Described:
    """What a document says, checked. References to secrets stand in it as they were written."""

    name: str
    stream: str
    is_source: bool
    kind: str
    connector: Connector
    options: ConnectorOptions
    format: ValueFormat | None

    def check_rows(self, schema: pa.Schema) -> None:
        """Of a sink. Raises ValueError: rows of that schema cannot be written as its format has them."""
        if self.format is not None:
            self.format.check(self.options.written(schema))


@cache
def known() -> Mapping[str, str]:
    """Name of a connector -> where it is, `module:name`."""
    return {each.name: each.value for each in entry_points(group=GROUP)} | SHIPPED


@cache
def loaded(kind: str) -> Connector:
    """Raises WrongDocument: it is none."""
    module, _, name = known()[kind].partition(":")
    try:
        found = getattr(import_module(module), name)
    except Exception as error:  # whatever an author's module does
        raise WrongDocument(f"connector {kind!r} cannot be loaded: {type(error).__name__}: {error}", "/connector") from None
    if not isinstance(found, Connector):
        raise WrongDocument(f"connector {kind!r}: {known()[kind]} is no Connector", "/connector")
    return found


def described(document: Any) -> Described:
    """Raises WrongDocument."""
    if not isinstance(document, dict):
        raise WrongDocument(f"expected an object, got {type(document).__name__}")
    _check_keys(document, ("name", "stream", "from", "to"))
    name, stream = (_text(document, key) for key in ("name", "stream"))
    sides = [side for side in ("from", "to") if side in document]
    if len(sides) != 1:
        raise WrongDocument('expected one of "from" and "to": where the rows of the stream come from, or where they go to')
    (side,) = sides
    if not isinstance(document[side], dict):
        raise WrongDocument(f"expected an object, got {type(document[side]).__name__}", f"/{side}")
    try:
        return Described(name, stream, side == "from", *_end(document[side], side == "from"))
    except WrongDocument as wrong:
        raise WrongDocument(str(wrong), f"/{side}{wrong.pointer}") from None


def _end(document: dict[str, Any], is_source: bool) -> tuple[str, Connector, ConnectorOptions, ValueFormat | None]:
    kind = _text(document, "connector")
    if kind not in known():
        raise WrongDocument(f"there is no connector {kind!r}{_meant(kind, known())}; there are {', '.join(sorted(known()))}", "/connector")
    connector = loaded(kind)
    model = connector.source_options if is_source else connector.sink_options
    if model is None:
        raise WrongDocument(f"connector {kind!r} {'brings' if is_source else 'takes'} no rows", "/connector")
    own = {key: value for key, value in document.items() if key not in ("connector", "format")}
    if not connector.formats:
        own |= {"format": document["format"]} if "format" in document else {}  # which it will not know
        return kind, connector, _validated(model, own, ""), None
    return kind, connector, _validated(model, own, ""), _format(document.get("format", "json"), connector.many)


def _format(said: Any, many: bool) -> ValueFormat:
    """`many`: one whose values have many rows will do."""
    there = [name for name, each in FORMATS.items() if many or not each.many]
    found = {"name": said} if isinstance(said, str) else said
    if not isinstance(found, dict) or found.get("name") not in there:
        name = found.get("name") if isinstance(found, dict) else said
        raise WrongDocument(f"format: expected one of {', '.join(there)}, or an object with such a name, got {name!r:.100}", "/format")
    model = FORMATS[found["name"]]
    format_ = _validated(model, {key: value for key, value in found.items() if key != "name"}, "/format")
    assert isinstance(format_, ValueFormat)
    return format_


def _validated(model: type[ConnectorOptions], own: dict[str, Any], pointer: str) -> ConnectorOptions:
    try:
        return model.model_validate(own)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in first["loc"])
        raise WrongDocument(_told(first, model), pointer + place) from None


def _told(wrong: Mapping[str, Any], model: type[ConnectorOptions]) -> str:
    """What pydantic says, without the value, which may be a secret."""
    name = ".".join(map(str, wrong["loc"]))
    if wrong["type"] == "extra_forbidden":
        return f"no option {name!r}{_meant(name, model.model_fields)}; there are {', '.join(model.model_fields)}"
    if wrong["type"] == "missing":
        return f"{name} is missing: {model.model_fields[name].description or 'it has to be said'}"
    return f"{name}: {wrong['msg'].removeprefix('Value error, ').replace('Input should be', 'expected')}"


def _meant(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, known, 1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def _check_keys(document: Mapping[str, Any], keys: tuple[str, ...]) -> None:
    for key in document:
        if key not in keys:
            raise WrongDocument(f"unknown key {key!r}; a connector has {', '.join(keys)}", "/" + str(key))


def _text(document: Mapping[str, Any], key: str) -> str:
    found = document.get(key)
    if not isinstance(found, str) or not found:
        raise WrongDocument(f"{key}: expected a text, got {found!r:.100}", f"/{key}")
    return found


def kinds() -> list[dict[str, Any]]:
    """What connectors there are, with the JSON schemas of their options; of one that cannot be loaded, why not."""
    return [_kind(name) for name in sorted(known())]


def _kind(name: str) -> dict[str, Any]:
    try:
        found = loaded(name)
    except WrongDocument as wrong:
        return {"connector": name, "error": str(wrong)}
    models = {"from": found.source_options, "to": found.sink_options}
    sides = {side: model.model_json_schema() for side, model in models.items() if model is not None}
    formats = {each: model.model_json_schema() for each, model in FORMATS.items() if found.many or not model.many} if found.formats else {}
    return {"connector": name, **sides, "formats": formats}
