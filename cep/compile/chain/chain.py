"""Maps and Filters one after the other, as loops of machine code with Arrow between them (rule 5.3).

A chain is compiled once (`compile_chain`) and then called with batches of any size (`Chain.process`). Neighbouring
steps that compute numbers, bools and timestamps, or compare texts, are one loop; what only picks and renames is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from cep.compile.chain.source import LoopSource, loop_source
from cep.compile.chain.steps import CallUser, ChainStep, Convert, LoopStep, lower
from cep.compile.chain.text import conversion_kernels, convert
from cep.compile.chain.text_room import PIECE_BYTES, TooMuch, long_rows, room_of, too_long
from cep.compile.chain.user import UserCall
from cep.kernels.columns import Column, Columns
from cep.kernels.composed import Composed, taken, with_columns
from cep.kernels.jit import Kernel, generate, warm
from cep.model.operators import Filter, Map
from cep.model.schema import BOOL, DataType, Field, Schema
from cep.values import value

_NO_ROWS = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Failure:
    """Row `row` of the batch handed in failed in `operator`, whose tuple it no longer yields."""

    operator: str
    row: int
    reason: str


@value
class ChainResult:
    """What came out. `kept` are the rows handed in that `columns` are of, int64[m] ascending; None: all of them.

    `failures` are in the order of rows. Rows neither kept nor failed did not pass a filter.
    """

    columns: Columns
    kept: np.ndarray | None
    failures: tuple[Failure, ...]


@dataclass(frozen=True)
class CompiledLoop:
    """One compiled loop; without a kernel it only picks and renames."""

    source: LoopSource
    kernel: Kernel | None

    def run(self, columns: Columns, n: int, now_us: int, *more: np.ndarray | int) -> ChainResult:
        """Takes `n` rows through it. A failure's row is one of these `n`. `more`: what the kernel takes behind the rest."""
        source = self.source
        if self.kernel is None:
            return ChainResult(self._passed(columns, None), None, ())
        outputs = [_Output(f, n) for f in source.outputs]
        rows = np.empty(n, np.int64) if source.filters else _NO_ROWS
        failed_rows, failed_sites = np.empty((2, n), np.int64) if source.sites else (_NO_ROWS, _NO_ROWS)
        arguments: list[np.ndarray | None] = []
        for name, is_bytes, nullable in self._reads:
            _add_arrays(arguments, columns[name], is_bytes, nullable)
        for output in outputs:
            arguments += output.arrays
        kept_count, failed = self.kernel(n, now_us, *self._literals, *arguments, rows, failed_rows, failed_sites, *more)
        kept: np.ndarray | None = None
        if failed or (source.filters and kept_count < n):
            kept = rows[:kept_count] if source.filters else np.delete(np.arange(n), failed_rows[:failed])
        elif source.same:
            return ChainResult(columns, None, ())
        chosen = kept if kept is None or not source.filters else slice(0, kept_count)
        computed = {output.field.name: output.column(chosen) for output in outputs}
        passed = self._passed(columns, kept)
        failures = () if not failed else self._failures(failed_rows[:failed], failed_sites[:failed])
        return ChainResult(self._in_order(passed, computed) if passed else computed, kept, failures)

    @cached_property
    def _reads(self) -> list[tuple[str, bool, bool]]:
        return reads_of(self.source.inputs)

    @cached_property
    def _literals(self) -> tuple[np.ndarray, ...]:
        return (self.source.integers, self.source.floats, *self.source.texts, *self.source.arrays)

    def _passed(self, columns: Columns, kept: np.ndarray | None) -> Columns:
        """Columns that pass unchanged; those that the caller left out as not needed stay left out."""
        if isinstance(columns, Composed):
            names = {name: source for name, source in self.source.passed.items() if source in columns}
            if names and all(columns.type_of(source) == self.source.fields[name].type for name, source in names.items()):
                return columns.renamed(names) if kept is None else columns.renamed(names).take(kept)
        passed = {}
        for name, source in self.source.passed.items():
            if source in columns:
                column = columns[source] if kept is None else columns[source].take(kept)
                passed[name] = _typed(column, self.source.fields[name].type)
        return passed

    def _in_order(self, passed: Columns, computed: Columns) -> Columns:
        there = with_columns(passed, computed)
        if isinstance(there, Composed):
            return there
        return {name: there[name] for name in self.source.fields if name in there}

    def _failures(self, rows: np.ndarray, sites: np.ndarray) -> tuple[Failure, ...]:
        failed = [(row, self.source.sites[site]) for row, site in zip(rows.tolist(), sites.tolist(), strict=True)]
        return tuple(Failure(site.operator, row, site.reason) for row, site in failed)


