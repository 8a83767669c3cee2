"""Pattern: rows in stream order along the ways through it; matches, starts that timed out and rows in no match come out in one stream,
of which each branch takes its own."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from cep.compile.aggregate.results import describe_group
from cep.compile.aggregate.spec import free_prefix
from cep.compile.chain.chain import arguments_of, compile_chain
from cep.compile.patterns.choice import matcher_of
from cep.compile.patterns.cohorts import Cohorts
from cep.compile.patterns.conditions import Alone, Conditions, compile_conditions
from cep.compile.patterns.families import FamilyBundles
from cep.dataflow.dead_letters import DeadLetters
from cep.dataflow.operators.context import BuildContext
from cep.dataflow.operators.operator import ChainOperator, Clock, Keep, Part, TextChainOperator, outcome
from cep.dataflow.operators.sequential import HELD, SequentialOperator
from cep.dataflow.outputs.text_codes import TextCodes
from cep.dataflow.patterns import cohorts_snapshot, families_snapshot, ways_snapshot
from cep.dataflow.patterns.kept_rows import KeptRows
from cep.dataflow.patterns.outcomes import BranchLetters, Outcomes
from cep.dataflow.state.hold import Hold
from cep.dataflow.state.lags import KERNELS, Lag, Lags
from cep.elements import MAX_TIME, MIN_TIME, PAUSE, Batch
from cep.errors import StateLimitExceeded
from cep.kernels.columns import Column, nulls
from cep.kernels.jit import warm
from cep.kernels.patterns import places
from cep.kernels.patterns.columns import COLUMN_KERNELS, bits_of
from cep.kernels.tables.group_numbers import GroupNumbers
from cep.model.operators import PatternBranch, PatternWays
from cep.model.operators.pattern_ways import ALL_ROWS
from cep.model.patterns.refs import of_prev
from cep.model.patterns.rows import rows_read
from cep.model.schema import INT64, Field, Schema

LAGS = "lags"
#: Groups are looked through when they are twice as many as were left the last time, and this many more.
GROUPS_MORE = 4_096


class PatternOperator(SequentialOperator):
    """`pattern`: its name, which dead letters name. `schema`: of the rows of all inputs together, of which `inputs` are those of
    each; `tag`: the column that says which, if there are several."""

    def __init__(
        self,
        operator: PatternWays,
        conditions: Conditions,
        inputs: Sequence[Schema],
        tag: str | None,
        hold: Hold,
        state_limit: int,
        clock: Clock,
        dead_letters: DeadLetters,
    ) -> None:
        super().__init__(operator.name, hold, state_limit)
        self.operator, self.conditions, self.inputs, self.tag = operator, conditions, inputs, tag
        self.clock, self.dead_letters = clock, dead_letters
        self.pattern = operator.pattern_name
        self.notes = conditions.alone.chain.notes
        self.by = tuple(hold.schema[name] for name in operator.by)
        self.numbers, self._groups_left = GroupNumbers(self.by), 0
        self.texts = TextCodes(conditions.loop.texts)
        self.ways = matcher_of(operator, conditions.loop)
        self.words = hold.format.origin
        by_rows = self.ways.quiet and not operator.unmatched  # so nothing comes out by a row that is kept, whose origin it would have
        self.kept = KeptRows(Schema(tuple(hold.schema[name] for name in self._kept_columns())), 0 if by_rows else self.words)
        self.outcomes = Outcomes(operator, self.pattern, hold.schema, self.words, self.numbers, self.kept, dead_letters)
        asked = [Lag(of_prev(ref), ref.column, ref.k) for ref in conditions.prevs]
        loop = conditions.loop
        read = {*operator.by, *self.kept.schema.names, *loop.codes, *(field.name for field in loop.inputs)}
        self._read = None if asked or loop.before.parts else read
        self.lags = Lags(self.by, asked, hold.schema, operator.time_to_live) if asked else None
        warm(*COLUMN_KERNELS, *(KERNELS if asked else ()))

    def _kept_columns(self) -> Iterator[str]:
        """What is read of a row once it is in a match."""
        read = {ref.column for ref in self.operator.refs}
        texts = {column for _, _, column in self.conditions.loop.registers.places if column and self.hold.schema[column].type.is_text}
        for name in self.hold.schema.names:
            if name != self.tag and (self.operator.whole_rows or name in read or name in texts):
                yield name

    @property
    def written(self) -> str:
        return self.pattern

    @property
    def memory_bytes(self) -> int:
        lags = 0 if self.lags is None else self.lags.bytes
        return self.numbers.bytes + self.texts.bytes + self.ways.bytes + self.kept.bytes + lags

    @property
    def next_end(self) -> int | None:
        ends = [each + 1 for each in (self.hold.first, self.ways.next_due) if each is not None]
        return min(ends, default=None)

    # Rows in

    def on_batch(self, batch: Batch, port: int) -> Iterable[Batch]:
        return super().on_batch(batch if self.tag is None else self._united(batch, port, self.tag), port)

    def _united(self, batch: Batch, port: int, tag: str) -> Batch:
        """With the columns of all inputs."""
        n = len(batch.time)
        columns = {
            field.name: batch.columns[field.name] if field.name in self.inputs[port] else nulls(field.type, n)
            for field in self.hold.schema.fields
            if field.name != tag
        }
        columns[tag] = Column(INT64, np.full(n, port))
        origin, words = batch.origin, self.words
        if origin is not None and origin.shape[1] < words:
            origin = np.pad(origin, ((0, 0), (0, words - origin.shape[1])), constant_values=-1)
        return replace(batch, columns=columns, origin=origin)

    def on_watermark(self, watermark: int) -> Iterator[Batch]:
        yield from super().on_watermark(watermark)
        passing = self.ways.pass_time(min(watermark, places.FAR)) if watermark < MAX_TIME else self.ways.end()
        for emitted in passing:
            yield from (PAUSE,) if emitted is None else self.outcomes.of(emitted, None)
        if self.lags is not None:
            yield from self.lags.forget(watermark)
        yield from self._forget(watermark)
        self.incomplete = self.ways.dropped

    def _take(self, batch: Batch) -> Iterator[Batch]:
        batch, bits = self._alone(batch)
        if self.lags is not None and len(batch):
            batch, bits = yield from self._behind_prev(batch, bits, self.lags)
        now = self.clock()
        loop = self.conditions.loop
        result = loop.before.process(batch.columns, len(batch), now)
        bits = bits if result.kept is None else bits[result.kept]
        batch = outcome(batch, result, self.dead_letters)
        if not len(batch):
            return
        codes = {name.name: self.texts.codes(batch.columns[text]) for text, name in loop.codes.items()}
        groups = self.numbers.of(batch.columns, len(batch))
        self.ways.has_groups(len(self.numbers))
        first = self.kept.rows
        self.kept.add(batch)
        arguments = arguments_of({**batch.columns, **codes}, loop.inputs)
        try:
            for emitted in self.ways.take(groups, np.ascontiguousarray(batch.time), first, bits, now, arguments):
                yield from (PAUSE,) if emitted is None else self.outcomes.of(emitted, batch)
        except StateLimitExceeded as error:
            raise self._too_many(int(str(error))) from None
        self._sweep(int(batch.time[-1]))

    def _alone(self, batch: Batch) -> tuple[Batch, np.ndarray]:
        """The rows that are in the sequence, and of each which variables' conditions over the row alone are true, a bit each."""
        alone = self.conditions.alone
        made = outcome(batch, alone.chain.process(batch.columns, len(batch), self.clock()), self.dead_letters)
        bits, none = _bits(made, alone)
        rows = replace(made, columns={name: column for name, column in made.columns.items() if self._reads(name)})
        if self.operator.takes_all or not none:
            return rows, bits
        relevant = np.flatnonzero(bits != 0)  # of bools: of words it takes ten times as long
        return rows.take(relevant), bits.take(relevant)

    def _reads(self, name: str) -> bool:
        """Is a column read behind the conditions over the row alone? All are where a row may fail there, for dead letters have it whole."""
        return name in self._read if self._read is not None else name not in self.conditions.alone.names

    def _behind_prev(self, batch: Batch, bits: np.ndarray, lags: Lags) -> Generator[Batch, None, tuple[Batch, np.ndarray]]:
        """The same where conditions read rows before."""
        found = yield from lags.take(batch)
        batch = replace(batch, columns={**batch.columns, **found})
        before = self.conditions.before
        if before is None:
            return batch, bits
        made = outcome(batch, before.chain.process(batch.columns, len(batch), self.clock()), self.dead_letters)
        cleared = np.full(len(made), ~sum(1 << number for number in before.variables))
        return batch, bits & (cleared | _bits(made, before)[0])

    def _too_many(self, group: int) -> StateLimitExceeded:
        keys = self.numbers.columns_of(np.array([group]))
        return StateLimitExceeded(
            f"operator {self.pattern!r}: group {describe_group(keys, self.by, 0)} has more than {self.operator.limit:,} open starts; "
            "make within or ttl shorter, or what may begin a match rarer, raise limit, or say on_limit: drop_oldest"
        )

    # What is not needed any more

    def _sweep(self, before: int) -> None:
        """What comes is not older than `before`."""
        if self.kept.wants_sweep:
            self.ways.settle(before)
            oldest = self.ways.oldest_row(self.kept.rows)
            if oldest is not None and self.kept.leave(*oldest):
                return
            self.ways.renumber_rows(self.kept.keep(self.ways.named_rows(self.kept.rows)))

    def _forget(self, watermark: int) -> Iterator[Batch]:
        """Groups that have nothing open, if they are many; where matches are numbered, a group's number goes on as long as it lives."""
        numbered, ttl = self.operator.rows == ALL_ROWS, self.operator.time_to_live
        if (numbered and ttl is None) or len(self.numbers) < 2 * self._groups_left + GROUPS_MORE:
            return
        self.ways.settle(min(watermark, places.FAR))
        left = ~self.ways.idle_groups(len(self.numbers))
        if numbered and ttl is not None:
            left |= self.ways.numbered_groups(len(self.numbers), max(watermark - ttl, MIN_TIME))
        kept = np.flatnonzero(left)
        for _ in self.numbers.keeping(kept):
            yield PAUSE
        self.ways.keep_groups(kept)
        self._groups_left = len(kept)

    # Snapshots

    def snapshot(self) -> list[Part]:
        parts = [Part(HELD, 0, self.hold.snapshot())]
        parts += [] if self.lags is None else [Part(LAGS, 0, self.lags.snapshot())]
        if isinstance(self.ways, Cohorts):
            own = cohorts_snapshot.snapshot(self.ways, self.numbers, self.kept)
        elif isinstance(self.ways, FamilyBundles):
            own = families_snapshot.snapshot(self.ways, self.numbers, self.kept)
        else:
            own = ways_snapshot.snapshot(self.ways, self.numbers, self.kept, self.texts)
        return parts + [Part(name, 0, batch) for name, batch in own.items()]

    def restore(self, parts: Sequence[Part], keep: Keep) -> None:
        for part in parts:
            if part.name == HELD:
                self.hold.restore(part.batch, keep(0, self.hold.columns(part.batch)))
            elif part.name == LAGS and self.lags is not None:
                self.lags.restore(part.batch, keep(0, self.lags.columns(part.batch)).astype(bool))
        own = [part for part in parts if part.name not in (HELD, LAGS)]
        if isinstance(self.ways, Cohorts):
            cohorts_snapshot.restore(self.ways, self.numbers, self.kept, own, keep)
        elif isinstance(self.ways, FamilyBundles):
            families_snapshot.restore(self.ways, self.numbers, self.kept, own, keep)
        else:
            ways_snapshot.restore(self.ways, self.numbers, self.kept, self.texts, own, keep)
        self._check()

    def clear(self) -> None:
        self.hold.clear()
        self.ways.clear()
        self.kept.clear()
        self.numbers.keep(np.zeros(0, np.int64))
        self._groups_left = 0
        if self.lags is not None:
            self.lags.clear()

    def contents(self) -> str:
        opened = self.ways.opened(len(self.numbers))
        largest = np.argsort(-opened, kind="stable")[:3].tolist()
        columns = self.numbers.columns
        keys = "; ".join(f"{describe_group(columns, self.by, group)} ({opened[group]} open)" for group in largest) or "none"
        kept = self.kept.rows - self.kept.first
        return f"{len(self.numbers)} groups (most open starts: {keys}); {kept} rows kept; {len(self.hold)} rows held"


