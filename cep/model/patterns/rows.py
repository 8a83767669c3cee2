"""The rows of a pattern's match, as its conditions and measures speak of them: `row("a")["price"]`, `row("a").count()`, `prev("price")`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from cep.errors import QueryError
from cep.model.expr import PREV_MAX, Binary, Call, Cast, Expr, PrevRef, RowRef, Udf, Unary


@dataclass(frozen=True)
class Rows:
    """The rows that a variable has taken so far; in the variable's own condition the row at hand is the last of them."""

    variable: str

    def __getitem__(self, column: str) -> Expr:
        return RowRef(self.variable, "last", column)

    def first(self, column: str) -> Expr:
        """Of the first row."""
        return RowRef(self.variable, "first", column)

    def last(self, column: str, k: int = 0) -> Expr:
        """Of the k-th row before the last; NULL where there is none."""
        if not 0 <= k <= PREV_MAX:
            raise QueryError(f"row({self.variable!r}).last: k: expected a whole number from 0 to {PREV_MAX}, got {k!r}")
        return RowRef(self.variable, "last", column, k)

    def count(self) -> Expr:
        """How many rows."""
        return RowRef(self.variable, "count")

    def sum(self, column: str) -> Expr:
        """Exact, as of an aggregate; NULL of no values."""
        return RowRef(self.variable, "sum", column)

    def avg(self, column: str) -> Expr:
        """The exact sum by the number of values; NULL of none."""
        return RowRef(self.variable, "avg", column)

    def min(self, column: str) -> Expr:
        """The least value; NULL of none."""
        return RowRef(self.variable, "min", column)

    def max(self, column: str) -> Expr:
        """The greatest value; NULL of none."""
        return RowRef(self.variable, "max", column)


def row(variable: str) -> Rows:
    """The rows of `variable` in a match."""
    return Rows(variable)


def prev(column: str, k: int = 1) -> Expr:
    """`column` of the k-th row before in the sequence, whether the pattern took it or not; NULL before the first."""
    if not 1 <= k <= PREV_MAX:
        raise QueryError(f"prev({column!r}): k: expected a whole number from 1 to {PREV_MAX}, got {k!r}")
    return PrevRef(column, k)


def parts(expr: Expr) -> Iterator[Expr]:
    """It and all that it is made of."""
    yield expr
    match expr:
        case Binary(_, left, right):
            yield from parts(left)
            yield from parts(right)
        case Unary(_, arg) | Cast(arg, _, _):
            yield from parts(arg)
        case Call(_, args) | Udf(_, args, _, _):
            for arg in args:
                yield from parts(arg)


def rows_read(expr: Expr) -> tuple[RowRef, ...]:
    """What it reads of rows of the match."""
    return tuple(part for part in parts(expr) if isinstance(part, RowRef))


def prevs_read(expr: Expr) -> tuple[PrevRef, ...]:
    """What it reads of rows before."""
    return tuple(part for part in parts(expr) if isinstance(part, PrevRef))


def conjuncts(expr: Expr) -> tuple[Expr, ...]:
    """What it is the `and` of."""
    if isinstance(expr, Binary) and expr.op == "and":
        return (*conjuncts(expr.left), *conjuncts(expr.right))
    return (expr,)


def replaced(expr: Expr, by: Callable[[Expr], Expr | None]) -> Expr:
    """With what `by` gives for a part in place of it."""
    if (given := by(expr)) is not None:
        return given
    match expr:
        case Binary(_, left, right):
            return replace(expr, left=replaced(left, by), right=replaced(right, by))
        case Unary(_, arg) | Cast(arg, _, _):
            return replace(expr, arg=replaced(arg, by))
        case Call(_, args) | Udf(_, args, _, _):
            return replace(expr, args=tuple(replaced(arg, by) for arg in args))
    return expr
