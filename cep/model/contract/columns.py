"""Columns that a description names, and columns that its expressions make: checked over the schemas of the inputs.

Errors name the operator and the field; their pointers are relative to the operator's document.
"""

from __future__ import annotations

from collections.abc import Iterable

from cep.errors import QueryError, escaped, meant
from cep.model.expr import Expr, columns_of
from cep.model.limits import KEY_FIELDS_MAX
from cep.model.schema import BOOL, Field, Schema
from cep.model.types import infer, listing, text_of


def check_key(operator: str, field: str, columns: int) -> None:
    """Raises QueryError: more columns than a key may have."""
    if columns > KEY_FIELDS_MAX:
        raise QueryError(f"operator {operator!r}, {field}: expected at most {KEY_FIELDS_MAX} columns of a key, got {columns}", f"/{field}")


def check_columns(operator: str, key: str, names: tuple[str, ...], schema: Schema) -> None:
    """Raises QueryError: what stands under `key` of the document are not columns of `schema`, or not for this."""
    if key == "by":
        check_key(operator, key, len(names))
    for i, name in enumerate(names):
        if name not in schema:
            there = f"{meant(name, schema.names)}; there {listing(schema.names)}"
            raise QueryError(f"operator {operator!r}, {key}: no column {name!r}{there}", f"/{key}/{i}")
        if name in names[:i]:
            raise QueryError(f"operator {operator!r}, {key}: {name!r} stands twice", f"/{key}/{i}")
        if key in ("by", "order") and schema[name].type.name == "list":
            raise QueryError(f"operator {operator!r}, {key}: {name!r} is a list, which has no equality or order here", f"/{key}/{i}")


def computed(operator: str, key: str, fields: Iterable[tuple[str, Expr]], schema: Schema) -> Schema:
    """The fields that expressions yield over columns of `schema`; `key` is where in the document they stand."""
    made = []
    for name, expr in fields:
        try:
            made.append(Field(name, *infer(expr, schema)))
        except QueryError as error:
            message = f"operator {operator!r}, field {name!r}: {error.message}"
            raise QueryError(message, f"/{key}/{escaped(name)}{error.pointer}") from None
    return schema_of(operator, tuple(made), f"/{key}")


def schema_of(operator: str, fields: tuple[Field, ...], pointer: str) -> Schema:
    """The schema of `fields`. Raises QueryError: it is none."""
    try:
        return Schema(fields)
    except QueryError as error:
        index = int(error.pointer.split("/")[1])
        message = f"operator {operator!r}: {error.message}"
        raise QueryError(message, f"{pointer}/{escaped(fields[index].name)}") from None


def checked_condition(operator: str, schema: Schema, key: str, condition: Expr | None) -> Schema:
    """`schema`, over which `condition` is a bool."""
    if condition is None:
        return schema
    try:
        type_, _ = infer(condition, schema)
    except QueryError as error:
        raise QueryError(f"operator {operator!r}, {key}: {error.message}", f"/{key}{error.pointer}") from None
    if type_ != BOOL:
        raise QueryError(f"operator {operator!r}, {key}: expected bool, got {type_} of {text_of(condition)}", f"/{key}")
    return schema


def read_by(expressions: Iterable[Expr]) -> set[str]:
    """The columns that any of them reads."""
    return set().union(*map(columns_of, expressions))