class _Output:
    """The arrays that a loop fills for one column of up to `n` rows."""

    def __init__(self, field: Field, n: int) -> None:
        dtype = {"bool": "uint8", "timestamp": "int64"}.get(field.type.name, field.type.name)
        self.field = field
        self.arrays = [np.empty(n, dtype)] + ([np.empty(n, np.uint8)] if field.nullable else [])

    def column(self, chosen: np.ndarray | slice | None) -> Column:
        values, *valid = self.arrays if chosen is None else [array[chosen] for array in self.arrays]
        return Column(self.field.type, values, valid[0] if valid and not valid[0].all() else None)


ChainPart = CompiledLoop | Convert | UserCall


@dataclass(frozen=True)
class Chain:
    """Compiled Maps and Filters. It holds no state: any number of batches may be in it.

    `schema` is that of the rows that come out.
    """

    schema: Schema
    parts: tuple[ChainPart, ...]

    def process(self, columns: Columns, n: int, now_us: int, cut: bool = False) -> ChainResult:
        """Takes `n` rows through the chain.

        Args:
            columns: those of the input schema; what neither the chain nor its reader reads may be left out.
            now_us: what now() is, µs UTC.
            cut: the caller gives it fewer rows where the texts that it makes of them may be too many bytes together.

        Returns:
            Columns of the surviving rows. What passes unchanged is the same arrays if all rows survive.

        Raises:
            TooMuch: with `cut`, of more than one row; nothing was done.
        """
        if self._only is not None:
            return self._only.run(columns, n, now_us)
        kept: np.ndarray | None = None
        failures: list[Failure] = []
        for part in self.parts:
            if isinstance(part, Convert):
                if cut and n > 1 and room_of(part, columns, n) > PIECE_BYTES:
                    raise TooMuch
                columns = with_columns(columns, convert(part, columns, n))
                if not too_long(columns[part.target.name]):
                    continue
            result = part.run(columns, n, now_us) if isinstance(part, CompiledLoop) else _called(part, columns, n)
            failures += (_at(failure, kept) for failure in result.failures)
            columns = result.columns
            if result.kept is not None:
                kept = result.kept if kept is None else kept[result.kept]
                n = len(kept)
        return ChainResult(columns, kept, tuple(sorted(failures, key=lambda failure: failure.row)))

    @cached_property
    def _only(self) -> CompiledLoop | None:
        """A chain of one loop, as most are."""
        (part,) = self.parts if len(self.parts) == 1 else (None,)
        return part if isinstance(part, CompiledLoop) else None

    @property
    def makes_texts(self) -> bool:
        """Does Arrow make texts or lists in it?"""
        return any(isinstance(part, Convert) and part.target.type.is_bytes for part in self.parts)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is slow in it, and why."""
        return tuple(note for part in self.parts if isinstance(part, UserCall) for note in part.function.notes)

    @property
    def loops(self) -> tuple[CompiledLoop, ...]:
        """The loops of machine code, in order; each is one function, whose text is `source.text`."""
        return tuple(part for part in self.parts if isinstance(part, CompiledLoop) and part.kernel is not None)


def compile_chain(operators: tuple[Map | Filter, ...], schema: Schema) -> Chain:
    """Machine code for `operators` over rows of `schema`, compiled or taken from the cache before this returns.

    Raises:
        QueryError: an operator does not fit; names it and its field.
    """
    return ready(make_chain(operators, schema))


def make_chain(operators: tuple[Map | Filter, ...], schema: Schema) -> Chain:
    """The same chain before anything is compiled: to read its sources, or to run it interpreted."""
    lowered = lower(operators, schema)
    return chain_of(lowered.steps, schema.by_name, lowered.schema)[0]


def chain_of(steps: Sequence[ChainStep], fields: Mapping[str, Field], schema: Schema) -> tuple[Chain, Mapping[str, Field]]:
    """The chain of `steps` over columns `fields`, and the columns that it yields, hidden ones too; `schema` names those of users."""
    builder = _Builder(fields)
    for step in steps:
        builder.add(step)
    builder.close()
    return Chain(schema, tuple(builder.parts)), builder.fields


def ready(chain: Chain) -> Chain:
    """The same, its machine code compiled or taken from the cache."""
    for part in chain.parts:
        if isinstance(part, Convert):
            warm(*conversion_kernels(part))
        elif isinstance(part, UserCall):
            part.function.warm()
        elif part.kernel is not None:
            warm(part.kernel)
    return chain


class _Builder:
    """Collects steps into loops, as many into each as come without Arrow's work between them."""

    def __init__(self, fields: Mapping[str, Field]) -> None:
        self.fields = fields
        self.parts: list[ChainPart] = []
        self.steps: list[LoopStep] = []

    def add(self, step: ChainStep) -> None:
        if isinstance(step, Convert | CallUser):
            self.close()
            self.parts.append(step if isinstance(step, Convert) else UserCall(step))
            added = (step.target,) if step.ok is None else (step.target, Field(step.ok, BOOL))
            self.fields = {**self.fields, **{field.name: field for field in added}}
        else:
            self.steps.append(step)

    def close(self) -> None:
        """Ends the loop that is being collected, if there is one."""
        if self.steps:
            source = loop_source(self.steps, self.fields)
            self.parts.append(CompiledLoop(source, generate(source.text, "chain").loop if source.text else None))
            self.fields, self.steps = source.fields, []


