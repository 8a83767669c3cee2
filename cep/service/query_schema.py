"""The JSON Schema of a query's document, for the OpenAPI document: made from the same tables that read it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cep.model import expr as expressions
from cep.model import file_documents, sinks, streams
from cep.model.contract.forms import schema_reference
from cep.model.functions import FUNCTIONS, PARAMETERS
from cep.model.limits import EVENT_TIMES
from cep.model.operator_documents import needed_keys
from cep.model.operators import TYPES
from cep.model.query import BALANCERS, EXCLUSIVE, HOSTS, MESSAGE_POLICIES, PRE_AGGREGATION, REBALANCE, RECOVER, SPLITS

_STRING = {"type": "string"}
_DURATION = {"type": "string", "examples": ["30s"]}


def query_components() -> dict[str, Any]:
    """Components of the OpenAPI document, by name."""
    operators = {f"Operator_{type_}": _operator(type_) for type_ in TYPES}
    return {
        "Query": _query(),
        "Operator": {"oneOf": [schema_reference(name) for name in operators], "discriminator": {"propertyName": "type"}},
        **operators,
        "Window": {"oneOf": [*_WINDOWS.values()]},
        "Function": _function(),
        "Expression": _expression(),
        "Table": _object({"schema": _FIELDS, "path": _STRING, "data": {"type": "string", "format": "byte"}}, ["schema"]),
        "StreamField": _object({"name": _STRING, "type": {"type": "string", "examples": ["int64", "string?", "timestamp[ms]"]}}),
    }


_FIELDS = {"type": "array", "items": schema_reference("StreamField")}


def _object(properties: dict[str, Any], required: list[str] | None = None, **more: Any) -> dict[str, Any]:
    needed = list(properties) if required is None else required
    return {"type": "object", "properties": properties, "required": needed, "additionalProperties": False, **more}


def _operator(type_: str) -> dict[str, Any]:
    kind = TYPES[type_]
    properties = {"name": _STRING, "type": {"const": type_}, **{key: form.schema for key, form in kind.keys().items()}}
    return _object(properties, ["name", "type", *needed_keys(kind)], description=" ".join((kind.__doc__ or "").split()))


def _typed(type_: str, properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return _object({"type": {"const": type_}, **properties}, ["type", *required])


_ROWS = {"type": "integer", "minimum": 1}
_SPAN_OR_NONE = {"anyOf": [_DURATION, {"type": "null"}]}
_WINDOWS = {
    "time": _typed("time", {"size": _DURATION, "advance": _DURATION, "offset": _DURATION}, ["size"]),
    "cumulate": _typed("cumulate", {"step": _DURATION, "size": _DURATION, "offset": _DURATION}, ["step", "size"]),
    "size": _typed("size", {"size": _ROWS, "advance": _ROWS}, ["size"]),
    "session": _typed("session", {"gap": _DURATION}, ["gap"]),
    "transaction": _typed(
        "transaction", {"open": schema_reference("Expression"), "close": schema_reference("Expression")}, ["open", "close"]
    ),
    "unbounded": _typed("unbounded", {"every": _SPAN_OR_NONE, "ttl": _SPAN_OR_NONE}, ["ttl"]),
    "trailing": {"oneOf": [_typed("trailing", {"size": _DURATION}, ["size"]), _typed("trailing", {"rows": _ROWS}, ["rows"])]},
}


def _function() -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "function": {"type": "string", "description": f"One of {', '.join(FUNCTIONS)}, or a user's module:Class."},
            "column": _STRING,
            "by": _STRING,
            "columns": {"type": "array", "items": _STRING},
            "returns": _STRING,
            **{parameter.name: {"type": "number"} for parameters in PARAMETERS.values() for parameter in parameters},
        },
        "required": ["function"],
        "description": "An aggregate function; what each takes and answers is in docs/functions.md.",
    }


_WHOLE = {"type": "integer", "minimum": 0, "maximum": expressions.PREV_MAX}


def _expression() -> dict[str, Any]:
    arguments = {"type": "array", "items": schema_reference("Expression")}
    operators = [*expressions.ARITHMETIC, *expressions.COMPARISON, *expressions.BOOLEAN, *expressions.UNARY]
    return {
        "description": "A constant, or one of these objects; what each computes is in docs/arithmetic.md. A literal of type float64 "
        "is 'nan', 'inf' or '-inf' where JSON has no number for it; a binary one is written in hexadecimal.",
        "anyOf": [
            {"type": ["boolean", "number", "string"]},
            _object({"column": _STRING}),
            _object({"literal": {}, "type": _STRING}, ["literal"]),
            _object({"op": {"enum": list(dict.fromkeys(operators))}, "args": arguments}),
            _object({"call": {"enum": list(expressions.FUNCTIONS)}, "args": arguments}),
            _object({"cast": schema_reference("Expression"), "to": _STRING}),
            _object({"try_cast": schema_reference("Expression"), "to": _STRING}),
            _object({"udf": _STRING, "args": arguments, "returns": _STRING}),
            _object({"row": _STRING, "function": {"enum": list(expressions.ROW_FUNCTIONS)}, "column": _STRING, "k": _WHOLE}, ["row"]),
            _object({"prev": _STRING, "k": _WHOLE}, ["prev"]),
        ],
    }


def _files(formats: Mapping[str, Any]) -> dict[str, Any]:
    return {"oneOf": [file_documents.schema(cls, first=i == 0) for i, cls in enumerate(formats.values())]}


def _query() -> dict[str, Any]:
    stream = _object(
        {
            "name": _STRING,
            "schema": _FIELDS,
            "event_time": {},
            "disorder": _DURATION,
            "event_times": {"enum": list(EVENT_TIMES)},
            "files": _files(streams.SOURCE_FORMATS),
            "idle_after": _DURATION,
            "watermark": {"enum": ["clock"]},
            "partitioned_by": {"type": "array", "items": _STRING},
        },
        ["name", "schema"],
    )
    options = {
        "split": {"enum": list(SPLITS)},
        "subqueries": {"type": "array", "items": {"type": "array", "items": _STRING}},
        "parallelism": {
            "anyOf": [
                {"type": "integer", "minimum": 1},
                {"type": "null"},
                {"type": "object", "additionalProperties": {"type": "integer", "minimum": 1}},
            ]
        },
        "pre_aggregation": {"enum": list(PRE_AGGREGATION)},
        "balancers": {"type": "object", "additionalProperties": {"enum": list(BALANCERS)}},
        "replicas": {"type": "integer", "minimum": 1},
        "buckets": {"type": "integer", "minimum": 1},
        "message_policy": {"enum": list(MESSAGE_POLICIES)},
        "rebalance": {"enum": list(REBALANCE)},
        "windows_per_row_max": {"type": "integer", "minimum": 1},
        "hosts": {"anyOf": [{"enum": list(HOSTS)}, {"type": "integer", "minimum": 1}]},
        "recover": {"enum": list(RECOVER)},
        "checkpoint": _DURATION,
        "state_bytes_max": {"type": ["integer", "null"], "minimum": 1},
        "exclusive": {"enum": list(EXCLUSIVE)},
    }
    output = _object({"stream": _STRING, "input": _STRING, "files": _files(sinks.SINK_FORMATS)}, ["stream", "input"])
    properties = {
        "name": _STRING,
        "streams": {"type": "array", "items": stream},
        "operators": {"type": "array", "items": schema_reference("Operator")},
        "outputs": {"type": "array", "items": output, "minItems": 1},
        "late": {"anyOf": [_STRING, {"type": "null"}]},
        "options": _object(options, []),
    }
    return _object(properties, ["name", "outputs"])
