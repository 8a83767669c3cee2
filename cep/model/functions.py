"""Aggregate functions and their classes (DESIGN 4.6)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from cep.errors import QueryError
from cep.model.schema import FLOAT64, INT64, TIMESTAMP_US, DataType, Field


class Order(Enum):
    """What a function needs to know of the order of its rows."""

    COMMUTATIVE = "commutative"  # no origin
    MERGEABLE = "ordered but mergeable"  # its state carries (time, origin)
    SEQUENTIAL = "sequential"  # rows are held until the watermark


@dataclass(frozen=True, slots=True)
class Function:
    """One aggregate of one column. `column` is None for COUNT of rows and for the bounds of the window."""

    name: str
    column: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that it reads."""
        return () if self.column is None else (self.column,)

    @property
    def order(self) -> Order:
        return Order.MERGEABLE if self.name in ("first", "last") else Order.COMMUTATIVE


#: name -> must it have a column (None: may have one)
FUNCTIONS: dict[str, bool | None] = {
    "count": None,
    "sum": True,
    "avg": True,
    "min": True,
    "max": True,
    "first": True,
    "last": True,
    "window_start": False,
    "window_end": False,
}


def count(column: str | None = None) -> Function:
    """COUNT of rows, or of the rows in which `column` is not NULL. int64."""
    return Function("count", column)


def sum_(column: str) -> Function:
    """SUM of the non-NULL values: int64 of integers, float64 of float64 (exact, rounded once); NULL where there is none."""
    return Function("sum", column)


def avg(column: str) -> Function:
    """float64(sum) / float64(count) of the non-NULL values; NULL where there is none."""
    return Function("avg", column)


def min_(column: str) -> Function:
    """Least non-NULL value (NaN is greatest); NULL where there is none."""
    return Function("min", column)


def max_(column: str) -> Function:
    """Greatest non-NULL value (NaN is greatest); NULL where there is none."""
    return Function("max", column)


def first(column: str) -> Function:
    """FIRST_VAL: the value, NULL or not, of the first row in stream order (event time, origin)."""
    return Function("first", column)


def last(column: str) -> Function:
    """LAST_VAL: the value, NULL or not, of the last row in stream order (event time, origin)."""
    return Function("last", column)


def window_start() -> Function:
    """First instant of the window, inclusive."""
    return Function("window_start")


def window_end() -> Function:
    """End of the window, exclusive."""
    return Function("window_end")


def result_field(name: str, function: Function, column: Field | None) -> Field:
    """The field that `function` yields. Raises QueryError where the column's type does not fit."""
    if function.name == "count":
        return Field(name, INT64)
    if function.name in ("window_start", "window_end"):
        return Field(name, TIMESTAMP_US)
    assert column is not None
    if function.name in ("min", "max") and column.type.is_list:
        raise QueryError(f"{function.name}({column.name}): lists are not comparable, got {column.type}")
    if function.name in ("sum", "avg"):
        if not column.type.is_number:
            raise QueryError(f"{function.name}({column.name}): expected a number, got {column.type}")
        result: DataType = FLOAT64 if function.name == "avg" or column.type == FLOAT64 else INT64
        # An integer sum may not fit int64: then it is NULL (DESIGN 5.7).
        return Field(name, result, column.nullable or result == INT64)
    return Field(name, column.type, column.nullable)


def to_json(function: Function) -> dict[str, object]:
    document: dict[str, object] = {"function": function.name}
    return document if function.column is None else document | {"column": function.column}


def from_json(document: object, pointer: str = "") -> Function:
    if not isinstance(document, dict) or document.get("function") not in FUNCTIONS:
        raise QueryError(f'expected {{"function": one of {", ".join(FUNCTIONS)}, "column": ...}}, got {document!r}', pointer)
    name, column = document["function"], document.get("column")
    wanted = FUNCTIONS[name]
    if column is not None and not isinstance(column, str):
        raise QueryError(f"expected the name of a column, got {column!r}", f"{pointer}/column")
    if wanted is not None and wanted != (column is not None):
        raise QueryError(f"{name} takes {'one column' if wanted else 'no column'}, got {column!r}", pointer)
    return Function(name, column)
