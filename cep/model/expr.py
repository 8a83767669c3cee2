"""Expressions: values, never code (rule 5.3). They are typed by `cep.plan.validate` and compiled by `cep.compile`.

Python operators build them: `col("a") + 1 > col("b")`; `&`, `|`, `~` are and, or, not in SQL's three-valued logic. What every
function computes is in docs/arithmetic.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cep.errors import QueryError, meant
from cep.model.limits import NESTED_MAX, shown
from cep.model.references import split_reference
from cep.model.schema import BOOL, FLOAT64, INT64, STRING, DataType, parse_type

ARITHMETIC = ("+", "-", "*", "/", "//", "%")
COMPARISON = ("=", "!=", "<", "<=", ">", ">=")
BOOLEAN = ("and", "or")
UNARY = ("-", "not", "is_null")
_BINARY = ARITHMETIC + COMPARISON + BOOLEAN
_OPERATORS = tuple(dict.fromkeys((*_BINARY, *UNARY)))
_AROUND = 4  # levels of an operator's document around its expressions, and the last one of theirs
#: name -> (fewest arguments, most; None: any number). Clock functions read the clock of the instance, per batch.
FUNCTIONS: dict[str, tuple[int, int | None]] = {
    "now": (0, 0),
    **dict.fromkeys(("coalesce", "greatest", "least", "concat", "hash"), (1, None)),
    "when": (2, None),
    **dict.fromkeys(("try", "abs", "sign", "floor", "ceil", "trunc", "sqrt", "exp", "ln", "log10", "log2", "is_nan"), (1, 1)),
    **dict.fromkeys(("sin", "cos", "tan", "asin", "acos", "atan"), (1, 1)),
    **dict.fromkeys(("nullif", "pow", "atan2"), (2, 2)),
    "round": (1, 2),
    **dict.fromkeys(("length", "byte_length", "lower", "upper", "trim", "ltrim", "rtrim", "reverse"), (1, 1)),
    **dict.fromkeys(("contains", "starts_with", "ends_with", "matches", "split", "split_regex", "index_of", "json_get"), (2, 2)),
    **dict.fromkeys(("substring", "extract", "pad_left", "pad_right"), (2, 3)),
    "replace": (3, 3),
    **dict.fromkeys(("truncate", "format_time", "parse_time"), (2, 2)),
    **dict.fromkeys(("year", "month", "day", "hour", "minute", "second", "millisecond", "weekday", "day_of_year"), (1, 1)),
    **dict.fromkeys(("epoch_s", "epoch_ms", "epoch_us"), (1, 1)),
    "list_length": (1, 1),
    **dict.fromkeys(("element", "join"), (2, 2)),
}


class Expr:
    """Base of all expressions; it only carries the operators and functions: a method of a line or two for each of the language."""

    __slots__ = ()
    __hash__ = object.__hash__

    if not TYPE_CHECKING:  # type checkers see themselves what there is not

        def __getattr__(self, name):
            near = "" if name.startswith("_") else meant(name, (each for each in dir(Expr) if not each.startswith("_")))
            raise AttributeError(f"an expression has no method {name!r}{near}")

    def __add__(self, other: object) -> Expr:
        return Binary("+", self, as_expr(other))

    def __radd__(self, other: object) -> Expr:
        return Binary("+", as_expr(other), self)

    def __sub__(self, other: object) -> Expr:
        return Binary("-", self, as_expr(other))

    def __rsub__(self, other: object) -> Expr:
        return Binary("-", as_expr(other), self)

    def __mul__(self, other: object) -> Expr:
        return Binary("*", self, as_expr(other))

    def __rmul__(self, other: object) -> Expr:
        return Binary("*", as_expr(other), self)

    def __truediv__(self, other: object) -> Expr:
        return Binary("/", self, as_expr(other))

    def __rtruediv__(self, other: object) -> Expr:
        return Binary("/", as_expr(other), self)

    def __floordiv__(self, other: object) -> Expr:
        return Binary("//", self, as_expr(other))

    def __rfloordiv__(self, other: object) -> Expr:
        return Binary("//", as_expr(other), self)

    def __mod__(self, other: object) -> Expr:
        return Binary("%", self, as_expr(other))

    def __rmod__(self, other: object) -> Expr:
        return Binary("%", as_expr(other), self)

    def __eq__(self, other: object) -> Expr:  # type: ignore[override]  # a condition is described, not answered
        return Binary("=", self, as_expr(other))

    def __ne__(self, other: object) -> Expr:  # type: ignore[override]  # as above
        return Binary("!=", self, as_expr(other))

    def __lt__(self, other: object) -> Expr:
        return Binary("<", self, as_expr(other))

    def __le__(self, other: object) -> Expr:
        return Binary("<=", self, as_expr(other))

    def __gt__(self, other: object) -> Expr:
        return Binary(">", self, as_expr(other))

    def __ge__(self, other: object) -> Expr:
        return Binary(">=", self, as_expr(other))

    def __and__(self, other: object) -> Expr:
        return Binary("and", self, as_expr(other))

    def __or__(self, other: object) -> Expr:
        return Binary("or", self, as_expr(other))

    def __invert__(self) -> Expr:
        return Unary("not", self)

    def __neg__(self) -> Expr:
        return Unary("-", self)

    def __bool__(self) -> bool:
        raise TypeError("an expression has no truth value of its own: use &, | and ~ instead of and, or and not")

    # --- NULL and choices ---

    def is_null(self) -> Expr:
        """True where it is NULL; never NULL itself."""
        return Unary("is_null", self)

    def is_not_null(self) -> Expr:
        """True where it is not NULL; never NULL itself."""
        return ~self.is_null()

    def is_nan(self) -> Expr:
        """True of the float64 NaN; NULL of NULL."""
        return self._call("is_nan")

    def fill_null(self, value: object) -> Expr:
        """`value` where it is NULL."""
        return coalesce(self, value)

    def nullif(self, value: object) -> Expr:
        """NULL where it equals `value`."""
        return self._call("nullif", value)

    def between(self, low: object, high: object) -> Expr:
        """`low` <= it <= `high`."""
        return (self >= low) & (self <= high)

    def is_in(self, values: Iterable[object]) -> Expr:
        """Equals one of `values`; of no values: false."""
        return _any([self == value for value in values])

    # --- numbers ---

    def abs(self) -> Expr:
        """The absolute value; the least integer has none, and its row is a dead letter."""
        return self._call("abs")

    def sign(self) -> Expr:
        """-1, 0 or 1; NaN of NaN."""
        return self._call("sign")

    def floor(self) -> Expr:
        """The greatest whole number that is not above it."""
        return self._call("floor")

    def ceil(self) -> Expr:
        """The least whole number that is not below it."""
        return self._call("ceil")

    def trunc(self) -> Expr:
        """Rounded toward zero."""
        return self._call("trunc")

    def round(self, digits: int = 0) -> Expr:
        """The nearest number of `digits` (0 to 15) decimals, halves to even."""
        return self._call("round", digits)

    def sqrt(self) -> Expr:
        """The square root, float64; NaN of a negative number."""
        return self._call("sqrt")

    def exp(self) -> Expr:
        """e to this power, float64."""
        return self._call("exp")

    def ln(self) -> Expr:
        """The natural logarithm, float64; NaN of a negative number, -inf of zero."""
        return self._call("ln")

    def log10(self) -> Expr:
        """The logarithm to base 10, float64."""
        return self._call("log10")

    def log2(self) -> Expr:
        """The logarithm to base 2, float64."""
        return self._call("log2")

    def pow(self, exponent: object) -> Expr:
        """It to the power `exponent`, float64."""
        return self._call("pow", exponent)

    def sin(self) -> Expr:
        """The sine; the angle is in radians, as for all of them."""
        return self._call("sin")

    def cos(self) -> Expr:
        """The cosine of radians."""
        return self._call("cos")

    def tan(self) -> Expr:
        """The tangent of radians."""
        return self._call("tan")

    def asin(self) -> Expr:
        """The angle in radians, -π/2 to π/2, whose sine it is; NaN beyond -1 to 1."""
        return self._call("asin")

    def acos(self) -> Expr:
        """The angle in radians, 0 to π, whose cosine it is; NaN beyond -1 to 1."""
        return self._call("acos")

    def atan(self) -> Expr:
        """The angle in radians, -π/2 to π/2, whose tangent it is."""
        return self._call("atan")

    # --- text ---

    def length(self) -> Expr:
        """Code points of a string."""
        return self._call("length")

    def byte_length(self) -> Expr:
        """Bytes of a string in UTF-8, or of a binary value."""
        return self._call("byte_length")

    def lower(self) -> Expr:
        """In lower case, by Unicode."""
        return self._call("lower")

    def upper(self) -> Expr:
        """In upper case, by Unicode."""
        return self._call("upper")

    def trim(self) -> Expr:
        """Without blanks, tabs and line ends at both ends."""
        return self._call("trim")

    def ltrim(self) -> Expr:
        """Without blanks, tabs and line ends at the beginning."""
        return self._call("ltrim")

    def rtrim(self) -> Expr:
        """Without blanks, tabs and line ends at the end."""
        return self._call("rtrim")

    def reverse(self) -> Expr:
        """The code points from the last to the first."""
        return self._call("reverse")

    def contains(self, part: object) -> Expr:
        """Does the text hold `part`?"""
        return self._call("contains", part)

    def starts_with(self, part: object) -> Expr:
        """Does the text begin with `part`?"""
        return self._call("starts_with", part)

    def ends_with(self, part: object) -> Expr:
        """Does the text end with `part`?"""
        return self._call("ends_with", part)

    def index_of(self, part: str) -> Expr:
        """How many code points are before the first `part` in it; -1: it holds none."""
        return self._call("index_of", part)

    def substring(self, start: int, length: int | None = None) -> Expr:
        """At most `length` code points from the one at `start` on, counted from 0."""
        return self._call("substring", start, *(() if length is None else (length,)))

    def pad_left(self, width: int, fill: str = " ") -> Expr:
        """At least `width` code points, filled up with the one in `fill`."""
        return self._call("pad_left", width, fill)

    def pad_right(self, width: int, fill: str = " ") -> Expr:
        """At least `width` code points, filled up behind with the one in `fill`."""
        return self._call("pad_right", width, fill)

    def replace(self, old: str, new: str) -> Expr:
        """`new` in place of every `old`."""
        return self._call("replace", old, new)

    def matches(self, regex: str) -> Expr:
        """Is the regular expression (RE2's syntax) found anywhere in it?"""
        return self._call("matches", regex)

    def extract(self, regex: str, group: int = 1) -> Expr:
        """What `group` is (0: all of it) where the regular expression is found first; NULL where it is not."""
        return self._call("extract", regex, group)

    def json_get(self, path: str, type: DataType | str | None = None) -> Expr:
        """What stands in a JSON text at `path`, such as "$.orders[0].price": a string's text; a number, a bool, an object or an array as it
        is written. NULL where nothing is there, or null, and of what is no JSON. With a `type`: that as one, NULL where it is none."""
        found = self._call("json_get", path)
        return found if type is None else found.try_cast(type)

    def split(self, separator: str) -> Expr:
        """The parts between the separators, a list."""
        return self._call("split", separator)

    def split_regex(self, regex: str) -> Expr:
        """The parts between what the regular expression (RE2's syntax) finds, a list."""
        return self._call("split_regex", regex)

    # --- time ---

    def truncate(self, duration: str) -> Expr:
        """The last whole multiple of `duration` ("1h") since 1970 that is not behind it."""
        return self._call("truncate", duration)

    def year(self) -> Expr:
        """The year of the timestamp in UTC."""
        return self._call("year")

    def month(self) -> Expr:
        """The month in UTC, 1 to 12."""
        return self._call("month")

    def day(self) -> Expr:
        """The day of the month."""
        return self._call("day")

    def hour(self) -> Expr:
        """The hour of the day in UTC, 0 to 23."""
        return self._call("hour")

    def minute(self) -> Expr:
        """The minute of the hour, 0 to 59."""
        return self._call("minute")

    def second(self) -> Expr:
        """The whole second of the minute, 0 to 59."""
        return self._call("second")

    def millisecond(self) -> Expr:
        """The whole millisecond of the second, 0 to 999."""
        return self._call("millisecond")

    def weekday(self) -> Expr:
        """1 (Monday) to 7."""
        return self._call("weekday")

    def day_of_year(self) -> Expr:
        """The day of the year in UTC, 1 to 366."""
        return self._call("day_of_year")

    def epoch_s(self) -> Expr:
        """Whole seconds since 1970, rounded down."""
        return self._call("epoch_s")

    def epoch_ms(self) -> Expr:
        """Whole milliseconds since 1970, rounded down."""
        return self._call("epoch_ms")

    def epoch_us(self) -> Expr:
        """Microseconds since 1970."""
        return self._call("epoch_us")

    # --- lists ---

    def list_length(self) -> Expr:
        """How many elements the list has."""
        return self._call("list_length")

    def element(self, index: object) -> Expr:
        """Element `index` of a list, from 0; NULL where there is none."""
        return self._call("element", index)

    def join(self, separator: str) -> Expr:
        """The strings of a list one after the other; NULL if one of them is."""
        return self._call("join", separator)

    def _call(self, function: str, *args: object) -> Expr:
        return Call(function, (self, *map(as_expr, args)))

    # --- casts ---

    def cast(self, to: object) -> Expr:
        """Raises per row (the row goes to the dead letters) where the value does not fit; see `try_cast`."""
        return Cast(self, parse_type(to)[0], False)

    def try_cast(self, to: object) -> Expr:
        """NULL where the value does not fit."""
        return Cast(self, parse_type(to)[0], True)


# eq=False: == builds an expression. Two expressions are the same when `to_json` is.
@dataclass(frozen=True, slots=True, eq=False)
class ColumnRef(Expr):
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Literal(Expr):
    """A constant. `value` None is NULL of `type`."""

    value: Any
    type: DataType


@dataclass(frozen=True, slots=True, eq=False)
class Binary(Expr):
    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Unary(Expr):
    op: str
    arg: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Cast(Expr):
    arg: Expr
    type: DataType
    try_: bool


@dataclass(frozen=True, slots=True, eq=False)
class Call(Expr):
    function: str
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Udf(Expr):
    """A user's function "module:name" of the values of `args` in each row; where one of them is NULL it is not called: NULL."""

    function: str
    args: tuple[Expr, ...]
    type: DataType
    nullable: bool


@dataclass(frozen=True, slots=True, eq=False)
class RowRef(Expr):
    """Of the rows that a variable of a pattern has: `function` (`ROW_FUNCTIONS`) of `column`; `last`: the `k`-th before the last."""

    variable: str
    function: str
    column: str | None = None
    k: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class PrevRef(Expr):
    """`column` of the `k`-th row before in a pattern's sequence."""

    column: str
    k: int


#: What may be asked of the rows of a variable.
ROW_FUNCTIONS = ("first", "last", "count", "sum", "avg", "min", "max")
PREV_MAX = 64


def col(name: str) -> Expr:
    """The column `name` of the operator's input."""
    return ColumnRef(name)


def lit(value: object, type: object = None) -> Expr:
    """A constant; `type` is needed only for NULL and to choose int32 or a timestamp's unit."""
    if type is not None:
        return Literal(value, parse_type(type)[0])
    by_python = {bool: BOOL, int: INT64, float: FLOAT64, str: STRING}
    if value.__class__ not in by_python:
        raise QueryError(f"literal {value!r}: expected bool, int, float or str, or a type beside it: lit(None, 'int64')")
    return Literal(value, by_python[value.__class__])


def now() -> Expr:
    """The clock of the instance when the batch is processed (µs UTC). Fields that read a clock are outside equality."""
    return Call("now", ())


def coalesce(*args: object) -> Expr:
    """The first of `args` that is not NULL."""
    return Call("coalesce", tuple(map(as_expr, args)))


def _any(conditions: list[Expr]) -> Expr:
    """As a balanced tree: thousands may be as deep as a dozen."""
    if len(conditions) < 2:
        return conditions[0] if conditions else Literal(False, BOOL)
    half = len(conditions) // 2
    return _any(conditions[:half]) | _any(conditions[half:])


def as_expr(value: object) -> Expr:
    """Expressions as they are; Python constants as literals."""
    return value if isinstance(value, Expr) else lit(value)


def columns_of(expr: Expr) -> frozenset[str]:
    """Names of the columns `expr` reads."""
    match expr:
        case ColumnRef(name):
            return frozenset((name,))
        case Binary(_, left, right):
            return columns_of(left) | columns_of(right)
        case Unary(_, arg) | Cast(arg, _, _):
            return columns_of(arg)
        case Call(_, args) | Udf(_, args, _, _):
            return frozenset().union(*map(columns_of, args))
        case RowRef(_, _, str(column), _) | PrevRef(column, _):
            return frozenset((column,))
    return frozenset()


def to_json(expr: Expr) -> dict[str, Any]:
    match expr:
        case ColumnRef(name):
            return {"column": name}
        case Literal(value, type_):
            return {"literal": _json_value(value), "type": str(type_)}
        case Binary(op, left, right):
            return {"op": op, "args": [to_json(left), to_json(right)]}
        case Unary(op, arg):
            return {"op": op, "args": [to_json(arg)]}
        case Cast(arg, type_, try_):
            return {"try_cast" if try_ else "cast": to_json(arg), "to": str(type_)}
        case Call(function, args):
            return {"call": function, "args": [to_json(arg) for arg in args]}
        case Udf(function, args, type_, nullable):
            return {"udf": function, "args": [to_json(arg) for arg in args], "returns": f"{type_}{'?' if nullable else ''}"}
        case RowRef() | PrevRef():
            return _of_pattern_json(expr)
    raise TypeError(f"not an expression: {expr!r}")


def _of_pattern_json(expr: RowRef | PrevRef) -> dict[str, Any]:
    """Keys that have their default are left out."""
    if isinstance(expr, PrevRef):
        return {"prev": expr.column, **({} if expr.k == 1 else {"k": expr.k})}
    function = {} if expr.function == "last" else {"function": expr.function}
    column = {} if expr.column is None else {"column": expr.column}
    return {"row": expr.variable, **function, **column, **({"k": expr.k} if expr.k else {})}


def _of_pattern(document: Mapping[str, Any], pointer: str) -> Expr:
    """`{"row": variable, "column": c}`, `{"row": …, "function": "count"}` or `{"prev": column, "k": 1}`."""
    match document:
        case {"prev": str(column), **rest} if rest.keys() <= {"k"}:
            return PrevRef(column, _whole(rest.get("k", 1), 1, PREV_MAX, f"{pointer}/k"))
        case {"row": str(variable), **rest} if rest.keys() <= {"function", "column", "k"}:
            return _row_of(variable, rest, pointer)
    expected = '{"row": variable, "function": ..., "column": ..., "k": ...} or {"prev": column, "k": ...}'
    raise QueryError(f"expected {expected}, got {shown(document)}", pointer)


def _row_of(variable: str, rest: Mapping[str, Any], pointer: str) -> RowRef:
    function, of = rest.get("function", "last"), rest.get("column")
    if function not in ROW_FUNCTIONS:
        near = meant(function, ROW_FUNCTIONS) if isinstance(function, str) else ""
        raise QueryError(f"of rows there is no {function!r}{near}; there are {', '.join(ROW_FUNCTIONS)}", f"{pointer}/function")
    if (of is None) != (function == "count") or not isinstance(of, str | None):
        raise QueryError(f"row {variable!r}: {function} takes {'no' if function == 'count' else 'a'} column", f"{pointer}/column")
    return RowRef(variable, function, of, _whole(rest.get("k", 0), 0, PREV_MAX if function == "last" else 0, f"{pointer}/k"))


def _whole(value: object, least: int, most: int, pointer: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise QueryError(f"k: expected a whole number from {least} to {most}, got {value!r}", pointer)
    return value


def too_nested(pointer: str = "") -> QueryError:
    """The error that says what to do."""
    return QueryError(f"more than {NESTED_MAX} operations inside each other: compute a part of it in a map before, as a field", pointer)


def check_nested(document: Any, pointer: str) -> None:
    """Raises QueryError where a document has more than NESTED_MAX operations inside each other; without recursion."""
    level, depth = [document], 0
    while level:
        depth += 1
        if depth > 2 * NESTED_MAX + _AROUND:
            raise too_nested(pointer)
        inside = [each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list)]
        level = [part for parts in inside for part in parts]


def from_json(document: Any, pointer: str = "") -> Expr:
    """Raises QueryError with a pointer to the part that is no expression."""
    if isinstance(document, (bool, int, float, str)):
        return lit(document)
    if not isinstance(document, dict):
        raise QueryError(f"expected an expression, got {document!r}", pointer)
    match document:
        case {"row": _} | {"prev": _}:
            return _of_pattern(document, pointer)
        case {"column": str(name)}:
            return ColumnRef(name)
        case {"literal": value, **rest}:
            return _literal_from_json(value, rest.get("type"), pointer)
        case {"op": str(op), "args": [arg]} if op in UNARY:
            return Unary(op, from_json(arg, f"{pointer}/args/0"))
        case {"op": str(op), **rest} if op not in _OPERATORS:
            raise QueryError(f"there is no operator {op!r}{meant(op, _OPERATORS)}; there are {', '.join(_OPERATORS)}", f"{pointer}/op")
        case {"op": str(op), "args": [left, right]} if op in _BINARY:
            return Binary(op, from_json(left, f"{pointer}/args/0"), from_json(right, f"{pointer}/args/1"))
        case {"cast": arg, "to": to} | {"try_cast": arg, "to": to}:
            key = "cast" if "cast" in document else "try_cast"
            return Cast(from_json(arg, f"{pointer}/{key}"), _type(to, f"{pointer}/to"), key == "try_cast")
        case {"call": str(function), "args": list(args)} if function in FUNCTIONS:
            fewest, most = FUNCTIONS[function]
            if not fewest <= len(args) <= (len(args) if most is None else most):
                expected = f"{fewest} or more" if most is None else fewest if fewest == most else f"{fewest} to {most}"
                raise QueryError(f"{function} takes {expected} arguments, got {len(args)}", f"{pointer}/args")
            return Call(function, tuple(from_json(arg, f"{pointer}/args/{i}") for i, arg in enumerate(args)))
        case {"udf": str(function), "args": list(args), "returns": str(returns)}:
            split_reference(function, f"{pointer}/udf")
            given = tuple(from_json(arg, f"{pointer}/args/{i}") for i, arg in enumerate(args))
            return Udf(function, given, _type(returns, f"{pointer}/returns"), returns.endswith("?"))
        case {"udf": _, **rest} if not rest.keys() >= {"args", "returns"}:
            raise QueryError(f"a call of a user's function lacks {'args' if 'args' not in rest else 'returns'!r}", pointer)
        case {"call": "cast" | "try_cast" as function}:
            raise QueryError(f'a cast is {{"{function}": an expression, "to": a type}}, got {shown(document)}', f"{pointer}/call")
        case {"call": str(function), **rest} if function not in FUNCTIONS:
            raise QueryError(
                f"there is no function {function!r}{meant(function, FUNCTIONS)}; there are {', '.join(FUNCTIONS)}", f"{pointer}/call"
            )
        case {"op": str(op)}:
            few = [str(count) for count, ops in ((1, UNARY), (2, _BINARY)) if op in ops]
            raise QueryError(f"operator {op!r} takes {' or '.join(few)} args, in a list; got {shown(document)}", pointer)
        case {"call": str(function)}:
            raise QueryError(f"function {function!r} lacks args, a list of expressions; got {shown(document)}", pointer)
    calls = '{"op", "args"}, {"call", "args"}, {"cast", "to"}, {"try_cast", "to"} or {"udf", "args", "returns"}'
    raise QueryError(f'no expression: expected {{"column": name}}, {{"literal": value}}, {calls}; got {shown(document)}', pointer)


def _type(text: object, pointer: str) -> DataType:
    try:
        return parse_type(text)[0]
    except QueryError as error:
        raise error.under(pointer) from None


def _json_value(value: Any) -> Any:
    """A literal's value where JSON has one, else a text that says it."""
    if isinstance(value, bytes):
        return value.hex()
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _value_of_json(value: Any, type_: DataType) -> Any:
    if type_ == FLOAT64 and value in ("nan", "inf", "-inf"):
        return float(value)
    return bytes.fromhex(value) if type_.name == "binary" and value is not None else value


def _literal_from_json(value: Any, type_: object, pointer: str) -> Expr:
    try:
        if type_ is None:
            return lit(value)
        parsed = parse_type(type_)[0]
        return Literal(_value_of_json(value, parsed), parsed)
    except (QueryError, ValueError, TypeError) as error:
        raise QueryError(str(error), f"{pointer}/literal") from None
