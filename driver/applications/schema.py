"""The JSON schema of an application's file, made from the tables that documents are read with."""

from __future__ import annotations

import json
from typing import Any

from cep.service.query_schema import query_components
from driver.applications.reading import KEYS

_STRING = {"type": "string"}
_NAMED = "streams", "queries", "sinks"
#: Their options are those of the connectors that the cluster has: `cep connectors --kinds`.
_CONNECTOR: dict[str, Any] = {
    "type": "object",
    "properties": {"connector": _STRING, "format": {"type": ["string", "object"]}},
    "required": ["connector"],
}


def application_schema() -> dict[str, Any]:
    """For editors, as JSON Schema 2020-12."""
    components = json.loads(json.dumps(query_components()).replace("#/components/schemas/", "#/$defs/"))
    query = components["Query"]
    stream = query["properties"]["streams"]["items"]
    sink = _CONNECTOR | {"properties": {"stream": _STRING, **_CONNECTOR["properties"]}, "required": ["stream", "connector"]}
    parts = {"streams": _stream(stream), "queries": _query(query), "sinks": sink}
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


def _stream(stream: dict[str, Any]) -> dict[str, Any]:
    """With its name as its key, and columns also as a mapping."""
    columns = {"anyOf": [stream["properties"]["schema"], {"type": "object", "additionalProperties": _STRING}]}
    return stream | {
        "properties": stream["properties"] | {"schema": columns, "from": _CONNECTOR | {"required": ["connector"]}},
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
