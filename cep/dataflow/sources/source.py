"""What every source of rows is to the instance that reads it.

A source is described to planner and documents by a class of `cep.plan.sources`, and opened by `cep.dataflow.sources.opening`, in a host as
in a local run. It is read: it answers a batch of rows on time, or None when it has nothing now. Where it has come to is a value that can be
written down (`position`), and another one of the same stream goes on from there (`restore`).

Late is decided where a row is read (`cep.dataflow.sources.lateness`); after the source nothing becomes late.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from cep.dataflow.dead_letters import DeadLetters
from cep.dataflow.sources.lateness import LateRows
from cep.elements import MAX_TIME, Batch
from cep.model.schema import Schema
from cep.model.streams import Stream
from cep.world.store import Store

#: What a source answers that read only what was late or bad.
NONE_ON_TIME = Batch({}, np.zeros(0, np.int64))

#: Small batches that wait behind each other are taken together up to so many rows.
ENOUGH_ROWS = 1024

READ_BYTES = 8 << 20  # a batch costs 0.4 ms of the interpreter, and what is parsed is not read again (`benchmarks/log/bench.md`)

#: What `position` answers, and `restore` takes: a JSON value.
Position = dict[str, Any]


class Source(Protocol):
    origin: bool  # its rows have their origins; may be set while it runs
    watermark: int  # the least event time it can still emit
    ended: bool
    idle: bool  # nothing is to be waited for
    since: int  # rows before it are not this query's (rule 5.9)
    late_rows: int
    odd_times: int  # rows whose event time is none that the stream allows; at least so many
    before_since: int  # rows before `since`
    late: LateRows

    @property
    def left(self) -> bool:
        """Of one that moves: has it taken everything that was on its way here?"""

    @property
    def between_blocks(self) -> bool:
        """Others may be waiting for the watermark that the end of a block brought."""

    def read(self) -> Batch | None:
        """Rows on time; none at all where all that it read was late or bad; None where there is nothing to read now."""

    def position(self) -> Position:
        """Where it has come to: what it has read and promised. Nothing that it goes on writing is in it."""

    def restore(self, positions: Sequence[Position]) -> None:
        """Goes on where all readers of the same stream had come to, however many they were. Call it before anything is read."""

    def follow(self, wanted: int) -> bool:
        """Being idle, it is asked to come as far. Does it promise more than before?"""

    def release(self) -> None:
        """Nothing is asked of it any more: it lets go of what it holds open."""

    def waits_for(self, now_us: int) -> str:
        """For `status`: what holds the watermark back."""


def _far() -> int:
    return MAX_TIME


@dataclass(frozen=True)
class Reading:
    """Reader `reader` of `readers` of a stream, as the plan wants it.

    Args:
        source_index: the place of the stream among the sources that origins count.
        origin: rows have their origins from the beginning.
        columns: those that are read.
        returned: the least watermark that the receivers have told; readers of files begin no block before it (rule 4.10).
        together: no further than the streams beside it (`cep.plan.sources.read_together`).
        read_bytes: so much is read from a file at once.
    """

    stream: Stream
    reader: int
    readers: int
    source_index: int
    origin: bool
    columns: Schema
    dead_letters: DeadLetters
    clock: Callable[[], int]
    store: Store
    returned: Callable[[], int] = _far
    together: bool = False
    read_bytes: int = READ_BYTES
