"""What stands between the parts of a statement: rows of an operator or stream, and the names that SQL has for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from cep.model import expr as expressions
from cep.model.expr import Binary, Call, Cast, ColumnRef, Expr, Literal, Udf, Unary
from cep.model.schema import INT64, Schema
from cep.model.windows import Window

START, END, TIME, RANK = "window_start", "window_end", "window_time", "rank"
BOUNDS = (START, END, TIME)
ROWTIME = "rowtime"


@dataclass(frozen=True)
class SqlColumn:
    """`expr` is over the schema of the operator; None: it has no one value in a row. `of`: the folded alias of what it came from. `kind`:
    one of BOUNDS or RANK; empty: it is any. `start`: where it is asked for, in the text at hand; negative: nowhere there."""

    name: str
    expr: Expr | None
    of: str = ""
    kind: str = ""
    start: int = -1


@dataclass(frozen=True)
class Rank:
    """A ROW_NUMBER that waits for its bound. `by` and `order` are columns of the operator; `windowed`: window bounds are in its
    partition. `counted`: it goes by event time, so that it is known at once; with a `ttl` as the state has it."""

    by: tuple[str, ...]
    order: tuple[tuple[str, bool], ...]
    windowed: bool
    node: exp.Expr
    counted: bool
    ttl: int | None


@dataclass(frozen=True)
class Relation:
    """Rows.

    Args:
        at: the operator or stream.
        time: what equals their event time; None: no column does.
        window: in which they lie; `grouped`: they are its answers, at its end, and not its rows.
        partition: what the window is of, by columns of the operator.
        running: later rows correct earlier ones; `keys`: names of the columns by which they do.
        rank: a ROW_NUMBER whose bound is not known yet.
        late: how much later than in its own event time a row may come out, µs, as one without a partner does of a LEFT JOIN; None: it comes
            out at the end of the stream.
        unique: names that the operator would need twice if it were read twice.
    """

    at: str
    schema: Schema
    columns: tuple[SqlColumn, ...]
    time: Expr | None = None
    window: Window | None = None
    grouped: bool = False
    partition: tuple[str, ...] | None = None
    running: bool = False
    keys: tuple[str, ...] = ()
    rank: Rank | None = None
    late: int | None = 0

    def named(self, alias: str) -> Relation:
        """The same under an alias."""
        return replace(self, columns=tuple(replace(each, of=alias.casefold(), start=-1) for each in self.columns))

    @property
    def is_plain(self) -> bool:
        """Are its columns those of the operator, as they are?"""
        names = [each.expr.name if isinstance(each.expr, ColumnRef) else None for each in self.columns]
        return names == list(self.schema.names) and [each.name for each in self.columns] == names


def same(one: Expr | None, other: Expr | None) -> bool:
    return one is not None and other is not None and expressions.to_json(one) == expressions.to_json(other)


def plain_columns(schema: Schema, alias: str = "") -> tuple[SqlColumn, ...]:
    return tuple(SqlColumn(name, ColumnRef(name), alias.casefold()) for name in schema.names)


def before(end: Expr) -> Expr:
    """The last instant of a window: the event time of its answers."""
    return Binary("-", end, Literal(1, INT64))


def end_time(columns: tuple[SqlColumn, ...]) -> Expr | None:
    """The event time of what comes out at the end of its window."""
    end = next((each.expr for each in columns if each.kind == END and each.expr is not None), None)
    return None if end is None else before(end)


def substituted(expr: Expr, replace_column: Callable[[str], Expr]) -> Expr:
    """`expr` over other columns."""
    match expr:
        case ColumnRef(name):
            return replace_column(name)
        case Binary(op, left, right):
            return Binary(op, substituted(left, replace_column), substituted(right, replace_column))
        case Unary(op, arg):
            return Unary(op, substituted(arg, replace_column))
        case Cast(arg, type_, try_):
            return Cast(substituted(arg, replace_column), type_, try_)
        case Call(function, args):
            return Call(function, tuple(substituted(arg, replace_column) for arg in args))
        case Udf(function, args, type_, nullable):
            return Udf(function, tuple(substituted(arg, replace_column) for arg in args), type_, nullable)
    return expr


def renamed(expr: Expr | None, names: Mapping[str, str]) -> Expr | None:
    return None if expr is None else substituted(expr, lambda name: ColumnRef(names.get(name, name)))


@dataclass(frozen=True)
class SqlSettings:
    """What SET says: `state_ttl`, µs, and options of the query."""

    state_ttl: int | None = None
    options: Mapping[str, object] = field(default_factory=dict)
