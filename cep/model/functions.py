"""Aggregate functions and their classes (rule 4.6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, overload

from cep.errors import QueryError, escaped, meant
from cep.model.checked import kind_meant
from cep.model.expr import ColumnRef, Expr
from cep.model.limits import shown
from cep.model.references import split_reference
from cep.model.schema import FLOAT64, INT64, TIMESTAMP_US, DataType, Field, list_of, parse_type

#: Several columns that the builder is given: theirs are the names of the answers, or those that stand before them.
Columns = list[str] | tuple[str, ...] | Mapping[str, str | Expr]


class Order(Enum):
    """What a function needs to know of the order of its rows."""

    COMMUTATIVE = "commutative"  # no origin
    MERGEABLE = "ordered but mergeable"  # its state carries (time, origin)
    SEQUENTIAL = "sequential"  # rows are held until the watermark


@dataclass(frozen=True, slots=True)
class Parameter:
    """A number that a function takes besides its columns: a whole one, or any, between two bounds. `default` None: it must be given."""

    name: str
    whole: bool
    least: int
    most: int
    default: int | None = None


@dataclass(frozen=True, slots=True)
class Function:
    """One aggregate. `column` is None for COUNT of rows and for the bounds of the window; `by` is the column that ARG_MIN and
    ARG_MAX compare; `parameters` are numbers by name, all that the function has (`PARAMETERS`), in that order."""

    name: str
    column: str | None = None
    by: str | None = None
    parameters: tuple[tuple[str, int | float], ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that it reads."""
        return tuple(name for name in (self.column, self.by) if name is not None)

    @property
    def order(self) -> Order:
        if self.name in OF_OVER:
            return Order.SEQUENTIAL
        return Order.MERGEABLE if self.name in _MERGEABLE else Order.COMMUTATIVE

    def parameter(self, name: str) -> int | float:
        return dict(self.parameters)[name]

    def why_large(self, column: DataType | None) -> str:
        """Why a partial result is not small, so that it is not worth sending instead of rows; empty if it is small."""
        if self.name in ("count_distinct", "collect"):
            return f"a partial {self.name} of {self.column} holds its values"
        if column == FLOAT64 and self.name in _SUMS:
            return f"the exact {self.name} of {self.column} (float64) has no small partial"
        return ""


@dataclass(frozen=True, slots=True)
class UserFunction(Function):
    """A user's class of the name "module:Class", over the columns `arguments`; `nullable`: may its result be None?"""

    arguments: tuple[str, ...] = ()
    type: DataType = FLOAT64
    nullable: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        return self.arguments

    @property
    def order(self) -> Order:
        return Order.MERGEABLE  # its rows are collected, with their places

    def why_large(self, column: DataType | None) -> str:
        return f"a partial {self.name} holds its rows"


@dataclass(frozen=True, slots=True)
class Computed(Function):
    """A function of expressions, as the builder is given it; a Map before the aggregate computes them (`driver.builder.computed`).
    `expressions` has one for each column that it reads."""

    expressions: tuple[Expr, ...] = ()

    def over(self, columns: tuple[str, ...]) -> Function:
        """The same of columns."""
        return Function(self.name, columns[0], columns[1] if len(columns) > 1 else None, self.parameters)


def _of(name: str, *arguments: str | Expr, parameters: tuple[tuple[str, int | float], ...] = ()) -> Function:
    """A function of columns, or of expressions where one is no plain column."""
    if not any(isinstance(each, Expr) and not isinstance(each, ColumnRef) for each in arguments):
        names = [each.name if isinstance(each, ColumnRef) else each for each in arguments]
        return Function(name, names[0], names[1] if len(names) > 1 else None, parameters)  # type: ignore[arg-type]  # no Expr is left
    given = tuple(ColumnRef(each) if isinstance(each, str) else each for each in arguments)
    return Computed(name, "an expression", "an expression" if len(given) > 1 else None, parameters, given)


