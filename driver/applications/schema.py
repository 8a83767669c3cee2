"""The JSON schema of an application's file, made from the tables that documents are read with."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from cep.service.query_schema import query_components
from driver.applications.reading import KEYS

_STRING = {"type": "string"}
_VARIABLE = {"type": "string", "pattern": r"\$\{"}
_NAMED = "streams", "queries", "sinks"
#: Where nothing is known of the connectors that the cluster has.
_CONNECTOR: dict[str, Any] = {
    "type": "object",
    "properties": {"connector": _STRING, "format": {"type": ["string", "object"]}},
    "required": ["connector"],
}


def application_schema(kinds: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """For editors, as JSON Schema 2020-12. `kinds`: the connectors that there are, as `GET /connectors:kinds` tells them, for their options
    to be checked too."""
    components = json.loads(json.dumps(query_components()).replace("#/components/schemas/", "#/$defs/"))
    query = components["Query"]
    stream = query["properties"]["streams"]["items"]
    sink = _end(kinds, "to", {"stream": _STRING})
    parts = {"streams": _stream(stream, _end(kinds, "from", {})), "queries": _query(query), "sinks": sink}
    properties: dict[str, Any] = {
        "application": _STRING | {"minLength": 1, "description": "Its name; a file that is included has none."},
        "include": {"type": "array", "items": _STRING, "description": "Files beside this one, with more of the same."},
        "variables": {
            "type": "object",
            "additionalProperties": {"type": ["string", "number", "boolean"]},
            "description": "Values for ${NAME} in the texts of streams and queries.",
        },
        **{key: {"type": "object", "additionalProperties": parts[key]} for key in _NAMED},
    }
    assert set(properties) == set(KEYS)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "An application: streams and queries",
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        "$defs": components,
    }


def _end(kinds: Sequence[Mapping[str, Any]], side: str, own: dict[str, Any]) -> dict[str, Any]:
    """What brings rows, or takes them away, with the options of each kind; `own` is there beside them, and has to be."""
    known = [each for each in kinds if side in each]
    if not known:
        return _CONNECTOR | {"properties": {**own, **_CONNECTOR["properties"]}, "required": [*own, "connector"]}
    named = {"connector": {"enum": [each["connector"] for each in known]}}
    which = [{"if": {"properties": {"connector": {"const": each["connector"]}}}, "then": _kind(each, side, own)} for each in known]
    return {"type": "object", "properties": named, "required": [*own, "connector"], "allOf": which}


def _kind(kind: Mapping[str, Any], side: str, own: dict[str, Any]) -> dict[str, Any]:
    options = kind[side]
    if "$defs" in options:  # which would have to stand elsewhere
        return {}
    formats = {"format": {"anyOf": [{"enum": list(kind["formats"])}, {"type": "object"}, _VARIABLE]}} if kind["formats"] else {}
    properties = {name: {"anyOf": [each, _VARIABLE]} | _said(each) for name, each in options["properties"].items()}
    told = {"connector": _STRING, **own, **formats, **properties}
    return {"properties": told, "required": list(options.get("required", ())), "additionalProperties": False}


def _said(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {key: schema[key] for key in ("description", "default") if key in schema}


def _stream(stream: dict[str, Any], source: dict[str, Any]) -> dict[str, Any]:
    """With its name as its key, and columns also as a mapping."""
    columns = {"anyOf": [stream["properties"]["schema"], {"type": "object", "additionalProperties": _STRING}]}
    return stream | {
        "properties": stream["properties"] | {"schema": columns, "from": source},
        "required": ["schema"],
    }


def _query(query: dict[str, Any]) -> dict[str, Any]:
    """A text of SQL, a file, or a document."""
    options = query["properties"]["options"]

    def of(**form: Any) -> dict[str, Any]:
        return {"type": "object", "properties": {**form, "options": options}, "required": list(form), "additionalProperties": False}

    sql = {"type": "string", "description": "Statements of SQL (docs/features/sql.md)."}
    file = {"type": "string", "description": "A file beside this one: .sql, or a query's document in JSON or YAML."}
    return {"anyOf": [of(sql=sql), of(file=file), query | {"required": ["outputs"]}]}
