"""Where rows come from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from connectors.contract.formats import ValueFormat

Place = Any
"""Where a reader is in its partition: any value that JSON has. Opaque to all but the source."""


@dataclass(frozen=True, slots=True)
class Polled:
    """What a reader has found.

    Args:
        values: records as bytes, to be read by the format that the document names, or None for one without a value, which is no row; or
            `rows`, that are rows already.
        place: behind the last of them. A reader that is opened there gives what follows, and nothing else.
        numbers: the number of each value, rising, where the source is `numbered`; None: they are counted.
        behind: how many records are known to follow; None: that cannot be known.
        ended: nothing more will ever come of this partition.
        format: in which the values are, if it is not quite the document's: of a file that begins with the names of its columns.
        wrong: why the one value in `values`, which may be the beginning of it, is no record.
        called: what to call the value, or the row, of an index in a dead letter; None: `partition@number`.
    """

    place: Place
    values: Sequence[bytes | None] = ()
    rows: pa.RecordBatch | None = None
    numbers: Sequence[int] | None = None
    behind: int | None = None
    ended: bool = False
    format: ValueFormat | None = None
    wrong: str | None = None
    called: Callable[[int], str] | None = None

    def __len__(self) -> int:
        return len(self.values) if self.rows is None else int(self.rows.num_rows)


class RecordReader(ABC):
    """One partition, being read. All calls come from one thread; each may raise ConnectorError, after which it is closed.

    Between two polls any time may pass, for the stream's queries may have no room: a session that has to be kept up meanwhile needs a
    thread of its own."""

    @abstractmethod
    def poll(self, rows_max: int, timeout_s: float) -> Polled:
        """At most so many records, as soon as there is one; none after `timeout_s`, which it should keep: stopping waits for it."""

    @abstractmethod
    def committed(self, place: Place) -> None:
        """What was found before it counts, whatever dies from now on: the other side may forget it."""

    @abstractmethod
    def close(self) -> None:
        """Nothing more is asked. What was not `committed` is found again by the next reader."""


class RecordSource(ABC):
    """What its options describe. `Options` is the class of these."""

    @property
    @abstractmethod
    def replayable(self) -> bool:
        """Does a reader that is opened at a place find the same records behind it, in the same order, every time? If not, what was polled
        when its process is killed is lost: at most once."""

    @property
    @abstractmethod
    def numbered(self) -> bool:
        """Do its records have numbers of their own, so that a place is the number of the next one (an offset)? Else they are counted,
        which needs a note beside the cluster of how many there were at which place."""

    @abstractmethod
    def partitions(self) -> Sequence[str]:
        """Their names, which stay. Asked now and then, for some may appear."""

    @abstractmethod
    def open(self, partition: str, place: Place | None) -> RecordReader:
        """Reads on at a place; None: at the beginning, wherever the options say that is."""