def _of_a_row(name: str, column: str | Expr | Columns, *by: str | Expr) -> Function | dict[str, Function]:
    """A function, or one for each of several columns."""
    if not isinstance(column, list | tuple | Mapping):
        return _of(name, column, *by)
    listed = column.items() if isinstance(column, Mapping) else [(each, each) for each in column]
    if not listed or not all(isinstance(answer, str) for answer, _ in listed):
        expected = 'columns such as ["a", "b"], or with names of their own, such as {"most": "price", "twice": col("n") * 2}'
        raise QueryError(f"{name}: expected {expected}; got {shown(column)}")
    if len({answer for answer, _ in listed}) < len(listed):
        raise QueryError(f"{name}: expected every column once, got {shown(column)}")
    return {answer: _of(name, each, *by) for answer, each in listed}


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
    "arg_min": True,
    "arg_max": True,
    "var": True,
    "stddev": True,
    "var_pop": True,
    "stddev_pop": True,
    "count_distinct": True,
    "approx_count_distinct": True,
    "quantile": True,
    "median": True,
    "collect": True,
    "lag": True,
    "row_number": False,
}

AT_MOST_MAX = 10_000
#: Rows of each group that are kept for it.
LAG_MAX = 64

PARAMETERS: dict[str, tuple[Parameter, ...]] = {
    "approx_count_distinct": (Parameter("precision", True, 4, 16, 12),),
    "quantile": (Parameter("q", False, 0, 1),),
    "collect": (Parameter("at_most", True, 1, AT_MOST_MAX),),
    "lag": (Parameter("k", True, 1, LAG_MAX, 1),),
}

#: Those that compare a column.
WITH_BY = ("arg_min", "arg_max")
#: Those of `over` alone, in the window or not.
OF_OVER = ("lag", "row_number")
#: Those that yield a value of one row. All of one name and `by` choose the same row.
OF_A_ROW = ("first", "last", *WITH_BY)
_MERGEABLE = (*OF_A_ROW, "collect")
_MOMENTS = ("var", "stddev", "var_pop", "stddev_pop")
_SUMS = ("sum", "avg", *_MOMENTS)
_NO_LISTS = ("min", "max", "count_distinct", "approx_count_distinct", "collect")
_NUMBERS = (*_SUMS, "quantile", "median")


def count(column: str | Expr | None = None) -> Function:
    """COUNT of rows, or of the rows in which `column` is not NULL. int64."""
    return Function("count") if column is None else _of("count", column)


def sum_(column: str | Expr) -> Function:
    """SUM of the non-NULL values: int64 of integers, float64 of float64 (exact, rounded once); NULL where there is none."""
    return _of("sum", column)


def avg(column: str | Expr) -> Function:
    """float64(sum) / float64(count) of the non-NULL values; NULL where there is none."""
    return _of("avg", column)


def min_(column: str | Expr) -> Function:
    """Least non-NULL value (NaN is greatest); NULL where there is none."""
    return _of("min", column)


def max_(column: str | Expr) -> Function:
    """Greatest non-NULL value (NaN is greatest); NULL where there is none."""
    return _of("max", column)


@overload
def first(column: str | Expr) -> Function: ...
@overload
def first(column: Columns) -> dict[str, Function]: ...
def first(column: str | Expr | Columns) -> Function | dict[str, Function]:
    """FIRST_VAL: the value, NULL or not, of the first row in stream order (event time, origin). Of several columns the functions by
    name, all of that one row, for `aggregate("w", window, **first(["a", "b"]))`, `first({"name": "a"})`."""
    return _of_a_row("first", column)


@overload
def last(column: str | Expr) -> Function: ...
@overload
def last(column: Columns) -> dict[str, Function]: ...
def last(column: str | Expr | Columns) -> Function | dict[str, Function]:
    """LAST_VAL: the value, NULL or not, of the last row in stream order (event time, origin); of several columns as `first`."""
    return _of_a_row("last", column)


