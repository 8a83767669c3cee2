"""Schemas of what operators yield, apart from the planner's own (docs/semantics.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cep.model.contract.matching import Joining, Matching
from cep.model.expr import Expr
from cep.model.functions import Function, UserFunction, result_field
from cep.model.operators import (
    Aggregate,
    Apply,
    Deduplicate,
    Delay,
    Demux,
    Filter,
    FlatMap,
    KeepLast,
    Lookup,
    Map,
    Operator,
    Over,
    Pattern,
    Sample,
    SampleN,
    Sort,
    StatefulMap,
    TopN,
    Union,
)
from cep.model.query import Query
from cep.model.schema import INT64, STRING, DataType, Field, Schema
from tests.reference.patterns import over_columns, united
from tests.reference.types import common_type, is_nullable, type_of


def schemas_of(query: Query) -> dict[str, Schema]:
    """By name of stream, operator and branch; operators stand in `query` after what they read."""
    found = {stream.name: stream.schema for stream in query.streams}
    for operator in query.operators:
        found |= branch_schemas(operator, [found[name] for name in operator.inputs])
    return found


def branch_schemas(operator: Operator, inputs: Sequence[Schema]) -> dict[str, Schema]:
    """By the names under which others read what it yields."""
    if isinstance(operator, Pattern):
        return dict(zip(operator.branches, _of_pattern(operator, united(inputs)), strict=True))
    return dict.fromkeys(operator.branches, operator_schema(operator, inputs))


def _of_pattern(operator: Pattern, schema: Schema) -> list[Schema]:
    """Of its matches, of what timed out, and of rows in no match."""
    made = [over_columns(expr, schema) for _, expr in operator.measures]
    measures = [Field(name, type_of(*m), is_nullable(*m)) for (name, _), m in zip(operator.measures, made, strict=True)]
    short = Schema((*(schema[name] for name in operator.by), *measures))
    numbered = (Field("variable", STRING, True), Field("match_number", INT64, True))
    matched = Schema((*schema.fields, *measures, *numbered)) if operator.rows == "all" else short
    return [matched, *([short] if operator.timed_out else []), *([schema] if operator.unmatched else [])]


def operator_schema(operator: Operator, inputs: Sequence[Schema]) -> Schema:
    """The schema of the operator's rows; for a Demux that of each branch."""
    schema = inputs[0]
    match operator:
        case Filter() | Demux() | Delay() | Deduplicate() | KeepLast() | Sample() | SampleN() | Sort(window=None):
            return schema
        case Union():
            assert all(other == schema for other in inputs), f"union {operator.name!r} of different schemas"
            return schema
        case Map(fields=fields, keep_others=keep_others):
            fields_ = {field.name: field for field in (*(schema.fields if keep_others else ()), *computed(fields, schema).fields)}
            return Schema(tuple(fields_.values()))
        case FlatMap(fields=fields, explode=explode):
            made = computed(fields, schema)
            return Schema(tuple(Field(f.name, _element(f.type), True) if f.name == explode else f for f in made.fields))
        case Apply(schema=schema) | StatefulMap(schema=Schema() as schema):
            return schema
        case StatefulMap(fields=fields):
            return computed(fields, with_state(operator, schema))
        case Aggregate(by=by, functions=functions):
            results = (_result(name, function, schema) for name, function in functions)
            return Schema((*(schema[name] for name in by), *results))
        case Over(functions=functions):
            return Schema((*schema.fields, *(_result(name, function, schema) for name, function in functions)))
        case Sort(rank=rank) | TopN(rank=rank):
            return Schema((*schema.fields, Field(rank, INT64)))
        case Lookup(table=table):
            return joined_schema(operator, schema, table.schema)
        case Joining():
            return joined_schema(operator, schema, inputs[1])
    raise AssertionError(operator)


def _result(name: str, function: Function, schema: Schema) -> Field:
    """What a user's function fails to answer is NULL."""
    if isinstance(function, UserFunction):
        return Field(name, function.type, True)
    return result_field(name, function, *([schema[column] for column in function.columns] or [None]))


def computed(fields: Sequence[tuple[str, Expr]], schema: Schema) -> Schema:
    return Schema(tuple(Field(name, type_of(e, schema), is_nullable(e, schema)) for name, e in fields))


def _element(type_: DataType) -> DataType:
    element: DataType | None = getattr(type_, "element", None)
    assert element is not None, f"{type_} is no list"
    return element


def with_state(operator: StatefulMap, schema: Schema) -> Schema:
    """The columns of the input and the state, nullable where it begins so or an update may make it so."""
    nullable = {name: literal.value is None for name, literal in operator.state}
    for _ in nullable:  # a NULL goes from one state to the next at most once round
        both = _with(operator, schema, nullable)
        nullable = {name: nullable[name] or is_nullable(update, both) for name, update in operator.update}
    return _with(operator, schema, nullable)


def _with(operator: StatefulMap, schema: Schema, nullable: Mapping[str, bool]) -> Schema:
    return Schema((*schema.fields, *(Field(name, literal.type, nullable[name]) for name, literal in operator.state)))


def joined_schema(operator: Matching, left: Schema, right: Schema) -> Schema:
    """Left columns, then right ones under `prefix`, a pair of one name once and in the common type of both."""
    alone = {"left": operator.how in ("left", "full"), "right": operator.how in ("right", "full")}
    shared = {a for a, b in operator.on if a == b}
    fields = []
    for field in left.fields:
        if field.name in shared:
            other = right[field.name]
            nullable = (alone["left"] and field.nullable) or (alone["right"] and other.nullable)
            fields.append(Field(field.name, common_type((field.type, other.type)), nullable))
        else:
            fields.append(replace(field, nullable=field.nullable or alone["right"]))
    others = [field for field in right.fields if field.name not in shared]
    renamed = (Field(operator.prefix + f.name, f.type, f.nullable or alone["left"]) for f in others)
    return Schema((*fields, *renamed))
