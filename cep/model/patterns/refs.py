"""What expressions read of a match, and of rows before, as columns: what they are called, and of what type they are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from cep.errors import QueryError, meant
from cep.model.expr import ColumnRef, Expr, PrevRef, RowRef
from cep.model.functions import Function, result_field
from cep.model.patterns.rows import prevs_read, replaced, rows_read
from cep.model.schema import INT64, Field, Schema
from cep.model.types import Typed, listing, text_of, typed


def of_input(column: str) -> str:
    """What the ways call a column of their input."""
    return f"of.{column}"


def column_of(name: str) -> str | None:
    """The column of the input that the ways call so; None: it is none of the input's."""
    return name.removeprefix("of.") if name.startswith("of.") else None


def of_match(ref: RowRef) -> str:
    """What they call what a measure reads."""
    return "match." + ".".join(map(str, (ref.variable, ref.function, ref.column, ref.k)))


def as_written(message: str, refs: Iterable[RowRef]) -> str:
    """What is said of columns that `of_match` names, as it is said of rows of a match."""
    for ref in sorted(refs, key=lambda each: -len(of_match(each))):  # one may begin as another one does
        message = message.replace(of_match(ref), text_of(ref))
    return message


def ref_field(ref: RowRef, schema: Schema) -> Field:
    """What is read of rows of a match, as a column. Raises QueryError: it cannot be."""
    if ref.function == "count":
        return Field(of_match(ref), INT64)
    column = ref.column or ""
    if column not in schema:
        raise QueryError(f"{text_of(ref)}: no column {column!r}{meant(column, schema.names)}; there {listing(schema.names)}")
    if ref.function in ("first", "last"):
        return Field(of_match(ref), schema[column].type, True)
    return replace(result_field(of_match(ref), Function(ref.function, column), schema[column], None), nullable=True)


def typed_over(expr: Expr, schema: Schema) -> Typed:
    """With columns in place of rows of the match and of rows before, over rows of `schema` and these. Raises QueryError as `typed` does."""
    more = {field.name: field for field in (ref_field(ref, schema) for ref in rows_read(expr))}
    for prev in prevs_read(expr):
        if prev.column not in schema:
            raise QueryError(f"{text_of(prev)}: no column {prev.column!r}{meant(prev.column, schema.names)}; there {listing(schema.names)}")
        more[of_prev(prev)] = Field(of_prev(prev), schema[prev.column].type, True)
    return typed(replaced(expr, as_column), {**schema.by_name, **more})


def of_prev(prev: PrevRef) -> str:
    """What a column of a row before is called."""
    return f"prev.{prev.k}.{prev.column}"


def as_column(expr: Expr) -> Expr | None:
    """The column in place of a row of the match, or of a row before."""
    match expr:
        case RowRef():
            return ColumnRef(of_match(expr))
        case PrevRef():
            return ColumnRef(of_prev(expr))
    return None
