"""Functions by their SQL names: of a row, and of a group. `TABLE` of each is what the page of docs lists."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cep.errors import QueryError
from cep.model import functions as aggregates
from cep.model.expr import Binary, Call, Cast, ColumnRef, Expr, Literal, lit
from cep.model.expr_functions import when
from cep.model.functions import Function
from cep.model.schema import INT64, STRING, DataType

Args = Sequence[Expr]


@dataclass(frozen=True)
class Scalar:
    """A function of a row: how many arguments, and what it is."""

    fewest: int
    most: int | None
    make: Callable[[Args], Expr]
    same_as: str  # in docs/arithmetic.md


def _call(name: str, fewest: int, most: int | None = None) -> Scalar:
    return Scalar(fewest, fewest if most is None else most, lambda args: Call(name, tuple(args)), name)


def _any(name: str) -> Scalar:
    return Scalar(1, None, lambda args: Call(name, tuple(args)), name)


def constant(arg: Expr, what: str, kind: type[int] | type[str]) -> int | str:
    """Raises QueryError: it is no constant of the kind."""
    value = arg.value if isinstance(arg, Literal) else None
    if isinstance(value, bool) or not isinstance(value, kind):
        raise QueryError(f"{what} is {'a whole number' if kind is int else 'a text'}, as a constant")
    return value


def _whole(arg: Expr, what: str) -> int:
    return int(constant(arg, what, int))


def _text(arg: Expr, what: str) -> str:
    return str(constant(arg, what, str))


def substring(args: Args) -> Expr:
    """SQL counts from 1; places before the first are there, and empty."""
    start = _whole(args[1], "the start of a substring")
    if len(args) == 2:
        return Call("substring", (args[0], lit(max(start - 1, 0))))
    length = _whole(args[2], "the length of a substring")
    if length < 0:
        raise QueryError("the length of a substring is at least 0")
    return Call("substring", (args[0], lit(max(start - 1, 0)), lit(max(0, length + min(start - 1, 0)))))


def _left(args: Args) -> Expr:
    length = _whole(args[1], "the length")
    if length < 0:
        raise QueryError(f"the length of LEFT is at least 0, got {length}")
    return Call("substring", (args[0], lit(0), lit(length)))


def _position(args: Args) -> Expr:
    """SQL counts from 1; 0 where it is not found."""
    return Binary("+", Call("index_of", (args[0], args[1])), lit(1))


def _padded(name: str) -> Scalar:
    return Scalar(2, 3, lambda args: Call(name, (*args, lit(" ")) if len(args) == 2 else tuple(args)), name)


def element(list_: Expr, place: Expr) -> Expr:
    """SQL counts from 1."""
    if isinstance(place, Literal):
        index = _whole(place, "the place of an element")
        if index < 1:
            raise QueryError(f"the place of an element counts from 1, got {index}")
        return Call("element", (list_, lit(index - 1)))
    return Call("element", (list_, Binary("-", place, lit(1))))


def _split_part(args: Args) -> Expr:
    """The n-th part from 1, and an empty text where there is none."""
    part = element(Call("split", (args[0], args[1])), args[2])
    return when(args[0].is_not_null(), Call("coalesce", (part, lit("")))).otherwise(Literal(None, STRING))


def _split_index(args: Args) -> Expr:
    """As Flink has it: from 0, NULL where there is none."""
    return Call("element", (Call("split", (args[0], args[1])), args[2]))


def _extract(args: Args) -> Expr:
    return Call("extract", (*args, lit(0)) if len(args) == 2 else tuple(args))


_TRUNCATED = {"microsecond": "1us", "millisecond": "1ms", "second": "1s", "minute": "1m", "hour": "1h", "day": "1d"}


def _date_trunc(args: Args) -> Expr:
    unit = _text(args[0], "the unit").lower()
    if unit not in _TRUNCATED:
        raise QueryError(f"DATE_TRUNC of {unit!r}: expected one of {', '.join(_TRUNCATED)}")
    return Call("truncate", (args[1], lit(_TRUNCATED[unit])))


_JAVA = {"yyyy": "%Y", "SSSSSS": "%f", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S", "DDD": "%j"}
#: A quote, a text in quotes, a run of one letter or of what Java keeps for itself, or what stands for itself.
_JAVA_PART = re.compile(r"''|'(?P<text>(?:[^']|'')+)'|(?P<run>([A-Za-z\[\]{}#])\3*)|[^']")


def _format(arg: Expr) -> Expr:
    """A format as Java's or as C's."""
    given = _text(arg, "the format")
    if "%" in given:
        return lit(given)
    made, at = "", 0
    while at < len(given):
        part = _JAVA_PART.match(given, at)
        if part is None:
            raise QueryError(f"format {given!r}: the quote at {at + 1} is not closed")
        if part["run"] and part["run"] not in _JAVA:
            known = f"{', '.join(_JAVA)}, and a text in quotes; or write it with %Y, %m, …"
            raise QueryError(f"format {given!r}: {part['run']!r} is none of {known}")
        made += _JAVA[part["run"]] if part["run"] else (part["text"] or part[0]).replace("''", "'")
        at = part.end()
    return lit(made)


def _ltz(args: Args) -> Expr:
    digits = _whole(args[1], "the precision") if len(args) > 1 else 3
    if digits not in (0, 3, 6):
        raise QueryError(f"TO_TIMESTAMP_LTZ(x, {digits}): expected 0 (seconds), 3 (milliseconds) or 6")
    return Cast(args[0], DataType("timestamp", {0: "s", 3: "ms", 6: "us"}[digits]), False)


def _to_timestamp(args: Args) -> Expr:
    if len(args) == 1:
        return Cast(Cast(args[0], DataType("timestamp"), False), DataType("timestamp", "us"), False)  # the inner one takes no integer
    return Call("parse_time", (args[0], _format(args[1])))


def _if(args: Args) -> Expr:
    return when(args[0], args[1]).otherwise(args[2])


_ONE = ("abs", "sign", "floor", "sqrt", "exp", "ln", "log10", "log2", "sin", "cos", "tan", "asin", "acos", "atan", "lower", "upper")
_ONE_MORE = ("trim", "ltrim", "rtrim", "reverse", "year", "month", "day", "hour", "minute", "second", "millisecond", "day_of_year")
_RENAMED = {
    "ceil": "ceil", "ceiling": "ceil", "trunc": "trunc", "truncate": "trunc", "log": "log10", "length": "length", "char_length": "length",
    "character_length": "length", "octet_length": "byte_length", "lcase": "lower", "ucase": "upper", "dayofyear": "day_of_year",
    "isodow": "weekday", "epoch_s": "epoch_s", "epoch_ms": "epoch_ms", "epoch_us": "epoch_us", "isnan": "is_nan",
    "is_nan": "is_nan", "cardinality": "list_length", "array_length": "list_length", "list_length": "list_length",
}  # fmt: skip

SCALARS: dict[str, Scalar] = {
    **{name: _call(name, 1) for name in (*_ONE, *_ONE_MORE)},
    **{name: _call(ours, 1) for name, ours in _RENAMED.items()},
    **{name: _call("pow", 2) for name in ("power", "pow")},
    "atan2": _call("atan2", 2),
    "round": _call("round", 1, 2),
    "mod": Scalar(2, 2, lambda args: Binary("%", args[0], args[1]), "%"),
    **{name: _any(name) for name in ("coalesce", "greatest", "least", "concat", "hash")},
    **{name: _call("coalesce", 2) for name in ("ifnull", "nvl")},
    **{name: Scalar(2, 2, lambda args: Binary("//", args[0], args[1]), "//") for name in ("div", "divide")},
    "nullif": _call("nullif", 2),
    **{name: Scalar(3, 3, _if, "when") for name in ("if", "iif")},
    "try": _call("try", 1),
    **{name: Scalar(2, 3, substring, "substring") for name in ("substring", "substr")},
    "left": Scalar(2, 2, _left, "substring"),
    "lpad": _padded("pad_left"),
    "rpad": _padded("pad_right"),
    "replace": _call("replace", 3),
    "contains": _call("contains", 2),
    **{name: _call("starts_with", 2) for name in ("starts_with", "startswith", "prefix")},
    **{name: _call("ends_with", 2) for name in ("ends_with", "endswith", "suffix")},
    **{name: _call("matches", 2) for name in ("regexp_like", "regexp_matches")},
    "regexp_extract": Scalar(2, 3, _extract, "extract"),
    **{name: _call("split", 2) for name in ("split", "string_split", "str_split")},
    **{name: _call("split_regex", 2) for name in ("regexp_split_to_array", "string_split_regex")},
    **{name: _call("json_get", 2) for name in ("json_extract_string", "get_json_object", "json_value")},
    **{name: Scalar(2, 2, _position, "index_of") for name in ("strpos", "instr")},
    "split_part": Scalar(3, 3, _split_part, "split, element"),
    "split_index": Scalar(3, 3, _split_index, "split, element"),
    **{name: _call("join", 2) for name in ("array_to_string", "array_join")},
    **{name: Scalar(2, 2, lambda args: element(args[0], args[1]), "element") for name in ("element", "list_extract", "array_extract")},
    "weekday": Scalar(1, 1, lambda args: Binary("%", Call("weekday", tuple(args)), lit(7)), "weekday, %"),  # Sunday is 0
    "date_trunc": Scalar(2, 2, _date_trunc, "truncate"),
    **{
        name: Scalar(2, 2, lambda args: Call("format_time", (args[0], _format(args[1]))), "format_time")
        for name in ("date_format", "strftime")
    },
    "strptime": Scalar(2, 2, lambda args: Call("parse_time", (args[0], _format(args[1]))), "parse_time"),
    "to_timestamp": Scalar(1, 2, _to_timestamp, "parse_time, cast"),
    "to_timestamp_ltz": Scalar(1, 2, _ltz, "cast"),
    "now": Scalar(0, 0, lambda args: Call("now", ()), "now"),
}

#: What EXTRACT takes.
PARTS = {
    **{name: name for name in ("year", "month", "day", "hour", "minute", "second", "millisecond")},
    "doy": "day_of_year",
    "isodow": "weekday",
}


@dataclass(frozen=True)
class Aggregated:
    """A function of a group: how many arguments, and what it is of them; `filtered`: which argument FILTER makes NULL; None: FILTER is
    refused."""

    fewest: int
    most: int
    make: Callable[[Args], Function]
    same_as: str  # in docs/functions.md
    filtered: int | None = 0


def _plain(arg: Expr) -> str | Expr:
    return arg.name if isinstance(arg, ColumnRef) else arg


def _of(function: Callable[[str | Expr], Function], same_as: str, filtered: int | None = 0) -> Aggregated:
    return Aggregated(1, 1, lambda args: function(_plain(args[0])), same_as, filtered)


def _by(function: Callable[[str | Expr, str | Expr], object], same_as: str) -> Aggregated:
    return Aggregated(2, 2, lambda args: function(_plain(args[0]), _plain(args[1])), same_as, 1)  # type: ignore[return-value, arg-type]


def _quantile(args: Args) -> Function:
    q = args[1].value if isinstance(args[1], Literal) else None
    if isinstance(q, bool) or not isinstance(q, int | float):
        raise QueryError("a quantile is a constant from 0 to 1")
    return aggregates.quantile(_plain(args[0]), q)


def _approx_distinct(args: Args) -> Function:
    return aggregates.approx_count_distinct(_plain(args[0]), _whole(args[1], "the precision") if len(args) > 1 else 12)


def _collect(args: Args) -> Function:
    return aggregates.collect(_plain(args[0]), _whole(args[1], "how many are collected"))


AGGREGATES: dict[str, Aggregated] = {
    "count": Aggregated(1, 1, lambda args: aggregates.count(_plain(args[0])), "count"),
    "sum": _of(aggregates.sum_, "sum"),
    "avg": _of(aggregates.avg, "avg"),
    "min": _of(aggregates.min_, "min"),
    "max": _of(aggregates.max_, "max"),
    **{name: _of(aggregates.first, "first", None) for name in ("first", "first_value")},
    **{name: _of(aggregates.last, "last", None) for name in ("last", "last_value")},
    **{name: _by(aggregates.arg_min, "arg_min") for name in ("arg_min", "min_by")},
    **{name: _by(aggregates.arg_max, "arg_max") for name in ("arg_max", "max_by")},
    **{name: _of(aggregates.var, "var") for name in ("var_samp", "variance")},
    **{name: _of(aggregates.stddev, "stddev") for name in ("stddev_samp", "stddev")},
    "var_pop": _of(aggregates.var_pop, "var_pop"),
    "stddev_pop": _of(aggregates.stddev_pop, "stddev_pop"),
    "approx_count_distinct": Aggregated(1, 2, _approx_distinct, "approx_count_distinct"),
    **{name: Aggregated(2, 2, _quantile, "quantile") for name in ("approx_quantile", "quantile")},
    **{name: _of(aggregates.median, "median") for name in ("median", "approx_median")},
    "collect": Aggregated(2, 2, _collect, "collect", None),
}
#: Those of OVER alone.
OVER_ONLY = ("lag", "row_number")
ZERO = Literal(0, INT64)
