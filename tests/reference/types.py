"""Types of expressions, apart from the planner's own."""

from __future__ import annotations

from collections.abc import Sequence

from cep.model.expr import ARITHMETIC, BOOLEAN, COMPARISON, Binary, Call, Cast, ColumnRef, Expr, Literal, Udf, Unary
from cep.model.schema import BOOL, FLOAT64, INT64, STRING, TIMESTAMP_US, DataType, Schema


def type_of(expression: Expr, schema: Schema) -> DataType:
    """Raises TypeError where the operands do not fit; good queries are typed by the planner before they come here."""
    match expression:
        case ColumnRef(name):
            return schema[name].type
        case Literal(_, type_) | Cast(_, type_, _) | Udf(type=type_):
            return type_
        case Unary("-", arg) | Call("abs", (arg,)):
            return INT64 if type_of(arg, schema).is_integer else FLOAT64
        case Unary():
            return BOOL
        case Binary(op, left, right):
            return binary_type(op, type_of(left, schema), type_of(right, schema))
        case Call("now", ()):
            return TIMESTAMP_US
        case Call("coalesce" | "greatest" | "least", args):
            return common_type([type_of(arg, schema) for arg in instants(args, schema)])
        case Call("when", args):
            paired = len(args) // 2 * 2
            values = instants([*args[1:paired:2], *args[paired:]], schema)
            return common_type([type_of(arg, schema) for arg in values])
        case Call("try" | "truncate" | "concat", (arg, *_)):
            return type_of(arg, schema)
        case Call("nullif", args):
            return type_of(instants(args, schema)[0], schema)
        case Call("sign" | "floor" | "ceil" | "trunc" | "round", (arg, *_)):
            return INT64 if type_of(arg, schema).is_integer else FLOAT64
        case Call("element", (arg, _)):
            element = type_of(arg, schema).element
            assert element is not None
            return element
        case Call(name, _):
            return FUNCTION_TYPES[name]
    raise TypeError(f"not an expression: {expression!r}")


FUNCTION_TYPES = {
    **dict.fromkeys(("sqrt", "exp", "ln", "log10", "log2", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "pow"), FLOAT64),
    **dict.fromkeys(("is_nan", "contains", "starts_with", "ends_with", "matches"), BOOL),
    **dict.fromkeys(("lower", "upper", "trim", "ltrim", "rtrim", "reverse", "substring", "pad_left", "pad_right"), STRING),
    **dict.fromkeys(("replace", "extract", "join", "json_get"), STRING),
    **dict.fromkeys(("year", "month", "day", "hour", "minute", "second", "millisecond", "weekday", "day_of_year"), INT64),
    **dict.fromkeys(("epoch_s", "epoch_ms", "epoch_us", "length", "byte_length", "list_length", "hash", "index_of"), INT64),
    **dict.fromkeys(("split", "split_regex"), DataType("list", element=STRING)),
    "format_time": STRING,
    "parse_time": TIMESTAMP_US,
}


def instants(args: Sequence[Expr], schema: Schema) -> Sequence[Expr]:
    """What is compared or coalesced: beside a timestamp, a literal integer or text is an instant in its unit."""
    beside = [type_ for arg in args if (type_ := type_of(arg, schema)).name == "timestamp"]
    return [_instant(arg, beside[0]) for arg in args] if beside else args


def _instant(arg: Expr, type_: DataType) -> Expr:
    match arg:
        case Literal(value, DataType("int32" | "int64" | "string", _)):
            return Literal(value, type_)
    return arg


def binary_type(op: str, left: DataType, right: DataType) -> DataType:
    if op in COMPARISON + BOOLEAN:
        return BOOL
    assert op in ARITHMETIC
    if op == "/":
        return FLOAT64
    if left.name == right.name == "timestamp":
        return INT64
    if "timestamp" in (left.name, right.name):
        return left if left.name == "timestamp" else right
    return FLOAT64 if FLOAT64 in (left, right) else INT64


def common_type(types: Sequence[DataType]) -> DataType:
    """What values of `types` become where they meet: of numbers float64 if one is that, else int64."""
    if len(set(types)) == 1:
        return types[0]
    if all(type_.is_number for type_ in types):
        return FLOAT64 if FLOAT64 in types else INT64
    if all(type_.name == "timestamp" for type_ in types):
        return TIMESTAMP_US
    raise TypeError(f"no common type of {', '.join(map(str, types))}")


def is_nullable(expression: Expr, schema: Schema) -> bool:
    match expression:
        case ColumnRef(name):
            return schema[name].nullable
        case Literal(value, _):
            return value is None
        case Unary("is_null", _) | Call("now", ()):
            return False
        case Udf(args=args, nullable=nullable):
            return nullable or any(is_nullable(arg, schema) for arg in args)
        case Unary(_, arg) | Call("abs", (arg,)):
            return is_nullable(arg, schema)
        case Cast(arg, _, try_):
            return is_nullable(arg, schema) or (try_ and can_fail(type_of(arg, schema), expression.type))
        case Binary(_, left, right):
            return is_nullable(left, schema) or is_nullable(right, schema)
        case Call("coalesce", args):
            return all(is_nullable(arg, schema) for arg in args)
        case Call("when", args):
            paired = len(args) // 2 * 2
            return len(args) == paired or any(is_nullable(arg, schema) for arg in (*args[1:paired:2], *args[paired:]))
        case Call("try" | "nullif" | "extract" | "element" | "join" | "json_get", _):
            return True
        case Call("hash", _):
            return False
        case Call(_, args):
            return any(is_nullable(arg, schema) for arg in args)
    raise TypeError(f"not an expression: {expression!r}")


def can_fail(source: DataType, target: DataType) -> bool:
    """Whether some value of `source` is no value of `target`."""
    if "timestamp" in (source.name, target.name) and source.is_integer:
        return target.unit == "ns" or (source.name == "int64" and target.unit != "us")
    if source.name == "timestamp" and target.name == "int64":
        return source.unit == "ns"
    never = {"string": ("string", "binary"), "binary": ("binary",), "int64": ("bool", "int64", "float64", "string")}
    never |= {"float64": ("bool", "float64", "string"), "timestamp": ("timestamp",)}
    return target.name not in never.get(source.name, (target.name,))
