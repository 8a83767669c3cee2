"""The conditions of a pattern as machine code.

How to read it:
1. A condition is what it is the `and` of. What of that reads the row alone is computed for all rows, by a chain before the loop, into a
   bit for each variable; a row on which it fails is not in the sequence. What reads rows before (`prev`) is another chain, behind the
   columns of these.
2. What reads rows of the match is called from the loop (`conditions_source`), as inside `try_`: a way's registers are columns there, as
   the state of a StatefulMap is (`cep.compile.stateful_lowering`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from cep.compile.aggregate.spec import free_prefix
from cep.compile.chain.chain import Chain, chain_of, compile_chain, ready
from cep.compile.chain.steps import ChainStep
from cep.compile.patterns.conditions_source import ConditionsSource
from cep.compile.patterns.registers import WayRegisters
from cep.compile.stateful_lowering import StateLowering
from cep.kernels.jit import Kernel, generate, warm
from cep.kernels.machine.addresses import NOT_CALLED, Callee
from cep.model.expr import Binary, Call, ColumnRef, Expr, Literal, PrevRef
from cep.model.expr_functions import when
from cep.model.operators import Map, PatternWays
from cep.model.patterns.refs import as_column, of_match, of_prev, ref_field
from cep.model.patterns.rows import conjuncts, prevs_read, replaced, rows_read
from cep.model.schema import BOOL, Field, Schema

_TRUE = Literal(True, BOOL)


@dataclass(frozen=True)
class Alone:
    """A chain that gives columns more: a bool for each of `variables`, by number in `define`, under `names`."""

    chain: Chain
    variables: tuple[int, ...]
    names: tuple[str, ...]


@dataclass(frozen=True)
class Judging:
    """What is compiled of the conditions over rows of a match (`ConditionsSource`); None: there are none. It takes arrays of `dtypes`, the
    last of which are `literals`. Variables by bits: `conditions` are those that it has something to say of, `takings` those whose rows ways
    remember."""

    kernel: Kernel | None
    dtypes: tuple[str, ...]
    literals: tuple[np.ndarray, ...]
    conditions: int
    takings: int

    def called(self, own: Sequence[np.ndarray], columns: Sequence[np.ndarray | None]) -> Callee:
        """As the loop calls it: with arrays of every query, and columns that it reads."""
        if self.kernel is None:
            return NOT_CALLED
        return Callee.of(self.kernel, [*own, *(each for each in columns if each is not None), *self.literals], self.dtypes)


@dataclass(frozen=True)
class WaysLoop:
    """The loop over rows. `before` is run first; then `codes` are added, of the text columns that they are named by; `inputs` are the
    columns that it reads."""

    judging: Judging
    before: Chain
    codes: dict[str, Field]
    texts: tuple[bytes, ...]
    inputs: tuple[Field, ...]
    registers: WayRegisters


@dataclass(frozen=True)
class Conditions:
    """`tag`: the column that says of which input a row is; None: there is one."""

    alone: Alone
    before: Alone | None
    prevs: tuple[PrevRef, ...]
    loop: WaysLoop


def compile_conditions(operator: PatternWays, schema: Schema, tag: str | None, name: str) -> Conditions:
    """Machine code over rows of `schema`, which has column `tag` if there are several inputs. Failures are of operator `name`."""
    prevs = tuple(
        {of_prev(ref): ref for _, each in operator.define if each.condition is not None for ref in prevs_read(each.condition)}.values()
    )
    alone = _alone(operator, schema, tag, name)
    behind = Schema((*schema.fields, *(Field(of_prev(ref), schema[ref.column].type, True) for ref in prevs)))
    before = _behind_prev(operator, behind, name) if prevs else None
    return Conditions(alone, before, prevs, _loop(operator, behind, name))


def _parts(operator: PatternWays, rows: bool, prevs: bool) -> dict[int, list[Expr]]:
    """By number of the variable what of its condition reads, or does not, rows of the match and rows before."""
    found: dict[int, list[Expr]] = {}
    for number, (_, definition) in enumerate(operator.define):
        for each in conjuncts(definition.condition) if definition.condition is not None else ():
            if bool(rows_read(each)) == rows and (rows or bool(prevs_read(each)) == prevs):
                found.setdefault(number, []).append(each)
    return found


def _chain(schema: Schema, made: dict[int, Expr], name: str) -> Alone:
    prefix = free_prefix("_is", schema.names)
    names = tuple(f"{prefix}{number}" for number in made)
    passed = tuple((column, ColumnRef(column)) for column in schema.names)
    fields = (*passed, *zip(names, made.values(), strict=True))
    return Alone(compile_chain((Map(name, "", fields),), schema), tuple(made), names)


def _alone(operator: PatternWays, schema: Schema, tag: str | None, name: str) -> Alone:
    parts, made = _parts(operator, False, False), dict[int, Expr]()
    for number, (_, definition) in enumerate(operator.define):
        condition = _and(parts.get(number, [_TRUE]))
        if tag is not None and definition.input is not None:
            condition = when(ColumnRef(tag) == operator.inputs.index(definition.input), condition).otherwise(False)
        made[number] = condition
    return _chain(schema, made, name)


def _behind_prev(operator: PatternWays, schema: Schema, name: str) -> Alone:
    parts = _parts(operator, False, True)
    return _chain(schema, {number: _and([_tried(each) for each in found]) for number, found in parts.items()}, name)


def _and(parts: Sequence[Expr]) -> Expr:
    return reduce(lambda a, b: Binary("and", a, b), parts)


def _tried(expr: Expr) -> Expr:
    return Call("try", (replaced(expr, as_column),))


# --- the loop -----------------------------------------------------------------------------------------------------------


def _loop(operator: PatternWays, schema: Schema, name: str) -> WaysLoop:
    parts = _parts(operator, True, True)
    asked = {number: {of_match(ref): ref for expr in found for ref in rows_read(expr)} for number, found in parts.items()}
    refs = {name: ref for found in asked.values() for name, ref in found.items()}
    registers = WayRegisters.of(refs.values(), schema)
    state = [replace(ref_field(ref, schema), name=key) for key, ref in refs.items()]
    both = Schema((*schema.fields, *state))
    steps: list[ChainStep] = []
    lowering = StateLowering(name, both.by_name, steps, state=frozenset(field.name for field in state))
    lowered = {number: [lowering.output(operator.define[number][0], _tried(each)) for each in found] for number, found in parts.items()}
    coded = {
        column: lowering.update(column, ColumnRef(column), schema[column].type)
        for (_, kind, column) in registers.places
        if kind != "count" and schema[column].type.is_text
    }
    chain, columns = chain_of(steps, schema.by_name, schema)
    ready(chain)
    fields = {**columns, **{codes.name: codes for codes in lowering.codes.values()}}
    source = ConditionsSource(name, fields, registers)
    for number, trees in lowered.items():
        source.add_condition(number, trees, tuple(asked[number].values()))
    for number, (variable, _) in enumerate(operator.define):
        if variable in registers.variables():
            source.add_taking(number, variable, coded)
    text = source.text()
    judge: Kernel | None = generate(text, "judge").judge if text else None
    if judge is not None:
        warm(judge)
    judging = Judging(judge, source.dtypes, tuple(source.literals), _bits_of(source.conditions), _bits_of(source.takings))
    return WaysLoop(judging, chain, lowering.codes, tuple(lowering.texts), tuple(source.inputs), registers)


def _bits_of(numbers: Iterable[int]) -> int:
    return sum(1 << number for number in numbers)