@overload
def arg_min(column: str | Expr, by: str | Expr) -> Function: ...
@overload
def arg_min(column: Columns, by: str | Expr) -> dict[str, Function]: ...
def arg_min(column: str | Expr | Columns, by: str | Expr) -> Function | dict[str, Function]:
    """The value of `column`, NULL or not, in the row whose `by` is least, of several the first in stream order; rows where `by`
    is NULL do not count. NULL where there is none. Of several columns as `first`."""
    return _of_a_row("arg_min", column, by)


@overload
def arg_max(column: str | Expr, by: str | Expr) -> Function: ...
@overload
def arg_max(column: Columns, by: str | Expr) -> dict[str, Function]: ...
def arg_max(column: str | Expr | Columns, by: str | Expr) -> Function | dict[str, Function]:
    """The same where `by` is greatest (NaN is greatest)."""
    return _of_a_row("arg_max", column, by)


def var(column: str | Expr) -> Function:
    """Sample variance (n - 1) of the non-NULL values as float64: exact, rounded once. NULL of fewer than two; NaN if one is NaN or
    infinite."""
    return _of("var", column)


def stddev(column: str | Expr) -> Function:
    """The square root of `var`."""
    return _of("stddev", column)


def var_pop(column: str | Expr) -> Function:
    """Variance (n) of the non-NULL values as float64: exact, rounded once. NULL where there is none."""
    return _of("var_pop", column)


def stddev_pop(column: str | Expr) -> Function:
    """The square root of `var_pop`."""
    return _of("stddev_pop", column)


def count_distinct(column: str | Expr) -> Function:
    """How many different non-NULL values there are: exact, and remembers each. int64."""
    return _of("count_distinct", column)


def approx_count_distinct(column: str | Expr, precision: int = 12) -> Function:
    """About how many different non-NULL values there are: HyperLogLog of 2**precision registers, a standard error of
    1.04 / sqrt(2**precision). int64."""
    return _checked(_of("approx_count_distinct", column, parameters=(("precision", precision),)))


def quantile(column: str | Expr, q: float) -> Function:
    """About the value of rank ceil(q * n) of the n non-NULL values in order, 0 <= q <= 1: within 1/256 of it. float64."""
    return _checked(_of("quantile", column, parameters=(("q", q),)))


def median(column: str | Expr) -> Function:
    """`quantile` of a half."""
    return _of("median", column)


def collect(column: str | Expr, at_most: int) -> Function:
    """The values, NULL or not, of the first `at_most` rows in stream order, as a list."""
    return _checked(_of("collect", column, parameters=(("at_most", at_most),)))


def lag(column: str | Expr, k: int = 1) -> Function:
    """For `over`: the value, NULL or not, of the k-th row before in stream order, in the window or not; NULL where there is none."""
    return _checked(_of("lag", column, parameters=(("k", k),)))


def row_number() -> Function:
    """For `over`: the number of the row in its group in stream order, from 1; with a `ttl`, since the group began anew."""
    return Function("row_number")


def window_start() -> Function:
    """First instant of the window, inclusive."""
    return Function("window_start")


def window_end() -> Function:
    """End of the window, exclusive."""
    return Function("window_end")


def result_field(name: str, function: Function, column: Field | None, by: Field | None = None) -> Field:
    """The field that `function` yields of `column`, compared by `by`. Raises QueryError where a type does not fit; if it is that of `by`,
    its pointer says so."""
    if function.name in ("count", "row_number"):
        return Field(name, INT64)
    if function.name in ("window_start", "window_end"):
        return Field(name, TIMESTAMP_US)
    assert column is not None
    if function.name in _NUMBERS and not column.type.is_number:
        raise QueryError(f"{function.name}({column.name}): expected a number, got {column.type}")
    if function.name in _NO_LISTS and column.type.is_list:
        raise QueryError(f"{function.name}({column.name}): lists are not comparable, got {column.type}")
    if by is not None and by.type.is_list:
        raise QueryError(f"{function.name}: by {by.name}: lists are not comparable, got {by.type}", "/by")
    match function.name:
        case "sum" if column.type != FLOAT64:
            return Field(name, INT64, True)  # a sum that does not fit int64 is NULL (rule 5.7)
        case "sum" | "avg" | "quantile" | "median" | "var_pop" | "stddev_pop":
            return Field(name, FLOAT64, column.nullable)
        case "var" | "stddev":
            return Field(name, FLOAT64, True)
        case "count_distinct" | "approx_count_distinct":
            return Field(name, INT64)
        case "arg_min" | "arg_max":
            assert by is not None
            return Field(name, column.type, column.nullable or by.nullable)
        case "collect":
            return Field(name, list_of(column.type))
        case "lag":
            return Field(name, column.type, True)
    return Field(name, column.type, column.nullable)


