"""How values of the keys of a document are written and read, and their JSON Schema: what descriptions make their documents of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cep.errors import QueryError, escaped
from cep.model import expr as expressions
from cep.model import functions, tables, windows
from cep.model.duration import format_duration, signed_duration
from cep.model.expr import Literal
from cep.model.limits import shown
from cep.model.schema import Schema
from cep.model.windows import SizeWindow, TimeWindow, TrailingWindow, Window


@dataclass(frozen=True)
class Form:
    """How values of one key are written and read, and their JSON Schema (in which expressions, windows, functions, tables and fields
    of streams are references by these names). `read` raises QueryError with a pointer relative to the value.

    `implied`: what the key has where it is left out although the class has no default for it, from what was read before it.
    """

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]
    schema: Mapping[str, Any]
    implied: Callable[[Mapping[str, Any]], Any] | None = None


def schema_reference(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _checked(kind: type, what: str, schema: Mapping[str, Any]) -> Form:
    def read(value: Any) -> Any:
        if type(value) is not kind:
            raise QueryError(f"expected {what}, got {value!r}")
        return value

    return Form(lambda value: value, read, schema)


def _read_fraction(value: Any) -> float:
    if type(value) not in (int, float):
        raise QueryError(f"expected a number, got {value!r}")
    return float(value)


def optional(form: Form) -> Form:
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

    schema = {"type": "object", "minProperties": 1, "additionalProperties": schema_reference(kind)}
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


def _read_window(value: Any) -> Window:
    window = windows.from_json(value)
    if isinstance(window, TrailingWindow):
        raise QueryError("a trailing window is of an operator of type 'over', which answers every tuple", "/type")
    return window


def _read_trailing_window(value: Any) -> TrailingWindow:
    window = windows.from_json(value)
    if not isinstance(window, TrailingWindow):
        raise QueryError(f"expected a trailing window, got one of type {value['type']!r}", "/type")
    return window


def _read_time_window(value: Any) -> TimeWindow:
    window = windows.from_json(value)
    if not isinstance(window, TimeWindow):
        raise QueryError(f"expected a time window, got one of type {value['type']!r}", "/type")
    return window


def _read_bounded_window(value: Any) -> TimeWindow | SizeWindow:
    window = windows.from_json(value)
    if not isinstance(window, TimeWindow | SizeWindow):
        raise QueryError(f"expected a window of time or of a number of rows, got one of type {value['type']!r}", "/type")
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
    return signed_duration(value)


_STRING: Mapping[str, Any] = {"type": "string"}
_DURATION: Mapping[str, Any] = {"type": "string", "examples": ["30s", "500ms", "-1h"]}

TEXT = _checked(str, "a name", _STRING)
NUMBER = _checked(int, "a whole number", {"type": "integer"})
FRACTION = Form(float, _read_fraction, {"type": "number"})
FLAG = _checked(bool, "true or false", {"type": "boolean"})
NAMES = Form(list, _read_names, {"type": "array", "items": _STRING})
BY = replace(NAMES, implied=lambda read: ())
EXPRESSION = Form(expressions.to_json, expressions.from_json, schema_reference("Expression"))
FIELDS = _named(expressions.to_json, expressions.from_json, "Expression")
FUNCTIONS = _named(functions.to_json, functions.from_json, "Function")
LITERALS = _named(expressions.to_json, _read_literal, "Expression")
PAIRS = Form(
    lambda pairs: [left if left == right else [left, right] for left, right in pairs],
    _read_pairs,
    {"type": "array", "items": {"anyOf": [_STRING, {"type": "array", "items": _STRING, "minItems": 2, "maxItems": 2}]}},
    lambda read: (),
)
_COLUMN_ORDER = {"type": "object", "properties": {"column": _STRING, "descending": {"type": "boolean"}}, "required": ["column"]}
ORDER = Form(
    lambda order: [{"column": name, "descending": True} if down else name for name, down in order],
    _read_order,
    {"type": "array", "items": {"anyOf": [_STRING, _COLUMN_ORDER]}},
)
SPAN = Form(lambda us: f"-{format_duration(-us)}" if us < 0 else format_duration(us), _read_span, _DURATION)
WINDOW = Form(windows.to_json, _read_window, schema_reference("Window"))
TIME_WINDOW = Form(windows.to_json, _read_time_window, schema_reference("Window"))
BOUNDED_WINDOW = Form(windows.to_json, _read_bounded_window, schema_reference("Window"))
TRAILING_WINDOW = Form(windows.to_json, _read_trailing_window, schema_reference("Window"))
TABLE = Form(tables.to_json, tables.from_json, schema_reference("Table"))
SCHEMA = Form(Schema.to_json, Schema.from_json, {"type": "array", "items": schema_reference("StreamField")})
