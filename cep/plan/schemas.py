"""The schema of what an operator yields, from those of its inputs.

Every function here raises QueryError that names the operator and the field; its pointer is relative to the operator's document.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from cep.errors import QueryError, escaped, meant
from cep.model.expr import Binary, Call, Column, Expr, Literal, Udf, Unary
from cep.model.functions import FUNCTIONS, Function, UserFunction, result_field
from cep.model.operators import (
    Aggregate,
    Apply,
    AsOfJoin,
    Deduplicate,
    Delay,
    Demux,
    Filter,
    FlatMap,
    IntervalJoin,
    Join,
    Lookup,
    Map,
    Operator,
    Sort,
    StatefulMap,
    TopN,
    Union,
    check_key,
)
from cep.model.schema import BOOL, INT64, DataType, Field, Schema
from cep.model.windows import TransactionWindow, UnboundedWindow
from cep.plan.types import Typed, infer, listing, promoted, text_of, typed

#: What state that expressions change may be: machine words, and texts.
STATE_TYPES = ("bool", "int32", "int64", "float64", "timestamp", "string", "binary")


def operator_schema(operator: Operator, inputs: tuple[Schema, ...]) -> Schema:
    """The schema of what `operator` yields from inputs of these schemas, in the order of `operator.inputs`."""
    match operator:
        case Map():
            return _map_schema(operator, operator.fields, inputs[0])
        case FlatMap():
            return _flat_map_schema(operator, inputs[0])
        case Filter():
            return _filter_schema(operator, inputs[0])
        case Union():
            return _union_schema(operator, inputs)
        case Demux():
            return _demux_schema(operator, inputs[0])
        case Apply():
            _check_columns(operator.name, "columns", operator.columns, inputs[0])
            return operator.schema
        case Delay():
            return inputs[0]
        case Aggregate():
            return _aggregate_schema(operator, inputs[0])
        case Join() | IntervalJoin():
            return _checked_condition(operator, joined_schema(operator, *inputs), "condition", operator.condition)
        case AsOfJoin():
            return joined_schema(operator, *inputs)
        case Lookup():
            return joined_schema(operator, inputs[0], operator.table.schema)
        case Sort() | TopN():
            return _ordered_schema(operator, inputs[0])
        case Deduplicate():
            _check_columns(operator.name, "by", operator.by, inputs[0])
            return inputs[0]
        case StatefulMap():
            return _stateful_map_schema(operator, inputs[0])


# --- stateless -------------------------------------------------------------------------------------------------------


def _map_schema(operator: Map | FlatMap, fields: tuple[tuple[str, Expr], ...], schema: Schema) -> Schema:
    if not fields:
        raise QueryError(f"operator {operator.name!r}: a map needs at least one field", "/fields")
    return computed(operator.name, "fields", fields, schema)


def computed(operator: str, key: str, fields: Iterable[tuple[str, Expr]], schema: Schema) -> Schema:
    """The fields that expressions yield over columns of `schema`; `key` is where in the document they stand."""
    made = []
    for name, expr in fields:
        try:
            made.append(Field(name, *infer(expr, schema)))
        except QueryError as error:
            message = f"operator {operator!r}, field {name!r}: {error.message}"
            raise QueryError(message, f"/{key}/{escaped(name)}{error.pointer}") from None
    return _named(operator, tuple(made), f"/{key}")


def _flat_map_schema(operator: FlatMap, schema: Schema) -> Schema:
    made = _map_schema(operator, operator.fields, schema)
    if operator.explode not in made:
        there = f"{meant(operator.explode, made.names)}; there {listing(made.names)}"
        raise QueryError(f"operator {operator.name!r}, explode: no field {operator.explode!r}{there}", "/explode")
    exploded = made[operator.explode].type
    element = exploded.element
    if element is None:
        message = f"operator {operator.name!r}: field {operator.explode!r} is exploded: expected a list, got {exploded}"
        raise QueryError(message, f"/fields/{escaped(operator.explode)}")
    return Schema(tuple(Field(f.name, element, True) if f.name == operator.explode else f for f in made.fields))


def _filter_schema(operator: Filter, schema: Schema) -> Schema:
    return _checked_condition(operator, schema, "condition", operator.condition)


def _checked_condition(operator: Operator, schema: Schema, key: str, condition: Expr | None) -> Schema:
    """`schema`, over which `condition` is a bool."""
    if condition is None:
        return schema
    try:
        type_, _ = infer(condition, schema)
    except QueryError as error:
        raise QueryError(f"operator {operator.name!r}, {key}: {error.message}", f"/{key}{error.pointer}") from None
    if type_ != BOOL:
        raise QueryError(f"operator {operator.name!r}, {key}: expected bool, got {type_} of {text_of(condition)}", f"/{key}")
    return schema


def _demux_schema(operator: Demux, schema: Schema) -> Schema:
    for branch, condition in operator.cases:
        _checked_condition(operator, schema, f"cases/{escaped(branch)}", condition)
    return schema


def _union_schema(operator: Union, schemas: tuple[Schema, ...]) -> Schema:
    where = f"operator {operator.name!r}"
    if len(operator.inputs) < 2:
        raise QueryError(f"{where}: a union needs at least two inputs, got {len(operator.inputs)}", "/inputs")
    for i, (name, schema) in enumerate(zip(operator.inputs, schemas, strict=True)):
        if name in operator.inputs[:i]:
            raise QueryError(f"{where}: a union reads an input once; {name!r} stands twice", f"/inputs/{i}")
        if schema != schemas[0]:
            raise QueryError(
                f"{where}: the inputs of a union have one schema; {operator.inputs[0]!r} has {schemas[0]}, "
                f"{name!r} has {schema}; map them to the same fields first",
                f"/inputs/{i}",
            )
    return schemas[0]


# --- aggregates ------------------------------------------------------------------------------------------------------


def _aggregate_schema(operator: Aggregate, schema: Schema) -> Schema:
    _check_columns(operator.name, "by", operator.by, schema)
    if isinstance(operator.window, TransactionWindow):
        for key, condition in (("open", operator.window.open), ("close", operator.window.close)):
            _checked_condition(operator, schema, f"window/{key}", condition)
    if not operator.functions:
        raise QueryError(f"operator {operator.name!r}: an aggregate needs at least one function", "/functions")
    results = tuple(_result(operator, name, function, schema) for name, function in operator.functions)
    return _named(operator.name, tuple(schema[name] for name in operator.by) + results, "/functions")


def _result(operator: Aggregate, name: str, function: Function, schema: Schema) -> Field:
    where, pointer = f"operator {operator.name!r}, field {name!r}", f"/functions/{escaped(name)}"
    if isinstance(function, UserFunction):
        return _user_result(operator, name, function, schema)
    if FUNCTIONS[function.name] and function.column is None:
        raise QueryError(f"{where}: {function.name} takes one column", pointer)
    if function.name in ("window_start", "window_end") and isinstance(operator.window, UnboundedWindow) and operator.window.advance is None:
        raise QueryError(f"{where}: an UNBOUNDED window with an answer for every tuple has no {function.name}", pointer)
    for key, named in (("column", function.column), ("by", function.by)):
        if named is not None and named not in schema:
            raise QueryError(f"{where}: no column {named!r}{meant(named, schema.names)}; there {listing(schema.names)}", f"{pointer}/{key}")
    column, by = (None if named is None else schema[named] for named in (function.column, function.by))
    try:
        return result_field(name, function, column, by)
    except QueryError as error:
        raise QueryError(f"{where}: {error.message}", f"{pointer}/column") from None


def _user_result(operator: Aggregate, name: str, function: UserFunction, schema: Schema) -> Field:
    """NULL where it fails, whatever it is declared to return."""
    where, pointer = f"operator {operator.name!r}, field {name!r}", f"/functions/{escaped(name)}"
    for i, column in enumerate(function.arguments):
        if column not in schema:
            raise QueryError(
                f"{where}: no column {column!r}{meant(column, schema.names)}; there {listing(schema.names)}", f"{pointer}/columns/{i}"
            )
        if schema[column].type.is_list:
            raise QueryError(
                f"{where}: column {column!r} is a list, which a user's aggregate function does not take", f"{pointer}/columns/{i}"
            )
    return Field(name, function.type, True)


# --- joins -----------------------------------------------------------------------------------------------------------


def joined_schema(operator: Join | IntervalJoin | AsOfJoin | Lookup, left: Schema, right: Schema) -> Schema:
    """The columns of the left, then those of the right but the right ones of pairs of one name, with `prefix`.

    A column is nullable if its side may be missing; a pair of one name has the value of the side that is there.
    """
    shared = {a: type_ for (a, b), type_ in zip(operator.on, key_types(operator, left, right), strict=True) if a == b}
    fields = [_joined_field(f, operator.how in ("right", "full") and f.name not in shared) for f in left.fields]
    fields = [replace(f, type=shared[f.name], nullable=_shared_nullable(operator, f, right)) if f.name in shared else f for f in fields]
    others = [f for f in right.fields if f.name not in shared]
    named = [replace(_joined_field(f, operator.how in ("left", "full")), name=operator.prefix + f.name) for f in others]
    for f in named:
        if f.name in left:
            raise QueryError(
                f"operator {operator.name!r}: both sides have a column {f.name!r}; give a prefix for the right one's, or map one "
                "to another name",
                "/prefix",
            )
    return _named(operator.name, (*fields, *named), "/prefix")


def _joined_field(field: Field, may_miss: bool) -> Field:
    return replace(field, nullable=field.nullable or may_miss)


def _shared_nullable(operator: Join | IntervalJoin | AsOfJoin | Lookup, field: Field, right: Schema) -> bool:
    """NULL equals nothing, so only an unmatched tuple has one."""
    left_alone, right_alone = operator.how in ("left", "full"), operator.how in ("right", "full")
    return (left_alone and field.nullable) or (right_alone and right[field.name].nullable)


def key_types(operator: Join | IntervalJoin | AsOfJoin | Lookup, left: Schema, right: Schema) -> tuple[DataType, ...]:
    """The type in which each pair of `on` is compared."""
    return tuple(_key_type(operator, i, left, right) for i in range(len(operator.on)))


def _key_type(operator: Join | IntervalJoin | AsOfJoin | Lookup, i: int, left: Schema, right: Schema) -> DataType:
    where, pointer = f"operator {operator.name!r}, on", f"/on/{i}"
    a, b = operator.on[i]
    for column, schema, side in ((a, left, "left"), (b, right, "right")):
        if column not in schema:
            raise QueryError(
                f"{where}: no column {column!r} on the {side}{meant(column, schema.names)}; there {listing(schema.names)}", pointer
            )
    type_ = promoted((left[a].type, right[b].type))
    if type_ is None or type_.name == "list":
        types = f"{a!r} is {left[a].type}, {b!r} is {right[b].type}"
        raise QueryError(f"{where}: expected two columns that can be equal; {types}", pointer)
    return type_


# --- order and state -------------------------------------------------------------------------------------------------


def _ordered_schema(operator: Sort | TopN, schema: Schema) -> Schema:
    if operator.window is None:
        return schema
    _check_columns(operator.name, "by", operator.by, schema)
    _check_columns(operator.name, "order", tuple(name for name, _ in operator.order), schema)
    if operator.rank in schema:
        raise QueryError(f"operator {operator.name!r}: rank: the input has a column {operator.rank!r} already", "/rank")
    return _named(operator.name, (*schema.fields, Field(operator.rank, INT64)), "/rank")


def _stateful_map_schema(operator: StatefulMap, schema: Schema) -> Schema:
    _check_columns(operator.name, "by", operator.by, schema)
    if operator.schema is not None:
        _check_columns(operator.name, "columns", operator.columns, schema)
        return operator.schema
    if not operator.fields:
        raise QueryError(f"operator {operator.name!r}: expected at least one field", "/fields")
    both = state_schema(operator, schema)
    made = computed(operator.name, "fields", operator.fields, both)
    _check_over_state(operator, both)
    return made


def state_schema(operator: StatefulMap, schema: Schema) -> Schema:
    """The columns over which `update` and `fields` are: those of the input, and the state. The state is nullable if it begins as
    NULL or an update may make it so."""
    for name, literal in operator.state:
        where, pointer = f"operator {operator.name!r}: state {name!r}", f"/state/{escaped(name)}"
        if name in schema:
            raise QueryError(f"{where}: the input has a column of that name", pointer)
        if literal.type.name not in STATE_TYPES:
            message = f"{where}: expected one of {', '.join(STATE_TYPES)}, got {literal.type}; a function can keep what is none of these"
            raise QueryError(message, pointer)
    nullable = {name: literal.value is None for name, literal in operator.state}
    while True:
        fields = tuple(Field(name, literal.type, nullable[name]) for name, literal in operator.state)
        both = Schema(schema.fields + fields)
        made = computed(operator.name, "update", operator.update, both)
        _check_updates(operator, made)
        wider = {f.name: nullable[f.name] or f.nullable for f in made.fields}
        if wider == nullable:
            return both
        nullable = wider


def _check_updates(operator: StatefulMap, made: Schema) -> None:
    for name, literal in operator.state:
        if made[name].type != literal.type:
            message = f"operator {operator.name!r}: state {name!r} is {literal.type}, its update is {made[name].type}; cast one of them"
            raise QueryError(message, f"/update/{escaped(name)}")


def _check_over_state(operator: StatefulMap, both: Schema) -> None:
    """The state is computed row after row in machine code, which chooses among texts and compares them for equality, but neither makes
    nor measures text, knows no lists and does not call Python."""
    state = {name for name, _ in operator.state}
    for key, exprs in (("update", operator.update), ("fields", operator.fields)):
        for name, expr in exprs:
            if (found := _beyond_loop(typed(expr, both.by_name), state)) is not None:
                where = f"operator {operator.name!r}, {key} {name!r}: {text_of(found.expr)} is {_kind(found)}"
                message = f"{where}, which cannot be computed over the state; give the state out as a field and compute it in a map behind"
                raise QueryError(message, f"/{key}/{escaped(name)}")


def _beyond_loop(tree: Typed, state: set[str]) -> Typed | None:
    """The innermost part that is computed from the state and that no loop can compute."""
    if (inner := next((found for arg in tree.args if (found := _beyond_loop(arg, state))), None)) is not None:
        return inner
    return tree if not state.isdisjoint(_read(tree)) and _is_beyond_loop(tree, state) else None


def _is_beyond_loop(tree: Typed, state: set[str]) -> bool:
    """Of a tree that is computed from the state by parts that are not."""
    if isinstance(tree.expr, Udf) or tree.type.is_list:
        return True
    chooses = isinstance(tree.expr, Column | Literal) or (isinstance(tree.expr, Call) and tree.expr.function in ("coalesce", "when"))
    if tree.type.is_text:
        return not chooses
    of_text = any(arg.type.is_text and not state.isdisjoint(_read(arg)) for arg in tree.args)
    compares = isinstance(tree.expr, Binary | Unary) and tree.expr.op in ("=", "!=", "is_null")
    return of_text and not compares


def _read(tree: Typed) -> Iterator[str]:
    if isinstance(tree.expr, Column):
        yield tree.expr.name
    for arg in tree.args:
        yield from _read(arg)


def _kind(tree: Typed) -> str:
    if isinstance(tree.expr, Udf):
        return "a user's function (stateful_function keeps a state of its own)"
    return str(tree.type) if tree.type.is_bytes else "made from a text"


# --- columns ---------------------------------------------------------------------------------------------------------


def _check_columns(operator: str, key: str, names: tuple[str, ...], schema: Schema) -> None:
    if key == "by":
        check_key(operator, key, len(names))
    for i, name in enumerate(names):
        if name not in schema:
            there = f"{meant(name, schema.names)}; there {listing(schema.names)}"
            raise QueryError(f"operator {operator!r}, {key}: no column {name!r}{there}", f"/{key}/{i}")
        if name in names[:i]:
            raise QueryError(f"operator {operator!r}, {key}: {name!r} stands twice", f"/{key}/{i}")
        if key in ("by", "order") and schema[name].type.name == "list":
            raise QueryError(f"operator {operator!r}, {key}: {name!r} is a list, which has no equality or order here", f"/{key}/{i}")


def _named(operator: str, fields: tuple[Field, ...], pointer: str) -> Schema:
    try:
        return Schema(fields)
    except QueryError as error:
        index = int(error.pointer.split("/")[1])
        message = f"operator {operator!r}: {error.message}"
        raise QueryError(message, f"{pointer}/{escaped(fields[index].name)}") from None
