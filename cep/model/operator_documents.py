"""Operators ⇄ JSON: for each type of operator its keys, and how a value of each is written and read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass
from dataclasses import fields as dataclass_fields
from typing import Any

from cep.errors import QueryError, escaped, meant
from cep.model import expr as expressions
from cep.model import functions, tables, windows
from cep.model.checked import kind_in
from cep.model.duration import format_duration, parse_duration
from cep.model.expr import Expr, Literal
from cep.model.limits import shown
from cep.model.operators import (
    Aggregate,
    Apply,
    AsOfJoin,
    Deduplicate,
    Delay,
    Demux,
    Filter,
    FlatMap,
    IntervalJoin,
    Join,
    Lookup,
    Map,
    Operator,
    Sort,
    StatefulMap,
    TopN,
    Union,
)
from cep.model.schema import Schema
from cep.model.windows import TimeWindow


@dataclass(frozen=True)
class Form:
    """How values of one key are written and read, and their JSON Schema (in which expressions, windows, functions, tables and fields
    of streams are references by these names). `read` raises QueryError with a pointer relative to the value."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]
    schema: Mapping[str, Any]


# --- forms of values -------------------------------------------------------------------------------------------------


def reference(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _checked(kind: type, what: str, schema: Mapping[str, Any]) -> Form:
    def read(value: Any) -> Any:
        if type(value) is not kind:
            raise QueryError(f"expected {what}, got {value!r}")
        return value

    return Form(lambda value: value, read, schema)


def _optional(form: Form) -> Form:
    return Form(
        lambda value: None if value is None else form.write(value),
        lambda value: None if value is None else form.read(value),
        {"anyOf": [form.schema, {"type": "null"}]},
    )


def _read_names(value: Any) -> tuple[str, ...]:
    value = [value] if isinstance(value, str) else value
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise QueryError(f"expected a list of names, got {value!r}")
    return tuple(value)


def _named(write: Callable[[Any], Any], read: Callable[[Any, str], Any], kind: str) -> Form:
    """(name, value)... as an object, in order."""

    def read_all(value: Any) -> tuple[tuple[str, Any], ...]:
        if not isinstance(value, dict) or not value:
            raise QueryError(f"expected an object with at least one entry, got {value!r}")
        return tuple((name, read(each, f"/{escaped(name)}")) for name, each in value.items())

    schema = {"type": "object", "minProperties": 1, "additionalProperties": reference(kind)}
    return Form(lambda value: {name: write(each) for name, each in value}, read_all, schema)


def _listed(value: Any) -> list[Any]:
    """A list, or one text in place of a list of one."""
    if not isinstance(value, str | list | None):
        raise QueryError(f"expected a list, got {shown(value)}")
    return [value] if isinstance(value, str) else value or []


def _read_pairs(value: Any) -> tuple[tuple[str, str], ...]:
    """`["k", ["a", "b"]]`: equal names, or one of each side."""
    found = [[each, each] if isinstance(each, str) else each for each in _listed(value)]
    if not all(isinstance(pair, list) and len(pair) == 2 and all(isinstance(name, str) for name in pair) for pair in found):
        raise QueryError(f'expected a list of column names or pairs such as ["left", "right"], got {value!r}')
    return tuple((left, right) for left, right in found)


def _read_order(value: Any) -> tuple[tuple[str, bool], ...]:
    """`["a", {"column": "b", "descending": true}]`."""
    found: list[tuple[str, bool]] = []
    for i, each in enumerate(_listed(value)):
        match {"column": each} if isinstance(each, str) else each:
            case {"column": str(name), **rest} if rest.keys() <= {"descending"} and type(rest.get("descending", False)) is bool:
                found.append((name, bool(rest.get("descending"))))
            case _:
                raise QueryError(f'expected a column or {{"column": ..., "descending": true}}, got {each!r}', f"/{i}")
    return tuple(found)


def _read_window(value: Any) -> TimeWindow:
    window = windows.from_json(value)
    if not isinstance(window, TimeWindow):
        raise QueryError(f"expected a time window, got one of type {value['type']!r}", "/type")
    return window


def _read_literal(value: Any, pointer: str) -> Literal:
    literal = expressions.from_json(value, pointer)
    if not isinstance(literal, Literal):
        raise QueryError(f"expected a literal, got {value!r}", pointer)
    return literal


def _read_span(value: Any) -> int:
    """A duration, which may be negative."""
    if not isinstance(value, str):
        raise QueryError(f"expected a duration such as '30s', got {value!r}")
    return -parse_duration(value[1:]) if value.startswith("-") else parse_duration(value)


_STRING: Mapping[str, Any] = {"type": "string"}
_DURATION: Mapping[str, Any] = {"type": "string", "examples": ["30s", "500ms", "-1h"]}

_TEXT = _checked(str, "a name", _STRING)
_NUMBER = _checked(int, "a whole number", {"type": "integer"})
_FLAG = _checked(bool, "true or false", {"type": "boolean"})
_NAMES = Form(list, _read_names, {"type": "array", "items": _STRING})
_EXPRESSION = Form(expressions.to_json, expressions.from_json, reference("Expression"))
_FIELDS = _named(expressions.to_json, expressions.from_json, "Expression")
_FUNCTIONS = _named(functions.to_json, functions.from_json, "Function")
_LITERALS = _named(expressions.to_json, _read_literal, "Expression")
_PAIRS = Form(
    lambda pairs: [left if left == right else [left, right] for left, right in pairs],
    _read_pairs,
    {"type": "array", "items": {"anyOf": [_STRING, {"type": "array", "items": _STRING, "minItems": 2, "maxItems": 2}]}},
)
_COLUMN_ORDER = {"type": "object", "properties": {"column": _STRING, "descending": {"type": "boolean"}}, "required": ["column"]}
_ORDER = Form(
    lambda order: [{"column": name, "descending": True} if down else name for name, down in order],
    _read_order,
    {"type": "array", "items": {"anyOf": [_STRING, _COLUMN_ORDER]}},
)
_SPAN = Form(lambda us: f"-{format_duration(-us)}" if us < 0 else format_duration(us), _read_span, _DURATION)
_ANY_WINDOW = Form(windows.to_json, windows.from_json, reference("Window"))
_TIME_WINDOW = Form(windows.to_json, _read_window, reference("Window"))
_TABLE = Form(tables.to_json, tables.from_json, reference("Table"))
_SCHEMA = Form(Schema.to_json, Schema.from_json, {"type": "array", "items": reference("StreamField")})

# --- types of operators ----------------------------------------------------------------------------------------------

_JOIN = {"left": _TEXT, "right": _TEXT, "on": _PAIRS, "how": _TEXT, "prefix": _TEXT}
_BY = {"by": _NAMES}
#: type -> (class, keys with their forms; all but `name`, which every operator has)
TYPES: Mapping[str, tuple[type[Any], Mapping[str, Form]]] = {
    "map": (Map, {"input": _TEXT, "fields": _FIELDS}),
    "filter": (Filter, {"input": _TEXT, "condition": _EXPRESSION}),
    "union": (Union, {"inputs": _NAMES}),
    "demux": (Demux, {"input": _TEXT, "cases": _FIELDS, "otherwise": _optional(_TEXT)}),
    "flat_map": (FlatMap, {"input": _TEXT, "fields": _FIELDS, "explode": _TEXT}),
    "apply": (Apply, {"input": _TEXT, "function": _TEXT, "columns": _NAMES, "schema": _SCHEMA}),
    "delay": (Delay, {"input": _TEXT, "by": _SPAN}),
    "lookup": (Lookup, {"input": _TEXT, "table": _TABLE, "on": _PAIRS, "how": _TEXT, "prefix": _TEXT}),
    "aggregate": (
        Aggregate,
        {"input": _TEXT, "window": _ANY_WINDOW, **_BY, "functions": _FUNCTIONS, "emit_partial": _FLAG},
    ),
    "join": (
        Join,
        {**_JOIN, "window": _TIME_WINDOW, "right_window": _TIME_WINDOW, "condition": _optional(_EXPRESSION), "broadcast": _TEXT},
    ),
    "interval_join": (IntervalJoin, {**_JOIN, "lower": _SPAN, "upper": _SPAN, "condition": _optional(_EXPRESSION)}),
    "as_of_join": (AsOfJoin, {**_JOIN, "tolerance": _optional(_SPAN)}),
    "sort": (Sort, {"input": _TEXT, "window": _optional(_TIME_WINDOW), **_BY, "order": _ORDER, "rank": _TEXT}),
    "top_n": (TopN, {"input": _TEXT, "window": _TIME_WINDOW, **_BY, "order": _ORDER, "n": _NUMBER, "rank": _TEXT}),
    "deduplicate": (Deduplicate, {"input": _TEXT, **_BY, "ttl": _optional(_SPAN)}),
    "stateful_map": (
        StatefulMap,
        {
            "input": _TEXT,
            **_BY,
            "ttl": _optional(_SPAN),
            "state": _LITERALS,
            "update": _FIELDS,
            "fields": _FIELDS,
            "function": _optional(_TEXT),
            "columns": _NAMES,
            "schema": _optional(_SCHEMA),
        },
    ),
}
_TYPE_OF = {cls: type_ for type_, (cls, _) in TYPES.items()}
#: What may be left out although the class has no default for it.
_IMPLIED: Mapping[str, Callable[[dict[str, Any]], Any]] = {
    "by": lambda read: (),
    "right_window": lambda read: read["window"],
    "on": lambda read: (),
}


def needed_keys(type_: str) -> list[str]:
    """The keys that a document of an operator of `type_` must have, beside name and type."""
    cls = TYPES[type_][0]
    return [field.name for field in dataclass_fields(cls) if field.default is MISSING and field.name not in {"name", *_IMPLIED}]


def to_json(operator: Operator) -> dict[str, Any]:
    """Keys that have their default are left out."""
    type_ = _TYPE_OF[type(operator)]
    defaults = {field.name: field.default for field in dataclass_fields(operator)}
    forms = TYPES[type_][1]
    values = {key: getattr(operator, key) for key in forms}
    written = {key: forms[key].write(value) for key, value in values.items() if not _is_default(value, defaults[key])}
    return {"name": operator.name, "type": type_, **written}


def _is_default(value: Any, default: Any) -> bool:
    return value is default or (not isinstance(value, Expr) and default is not MISSING and bool(value == default))


def from_json(document: Any, pointer: str = "") -> Operator:
    """Raises QueryError with a pointer to what is wrong."""
    expressions.check_nested(document, pointer)
    kind = kind_in(document, "type", TYPES)
    if kind is None or not isinstance(document.get("name"), str):
        raise QueryError(f'expected an operator {{"name": ..., "type": one of {", ".join(TYPES)}, ...}}, got {shown(document)}', pointer)
    cls, forms = kind
    _check_keys(document, forms, pointer)
    read: dict[str, Any] = {}
    for key, form in forms.items():
        if key in document:
            read[key] = _read(form, document, key, pointer)
        elif key in _IMPLIED:
            read[key] = _IMPLIED[key](read)
    try:
        made: Operator = cls(name=document["name"], **read)
    except QueryError as error:
        raise error.under(pointer) from None
    return made


def _check_keys(document: Mapping[str, Any], forms: Mapping[str, Form], pointer: str) -> None:
    for key in document.keys() - forms.keys() - {"name", "type"}:
        keys = ", ".join(sorted(forms))
        raise QueryError(
            f"unknown key {key!r}{meant(key, forms)}; an operator of type {document['type']!r} has {keys}", f"{pointer}/{escaped(key)}"
        )
    for key in needed_keys(document["type"]):
        if key not in document:
            raise QueryError(f"operator {document['name']!r} ({document['type']}) lacks {key!r}", pointer)


def _read(form: Form, document: Mapping[str, Any], key: str, pointer: str) -> Any:
    try:
        return form.read(document[key])
    except QueryError as error:
        raise QueryError(f"operator {document['name']!r}, {key}: {error.message}", f"{pointer}/{key}{error.pointer}") from None
