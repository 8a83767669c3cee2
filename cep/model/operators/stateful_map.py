"""One tuple per tuple, computed from it and from a state of its group."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from cep.errors import QueryError, escaped
from cep.model.checked import check_fields
from cep.model.contract import phrases
from cep.model.contract.columns import check_columns, computed, read_by
from cep.model.contract.forms import BY, FIELDS, LITERALS, NAMES, SCHEMA, SPAN, TEXT, Form, optional
from cep.model.contract.operator import Fields, Wanted
from cep.model.expr import Binary, Call, ColumnRef, Literal, Udf, Unary
from cep.model.operators.deduplicate import InTurn
from cep.model.references import split_reference
from cep.model.schema import Field, Schema
from cep.model.types import Typed, text_of, typed

#: What state that expressions change may be: machine words, and texts.
STATE_TYPES = ("bool", "int32", "int64", "float64", "timestamp", "string", "binary")


@dataclass(frozen=True)
class StatefulMap(InTurn):
    """One tuple per tuple, computed from it and from the state of its group, which it changes first; in stream order.

    With `state` (name, what it begins with), `update` and `fields` are expressions over the tuple's columns and the state:
    `update` before the change, all at once, `fields` after it. With `function` ("module:name") a user's
    `function(state, *columns)`, state None at first, returns (state, values of `schema`, or None for no tuple).
    A group that no tuple touched for more than `ttl` µs begins anew.
    """

    name: str
    input: str
    by: tuple[str, ...]
    ttl: int | None
    state: tuple[tuple[str, Literal], ...] = ()
    update: Fields = ()
    fields: Fields = ()
    function: str | None = None
    columns: tuple[str, ...] = ()
    schema: Schema | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        self.check_ttl()
        if bool(self.state) == (self.function is not None):
            raise QueryError(f"operator {self.name!r}: expected either state, update and fields, or a function")
        if self.function is not None:
            split_reference(self.function, "/function")
        if (self.schema is None) != (self.function is None):
            raise QueryError(f"operator {self.name!r}: expected a schema beside a function, and nowhere else", "/schema")
        if tuple(name for name, _ in self.update) != tuple(name for name, _ in self.state):
            raise QueryError(f"operator {self.name!r}: update: expected an expression for each of the state's names, in order", "/update")

    @staticmethod
    def keys() -> Mapping[str, Form]:
        return {
            "input": TEXT,
            "by": BY,
            "ttl": optional(SPAN),
            "state": LITERALS,
            "update": FIELDS,
            "fields": FIELDS,
            "function": optional(TEXT),
            "columns": NAMES,
            "schema": optional(SCHEMA),
        }

    def explained(self) -> str:
        return f"stateful map{phrases.by(self.by)} to {self.function or phrases.fields(self.fields)}"

    def output_schema(self, *inputs: Schema) -> Schema:
        check_columns(self.name, "by", self.by, inputs[0])
        if self.schema is not None:
            check_columns(self.name, "columns", self.columns, inputs[0])
            return self.schema
        if not self.fields:
            raise QueryError(f"operator {self.name!r}: expected at least one field", "/fields")
        both = self.state_schema(inputs[0])
        made = computed(self.name, "fields", self.fields, both)
        self._check_over_state(both)
        return made

    def state_schema(self, schema: Schema) -> Schema:
        """The columns over which `update` and `fields` are: those of the input, and the state. The state is nullable if it begins as
        NULL or an update may make it so."""
        for name, literal in self.state:
            where, pointer = f"operator {self.name!r}: state {name!r}", f"/state/{escaped(name)}"
            if name in schema:
                raise QueryError(f"{where}: the input has a column of that name", pointer)
            if literal.type.name not in STATE_TYPES:
                known = ", ".join(STATE_TYPES)
                message = f"{where}: expected one of {known}, got {literal.type}; a function can keep what is none of these"
                raise QueryError(message, pointer)
        nullable = {name: literal.value is None for name, literal in self.state}
        while True:
            fields = tuple(Field(name, literal.type, nullable[name]) for name, literal in self.state)
            both = Schema(schema.fields + fields)
            made = computed(self.name, "update", self.update, both)
            self._check_updates(made)
            wider = {f.name: nullable[f.name] or f.nullable for f in made.fields}
            if wider == nullable:
                return both
            nullable = wider

    def _check_updates(self, made: Schema) -> None:
        for name, literal in self.state:
            if made[name].type != literal.type:
                message = f"operator {self.name!r}: state {name!r} is {literal.type}, its update is {made[name].type}; cast one of them"
                raise QueryError(message, f"/update/{escaped(name)}")

    def _check_over_state(self, both: Schema) -> None:
        """The state is computed row after row in machine code, which chooses among texts and compares them for equality, but neither
        makes nor measures text, knows no lists and does not call Python."""
        state = {name for name, _ in self.state}
        for key, exprs in (("update", self.update), ("fields", self.fields)):
            for name, expr in exprs:
                if (found := beyond_loop(typed(expr, both.by_name), state)) is not None:
                    where = f"operator {self.name!r}, {key} {name!r}: {text_of(found.expr)} is {_kind(found)}"
                    message = (
                        f"{where}, which cannot be computed over the state; give the state out as a field and compute it in a map behind"
                    )
                    raise QueryError(message, f"/{key}/{escaped(name)}")

    def reads(self, port: int, names: tuple[str, ...], wanted: Wanted) -> Collection[str]:
        return {*self.by, *self.columns, *read_by(expr for _, expr in (*self.update, *self.fields))}

    def passes(self, column: str) -> tuple[str, ...] | None:
        expr = dict(self.fields).get(column)
        state = {name for name, _ in self.state}
        return (expr.name,) if isinstance(expr, ColumnRef) and expr.name not in state else None


def beyond_loop(tree: Typed, state: set[str]) -> Typed | None:
    """The innermost part that is computed from the state and that no loop can compute."""
    if (inner := next((found for arg in tree.args if (found := beyond_loop(arg, state))), None)) is not None:
        return inner
    return tree if not state.isdisjoint(_read(tree)) and _is_beyond_loop(tree, state) else None


def _is_beyond_loop(tree: Typed, state: set[str]) -> bool:
    """Is it computed from the state by operations that no loop can do?"""
    if isinstance(tree.expr, Udf) or tree.type.is_list:
        return True
    chooses = isinstance(tree.expr, ColumnRef | Literal) or (isinstance(tree.expr, Call) and tree.expr.function in ("coalesce", "when"))
    if tree.type.is_text:
        return not chooses
    of_text = any(arg.type.is_text and not state.isdisjoint(_read(arg)) for arg in tree.args)
    compares = isinstance(tree.expr, Binary | Unary) and tree.expr.op in ("=", "!=", "is_null")
    return of_text and not compares


def _read(tree: Typed) -> Iterator[str]:
    if isinstance(tree.expr, ColumnRef):
        yield tree.expr.name
    for arg in tree.args:
        yield from _read(arg)


def _kind(tree: Typed) -> str:
    if isinstance(tree.expr, Udf):
        return "a user's function (stateful_function keeps a state of its own)"
    return str(tree.type) if tree.type.is_bytes else "made from a text"
