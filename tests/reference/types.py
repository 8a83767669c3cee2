"""Types of expressions and schemas of operators, apart from the planner's own."""

from __future__ import annotations

from collections.abc import Sequence

from cep.model.expr import ARITHMETIC, BOOLEAN, COMPARISON, Binary, Call, Cast, Column, Expr, Literal, Unary
from cep.model.functions import result_field
from cep.model.operators import Aggregate, Filter, Map, Operator, Union
from cep.model.schema import BOOL, FLOAT64, INT64, TIMESTAMP_US, DataType, Field, Schema


def type_of(expression: Expr, schema: Schema) -> DataType:
    """Raises TypeError where the operands do not fit; good queries are typed by the planner before they come here."""
    match expression:
        case Column(name):
            return schema[name].type
        case Literal(_, type_) | Cast(_, type_, _):
            return type_
        case Unary("-", arg) | Call("abs", (arg,)):
            return INT64 if type_of(arg, schema).is_integer else FLOAT64
        case Unary():
            return BOOL
        case Binary(op, left, right):
            return binary_type(op, type_of(left, schema), type_of(right, schema))
        case Call("now", ()):
            return TIMESTAMP_US
        case Call("coalesce", args):
            return common_type([type_of(arg, schema) for arg in instants(args, schema)])
    raise TypeError(f"not an expression: {expression!r}")


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
        case Column(name):
            return schema[name].nullable
        case Literal(value, _):
            return value is None
        case Unary("is_null", _) | Call("now", ()):
            return False
        case Unary(_, arg) | Call("abs", (arg,)):
            return is_nullable(arg, schema)
        case Cast(arg, _, try_):
            return is_nullable(arg, schema) or (try_ and can_fail(type_of(arg, schema), expression.type))
        case Binary(_, left, right):
            return is_nullable(left, schema) or is_nullable(right, schema)
        case Call(_, args):
            return all(is_nullable(arg, schema) for arg in args)
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


def operator_schema(operator: Operator, inputs: Sequence[Schema]) -> Schema:
    """The schema of the operator's rows."""
    schema = inputs[0]
    match operator:
        case Filter():
            return schema
        case Union():
            assert all(other == schema for other in inputs), f"union {operator.name!r} of different schemas"
            return schema
        case Map(fields=fields):
            return Schema(tuple(Field(name, type_of(e, schema), is_nullable(e, schema)) for name, e in fields))
        case Aggregate(by=by, functions=functions):
            of = [[None if column is None else schema[column] for column in (f.column, f.by)] for _, f in functions]
            results = (result_field(name, f, *fields) for (name, f), fields in zip(functions, of, strict=True))
            return Schema((*(schema[name] for name in by), *results))
