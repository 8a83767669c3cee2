"""Operators ⇄ JSON, by the keys that their descriptions have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING
from dataclasses import fields as dataclass_fields
from typing import Any

from cep.errors import QueryError, escaped, meant
from cep.model import expr as expressions
from cep.model.checked import kind_in, kind_meant
from cep.model.contract.forms import Form
from cep.model.expr import Expr
from cep.model.limits import shown
from cep.model.operators import PLANNED, TYPES, Operator

_TYPE_OF = {kind: type_ for type_, kind in {**TYPES, **PLANNED}.items()}


def type_of(operator: Operator) -> str:
    """What documents call its kind."""
    return _TYPE_OF[type(operator)]


def needed_keys(kind: type[Operator]) -> list[str]:
    """The keys that a document of an operator of this kind must have, beside name and type."""
    defaults = _defaults(kind)
    return [key for key, form in kind.keys().items() if defaults[key] is MISSING and form.implied is None]


def _defaults(kind: type[Any]) -> dict[str, Any]:
    return {field.name: field.default for field in dataclass_fields(kind)}


def to_json(operator: Operator) -> dict[str, Any]:
    """Keys that have their default are left out."""
    defaults, forms = _defaults(type(operator)), operator.keys()
    values = {key: getattr(operator, key) for key in forms}
    written = {key: forms[key].write(value) for key, value in values.items() if not _is_default(value, defaults[key])}
    return {"name": operator.name, "type": type_of(operator), **written}


def _is_default(value: Any, default: Any) -> bool:
    return value is default or (not isinstance(value, Expr) and default is not MISSING and bool(value == default))


def from_json(document: Any, pointer: str = "", planned: bool = False) -> Operator:
    """`planned`: of a plan, which has kinds that no user writes. Raises QueryError with a pointer to what is wrong."""
    expressions.check_nested(document, pointer)
    kind: type[Any] | None = kind_in(document, "type", {**TYPES, **PLANNED} if planned else TYPES)
    if kind is None or not isinstance(document.get("name"), str):
        said = kind_meant(document, "type", TYPES)
        raise QueryError(
            f'{said}expected an operator {{"name": ..., "type": one of {", ".join(TYPES)}, ...}}, got {shown(document)}', pointer
        )
    _check_keys(document, kind, pointer)
    read: dict[str, Any] = {}
    for key, form in kind.keys().items():
        if key in document:
            read[key] = _read(form, document, key, pointer)
        elif form.implied is not None:
            read[key] = form.implied(read)
    try:
        made: Operator = kind(name=document["name"], **read)
    except QueryError as error:
        raise error.under(pointer) from None
    return made


def _check_keys(document: Mapping[str, Any], kind: type[Operator], pointer: str) -> None:
    forms = kind.keys()
    for key in document.keys() - forms.keys() - {"name", "type"}:
        keys = ", ".join(sorted(forms))
        raise QueryError(
            f"unknown key {key!r}{meant(key, forms)}; an operator of type {document['type']!r} has {keys}", f"{pointer}/{escaped(key)}"
        )
    for key in needed_keys(kind):
        if key not in document:
            raise QueryError(f"operator {document['name']!r} ({document['type']}) lacks {key!r}", pointer)


def _read(form: Form, document: Mapping[str, Any], key: str, pointer: str) -> Any:
    try:
        return form.read(document[key])
    except QueryError as error:
        raise QueryError(f"operator {document['name']!r}, {key}: {error.message}", f"{pointer}/{key}{error.pointer}") from None