def _bits(batch: Batch, alone: Alone) -> tuple[np.ndarray, int]:
    """Of each row the variables whose conditions are true, not NULL, a bit each; and how many rows are none."""
    columns = [batch.columns[name] for name in alone.names]
    true = np.empty((len(columns), len(batch)), np.uint8)
    for line, column in zip(true, columns, strict=True):
        if column.valid is None:
            line[:] = column.values
        else:
            np.logical_and(column.values, column.valid, out=line)
    bits = np.empty(len(batch), np.int64)
    return bits, int(bits_of(true, np.array(alone.variables, np.int64), bits))


def build(operator: PatternWays, context: BuildContext) -> PatternOperator:
    layout = context.layout
    inputs = [context.columns(name) for name in operator.inputs]
    schema, tag = operator.united(*inputs), None
    if len(inputs) > 1:
        tag = free_prefix("_input", schema.names)
        schema = Schema((*schema.fields, Field(tag, INT64)))
    words = max(layout.words(name) for name in operator.inputs)
    hold = Hold(schema, words, any(layout.ties(name) for name in operator.inputs))
    conditions = compile_conditions(operator, schema, tag, operator.pattern_name)
    return PatternOperator(operator, conditions, inputs, tag, hold, context.state_limit, context.clock, context.dead_letters)


def build_branch(branch: PatternBranch, context: BuildContext) -> ChainOperator | TextChainOperator:
    schema = context.columns(branch.input)
    chain = compile_chain(branch.steps(schema.names), schema)
    kind = TextChainOperator if chain.makes_texts else ChainOperator
    refs = [ref for _, expr in branch.measures for ref in rows_read(expr)]
    return kind(branch.name, chain, context.clock, BranchLetters(context.dead_letters, refs, schema.names))
