"""What users hand to the query builder, as the values that descriptions are made of. Errors say what was expected instead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from cep.errors import QueryError
from cep.model.duration import parse_duration
from cep.model.expr import ColumnRef, Expr, Literal, as_expr
from cep.model.limits import shown
from cep.model.operators import Pairs
from cep.model.streams import Stream

#: Columns by name, or as `col` gives them.
Names = str | ColumnRef | Iterable[str | ColumnRef]

#: Columns that are equal: "k", ["k", ("a", "b")] or {"a": "b"}, the left one first.
On = str | Iterable[str | tuple[str, str]] | Mapping[str, str]


def computed_fields(*fields: Mapping[str, object] | None) -> tuple[tuple[str, Expr], ...]:
    """Expressions or constants by name; what comes later replaces what has its name."""
    given = {key: value for each in fields for key, value in (each or {}).items()}
    return tuple((key, expression(f"field {key!r}", value)) for key, value in given.items())


def by_name(what: str, given: Mapping[str, object]) -> Mapping[str, object]:
    if not isinstance(given, Mapping):
        raise QueryError(f'{what}: expected values by name, such as {{"a": 0}}, got {shown(given)}', f"/{what}")
    return given


def expression(what: str, value: object) -> Expr:
    with naming(what):
        return as_expr(value)


def column_names(names: Names, what: str = "by") -> tuple[str, ...]:
    listed = (names,) if isinstance(names, str | ColumnRef) else tuple(names) if isinstance(names, Iterable) else (names,)
    found = tuple(each.name if isinstance(each, ColumnRef) else each for each in listed)
    for each in found:
        if not isinstance(each, str):
            raise QueryError(f"{what}: expected names of columns such as 'a' or ['a', 'b'], got {shown(each)}", f"/{what}")
    return found


def directions(columns: Names) -> tuple[tuple[str, bool], ...]:
    """(column, descending)."""
    return tuple((column.removeprefix("-"), column.startswith("-")) for column in column_names(columns, "order"))


def time_to_live(ttl: str | timedelta | None) -> int | None:
    return None if ttl is None else parse_duration(ttl, "ttl")


def constant(name: str, value: object) -> Literal:
    found = expression(f"state {name!r}", value)
    if not isinstance(found, Literal):
        raise QueryError(f"state {name!r}: expected a constant, got {shown(value)}", f"/state/{name}")
    return found


@contextmanager
def naming(what: str) -> Iterator[None]:
    """An error raised inside says of what it is."""
    try:
        yield
    except QueryError as error:
        if error.message.startswith(what):
            raise
        raise QueryError(f"{what}{', ' if error.message.startswith('field ') else ': '}{error.message}", error.pointer) from None


def stream_name(read: Stream | str) -> str:
    return read if isinstance(read, str) else declared(read, "right").name


def declared(given: object, what: str) -> Stream:
    if not isinstance(given, Stream):
        expected = "a stream, declared by stream(...) or files(...), or the name of one"
        raise QueryError(f"{what}: expected {expected}; got {shown(given)}", f"/{what}")
    return given


def equal_columns(on: On) -> Pairs:
    listed: Iterable[Any] = [on] if isinstance(on, str) else on.items() if isinstance(on, Mapping) else on
    try:
        return tuple(_pair(each) for each in listed)
    except (TypeError, ValueError):
        raise QueryError(f'on: expected "k", ["k", ("a", "b")] or {{"a": "b"}}, got {shown(on)}', "/on") from None


def _pair(given: Any) -> tuple[str, str]:
    """Raises TypeError or ValueError where it is none."""
    left, right = (given, given) if isinstance(given, str) else given
    if not isinstance(left, str) or not isinstance(right, str):
        raise TypeError(given)
    return left, right
