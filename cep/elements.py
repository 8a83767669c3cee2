"""What travels: the elements of a stream.

Grammar of every channel, in order (rule 4.3), asserted by `Grammar`:

    (Batch | Watermark | Idle | Barrier)* (End | Stop | Fail | Switch | MoveBarrier)

and of those between the instances of one subquery, on which the state of moved buckets travels:

    (State* TableBarrier)*
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

import numpy as np
import pyarrow as pa

from cep.errors import ProtocolError
from cep.kernels.columns import Columns
from cep.kernels.composed import taken
from cep.kernels.tables.changes import FoundBlocks
from cep.values import value

MIN_TIME = -(2**63)  # before every event
MAX_TIME = 2**63 - 1  # after every event

#: So far from 1970 the event time of a source's row may be, µs (73,000 years); beyond it the row is bad input. The ends of
#: windows that hold the row, and of windows over those, have to fit too.
EVENT_TIME_MAX = 2**61


def describe_time(us: int | None) -> str:
    """An event time for a person to read, to the µs; None: there is none."""
    if us is None:
        return "none"
    if us in (MIN_TIME, MAX_TIME):
        return "-inf" if us == MIN_TIME else "+inf"
    try:
        precision = "microseconds" if us % 1000 else "milliseconds"
        return (datetime(1970, 1, 1) + timedelta(microseconds=us)).isoformat(timespec=precision) + "Z"
    except OverflowError:  # beyond the years that a calendar has
        return f"{us} µs"


def greatest_time(times: np.ndarray) -> int:
    """The greatest of int64[n], n >= 1. Not `max`, which takes twice as long on its way to the same loop; and a single row needs none."""
    return int(times.item(0)) if len(times) == 1 else int(np.maximum.reduce(times))


@value
class Batch:
    """`n` tuples. `time` is the hidden event time, int64[n], µs; `origin` int64[n, 2] or None where it is not read.

    `created` is the oldest creation time (ns since the epoch) of what the batch was made from, 0 if unknown: latency.
    `source` is the path of the file that all its tuples were read from, for dead letters; empty: it is not known, for they come from
    several, or over a channel. `in_order`: its rows are known to be in stream order, each behind the one before it; where it is not known,
    what needs it looks.
    """

    columns: Columns
    time: np.ndarray
    origin: np.ndarray | None = None
    created: int = 0
    source: str = ""
    in_order: bool = False

    def __len__(self) -> int:
        return len(self.time)

    def take(self, indices: np.ndarray | slice, rise: bool = False) -> Batch:
        """Rows `indices`. `rise`: none comes before a row that it stood behind, as in a slice."""
        origin, in_order = self.origin, self.in_order and (rise or isinstance(indices, slice))
        if origin is not None:  # by `take`: rows of two words by index cost NumPy 11 ns each, 1 ns so
            origin = origin[indices] if isinstance(indices, slice) else origin.take(indices, axis=0)
        return Batch(taken(self.columns, indices), self.time[indices], origin, self.created, self.source, in_order)


#: No tuples: what an operator yields where the instance may pause. Any batch without rows means the same.
PAUSE = Batch({}, np.zeros(0, np.int64))


@dataclass(frozen=True, slots=True)
class Watermark:
    """No later element of the channel has a row with event time < `time`."""

    time: int


@dataclass(frozen=True, slots=True)
class Idle:
    """The sender has nothing to send for now, and no watermark of the receiver waits for it: until the channel's next element the sender
    promises any watermark that the receiver asks for. The watermark that it has promised so far comes with the element."""


@dataclass(frozen=True, slots=True)
class Barrier:
    """Divides what an instance does before it from what it does after it, once it has come on all channels. Those of a kind are in the
    order of their numbers."""

    called: ClassVar[str] = "a barrier"
    number: int


@dataclass(frozen=True, slots=True)
class CheckpointBarrier(Barrier):
    """What came before it belongs to checkpoint `number`, what comes after it does not. `pauses`: nothing is taken after it until that is
    asked for."""

    called = "the barrier of a checkpoint"
    pauses: bool = False


@dataclass(frozen=True, slots=True)
class TableBarrier(Barrier):
    """What comes after it is routed by `table`, bucket -> instance, which is version `number`."""

    called = "the barrier of buckets that move"
    table: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MoveBarrier(Barrier):
    """The receiver, instance `index` of `subquery`, goes on at `endpoint`: the last element of its channel. What follows goes there."""

    called = "the barrier of an instance that moves"
    subquery: str
    index: int
    endpoint: str


@dataclass(frozen=True, slots=True)
class Switch:
    """The sender goes on at another place: the last element of its channel. What follows comes on the channel from there."""


@dataclass(frozen=True, slots=True)
class State:
    """Rows of part `part` of the state of `operator`, keyed by its input `port`, on their way to the buckets' new owner. `found`: where
    they were in a table, if checkpoints told."""

    operator: str
    part: str
    port: int
    rows: pa.RecordBatch
    found: FoundBlocks | None = None


@dataclass(frozen=True, slots=True)
class End:
    """The source is exhausted: watermark +inf."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Stopped by a user: nothing fires."""


@dataclass(frozen=True, slots=True)
class Fail:
    """The query failed; `subquery`, `instance` and `cause` name where and why."""

    subquery: str
    instance: int | None
    cause: str


Element = Batch | Watermark | Idle | Barrier | State | End | Stop | Fail | Switch
#: Nothing follows these on a channel; the first three end the stream.
LAST = (End, Stop, Fail, Switch, MoveBarrier)


class Grammar:
    """Raises ProtocolError where a sequence of elements breaks the grammar or a promise of its watermarks."""

    def __init__(self, channel: str) -> None:
        self.channel, self.watermark, self.closed = channel, MIN_TIME, False

    def check(self, element: Element) -> Element:
        if self.closed:
            raise ProtocolError(f"channel {self.channel!r}: {type(element).__name__} after the stream was closed")
        if isinstance(element, Watermark):
            if element.time < self.watermark:
                raise ProtocolError(f"channel {self.channel!r}: watermark {element.time} after {self.watermark}")
            self.watermark = element.time
        elif isinstance(element, Batch) and len(element) and int(element.time.min()) < self.watermark:
            raise ProtocolError(f"channel {self.channel!r}: row at {int(element.time.min())} after watermark {self.watermark}")
        self.closed = isinstance(element, LAST)
        return element