def _called(part: UserCall | Convert, columns: Columns, n: int) -> ChainResult:
    """A user's function, as a loop that keeps all rows but those that failed; or texts of which some are too long, likewise."""
    if isinstance(part, Convert):
        made: Mapping[str, Column] = {}
        failures: Sequence[tuple[int, str]] = long_rows(columns[part.target.name])
        operator = part.operator
    else:
        (made, failures), operator = part.run(columns, n), part.step.operator
    kept = np.delete(np.arange(n), [row for row, _ in failures]) if failures else None
    columns = with_columns(columns, made)
    return ChainResult(
        columns if kept is None else taken(columns, kept), kept, tuple(Failure(operator, row, reason) for row, reason in failures)
    )


def reads_of(inputs: Sequence[Field]) -> list[tuple[str, bool, bool]]:
    """For each column that a loop reads: the name, is it bytes of any length, and may it be NULL?"""
    return [(field.name, field.type.is_bytes, field.nullable) for field in inputs]


def arguments_of(columns: Columns, inputs: Sequence[Field]) -> list[np.ndarray | None]:
    """The arguments of a loop for the columns `inputs`."""
    arguments: list[np.ndarray | None] = []
    for name, is_bytes, nullable in reads_of(inputs):
        _add_arrays(arguments, columns[name], is_bytes, nullable)
    return arguments


def _add_arrays(arguments: list[np.ndarray | None], column: Column, is_bytes: bool, nullable: bool) -> None:
    """The arguments of a loop for one column that it reads."""
    arguments.append(column.values)
    if is_bytes:
        arguments += column.data, column.starts
    if nullable:
        arguments.append(np.ones(len(column), np.uint8) if column.valid is None else column.valid)


def _at(failure: Failure, kept: np.ndarray | None) -> Failure:
    """The same failure, its row counted in the batch that the whole chain got."""
    return failure if kept is None else replace(failure, row=int(kept[failure.row]))


def _typed(column: Column, type_: DataType) -> Column:
    return column if column.type is type_ or column.type == type_ else replace(column, type=type_)