def to_json(function: Function) -> dict[str, object]:
    if isinstance(function, Computed):
        raise QueryError(f"{function.name}: in a document a function takes columns; compute the expression in a map before it")
    if isinstance(function, UserFunction):
        returns = f"{function.type}{'?' if function.nullable else ''}"
        return {"function": function.name, "columns": list(function.arguments), "returns": returns}
    columns = {"column": function.column, "by": function.by}
    return {"function": function.name} | {key: name for key, name in columns.items() if name is not None} | dict(function.parameters)


def from_json(document: object, pointer: str = "") -> Function:
    if isinstance(document, dict) and ":" in str(document.get("function")):
        return _user_from_json(document, pointer)
    if not isinstance(document, dict) or not isinstance(document.get("function"), str) or document["function"] not in FUNCTIONS:
        said = kind_meant(document, "function", FUNCTIONS)
        raise QueryError(f'{said}expected {{"function": one of {", ".join(FUNCTIONS)}, "column": ...}}, got {shown(document)}', pointer)
    name, column, by = document["function"], document.get("column"), document.get("by")
    wanted = FUNCTIONS[name]
    for key, value in (("column", column), ("by", by)):
        if value is not None and not isinstance(value, str):
            raise QueryError(f"expected the name of a column, got {value!r}", f"{pointer}/{key}")
    if wanted is not None and wanted != (column is not None):
        raise QueryError(f"{name} takes {'one column' if wanted else 'no column'}, got {column!r}", pointer)
    if (name in WITH_BY) != (by is not None):
        raise QueryError(f"{name} takes {'a column in' if name in WITH_BY else 'no'} 'by', got {by!r}", pointer)
    known = {parameter.name: parameter for parameter in PARAMETERS.get(name, ())}
    for key in document.keys() - known.keys() - {"function", "column", "by"}:
        raise QueryError(
            f"unknown key {key!r}{meant(key, ('column', *known))}; {name} has {', '.join(('column', *known))}", f"{pointer}/{escaped(key)}"
        )
    given: Any = tuple((key, document.get(key, parameter.default)) for key, parameter in known.items())
    return _checked(Function(name, column, by, given), pointer)


def _user_from_json(document: dict[str, Any], pointer: str) -> UserFunction:
    match document:
        case {"function": str(name), "columns": [_, *_] as columns, "returns": str(returns), **rest} if not rest:
            split_reference(name, f"{pointer}/function")
            if all(isinstance(column, str) for column in columns):
                return UserFunction(name, arguments=tuple(columns), type=parse_type(returns)[0], nullable=returns.endswith("?"))
    form = '{"function": "module:Class", "columns": [name, ...], "returns": type}'
    raise QueryError(f"a user's aggregate function: expected {form}, got {document!r}", pointer)


def _checked(function: Function, pointer: str = "") -> Function:
    """`function` with its parameters in their bounds. Raises QueryError where one is not."""
    for parameter, (name, value) in zip(PARAMETERS[function.name] if function.parameters else (), function.parameters, strict=True):
        kinds = int if parameter.whole else int | float
        if isinstance(value, bool) or not isinstance(value, kinds) or not parameter.least <= value <= parameter.most:
            kind = "a whole number" if parameter.whole else "a number"
            message = f"{function.name}: {name}: expected {kind} between {parameter.least} and {parameter.most}, got {value!r}"
            raise QueryError(message, f"{pointer}/{name}")
    return function
