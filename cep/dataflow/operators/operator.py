"""Operators at work: one object per operator instance, built from the frozen description, never refusing input.

An operator is handed a batch or a watermark and yields batches; the instance that pulls may pause between any two of them, and must be
able to soon: others wait for the same core. So an operator works in pieces of bounded size, and where nothing comes out of one it yields
`cep.elements.PAUSE`. It is not handed anything else before it is through.

What an operator with state promises (`StatefulOperator`):

1. `snapshot` and `restore` take its whole state out and in as Arrow record batches, `Part`s. It can be restored at another
   parallelism: an instance gets the parts of all former instances, and `keep` says which rows are its own. A snapshot of much has several
   parts of a name, as if of several instances. What a snapshot refers to is not written any more: it is read beside the engine's thread,
   while the operator works on.
2. A former instance may have been further in event time than another. So each row says by itself what has been answered of it:
   nothing comes out twice and nothing is left out, whatever watermark the restored instance begins with (it begins at -inf).
3. After the state has grown it is held against the limit (`check_state`), which fails the query, by name.
4. While it is at work, `clear` leaves it without state and `restore` adds rows of an instance that has come as far in event time:
   so groups are handed from one instance to another (`cep.dataflow.movement.bucket_move`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from cep.compile.aggregate.results import describe_row, listed
from cep.compile.aggregate.window_state import AggregateSpec, GroupFailure, WindowState
from cep.compile.chain.chain import Chain, ChainResult
from cep.compile.chain.text_room import TooMuch, long_rows, too_long
from cep.dataflow.dead_letters import RECORD_BYTES_MAX, DeadLetters, Letter
from cep.dataflow.operators.pre_aggregation import Reduction
from cep.elements import MIN_TIME, PAUSE, Batch, describe_time
from cep.errors import StateLimitExceeded
from cep.kernels.columns import Columns
from cep.kernels.tables.changes import FoundBlocks, TakenBlocks

Clock = Callable[[], int]  # µs since the epoch


NOTHING: tuple[Batch, ...] = ()
#: How long a piece of a user's function in plain Python is to take, and of how many rows the first one is.
SLOW_US, SLOW_ROWS = 4_000, 64


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of a snapshot. `port`: they are keyed by the columns of that input, which they have under their names. `rows`: or what makes
    them, of what was copied while the operator stood still; it may be called in any thread, and more than once. `blocks`: which entries of
    a table they are, where others are in earlier checkpoints. `found`: the same of what is restored."""

    name: str
    port: int
    rows: pa.RecordBatch | Callable[[], pa.RecordBatch]
    blocks: TakenBlocks | None = None
    found: FoundBlocks | None = None

    @property
    def batch(self) -> pa.RecordBatch:
        return self.rows if isinstance(self.rows, pa.RecordBatch) else self.rows()


#: (port, columns of a part, at least one) -> bool[n]: which rows belong to the instance that is being restored.
Keep = Callable[[int, Columns], np.ndarray]


class RunningOperator(Protocol):
    """`notes`, if it has any, say what is slow in it and why. Where nothing comes out, NOTHING spares the caller the iteration."""

    name: str

    def on_batch(self, batch: Batch, port: int) -> Iterable[Batch]:
        """Tuples of the input `port`, counted as in the description's `inputs`; none older than what that input has promised."""

    def on_watermark(self, watermark: int) -> Iterable[Batch]:
        """Every input has promised `watermark`; what this lets out comes before the watermark goes on. MAX_TIME at the end."""

    def watermark_after(self, watermark: int) -> int:
        """What its own tuples will not be older than, once every input has promised `watermark`."""


@runtime_checkable
class StatefulOperator(RunningOperator, Protocol):
    since: int  # windows that begin before it are incomplete: counted in `incomplete`, not given out (rule 5.9)
    incomplete: int

    @property
    def state_bytes(self) -> int: ...

    @property
    def next_end(self) -> int | None:
        """The watermark that lets its next answer out, as far as is known; None: it waits for none."""

    @property
    def last_end(self) -> int | None:
        """That which lets all out that it holds, where it knows; else the next."""

    def contents(self) -> str:
        """What its state consists of, for whoever has to make it smaller: windows, and the largest keys."""

    def on_barrier(self) -> Iterator[Batch]:
        """What has to leave before a Barrier does: partial results."""

    def snapshot(self) -> list[Part]: ...

    def restore(self, parts: Sequence[Part], keep: Keep) -> None: ...

    def clear(self) -> None:
        """Forgets its state; what it has promised and counted stays."""


@runtime_checkable
class KeepsBlocks(Protocol):
    """An operator with much state, which tells what of it has changed."""

    def changes(self, number: int) -> list[Part]:
        """As `snapshot`, for checkpoint `number`, without what is in those before it that `stored` has named."""

    def stored(self, number: int) -> None:
        """Checkpoint `number` is on the disk, as far as it is of this operator."""


