"""What window and interval joins share: pairs become joined tuples, tuples without a match too; a side's rows in a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from cep.compile.joined import LEFT, RIGHT, JoinSpec, Rows
from cep.dataflow.dead_letters import DeadLetters, Letter
from cep.dataflow.operators import Clock, Keep, Part
from cep.dataflow.output import concat
from cep.elements import PAUSE, Batch, describe_time
from cep.kernels.columns import Column, compact
from cep.kernels.join import PAIRS_MAX
from cep.model.schema import INT64, Schema
from cep.wire import Format

#: (rows of the left, rows of the right) -> event time of each pair, int64[m].
TimeOf = Callable[[np.ndarray, np.ndarray], np.ndarray]
_MARK = "__mark"


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

    def _true(self, left: Rows, right: Rows, time: np.ndarray) -> np.ndarray | None:
        if self.spec.condition is None:
            return None
        kept, failures = self.spec.test(left, right, self.clock())
        for failure in failures:
            self.dead_letters.put(Letter(failure.operator, failure.reason, position=f"event time {describe_time(int(time[failure.row]))}"))
        return kept


def compacted(batch: Batch) -> Batch:
    """The same rows, without the rest of the buffers that they were cut from."""
    return replace(batch, columns={name: compact(column) for name, column in batch.columns.items()})


class SideFormat:
    """The rows of one side in a snapshot: columns, event time, origin, and a mark, int64[n], that says what was answered of them. What
    is kept of a row that comes is what a restored one has, so that the two can lie in one batch."""

    def __init__(self, name: str, port: int, schema: Schema, origin_words: int) -> None:
        self.name, self.port, self.format = name, port, Format(schema, origin_words)

    def kept(self, batch: Batch) -> Batch:
        """What is kept of rows that come: the columns that somebody reads, without the rest of the buffers that they were cut from."""
        columns = {name: batch.columns[name] for name in self.format.schema.names}
        return compacted(replace(batch, columns=columns, origin=batch.origin if self.format.origin else None))

    def part(self, batches: Sequence[Batch], marks: Sequence[np.ndarray]) -> Part:
        schema = self.format.arrow.append(pa.field(_MARK, pa.int64(), nullable=False))
        if not batches:
            return Part(self.name, self.port, pa.RecordBatch.from_pylist([], schema))
        rows = self.format.to_arrow(concat(list(batches)))
        mark = pa.array(np.concatenate(marks), pa.int64())
        return Part(self.name, self.port, pa.RecordBatch.from_arrays([*rows.columns, mark], schema=schema))

    def rows(self, part: Part, keep: Keep) -> tuple[Batch, np.ndarray]:
        """Those that `keep` says, and their marks."""
        batch = self.format.from_arrow(part.batch.drop_columns([_MARK]))
        marks = part.batch.column(part.batch.num_columns - 1).to_numpy()
        kept = np.flatnonzero(keep(part.port, {**batch.columns, _MARK: Column(INT64, marks)}))
        return batch.take(kept), marks[kept]
