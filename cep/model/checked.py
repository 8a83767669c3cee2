"""Is a description made of what it says it is made of? The one door for values that a program hands to the query builder.

Type checkers see most mistakes before a program runs; without one the same answer is given here, before anything looks into the value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields as dataclass_fields
from functools import cache
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from cep.errors import QueryError, meant
from cep.model.limits import shown

T = TypeVar("T")

#: Type -> what is said to be expected where something else was found.
_EXPECTED = {
    "NoneType": "None",
    "str": "a name",
    "int": "a whole number",
    "bool": "True or False",
    "float": "a number such as 0.1",
    "Expr": 'an expression such as col("a") + 1',
    "Literal": "a constant",
    "Function": 'a function such as count() or sum_("a")',
    "TimeWindow": 'TIME("30s")',
    "CumulateWindow": 'CUMULATE("10m", "1h")',
    "SizeWindow": "SIZE(100)",
    "SessionWindow": 'SESSION("5m")',
    "TransactionWindow": "TRANSACTION(open, close)",
    "UnboundedWindow": "UNBOUNDED(ttl=None)",
    "TrailingWindow": 'TRAILING("10m")',
    "Schema": 'a schema such as {"a": int}',
    "Stream": "a stream, declared by stream(...) or files(...)",
}


def kind_in(document: object, key: str, kinds: Mapping[str, T]) -> T | None:
    """What `document[key]` chooses among; None where it chooses nothing, whatever it is."""
    kind = document.get(key) if isinstance(document, dict) else None
    return kinds.get(kind) if isinstance(kind, str) else None


def kind_meant(document: object, key: str, kinds: Mapping[str, object]) -> str:
    """What a message begins with where `document[key]` is none of `kinds` and near to one; else nothing."""
    kind = document.get(key) if isinstance(document, dict) else None
    near = meant(kind, kinds) if isinstance(kind, str) and kind not in kinds else ""
    return f"unknown {key} {kind!r}{near}: " if near else ""


class Checked:
    """Base of descriptions that are checked when they are made. One with a `__post_init__` of its own calls `check_fields` first."""

    __slots__ = ()

    def __post_init__(self) -> None:
        check_fields(self)


def check_fields(description: Any) -> None:
    """Raises QueryError: a field holds what its type does not allow."""
    for name, hint in _hints(description.__class__).items():
        found = _fault(getattr(description, name), hint, "")
        if found is not None:
            where, expected, got = found
            part = f"{name}{where.replace('/', ', ', 1)}" if where else name
            raise QueryError(f"operator {description.name!r}: {part}: expected {expected}, got {shown(got)}", f"/{name}{where}")


@cache
def _hints(kind: type) -> dict[str, Any]:
    fields = {field.name for field in dataclass_fields(kind)}
    return {name: hint for name, hint in get_type_hints(kind).items() if name in fields}


def _fault(value: Any, hint: Any, where: str) -> tuple[str, str, object] | None:
    """The first part of `value` that is not what `hint` says: (where it stands in it, what was expected, what it is)."""
    if get_origin(hint) is tuple and isinstance(value, tuple):
        return _fault_inside(value, get_args(hint), where)
    allowed = get_args(hint) if get_origin(hint) in (UnionType, Union) else (hint,)
    if any(_holds(value, each) for each in allowed):
        return None
    return where, " or ".join(_expected(each) for each in allowed), value


def _fault_inside(value: tuple[Any, ...], hints: tuple[Any, ...], where: str) -> tuple[str, str, object] | None:
    if len(hints) == 2 and hints[1] is ...:
        found = (_fault(each, hints[0], f"{where}/{_step(i, each)}") for i, each in enumerate(value))
    else:
        found = (_fault(each, hint, where) for each, hint in zip(value, hints, strict=True))
    return next((each for each in found if each is not None), None)


def _step(index: int, entry: Any) -> object:
    """Entries (name, value) stand under their name, others under their number."""
    return entry[0] if isinstance(entry, tuple) and entry and isinstance(entry[0], str) else index


def _holds(value: Any, hint: Any) -> bool:
    if get_origin(hint) is tuple:
        return isinstance(value, tuple) and _fault_inside(value, get_args(hint), "") is None
    return isinstance(value, hint) and not (hint is int and isinstance(value, bool))


def _expected(hint: Any) -> str:
    return "names" if get_origin(hint) is tuple else _EXPECTED.get(hint.__name__, hint.__name__)
