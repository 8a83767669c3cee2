"""What functions of expressions take and yield: the table behind `cep.model.types`, for all that need no rule of their own.

An argument is of a *kind*. Arguments that are marked as literals are read when the query is built: patterns, separators, digits.
Their values are checked here, so that a bad regular expression is an error of the query and not of its rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cep.errors import QueryError
from cep.model import json_paths
from cep.model.duration import parse_duration
from cep.model.expr import Expr, Literal
from cep.model.schema import BINARY, BOOL, FLOAT64, INT64, STRING, TIMESTAMP_US, DataType, list_of
from cep.model.times import formats

DIGITS_MAX = 15
GROUP_MAX = 9
PAD_MAX = 1 << 16

#: kind -> (what a message calls it, is a type of it?)
_KINDS: dict[str, tuple[str, Callable[[DataType], bool]]] = {
    "number": ("a number", lambda type_: type_.is_number),
    "integer": ("an integer", lambda type_: type_.is_integer),
    "float64": ("float64", lambda type_: type_ == FLOAT64),
    "string": ("string", lambda type_: type_ == STRING),
    "text": ("string or binary", lambda type_: type_.is_text),
    "timestamp": ("a timestamp", lambda type_: type_.name == "timestamp"),
    "list": ("a list", lambda type_: type_.is_list),
    "strings": ("list<string>", lambda type_: type_ == list_of(STRING)),
    "key": ("a type that can be a key", lambda type_: not type_.is_list),
}

Types = tuple[DataType, ...]


@dataclass(frozen=True, slots=True)
class Signature:
    """`kinds` of the arguments, in order, the last one also of all that follow; `result` is a type or made of theirs.

    `literals`: by place, what checks the value of an argument that has to be a literal; it returns the value or raises ValueError
    that says what was expected. `nullable`: NULL may come out where none went in. `total`: NULL never comes out.
    """

    kinds: tuple[str, ...]
    result: DataType | Callable[[Types], DataType]
    literals: tuple[tuple[int, Callable[[Any], Any]], ...] = ()
    nullable: bool = False
    total: bool = False

    def kind(self, place: int) -> str:
        return self.kinds[min(place, len(self.kinds) - 1)]


def _widened(types: Types) -> DataType:
    return FLOAT64 if types[0] == FLOAT64 else INT64


def _whole(low: int, high: int) -> Callable[[Any], int]:
    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError(f"an integer from {low} to {high}")
        return value

    return check


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("a text")
    return value


def _separator(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("a text that is not empty")
    return value


def _one(value: Any) -> str:
    if not isinstance(value, str) or len(value) != 1:
        raise ValueError("one character")
    return value


def _duration(value: Any) -> int:
    us = value if isinstance(value, int) and not isinstance(value, bool) else 0
    if isinstance(value, str):
        try:
            us = parse_duration(value)
        except QueryError:
            us = 0
    if not 0 < us < 2**63:
        raise ValueError("a duration such as '1h', greater than zero")
    return us


def _regex(value: Any) -> str:
    try:
        pc.match_substring_regex(pa.array([""]), _string(value))
    except pa.ArrowInvalid as error:
        raise ValueError(f"a regular expression of RE2 ({error})") from None
    return str(value)


def _splitting(value: Any) -> str:
    """Between what is empty there is no place."""
    if pc.match_substring_regex(pa.array([""]), _regex(value))[0].as_py():
        raise ValueError("a regular expression that does not match the empty text")
    return str(value)


def check_group(regex: str, group: int) -> None:
    """Raises QueryError where `regex` has no such group."""
    try:
        pc.replace_substring_regex(pa.array([""]), regex, replacement=f"\\{group}")
    except pa.ArrowInvalid:
        raise QueryError(f"expected a regular expression with {group} groups, got {regex!r}") from None


_FLOATS = ("sqrt", "exp", "ln", "log10", "log2", "sin", "cos", "tan", "asin", "acos", "atan")
_PARTS = ("year", "month", "day", "hour", "minute", "second", "millisecond", "weekday", "day_of_year", "epoch_s", "epoch_ms", "epoch_us")
_PAD = Signature(("string", "integer", "string"), STRING, ((1, _whole(0, PAD_MAX)), (2, _one)))

SIGNATURES: dict[str, Signature] = {
    **dict.fromkeys(_FLOATS, Signature(("number",), FLOAT64)),
    **dict.fromkeys(("pow", "atan2"), Signature(("number", "number"), FLOAT64)),
    **dict.fromkeys(("abs", "sign", "floor", "ceil", "trunc"), Signature(("number",), _widened)),
    "round": Signature(("number", "integer"), _widened, ((1, _whole(0, DIGITS_MAX)),)),
    "is_nan": Signature(("float64",), BOOL),
    "length": Signature(("string",), INT64),
    "byte_length": Signature(("text",), INT64),
    **dict.fromkeys(("lower", "upper", "trim", "ltrim", "rtrim", "reverse"), Signature(("string",), STRING)),
    **dict.fromkeys(("contains", "starts_with", "ends_with"), Signature(("text",), BOOL)),
    "substring": Signature(("string", "integer"), STRING, ((1, _whole(0, 2**31 - 1)), (2, _whole(0, 2**31 - 1)))),
    "pad_left": _PAD,
    "pad_right": _PAD,
    "replace": Signature(("string",), STRING, ((1, _separator), (2, _string))),
    "matches": Signature(("string",), BOOL, ((1, _regex),)),
    "extract": Signature(("string", "string", "integer"), STRING, ((1, _regex), (2, _whole(0, GROUP_MAX))), nullable=True),
    "json_get": Signature(("string", "string"), STRING, ((1, json_paths.checked),), nullable=True),
    "split": Signature(("string",), list_of(STRING), ((1, _separator),)),
    "split_regex": Signature(("string",), list_of(STRING), ((1, _splitting),)),
    "index_of": Signature(("string",), INT64, ((1, _string),)),
    "concat": Signature(("text",), lambda types: types[0]),
    "truncate": Signature(("timestamp", "string"), lambda types: types[0], ((1, _duration),)),
    "format_time": Signature(("timestamp", "string"), STRING, ((1, formats.written),)),
    "parse_time": Signature(("string", "string"), TIMESTAMP_US, ((1, formats.read),)),
    **dict.fromkeys(_PARTS, Signature(("timestamp",), INT64)),
    "hash": Signature(("key",), INT64, total=True),
    "list_length": Signature(("list",), INT64),
    "element": Signature(("list", "integer"), lambda types: types[0].element or BINARY, nullable=True),
    "join": Signature(("strings", "string"), STRING, ((1, _string),), nullable=True),
}
#: Functions whose texts have to be of one type.
_ALIKE = ("contains", "starts_with", "ends_with", "concat")


def result_type(function: str, types: Types) -> DataType:
    """Raises QueryError, its pointer to the argument that does not fit."""
    signature = SIGNATURES[function]
    for i, type_ in enumerate(types):
        name, fits = _KINDS[signature.kind(i)]
        if not fits(type_):
            where = f"argument {i + 1}: " if len(types) > 1 else ""
            raise QueryError(f"{where}expected {name}, got {type_}", f"/args/{i}" if len(types) > 1 else "")
    if function in _ALIKE and len(set(types)) > 1:
        raise QueryError(f"expected arguments of one type, got {', '.join(map(str, types))}; cast them")
    return signature.result(types) if callable(signature.result) else signature.result


def literal_arguments(function: str, args: tuple[Expr, ...]) -> dict[int, Any]:
    """By place, the values of arguments that are literals by the signature. Raises QueryError with a pointer."""
    values: dict[int, Any] = {}
    for place, check in SIGNATURES[function].literals:
        if place < len(args):
            values[place] = _checked(args[place], place, check)
    if function == "extract" and values.get(2, 1):
        check_group(values[1], values.get(2, 1))
    return values


def _checked(arg: Expr, place: int, check: Callable[[Any], Any]) -> Any:
    try:
        if not isinstance(arg, Literal):
            raise ValueError("a literal")
        return check(arg.value)
    except ValueError as error:
        got = repr(arg.value) if isinstance(arg, Literal) else "an expression"
        raise QueryError(f"argument {place + 1}: expected {error}, got {got}", f"/args/{place}") from None