class StatelessOperator:
    """What an operator without state has in common with every other; it yields nothing when time passes."""

    def on_watermark(self, watermark: int) -> Iterable[Batch]:
        return NOTHING

    def watermark_after(self, watermark: int) -> int:
        return watermark


class OneForOne(StatelessOperator, ABC):
    """It makes one batch of each, which may be empty: the caller need not iterate."""

    @abstractmethod
    def apply(self, batch: Batch) -> Batch: ...

    def on_batch(self, batch: Batch, port: int) -> Iterable[Batch]:
        out = self.apply(batch)
        return (out,) if len(out) else NOTHING


def check_state(operator: StatefulOperator, limit: int, name: str | None = None) -> None:
    """Raises StateLimitExceeded where its state is over `limit` bytes. `name`: what the user calls it, if not as it is called here."""
    if (size := operator.state_bytes) > limit:
        raise StateLimitExceeded(
            f"operator {name or operator.name!r}: its state of {size} bytes is over the limit of {limit} bytes, with {operator.contents()}"
        )


def put_overflows(name: str, dead_letters: DeadLetters, failures: Sequence[GroupFailure], more: int) -> None:
    """Sums that did not fit are NULL in their answers, and dead letters with their groups (rule 5.7)."""
    for failure in failures:
        dead_letters.put(Letter(name, failure.reason, position=f"group {failure.group}, event time {describe_time(failure.time)}"))
    dead_letters.count_only(name, more)


class ChainOperator(OneForOne):
    """A run of maps and filters as one machine-code loop."""

    def __init__(self, name: str, chain: Chain, clock: Clock, dead_letters: DeadLetters) -> None:
        self.name, self.chain, self.clock, self.dead_letters = name, chain, clock, dead_letters
        self.notes = chain.notes

    def apply(self, batch: Batch) -> Batch:
        result = self.chain.process(batch.columns, len(batch.time), self.clock())
        return outcome(batch, result, self.dead_letters)


class TextChainOperator(StatelessOperator):
    """The same where Arrow's functions make texts: of so few rows at a time that these stay small (`cep.compile.chain.text_room`)."""

    def __init__(self, name: str, chain: Chain, clock: Clock, dead_letters: DeadLetters) -> None:
        self.name, self.chain, self.clock, self.dead_letters = name, chain, clock, dead_letters
        self.notes = chain.notes

    def on_batch(self, batch: Batch, port: int) -> Iterator[Batch]:
        return in_pieces(self.chain, batch, self.clock(), self.dead_letters)


def in_pieces(chain: Chain, batch: Batch, now: int, dead_letters: DeadLetters) -> Iterator[Batch]:
    """What the chain makes of a batch: cut in halves until it can make it."""
    waiting = [batch]
    while waiting:
        piece = waiting.pop()
        half = len(piece) // 2
        try:
            result = chain.process(piece.columns, len(piece), now, cut=True)
        except TooMuch:
            waiting += piece.take(slice(half, None)), piece.take(slice(0, half))
            continue
        yield outcome(piece, result, dead_letters)


def without_long_values(batch: Batch, name: str, dead_letters: DeadLetters) -> Batch:
    """Without the rows of which a value is too long; these are dead letters."""
    failed = {row: reason for column in batch.columns.values() if too_long(column) for row, reason in long_rows(column)}
    if not failed:
        return batch
    for row in sorted(failed):
        dead_letters.put(Letter(name, failed[row], batch.source, position(batch, row), record(batch, row, dead_letters)))
    return batch.take(np.delete(np.arange(len(batch)), sorted(failed)))


