"""The types of expressions (rules 5.3, 5.7). What each cell computes: docs/arithmetic.md.

The rules, in one place:
1. Arithmetic on integers is int64, whatever their width, and overflow is overflow of int64; with a float64 it is
   float64; `/` always is.
2. timestamp - timestamp is int64 µs; timestamp ± integer (µs) is a timestamp of the same unit; nothing else is defined.
3. Compared or coalesced with a timestamp, an integer *literal* is an instant in that timestamp's unit, a text literal
   is ISO 8601. An integer column is not: it has to be cast, since nothing says what its integers mean.
4. A result is nullable when an input is (three-valued logic), except: is_null never, coalesce only if all are, try_cast
   also if it can fail, try always, when also without an otherwise. Functions: `cep.model.function_types`.
5. Arguments that are literals by a function's signature are checked here; `truncate` has µs in place of its duration, `round` the
   power of ten, and a `nullif` is the `when` that it stands for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from cep.errors import QueryError, meant
from cep.model.expr import (
    ARITHMETIC,
    BOOLEAN,
    COMPARISON,
    FUNCTIONS,
    Binary,
    Call,
    Cast,
    ColumnRef,
    Expr,
    Literal,
    PrevRef,
    RowRef,
    Udf,
    Unary,
)
from cep.model.function_types import SIGNATURES, literal_arguments, result_type
from cep.model.schema import BOOL, FLOAT64, INT64, TIMESTAMP_US, UNIT_US, DataType, Field, Schema
from cep.model.times.iso_instants import read_instant

INT_RANGE = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
TEXT_MAX = 60  # characters of an expression in a message

_CASTS = {
    "bool": ("bool", "int32", "int64", "float64", "string"),
    "int32": ("bool", "int32", "int64", "float64", "timestamp", "string"),
    "int64": ("bool", "int32", "int64", "float64", "timestamp", "string"),
    "float64": ("bool", "int32", "int64", "float64", "string"),
    "timestamp": ("int32", "int64", "timestamp", "string"),
    "string": ("bool", "int32", "int64", "float64", "timestamp", "string", "binary"),
    "binary": ("string", "binary"),
}


@dataclass(frozen=True, slots=True)
class Typed:
    """An expression with its type, its typed arguments, and its literals checked. What a compiler reads."""

    expr: Expr
    type: DataType
    nullable: bool
    args: tuple[Typed, ...] = ()


# --- expressions -----------------------------------------------------------------------------------------------------


def infer(expr: Expr, schema: Schema) -> tuple[DataType, bool]:
    """Type and nullability of `expr` over the columns of `schema`. Raises QueryError, its pointer into `expr`."""
    tree = typed(expr, schema.by_name)
    return tree.type, tree.nullable


def typed(expr: Expr, fields: Mapping[str, Field]) -> Typed:
    """`expr` with the type of every part. Raises QueryError, its pointer as in the JSON of the expression."""
    match expr:
        case ColumnRef(name):
            if name not in fields:
                raise QueryError(f"no column {name!r}{meant(name, fields)}; there {listing(fields)}", "/column")
            return Typed(expr, fields[name].type, fields[name].nullable)
        case Literal():
            literal_value(expr)
            return Typed(expr, expr.type, expr.value is None)
        case Binary(_, left, right):
            return _binary(expr, _argument(left, fields, 0), _argument(right, fields, 1))
        case Unary(_, arg):
            return _unary(expr, _argument(arg, fields, 0))
        case Cast(arg, _, try_):
            return _cast(expr, _part(arg, fields, "/try_cast" if try_ else "/cast"))
        case Call(_, args):
            return _call(expr, tuple(_argument(arg, fields, i) for i, arg in enumerate(args)))
        case Udf(_, args, type_, nullable):
            made = tuple(_argument(arg, fields, i) for i, arg in enumerate(args))
            return Typed(expr, type_, nullable or any(arg.nullable for arg in made), made)
        case RowRef() | PrevRef():
            raise QueryError(f"{text_of(expr)} is of a pattern's rows: it stands in conditions and measures of a pattern, and nowhere else")
    raise QueryError(f"not an expression: {expr!r}")


def literal_value(literal: Literal) -> bool | int | float | bytes | None:
    """The value as kernels see it: text as bytes, an instant as µs. Raises QueryError where it is not of its type."""
    value, type_ = literal.value, literal.type
    if value is None:
        return None
    match type_.name:
        case "bool" if isinstance(value, bool):
            return value
        case "int32" | "int64" if _is_integer(value):
            return _in_range(value, type_)
        case "float64" if isinstance(value, float) or _is_integer(value):
            return _as_float(value)
        case "string" if isinstance(value, str):
            return _utf8(value)
        case "binary" if isinstance(value, bytes):
            return value
        case "timestamp" if isinstance(value, str) or _is_integer(value):
            return _instant_us(value, type_)
    raise QueryError(f"literal {value!r}: expected a value of type {type_}", "/literal")


def can_fail(source: DataType, target: DataType) -> bool:
    """Whether a cast between two types it is defined for has values that do not fit."""
    match source.name, target.name:
        case ("string", "string" | "binary") | ("binary", "binary"):
            return False
        case ("string" | "binary", _) | ("int64" | "float64", "int32") | ("float64", "int64"):
            return True
        case "int64", "timestamp":
            return target.unit != "us"
        case "int32", "timestamp":
            return target.unit == "ns"
        case "timestamp", "int32" | "string":
            return True
        case "timestamp", "int64":
            return source.unit == "ns"
    return False


def promoted(types: tuple[DataType, ...]) -> DataType | None:
    """The type that holds all of `types`, or None: equal ones, numbers with numbers, timestamps with timestamps."""
    if len(set(types)) == 1:
        return types[0]
    if all(type_.is_number for type_ in types):
        return FLOAT64 if FLOAT64 in types else INT64
    if all(type_.name == "timestamp" for type_ in types):
        return TIMESTAMP_US
    return None


def text_of(expr: Expr) -> str:
    """`expr` as a person would write it, for messages; at most TEXT_MAX characters."""
    text = _text(expr)
    return text if len(text) <= TEXT_MAX else text[: TEXT_MAX - 1] + "…"


def _text(expr: Expr) -> str:
    match expr:
        case ColumnRef(name):
            return name
        case Literal(value, _):
            return "NULL" if value is None else repr(value)
        case Binary(op, left, right):
            return f"{_operand(left)} {op} {_operand(right)}"
        case Unary("is_null", arg):
            return f"{_operand(arg)} is null"
        case Unary(op, arg):
            return f"{op} {_operand(arg)}" if op == "not" else f"{op}{_operand(arg)}"
        case Cast(arg, type_, try_):
            return f"{'try_cast' if try_ else 'cast'}({_text(arg)} as {type_})"
        case Call("when", args):
            return _text_of_when(args)
        case Call(function, args):
            return f"{function}({', '.join(map(_text, args))})"
        case Udf(function, args, _, _):
            return f"{function}({', '.join(map(_text, args))})"
        case PrevRef(column, k):
            return f"prev({column})" if k == 1 else f"prev({column}, {k})"
        case RowRef(variable, function, column, k):
            inside = ", ".join([*([] if column is None else [column]), *([str(k)] if k else [])])
            return f"{variable}.{column}" if function == "last" and not k else f"{variable}.{function}({inside})"
    return repr(expr)


def _text_of_when(args: tuple[Expr, ...]) -> str:
    paired = len(args) // 2 * 2
    branches = "".join(f" when {_text(args[i])} then {_text(args[i + 1])}" for i in range(0, paired, 2))
    return f"case{branches}{''.join(f' else {_text(arg)}' for arg in args[paired:])} end"


def _operand(expr: Expr) -> str:
    return f"({_text(expr)})" if isinstance(expr, (Binary, Unary)) else _text(expr)


def _part(expr: Expr, fields: Mapping[str, Field], pointer: str) -> Typed:
    try:
        return typed(expr, fields)
    except QueryError as error:
        raise error.under(pointer) from None


def _argument(expr: Expr, fields: Mapping[str, Field], index: int) -> Typed:
    return _part(expr, fields, f"/args/{index}")


def _binary(expr: Binary, left: Typed, right: Typed) -> Typed:
    nullable = left.nullable or right.nullable
    if expr.op in ARITHMETIC:
        return Typed(expr, _arithmetic_type(expr, left.type, right.type), nullable, (left, right))
    if expr.op in BOOLEAN:
        if (left.type, right.type) != (BOOL, BOOL):
            raise _mismatch(expr, "expected bool on both sides", left, right)
        return Typed(expr, BOOL, nullable, (left, right))
    if expr.op not in COMPARISON:
        known = ", ".join(ARITHMETIC + COMPARISON + BOOLEAN)
        raise QueryError(f"unknown operator {expr.op!r}; there are {known}", "/op")
    left, right = _instants((left, right))
    if left.type.is_list or right.type.is_list:
        raise _mismatch(expr, "lists are not comparable", left, right)
    if promoted((left.type, right.type)) is None:
        raise _mismatch(expr, "expected two numbers, or two of one type; cast one of them", left, right)
    return Typed(expr, BOOL, nullable, (left, right))


def _arithmetic_type(expr: Binary, left: DataType, right: DataType) -> DataType:
    if left.is_number and right.is_number:
        return FLOAT64 if expr.op == "/" or FLOAT64 in (left, right) else INT64
    match expr.op, left.name, right.name:
        case "-", "timestamp", "timestamp":
            return INT64
        case "+" | "-", "timestamp", "int32" | "int64":
            return left
        case "+", "int32" | "int64", "timestamp":
            return right
    raise QueryError(f"{text_of(expr)}: expected numbers, or a timestamp and integer µs; got {left} {expr.op} {right}")


def _mismatch(expr: Binary, expected: str, left: Typed, right: Typed) -> QueryError:
    return QueryError(f"{text_of(expr)}: {expected}; got {left.type} {expr.op} {right.type}")


def _unary(expr: Unary, arg: Typed) -> Typed:
    if expr.op == "is_null":
        return Typed(expr, BOOL, False, (arg,))
    if expr.op == "not" and arg.type == BOOL:
        return Typed(expr, BOOL, arg.nullable, (arg,))
    if expr.op == "-" and arg.type.is_number:
        return Typed(expr, _widened(arg.type), arg.nullable, (arg,))
    raise QueryError(f"{text_of(expr)}: expected {'bool' if expr.op == 'not' else 'a number'}, got {arg.type}")


def _widened(type_: DataType) -> DataType:
    return FLOAT64 if type_ == FLOAT64 else INT64


def _cast(expr: Cast, arg: Typed) -> Typed:
    target = expr.type
    targets = _CASTS.get(arg.type.name, ())
    if target.name not in targets:
        raise QueryError(f"{text_of(expr)}: {arg.type} casts to {', '.join(targets) or 'nothing'}, not to {target}")
    if _plain_instant(arg.type, target) or _plain_instant(target, arg.type):
        raise QueryError(f"{text_of(expr)}: a plain timestamp refuses integers; name a unit such as timestamp[ms]")
    return Typed(expr, target, arg.nullable or (expr.try_ and can_fail(arg.type, target)), (arg,))


def _plain_instant(type_: DataType, other: DataType) -> bool:
    return type_.name == "timestamp" and not type_.unit and other.is_integer


def _call(expr: Call, args: tuple[Typed, ...]) -> Typed:
    match expr.function, args:
        case "now", ():
            return Typed(expr, TIMESTAMP_US, False)
        case "coalesce", (_, *_):
            args = _instants(args)
            return Typed(expr, _common(expr, args), all(arg.nullable for arg in args), args)
        case "greatest" | "least", (_, *_):
            return _extreme(expr, _instants(args))
        case "when", (_, _, *_):
            return _when(expr, args)
        case "nullif", (_, _):
            return _nullif(*_instants(args))
        case "try", (arg,):
            return Typed(expr, arg.type, True, args)
        case name, (_, *_) if name in SIGNATURES and _takes(name, len(args)):
            return _function(expr, args)
    raise QueryError(f"no function {expr.function!r} of {len(args)} arguments", "/call")


def _takes(function: str, count: int) -> bool:
    fewest, most = FUNCTIONS[function]
    return fewest <= count and (most is None or count <= most)


def _common(expr: Call, args: tuple[Typed, ...]) -> DataType:
    type_ = promoted(tuple(arg.type for arg in args))
    if type_ is None:
        got = ", ".join(str(arg.type) for arg in args)
        raise QueryError(f"{text_of(expr)}: expected numbers, or all of one type; got {got}")
    return type_


def _extreme(expr: Call, args: tuple[Typed, ...]) -> Typed:
    type_ = _common(expr, args)
    if not type_.is_number and type_.name != "timestamp":
        raise QueryError(f"{text_of(expr)}: expected numbers or timestamps, got {type_}")
    return Typed(expr, type_, any(arg.nullable for arg in args), args)


def _when(expr: Call, args: tuple[Typed, ...]) -> Typed:
    """Conditions and values by turns, then, if there is one, the value of otherwise."""
    paired = len(args) // 2 * 2
    for i, condition in enumerate(args[0:paired:2]):
        if condition.type != BOOL:
            message = f"{text_of(expr)}: condition {i + 1}: expected bool, got {condition.type}"
            raise QueryError(message, f"/args/{2 * i}")
    values = _instants(args[1:paired:2] + args[paired:])
    parts = [part for pair in zip(args[0:paired:2], values, strict=False) for part in pair]
    nullable = len(args) == paired or any(value.nullable for value in values)
    return Typed(expr, _common(expr, values), nullable, (*parts, *values[paired // 2 :]))


def _nullif(a: Typed, b: Typed) -> Typed:
    same = _binary(Binary("=", a.expr, b.expr), a, b)
    nothing = Typed(Literal(None, a.type), a.type, True)
    return Typed(Call("when", (same.expr, nothing.expr, a.expr)), a.type, True, (same, nothing, a))


def _function(expr: Call, args: tuple[Typed, ...]) -> Typed:
    try:
        type_ = result_type(expr.function, tuple(arg.type for arg in args))
        literals = literal_arguments(expr.function, tuple(arg.expr for arg in args))
    except QueryError as error:
        raise QueryError(f"{text_of(expr)}: {error.message}", error.pointer) from None
    signature = SIGNATURES[expr.function]
    nullable = not signature.total and (signature.nullable or any(arg.nullable for arg in args))
    match expr.function:
        case "truncate":
            args = (args[0], _constant(literals[1], INT64))
        case "round":
            args = (args[0], _constant(10.0 ** literals.get(1, 0), FLOAT64))
    return Typed(expr, type_, nullable, args)


def _constant(value: int | float, type_: DataType) -> Typed:
    return Typed(Literal(value, type_), type_, False)


def _instants(args: tuple[Typed, ...]) -> tuple[Typed, ...]:
    """Rule 3: literals beside a timestamp become instants of its type."""
    beside = next((arg.type for arg in args if arg.type.name == "timestamp"), None)
    return args if beside is None else tuple(_as_instant(arg, beside, i) for i, arg in enumerate(args))


def _as_instant(arg: Typed, type_: DataType, index: int) -> Typed:
    if not isinstance(arg.expr, Literal) or not (arg.type.is_integer or arg.type.name == "string"):
        return arg
    literal = Literal(arg.expr.value, type_)
    try:
        literal_value(literal)
    except QueryError as error:
        raise error.under(f"/args/{index}") from None
    return replace(arg, expr=literal, type=type_)


def listing(names: Mapping[str, object] | tuple[str, ...]) -> str:
    return f"are {', '.join(names)}" if names else "are none"


# --- literals --------------------------------------------------------------------------------------------------------


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _in_range(value: int, type_: DataType) -> int:
    low, high = INT_RANGE[type_.name]
    if not low <= value <= high:
        raise QueryError(f"literal {value}: expected a value of {type_}, between {low} and {high}", "/literal")
    return value


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        raise QueryError(f"literal {value}: too large for float64", "/literal") from None


def _utf8(value: str) -> bytes:
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise QueryError(f"literal {value!r}: not valid Unicode text: {error.reason}", "/literal") from None


def _instant_us(value: int | str, type_: DataType) -> int:
    if isinstance(value, str):
        return _parsed_instant(value)
    if not type_.unit:
        message = f"literal {value}: a plain timestamp refuses integers; write ISO 8601 text or name a unit"
        raise QueryError(message, "/literal")
    if type_.unit == "ns" and value % 1000:
        raise QueryError(f"literal {value}: nanoseconds have to be whole microseconds", "/literal")
    return _in_range(value // 1000 if type_.unit == "ns" else value * UNIT_US[type_.unit], INT64)


def _parsed_instant(text: str) -> int:
    try:
        return read_instant(text)
    except ValueError as error:
        raise QueryError(f"literal {text!r}: {error}", "/literal") from None
