"""An expression as a Column of Spark, equal to the bit where docs/arithmetic.md says what it computes, but for `INEXACT`.

A row that *fails* (docs/arithmetic.md) must not end the query: `failing` says where that is, and the caller of `column` leaves these
rows out. Nothing that is made here raises in Spark, whether its ANSI mode is on or off, and wherever its optimiser moves it; so every
part may be computed in every row, also behind a condition that is not true. The rules:

- A part that may fail is NULL where it does. It fails where it is NULL and none of its arguments is.
- Timestamps are int64 µs within an expression: only columns that are read and what comes out at the end have Spark's type. The
  session's time zone does not matter.
- Names are those of the schema, to the letter: the session sets `spark.sql.caseSensitive`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import Column, functions
from pyspark.sql.functions import coalesce, lit

from cep.model import expr as model
from cep.model import types as planned
from cep.model.expr import ARITHMETIC, COMPARISON, Binary, Call, Cast, Expr, Literal, Unary
from cep.model.function_types import SIGNATURES
from cep.model.schema import FLOAT64, INT64, DataType, Schema
from cep.model.types import Typed, literal_value, promoted, typed
from driver.spark.expressions import casts, numbers, patterns, times
from driver.spark.expressions.lists import LISTS
from driver.spark.expressions.texts import TEXTS
from driver.spark.refusals import NO_EQUAL, Refused
from driver.spark.types import spark_type

_USERS = "a user's function"
#: What is refused -> why; a part of the table in docs/spark.md.
REFUSED_EXPRESSIONS: dict[str, str] = {
    "hash": "Spark has no integers that wrap around, of which the project's hash is made",
    "json_get": "Spark's readers of JSON take other texts than ours, such as single quotes, and write what they find anew",
    "parse_time": "Spark's readers of instants take other texts than ours, such as a month of one digit",
    _USERS: "Spark would call it row by row in Python processes of its own, where a row that fails ends the query",
    **casts.REFUSED_CASTS,
    **patterns.REFUSED_PATTERNS,
}
#: Functions whose last bits are Java's and not the C library's: at most 2 units in the last place apart, `log2` 4.
INEXACT = frozenset(("exp", "ln", "log10", "log2", "sin", "cos", "tan", "asin", "acos", "atan", "pow", "atan2"))


def column(expr: Expr, schema: Schema) -> Column:
    """The value of `expr` over a row with the columns of `schema`, by their names; of any value where the row fails.

    Raises:
        Refused: Spark has no equal of a part of it; `what` is a key of REFUSED_EXPRESSIONS, or a function that is in no table.
        QueryError: `expr` does not fit `schema`.
    """
    tree = typed(expr, schema.by_name)
    if isinstance(expr, model.ColumnRef):
        return functions.col(_quoted(expr.name))
    value = _computed(tree).value
    return functions.timestamp_micros(value) if tree.type.name == "timestamp" else value


def failing(expr: Expr, schema: Schema) -> Column | None:
    """Where the row fails: a bool that is never NULL; None if it cannot fail. Raises Refused as `column` does."""
    return _computed(typed(expr, schema.by_name)).fails


@dataclass(frozen=True, slots=True)
class _Computed:
    """`fails` is never NULL, and None where the part cannot fail."""

    value: Column
    fails: Column | None = None


def _computed(tree: Typed) -> _Computed:
    match tree.expr:
        case model.ColumnRef(name):
            return _Computed(times.as_micros(functions.col(_quoted(name)), tree.type))
        case Literal() as literal:
            return _Computed(_constant(literal))
        case Binary("and" | "or" as op):
            return _logic(op == "or", *map(_computed, tree.args))
        case Call("coalesce"):
            return _first_present([_converted(arg, tree) for arg in tree.args])
        case Call("when"):
            return _chosen(tree)
        case Call("try"):
            return _tried(_computed(tree.args[0]))
    return _strict(tree)


def _quoted(name: str) -> str:
    """A name with a dot or a backtick in it is one name."""
    return "`" + name.replace("`", "``") + "`"


def _constant(literal: Literal) -> Column:
    value = literal.value if literal.type.name == "string" else literal_value(literal)
    return lit(value).cast("long" if literal.type.name == "timestamp" else spark_type(literal.type))


# --- what is computed only where it is needed --------------------------------------------------------------------------


def _logic(decisive: bool, left: _Computed, right: _Computed) -> _Computed:
    """A left side that is `decisive`, true for `or`, is the answer."""
    value = left.value | right.value if decisive else left.value & right.value
    undecided = coalesce(left.value, lit(not decisive)) != lit(decisive)
    return _Computed(value, _either(left.fails, _where(undecided, right.fails)))


def _first_present(parts: Sequence[_Computed]) -> _Computed:
    fails = None
    for part in reversed(parts):
        fails = _either(part.fails, _where(part.value.isNull(), fails))
    return _Computed(coalesce(*(part.value for part in parts)), fails)


def _chosen(tree: Typed) -> _Computed:
    paired = len(tree.args) // 2 * 2
    branches = [(_computed(tree.args[i]), _converted(tree.args[i + 1], tree)) for i in range(0, paired, 2)]
    otherwise = _converted(tree.args[paired], tree) if paired < len(tree.args) else None
    value: Any = functions
    for condition, chosen in branches:
        value = value.when(condition.value, chosen.value)
    fails = None if otherwise is None else otherwise.fails
    for condition, chosen in reversed(branches):
        there = _where(condition.value, chosen.fails)
        fails = _either(condition.fails, there, _where(~coalesce(condition.value, lit(False)), fails))
    return _Computed(value if otherwise is None else value.otherwise(otherwise.value), fails)


def _tried(part: _Computed) -> _Computed:
    return part if part.fails is None else _Computed(functions.when(~part.fails, part.value))


def _either(*conditions: Column | None) -> Column | None:
    given = [condition for condition in conditions if condition is not None]
    return reduce(lambda a, b: a | b, given) if given else None


def _where(condition: Column, fails: Column | None) -> Column | None:
    """`fails` where `condition`, which may be NULL, is true."""
    return None if fails is None else coalesce(condition, lit(False)) & fails


def _converted(part: Typed, to: Typed) -> _Computed:
    """`part` as the type of `to`, to which it is promoted."""
    computed = _computed(part)
    return _Computed(numbers.converted(computed.value, part.type, to.type), computed.fails)


# --- what needs all its parts ------------------------------------------------------------------------------------------


def _strict(tree: Typed) -> _Computed:
    """Literals that a function's signature asks for are handed to it as Python's values."""
    literals = _literal_places(tree)
    parts = [None if i in literals else _computed(arg) for i, arg in enumerate(tree.args)]
    given = [_literal(arg) if part is None else part.value for arg, part in zip(tree.args, parts, strict=True)]
    value, fails = _value(tree, given), _either(*(part.fails for part in parts if part is not None))
    if not _may_fail(tree):
        return _Computed(value, fails)
    present = [part.value.isNotNull() for arg, part in zip(tree.args, parts, strict=True) if part is not None and arg.nullable]
    return _Computed(value, _either(fails, reduce(lambda a, b: a & b, present, value.isNull())))


def _literal_places(tree: Typed) -> frozenset[int]:
    if not isinstance(tree.expr, Call) or tree.expr.function not in SIGNATURES:
        return frozenset()
    return frozenset(place for place, _ in SIGNATURES[tree.expr.function].literals)


def _literal(tree: Typed) -> Any:
    assert isinstance(tree.expr, Literal)
    return tree.expr.value


def _may_fail(tree: Typed) -> bool:
    match tree.expr:
        case Binary("//" | "%", _, Literal(divisor, _)) if tree.type.is_integer:
            return divisor in (0, -1)
        case Binary(op) if op in ARITHMETIC:
            return tree.type.name != "float64"
        case Unary("-") | Call("abs"):
            return tree.type.is_integer
        case Cast(_, target, try_):
            return not try_ and planned.can_fail(tree.args[0].type, target)
    return isinstance(tree.expr, Call) and tree.expr.function == "truncate"


def _value(tree: Typed, args: Sequence[Any]) -> Column:
    """NULL where it fails."""
    match tree.expr:
        case Binary(op) if op in COMPARISON:
            common = promoted(tuple(arg.type for arg in tree.args))
            return numbers.COMPARISONS[op](*_promoted(tree, args, common or tree.type))
        case Binary(op):
            table = numbers.FLOAT_OPERATORS if tree.type == FLOAT64 else numbers.INTEGER_OPERATORS
            return table[op](*_promoted(tree, args, tree.type))
        case Unary(op):
            (arg,) = _promoted(tree, args, tree.type)
            return _UNARY[op](arg, tree.type)
        case Cast(_, target):
            return casts.cast(args[0], tree.args[0].type, target)
        case Call("now"):
            return functions.unix_micros(functions.current_timestamp())
        case Call("greatest" | "least" as name):
            return numbers.extreme(name, _promoted(tree, args, tree.type))
        case Call(name):
            return _called(name, tree, args)
    raise Refused(_USERS, REFUSED_EXPRESSIONS[_USERS])


_UNARY: dict[str, Callable[[Column, DataType], Column]] = {
    "-": numbers.negative,
    "not": lambda value, _: ~value,
    "is_null": lambda value, _: value.isNull(),
}


def _called(name: str, tree: Typed, args: Sequence[Any]) -> Column:
    floats = tree.type == FLOAT64 or name == "is_nan"
    table, to = (numbers.FLOAT_FUNCTIONS, FLOAT64) if floats else (numbers.INTEGER_FUNCTIONS, INT64)
    if name in table:
        return table[name](*_promoted(tree, args, to))
    for others in (TEXTS, LISTS, times.TIMES):
        if name in others:
            value = others[name](*args)
            return times.as_micros(value, tree.type) if name == "element" else value
    raise Refused(name, REFUSED_EXPRESSIONS.get(name, NO_EQUAL))


def _promoted(tree: Typed, args: Sequence[Any], to: DataType) -> list[Any]:
    """Columns of numbers as numbers of `to`, if that is a type of numbers; all others as they are."""
    given = zip(args, tree.args, strict=True)
    return [numbers.converted(arg, part.type, to) if isinstance(arg, Column) else arg for arg, part in given]