class SlowChainOperator(StatelessOperator):
    """The same with a user's function that is not compiled, which takes as long as it takes: a piece of a batch at a time."""

    def __init__(self, whole: ChainOperator | TextChainOperator) -> None:
        self.whole, self.name, self.notes = whole, whole.name, whole.notes
        self.rows = SLOW_ROWS  # of a piece

    def on_batch(self, batch: Batch, port: int) -> Iterator[Batch]:
        start = 0
        while start < len(batch):
            piece = batch.take(slice(start, start + self.rows))
            began = self.whole.clock()
            made = list(self.whole.on_batch(piece, port))
            self._learn(self.whole.clock() - began)
            yield from made or (PAUSE,)
            start += len(piece)

    def _learn(self, us: int) -> None:
        """A piece took so long."""
        self.rows = max(1, self.rows // 2) if us > 2 * SLOW_US else 2 * self.rows if 2 * us < SLOW_US else self.rows


def outcome(batch: Batch, result: ChainResult, dead_letters: DeadLetters) -> Batch:
    """The rows of `batch` that came out of a chain or loop; those that failed go to the dead letters."""
    for failure in result.failures:
        dead_letters.put(
            Letter(failure.operator, failure.reason, batch.source, position(batch, failure.row), record(batch, failure.row, dead_letters))
        )
    time, origin = batch.time, batch.origin
    if result.columns is batch.columns:
        return batch
    if result.kept is not None:
        time, origin = time[result.kept], None if origin is None else origin[result.kept]
    return Batch(result.columns, time, origin, batch.created, batch.source, batch.in_order)


def position(batch: Batch, row: int) -> str:
    """Where a row comes from, for its dead letter."""
    where = f"event time {describe_time(int(batch.time[row]))}"
    return where if batch.origin is None else f"{where}, record {int(batch.origin[row, 1])}"


def record(batch: Batch, row: int, dead_letters: DeadLetters) -> str:
    """The values of a row, for its dead letter; empty where too many come at once."""
    return describe_row(batch.columns, row, RECORD_BYTES_MAX) if dead_letters.takes_values else ""


class PassOperator(OneForOne):
    """Union, and the empty subquery that only reads a stream: tuples as they come, their origins `origin_words` wide."""

    def __init__(self, name: str, origin_words: int = 2) -> None:
        self.name, self.origin_words = name, origin_words

    def apply(self, batch: Batch) -> Batch:
        origin = batch.origin
        if origin is None or origin.shape[1] >= self.origin_words:
            return batch
        return replace(batch, origin=np.pad(origin, ((0, 0), (0, self.origin_words - origin.shape[1])), constant_values=-1))


class AggregateOperator:
    """An Aggregate over TIME windows or with periodic answers: whole, or a stage of it (tuples to partials, partials to answers)."""

    gives_out = True  # what comes out of the last stage is for users

    def __init__(
        self, name: str, spec: AggregateSpec, state_limit: int, dead_letters: DeadLetters, reduction: Reduction | None = None
    ) -> None:
        self.reduction = reduction or Reduction(False)
        self.name, self.spec, self.state_limit, self.dead_letters = name, spec, state_limit, dead_letters
        self.answers, self.window = spec.stage != "partial" and not spec.periodic, spec.window
        self.state = WindowState(spec, name)
        self.since = MIN_TIME
        self.open_panes_max = 0
        self.incomplete = 0  # answers withheld because their windows begin before `since`

    @property
    def state_bytes(self) -> int:
        return self.state.bytes

    @property
    def next_end(self) -> int | None:
        return self.state.oldest_window_end

    @property
    def last_end(self) -> int | None:
        return self.next_end

    def contents(self) -> str:
        panes = f"{self.state.open_panes} panes open from the window ending at {describe_time(self.state.oldest_window_end)}"
        return f"{panes}; largest keys: {listed(self.state.largest_keys(3))}"

    def on_batch(self, batch: Batch, port: int) -> Iterable[Batch]:
        if not self.reduction.takes(len(batch.time)):
            return (self.state.singly(batch),)
        adding = self.state.adding(batch)
        for _ in adding:
            return self._go_on(adding)
        return self._added()

    def _go_on(self, adding: Iterator[None]) -> Iterator[Batch]:
        """The rows are of many panes."""
        yield PAUSE
        for _ in adding:
            yield PAUSE
        self._added()

    def _added(self) -> Iterable[Batch]:
        self.reduction.look(self.state)
        self.open_panes_max = max(self.open_panes_max, self.state.open_panes)
        check_state(self, self.state_limit)
        return NOTHING

    def on_watermark(self, watermark: int) -> Iterable[Batch]:
        return NOTHING if self.state.keeps_all(watermark) else self._fire(watermark)

    def _fire(self, watermark: int) -> Iterator[Batch]:
        groups = 0
        for batch in self.state.advance(watermark):
            groups += len(batch.time)
            complete = self._complete(batch)
            answered = self.gives_out and self.spec.stage != "partial"
            yield without_long_values(complete, self.name, self.dead_letters) if answered else complete
        if groups:
            self.reduction.ended(groups, self.state.open_panes)
        if self.state.failed:
            put_overflows(self.name, self.dead_letters, *self.state.take_failures())

    def watermark_after(self, watermark: int) -> int:
        return watermark

    def on_barrier(self) -> Iterator[Batch]:
        if self.spec.stage == "partial":
            yield from self.state.flush()

    def snapshot(self) -> list[Part]:
        return [Part("groups", 0, rows) for rows in self.state.snapshot()]

    def changes(self, number: int) -> list[Part]:
        return [Part("groups", 0, rows, blocks) for rows, blocks in self.state.changes(number)]

    def stored(self, number: int) -> None:
        self.state.stored(number)

    def restore(self, parts: Sequence[Part], keep: Keep) -> None:
        for part in parts:
            self.state.restore(part.batch, lambda columns: keep(0, columns))

    def clear(self) -> None:
        self.state.clear()

    def _complete(self, batch: Batch) -> Batch:
        if not self.answers or self.since == MIN_TIME or not len(batch.time):
            return batch
        kept = np.flatnonzero(self.window.begin(batch.time) >= self.since)
        self.incomplete += len(batch) - len(kept)
        return batch if len(kept) == len(batch) else batch.take(kept)
