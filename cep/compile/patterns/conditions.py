"""The conditions of a pattern as machine code.

How to read it:
1. A condition is what it is the `and` of. What of that reads the row alone is computed for all rows, by a chain before the loop, into a
   bit for each variable; a row on which it fails is not in the sequence. What reads rows before (`prev`) is another chain, behind the
   columns of these.
2. What reads rows of the match is in the loop (`ways_source`), as inside `try_`: a way's registers are columns there, as the state of a
   StatefulMap is (`cep.compile.stateful_lowering`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from cep.compile.aggregate.spec import free_prefix
from cep.compile.chain.chain import Chain, chain_of, compile_chain, ready
from cep.compile.chain.expressions import Writer
from cep.compile.chain.source import array_of
from cep.compile.chain.steps import ChainStep
from cep.compile.patterns import ways_source
from cep.compile.patterns.registers import WayRegisters
from cep.compile.stateful_lowering import StateLowering
from cep.kernels.jit import Kernel, generate, warm
from cep.kernels.patterns.ways import AUTOMATON, TABLES, let_pass
from cep.model.expr import Binary, Call, ColumnRef, Expr, Literal, PrevRef, RowRef
from cep.model.expr_functions import when
from cep.model.operators import Map, PatternWays
from cep.model.patterns.refs import as_column, of_match, of_prev, ref_field
from cep.model.patterns.rows import conjuncts, prevs_read, replaced, rows_read
from cep.model.schema import BOOL, Field, Schema
from cep.model.types import Typed

_TRUE = Literal(True, BOOL)


@dataclass(frozen=True)
class Alone:
    """A chain that gives columns more: a bool for each of `variables`, by number in `define`, under `names`."""

    chain: Chain
    variables: tuple[int, ...]
    names: tuple[str, ...]


@dataclass(frozen=True)
class WaysLoop:
    """The loop over rows. `before` is run first; then `codes` are added, of the text columns that they are named by; `inputs` are the
    columns that it reads, `literals` what it takes behind them."""

    kernel: Kernel
    before: Chain
    codes: dict[str, Field]
    texts: tuple[bytes, ...]
    inputs: tuple[Field, ...]
    literals: tuple[np.ndarray, ...]
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
    refs = tuple({of_match(ref): ref for found in parts.values() for expr in found for ref in rows_read(expr)}.values())
    registers = WayRegisters.of(refs, schema)
    state = [replace(ref_field(ref, schema), name=of_match(ref)) for ref in refs]
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
    source = _Source(operator, fields, registers, refs)
    for number, trees in lowered.items():
        source.add_condition(number, trees)
    for number, (variable, _) in enumerate(operator.define):
        if variable in registers.variables():
            source.add_taking(number, variable, coded)
    kernel = generate(source.text(), "ways").advance
    warm(kernel, let_pass)
    return WaysLoop(kernel, chain, lowering.codes, tuple(lowering.texts), tuple(source.inputs), tuple(source.literals), registers)


class _Source:
    """The module of the loop in the making. Functions of variables share the columns that they read."""

    def __init__(self, operator: PatternWays, fields: dict[str, Field], registers: WayRegisters, refs: Sequence[RowRef]) -> None:
        self.operator, self.fields, self.registers, self.refs = operator, fields, registers, refs
        self.inputs: list[Field] = []
        self.literals: list[np.ndarray] = []
        self.arguments: list[tuple[str, str]] = [
            ("const int64[:]", "bits"),
            ("int64[:]", "registers"),
            ("float64[:]", "floats"),
            ("int64[:, :]", "pool"),
            ("int64[:]", "whole"),
            ("int64", "now"),
        ]
        self._functions: list[tuple[str, list[str]]] = []  # head and body, of which `{given}` is not known yet
        self._columns: list[tuple[str, str]] = []
        self._literals: list[tuple[str, str]] = []
        self.conditions: list[int] = []
        self.takings: list[int] = []

    def add_condition(self, number: int, trees: Sequence[Typed]) -> None:
        """A function that says whether row i is one of the variable, by the registers at `at`."""
        writer = self._writer()
        for ref in self.refs:
            writer.there[of_match(ref)] = self.registers.value(ref, writer)
        for tree in trees:
            value = writer.write(tree)
            true = value.code if value.valid is None else f"({value.valid} and {value.code})"
            writer.line(f"if not {true}:")
            writer.line("    return False")
        writer.line("return True")
        self.conditions.append(number)
        self._add(f"_holds_{number}", number, writer)

    def add_taking(self, number: int, variable: str, coded: dict[str, Typed]) -> None:
        """A function that gives the registers at `at` what row i brings."""
        writer = self._writer()
        self.registers.take(variable, writer, coded.__getitem__)
        self.takings.append(number)
        self._add(f"_take_{number}", number, writer)

    def _writer(self) -> Writer:
        writer = Writer(self.fields)
        writer.depth, writer.operator = 1, self.operator.name
        return writer

    def _add(self, name: str, number: int, writer: Writer) -> None:
        body = [f"    {local} = {shared}" for local, shared in self._shared(name, writer)]
        self._functions.append((name, [*body, *writer.lines]))

    def _shared(self, name: str, writer: Writer) -> list[tuple[str, str]]:
        """(what the function calls an argument, what the loop calls it)."""
        found = []
        for k, column in enumerate(writer.loaded):
            place = self._column(self.fields[column])
            kinds = [
                "c",
                *(["data", "starts"] if self.fields[column].type.is_bytes else []),
                *(["valid"] if self.fields[column].nullable else []),
            ]
            found += [(f"{kind}{k}", f"column{place}_{kind}") for kind in kinds]
        for kind, dtype in (("integer", np.int64), ("float", np.float64)):
            if writer.literals[kind]:
                shared = self._literal(f"{name}_{kind}s", np.array(writer.literals[kind], dtype))
                found += [(f"{kind}{k}", f"{shared}[{k}]") for k in range(len(writer.literals[kind]))]
        for k, text in enumerate(writer.literals["text"]):
            found.append((f"text{k}", self._literal(f"{name}_text{k}", np.frombuffer(text, np.uint8))))
        for k, array in enumerate(writer.literals["array"]):
            found.append((f"array{k}", self._literal(f"{name}_array{k}", array)))
        return found

    def _column(self, field: Field) -> int:
        if field not in self.inputs:
            self.inputs.append(field)
            place = len(self.inputs) - 1
            self._columns.append((f"const {array_of(field.type)}[:]", f"column{place}_c"))
            if field.type.is_bytes:
                self._columns += [("const uint8[:]", f"column{place}_data"), ("const int64[:]", f"column{place}_starts")]
            if field.nullable:
                self._columns.append(("const uint8[:]", f"column{place}_valid"))
        return self.inputs.index(field)

    def _literal(self, name: str, array: np.ndarray) -> str:
        self.literals.append(array)
        self._literals.append((f"const {array.dtype}[:]", f"literal{name}"))
        return f"literal{name}"

    def text(self) -> str:
        arguments = [*self.arguments, *self._columns, *self._literals]
        given = ", ".join(name for _, name in arguments)
        functions = [f"\n\n@inlined\ndef {name}(i, at, {given}):\n" + "\n".join(body) for name, body in self._functions]
        own = [("int64", "n"), ("const int64[:]", "numbers"), ("const int64[:]", "time"), ("int64", "first"), ("uint8[:]", "takes")]
        automaton, tables = _AUTOMATON_NAMES, _TABLE_NAMES
        types = ", ".join([TABLES, AUTOMATON, *(type_ for type_, _ in (*own, *arguments))])
        names = ", ".join([tables, automaton, *(name for _, name in (*own, *arguments))])
        fan, begin = _fans(self.operator)
        loop = ways_source.SOURCE.format(
            given=given, types=types, arguments=names, variables=len(self.operator.define), fan=fan, begin=begin
        )
        return "\n".join([_HEADER, ways_source.IMPORTS, *functions, self._dispatch(given), loop])

    def _dispatch(self, given: str) -> str:
        width = self.registers.width
        lines = ["\n\n@apart", f"def apart_take(v, i, parent, way, {given}):"]
        lines += [f"    {line}" for line in self._copying("way", width)]
        lines += [
            line for number in self.takings for line in (f"    if v == {number}:", f"        _take_{number}(i, way * {width}, {given})")
        ]
        lines += [
            "    return",
            "\n\n@apart",
            f"def apart_holds(v, i, parent, {given}):",
            "    if not bits[i] >> v & 1:",
            "        return False",
        ]
        for number in self.conditions:
            lines += [f"    if v == {number}:", "        way = 0", *(f"        {line}" for line in self._copying("0", width))]
            lines += [f"        _take_{number}(i, 0, {given})"] if number in self.takings else []
            lines += [f"        return _holds_{number}(i, 0, {given})"]
        return "\n".join([*lines, "    return True"])

    def _copying(self, to: str, width: int) -> list[str]:
        """Lines that give the way `to` the registers of way `parent`, or of none."""
        if not width:
            return []
        sums = len(self.registers.sums)
        lines = [f"for k in range({width}):", f"    registers[{to} * {width} + k] = registers[parent * {width} + k] if parent >= 0 else 0"]
        for j, place in enumerate(self.registers.sums):
            lines += [
                f"if registers[{to} * {width} + {place}] & SPILLED:",
                f"    pool[{to} * {sums} + {j}, :] = pool[parent * {sums} + {j}, :]",
                f"    registers[{to} * {width} + {place + 1}] = {to} * {sums} + {j}",
            ]
        return lines


_TABLE_NAMES = "groups, starts, ways, nodes, waiting, desk, emitted, heap"
_AUTOMATON_NAMES = "edges, states, waits, arrive, arriving, initial, parameters"
_HEADER = '''"""Generated by cep.compile.patterns.conditions: rows along the ways of a pattern."""

from numpy import float64, int32, int64

from cep.compile.aggregate.words import add_128, rounded_128
from cep.compile.chain.arithmetic import *  # noqa: F403
from cep.compile.chain.scalars import *  # noqa: F403
from cep.kernels.states.exact_sum import SPILLED, add_exact, rounded_sum
'''


def _fans(operator: PatternWays) -> tuple[int, int]:
    """How many ways at most a row makes of one, and of none; at least the edges of a state."""
    automaton = operator.automaton
    arriving = [len(items) for items in automaton.arrive]
    fans = [max(len(state.edges), sum(arriving[edge.target] for edge in state.edges)) for state in automaton.states]
    return max(fans, default=0) + 1, sum(arriving[target] for target in automaton.initial) + 1
