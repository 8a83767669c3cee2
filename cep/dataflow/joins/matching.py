"""What window and interval joins share: pairs become joined tuples, tuples without a match too; a side's rows in a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from cep.compile.join_rows import LEFT, RIGHT, JoinSpec, SideRows
from cep.dataflow.dead_letters import DeadLetters, Letter
from cep.dataflow.operators.context import BuildContext
from cep.dataflow.operators.operator import Clock, Keep, Part
from cep.dataflow.outputs.output import concatenated
from cep.elements import PAUSE, Batch, describe_time
from cep.kernels.arrays import empty_batch, int64_array, numbers_in
from cep.kernels.columns import Column, compact
from cep.kernels.composed import selected
from cep.kernels.join import PAIRS_MAX
from cep.kernels.tables.changes import TakenBlocks
from cep.model.contract.matching import Matching
from cep.model.operators import IntervalJoin, Join, Origins
from cep.model.schema import INT64, Schema
from cep.transport.wire import Format

#: (rows of the left, rows of the right) -> event time of each pair, int64[m].
TimeOf = Callable[[np.ndarray, np.ndarray], np.ndarray]
_MARK, _OVER = "__mark", "__over"


class Matcher:
    """Makes joined tuples, in batches of at most PAIRS_MAX, whatever there is of them: generators, pulled while there is credit."""

    def __init__(self, spec: JoinSpec, clock: Clock, dead_letters: DeadLetters) -> None:
        self.spec, self.clock, self.dead_letters = spec, clock, dead_letters

    def matches(
        self,
        sides: Sequence[Batch],
        pairs: Iterator[tuple[np.ndarray, np.ndarray]],
        matched: Sequence[np.ndarray],
        time_of: TimeOf,
    ) -> Iterator[Batch]:
        """The joined tuples of those `pairs` (rows of the left, of the right) for which the condition is true. These rows are marked in
        `matched`, uint8 by row, of both sides."""
        for rows in pairs:
            time = time_of(*rows)
            kept = self._true((sides[LEFT], rows[LEFT]), (sides[RIGHT], rows[RIGHT]), time)
            left, right = rows if kept is None else (rows[LEFT][kept], rows[RIGHT][kept])
            matched[LEFT][left], matched[RIGHT][right] = 1, 1
            if len(left):
                yield self.spec.joined((sides[LEFT], left), (sides[RIGHT], right), time if kept is None else time[kept])
            else:
                yield PAUSE

    def unmatched(self, side: int, batch: Batch, rows: np.ndarray, time: np.ndarray) -> Iterator[Batch]:
        """Tuples of one side alone, at these event times."""
        for start in range(0, len(rows), PAIRS_MAX):
            some = batch, rows[start : start + PAIRS_MAX]
            left, right = (some, None) if side == LEFT else (None, some)
            yield self.spec.joined(left, right, time[start : start + PAIRS_MAX])

    def _true(self, left: SideRows, right: SideRows, time: np.ndarray) -> np.ndarray | None:
        if self.spec.condition is None:
            return None
        kept, failures = self.spec.test(left, right, self.clock())
        for failure in failures:
            self.dead_letters.put(Letter(failure.operator, failure.reason, position=f"event time {describe_time(int(time[failure.row]))}"))
        return kept


def compacted_rows(batch: Batch) -> Batch:
    """The same rows, without the rest of the buffers that they were cut from."""
    return replace(batch, columns={name: compact(column) for name, column in batch.columns.items()})


class SideFormat:
    """The rows of one side in a snapshot: columns, event time, origin, and a mark, int64[n], that says what was answered of them. What
    is kept of a row that comes is what a restored one has, so that the two can lie in one batch."""

    def __init__(self, name: str, port: int, schema: Schema, origin_words: int) -> None:
        self.name, self.port, self.format = name, port, Format(schema, origin_words)

    def read(self, batch: Batch) -> Batch:
        """What is read of rows that come."""
        return Batch(
            selected(batch.columns, self.format.schema.names),
            batch.time,
            batch.origin if self.format.origin else None,
            batch.created,
            batch.source,
        )

    def kept(self, batch: Batch) -> Batch:
        """The same, without the rest of the buffers that they were cut from."""
        return compacted_rows(self.read(batch))

    def part(self, batches: Sequence[Batch], marks: Sequence[np.ndarray], chosen: Sequence[np.ndarray] | None = None) -> Part:
        """Of `batches`, or just the `chosen` rows of each, which stay as they are; it is put together when it is asked for."""
        return Part(self.name, self.port, partial(self._made, list(batches), list(marks), chosen))

    def blocks_part(self, batch: Batch, marks: np.ndarray, chosen: np.ndarray | None, blocks: TakenBlocks, over: int) -> Part:
        """The same of some `blocks` of rows, of which those of an event time before `over` are over. That column comes first: with what
        is taken of earlier checkpoints it is the last one's."""
        made = partial(self._made, [batch], [marks], None if chosen is None else [chosen])
        return Part(self.name, self.port, partial(_with_over, made, over), blocks)

    def _made(self, batches: list[Batch], marks: list[np.ndarray], chosen: Sequence[np.ndarray] | None) -> pa.RecordBatch:
        schema = self.format.arrow.append(pa.field(_MARK, pa.int64(), nullable=False))
        if not batches:
            return empty_batch(schema)
        if chosen is not None:
            batches = [batch.take(rows) for batch, rows in zip(batches, chosen, strict=True)]
        rows = self.format.to_arrow(concatenated(batches))
        mark = int64_array(np.concatenate(marks).astype(np.int64, copy=False))
        return pa.RecordBatch.from_arrays([*rows.columns, mark], schema=schema)

    def rows(self, part: Part, keep: Keep) -> tuple[Batch, np.ndarray]:
        """Those that `keep` says and that are not over, and their marks."""
        rows = part.batch
        over = numbers_in(rows.column(0)) if rows.schema.names[0] == _OVER else None
        batch = self.format.from_arrow(rows.drop_columns([_MARK] if over is None else [_OVER, _MARK]))
        marks = numbers_in(rows.column(rows.num_columns - 1))
        is_kept = keep(part.port, {**batch.columns, _MARK: Column(INT64, marks)})
        kept = np.flatnonzero(is_kept if over is None else is_kept & (batch.time >= over))
        return batch.take(kept), marks[kept]


def _with_over(made: Callable[[], pa.RecordBatch], over: int) -> pa.RecordBatch:
    rows = made()
    before = int64_array(np.full(rows.num_rows, over))
    return rows.add_column(0, pa.field(_OVER, pa.int64(), nullable=False), before)


def spec_of(operator: Matching, right: Schema, context: BuildContext) -> JoinSpec:
    """`right`: all columns of the right side."""
    layout = context.layout
    left = layout.validated.schemas[operator.inputs[0]]
    origin = operator.origins is Origins.FOLDED and layout.origin(operator.name)
    return JoinSpec.of(operator, left, right, layout.columns(operator.name).names, origin)


def matcher_of(join: Join | IntervalJoin, context: BuildContext) -> tuple[Matcher, tuple[SideFormat, SideFormat]]:
    """What makes its joined tuples, and how the rows of each side are kept."""
    spec = spec_of(join, context.layout.validated.schemas[join.right], context)
    words = [context.layout.words(name) if spec.origin else 0 for name in join.inputs]
    left, right = (SideFormat(side, port, context.columns(join.inputs[port]), words[port]) for port, side in enumerate(join.input_keys))
    return Matcher(spec, context.clock, context.dead_letters), (left, right)
