"""The JSON schema of an application's file, made from the tables that documents are read with."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from cep.service.query_schema import query_components
from driver.applications.reading import KEYS

_STRING = {"type": "string"}
_NAMED = "streams", "queries", "sinks"
_FORMAT = {"type": ["string", "object"]}
_VARIABLE = {"type": "string", "pattern": r"\$\{"}


def application_schema(kinds: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """For editors, as JSON Schema 2020-12. `kinds`: the connectors that a cluster has, as `GET /connectors:kinds` tells them; the options
    of others are not checked."""
    components = json.loads(json.dumps(query_components()).replace("#/components/schemas/", "#/$defs/"))
    query = components["Query"]
    stream = query["properties"]["streams"]["items"]
    sink = _connector(kinds, "to", stream=_STRING)
    parts = {"streams": _stream(stream, _connector(kinds, "from")), "queries": _query(query), "sinks": sink}
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


def _connector(kinds: Sequence[Mapping[str, Any]], side: str, **more: Any) -> dict[str, Any]:
    """What stands below `from`, or in a sink, which says `more` of itself."""
    there = {kind["connector"]: kind for kind in kinds if side in kind}
    own = {"connector": _STRING | {"examples": sorted(there)}, "format": _FORMAT, **more}
    checked = [
        {"if": {"properties": {"connector": {"const": name}}}, "then": _options(kind[side], own, bool(kind["formats"]))}
        for name, kind in sorted(there.items())
    ]
    described = {"type": "object", "properties": own, "required": ["connector", *more]}
    return described | {"allOf": checked} if checked else described


def _options(options: Mapping[str, Any], own: Mapping[str, Any], has_format: bool) -> dict[str, Any]:
    """Of one connector. A variable may stand for each."""
    properties = {name: {"anyOf": [option, _VARIABLE]} for name, option in options["properties"].items()}
    there = {name: each for name, each in own.items() if has_format or name != "format"}
    return {"properties": there | properties, "required": options.get("required", []), "additionalProperties": False}


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
