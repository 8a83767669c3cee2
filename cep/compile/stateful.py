"""A StatefulMap's expressions as one loop of machine code over rows in stream order, and a chain before it.

How to read it:
1. What expressions over the tuple's columns need of Arrow (texts made, casts of texts) a chain adds as hidden columns before;
   over the state it would have to be done row by row, and is refused. Texts of the state are codes: `cep.compile.stateful_lowering`.
2. In the loop the state is columns more: their old values are read from arrays by number of the group, `update` gives the new ones,
   `fields` see those. Whatever fails goes on with the next row before anything is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from cep.compile.chain.chain import Chain, CompiledLoop, chain_of, ready
from cep.compile.chain.expressions import Value, Writer
from cep.compile.chain.source import LoopSource, LoopWriter
from cep.compile.chain.steps import Assign, ChainStep
from cep.compile.stateful_lowering import StateLowering, word_of
from cep.errors import QueryError, escaped
from cep.kernels.jit import generate, warm
from cep.model.expr import ColumnRef, Literal
from cep.model.operators import StatefulMap
from cep.model.schema import BOOL, DataType, Field, Schema
from cep.model.types import Typed

_ARRAYS = {"bool": "uint8", "timestamp": "int64"}


@dataclass(frozen=True)
class Stateful:
    """`before` is run first; then `codes` are added, of the text columns that they are named by: the numbers of their texts in a dictionary
    that begins with `texts`; then `loop`, which gives out codes in place of the fields `decoded`, and takes behind its own arguments

        group of each row (int64[n]), event time of each row (int64[n]), ttl (µs; negative: none), and of each group

    when it was touched last (int64, `cep.elements.MIN_TIME`: never) and for each field of `state` its values, of texts their codes, and,
    where it is nullable, its validity (uint8).
    """

    before: Chain
    loop: CompiledLoop
    state: tuple[Field, ...]
    codes: Mapping[str, Field]
    texts: tuple[bytes, ...]
    decoded: tuple[Field, ...]


def compile_stateful(operator: StatefulMap, schema: Schema) -> Stateful:
    """Machine code for `operator` over rows of `schema`. Raises QueryError, its pointer relative to the operator's document."""
    made = make_stateful(operator, schema)
    ready(made.before)
    assert made.loop.kernel is not None
    warm(made.loop.kernel)
    return made


def make_stateful(operator: StatefulMap, schema: Schema) -> Stateful:
    """The same before anything is compiled."""
    made = operator.output_schema(schema)
    both = operator.state_schema(schema)
    state = tuple(both[name] for name, _ in operator.state)
    steps: list[ChainStep] = []
    lowering = StateLowering(operator.name, both.by_name, steps, state=frozenset(name for name, _ in operator.state))
    update = [_lowered(lowering, "update", name, partial(lowering.update, name, expr, both[name].type)) for name, expr in operator.update]
    fields = [_lowered(lowering, "fields", name, partial(lowering.output, name, expr)) for name, expr in operator.fields]
    begins = [lowering.begins(literal) for _, literal in operator.state]
    before, columns = chain_of(steps, schema.by_name, schema)
    columns = {**columns, **{codes.name: codes for codes in lowering.codes.values()}}
    source = _Body(operator, state, columns, begins).source(update, fields)
    decoded = tuple(made[name] for name, tree in fields if made[name].type.is_text and not tree.type.is_text)
    loop = CompiledLoop(source, generate(source.text, "stateful").loop)
    return Stateful(before, loop, state, lowering.codes, tuple(lowering.texts), decoded)


def _lowered(lowering: StateLowering, key: str, name: str, lower: Callable[[], Typed]) -> tuple[str, Typed]:
    first = len(lowering.steps)
    tree = lower()
    for step in lowering.steps[first:]:
        for column in sorted(lowering.state & {column for tree in _trees(step) for column in _columns(tree)}):
            raise QueryError(
                f"operator {lowering.operator!r}, {key} {name!r}: what makes, reads or measures text cannot be computed over the state "
                f"({column!r}); give the state out as a field and compute it in a map behind",
                f"/{key}/{escaped(name)}",
            )
    return name, tree


def _trees(step: ChainStep) -> Sequence[Typed]:
    return [value for value in vars(step).values() if isinstance(value, Typed)]


def _columns(tree: Typed) -> Iterator[str]:
    if isinstance(tree.expr, ColumnRef):
        yield tree.expr.name
    for arg in tree.args:
        yield from _columns(arg)


class _Body:
    """The loop in the making."""

    def __init__(self, operator: StatefulMap, state: tuple[Field, ...], columns: Mapping[str, Field], begins: Sequence[Literal]) -> None:
        self.operator, self.begins = operator, begins
        self.state = tuple(replace(field, type=word_of(field.type)) for field in state)
        self.loop = LoopWriter(columns, False, _arguments(self.state))
        self.writer: Writer = self.loop.writer
        self.writer.operator = operator.name

    def source(self, update: Sequence[tuple[str, Typed]], fields: Sequence[tuple[str, Typed]]) -> LoopSource:
        self._read()
        new = [self._updated(name, tree) for name, tree in update]
        self.writer.there |= dict(zip((field.name for field in self.state), new, strict=True))
        self.loop.add(Assign(self.operator.name, tuple(fields)), last=False)
        self._write(new)
        return self.loop.finished()

    def _read(self) -> None:
        """The state as it was, or as it begins."""
        line = self.writer.line
        line("group = groups[i]")
        line("fresh = is_least(last[group]) or (ttl >= 0 and last[group] < time[i] - ttl)")
        for k, (field, literal) in enumerate(zip(self.state, self.begins, strict=True)):
            first = self.writer.write(Typed(literal, field.type, literal.value is None))
            line(f"old{k} = {first.code} if fresh else {_stored(k, field.type)}")
            if field.nullable:
                line(f"had{k} = {first.valid or 'True'} if fresh else (state_valid{k}[group] != 0)")
            self.writer.there[field.name] = Value(f"old{k}", field.type, f"had{k}" if field.nullable else None)

    def _updated(self, name: str, tree: Typed) -> Value:
        self.writer.where = f"state {name!r}"
        return self.writer.write(tree)

    def _write(self, new: Sequence[Value]) -> None:
        for k, (field, value) in enumerate(zip(self.state, new, strict=True)):
            self.writer.line(f"state{k}[group] = {value.code}")
            if field.nullable:
                self.writer.line(f"state_valid{k}[group] = {value.valid or 'True'}")
        self.writer.line("last[group] = time[i]")


def _stored(k: int, type_: DataType) -> str:
    return f"(state{k}[group] != 0)" if type_ == BOOL else f"state{k}[group]"


def _arguments(state: Sequence[Field]) -> list[tuple[str, str]]:
    """(type, name)."""
    arguments = [("const int64[:]", "groups"), ("const int64[:]", "time"), ("int64", "ttl"), ("int64[:]", "last")]
    for k, field in enumerate(state):
        arguments.append((f"{_ARRAYS.get(field.type.name, field.type.name)}[:]", f"state{k}"))
        arguments += [("uint8[:]", f"state_valid{k}")] if field.nullable else []
    return arguments
