"""Blocks of files: what a format answers, so that readers may share its files out (rule 4.10).

A format cuts each file into blocks, which are partitions, and reads one from any place on. Places are numbers that grow, bytes or rows of
the file, and `unit` says which. A format is one class, for one stream and the fields that are read, registered in
`cep.dataflow.sources.opening`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import numpy as np

from cep.dataflow.sources.lateness import NONE_BAD, stamp_of
from cep.elements import MIN_TIME
from cep.errors import ClusterError
from cep.kernels.columns import Column
from cep.model.streams import Stream
from cep.world.store import Store

#: The column of event times that are computed, in what a parser or a reader of rows answers; it is none of the stream's.
COMPUTED = "__event_time"


@dataclass(frozen=True, slots=True)
class Extent:
    """From place `start` of a file up to `end`: whole records. `first_time`: the event time of the first one that has one, or MIN_TIME."""

    start: int
    end: int
    first_time: int


@dataclass(frozen=True, slots=True)
class Block:
    """An extent of a file. `partition` numbers the blocks of all files in path order."""

    path: str
    start: int
    end: int
    partition: int
    first_time: int  # greatest first-row time of the file's blocks up to this one; MIN_TIME if none
    bound: int  # first_time - disorder


@dataclass(frozen=True, slots=True)
class BadRecord:
    place: int
    reason: str
    record: str = ""  # how it begins, for a person to read


def _none() -> np.ndarray:
    return NONE_BAD


@dataclass(frozen=True, slots=True)
class Piece:
    """What was read of a block.

    Args:
        columns: of the good records.
        time: their event times, int64[n], µs; None where the time of ingestion is meant.
        records: their numbers within the piece, int64[n].
        count: so many records were read, good and bad, up to place `end`.
        bad: the last ones of `bad_count`.
        bad_rows, bad_times: as in `cep.compile.text.Parsed`.
        instant: the next record has at least this event time.
    """

    columns: dict[str, Column]
    time: np.ndarray | None
    records: np.ndarray
    count: int
    end: int
    bad: Sequence[BadRecord] = ()
    bad_count: int = 0
    bad_rows: np.ndarray = field(default_factory=_none)
    bad_times: np.ndarray = field(default_factory=_none)
    instant: int = MIN_TIME


class BlockReader(Protocol):
    """An open block."""

    def read(self, place: int) -> Piece:
        """Records from `place` on, at least one, as many as are good to take at once."""

    def close(self) -> None: ...


class BlockFormat(Protocol):
    unit: ClassVar[str]  # of places

    @classmethod
    def of(cls, stream: Stream, needed: Collection[str], read_bytes: int, store: Store) -> BlockFormat:
        """Reads the fields `needed` of `stream`, whose files are of the format and in `store`; so much at once."""

    @staticmethod
    def check(stream: Stream, path: str, store: Store) -> None:
        """Raises DataError: the file cannot be one of the stream's. The planner asks, and compiles nothing."""

    def warm(self) -> None:
        """Compiles what reading needs."""

    def cut(self, path: str, size: int) -> Iterable[Extent]:
        """The blocks of a file, in order; none where there are no records. Raises ClusterError where it cannot be read."""

    def open(self, block: Block) -> BlockReader: ...

    def peeking(self) -> BlockFormat:
        """The same for the same blocks, but reads no more at once than a look at a beginning needs."""

    def rest(self) -> None:
        """Closes what is kept open for the next block."""


def unreadable(path: str, error: Exception) -> ClusterError:
    return ClusterError(f"file {path!r} cannot be read: {getattr(error, 'strerror', None) or error}")


def cut_blocks(stream: Stream, files: Sequence[tuple[str, int]], format_: BlockFormat) -> list[Block]:
    """The blocks of `files` ((path, size) in path order) in the order in which they are dealt."""
    blocks: list[Block] = []
    for path, size in files:
        greatest = MIN_TIME
        for extent in format_.cut(path, size):
            greatest = max(greatest, extent.first_time)
            blocks.append(Block(path, extent.start, extent.end, len(blocks), greatest, stamp_of(greatest, stream.disorder or 0)))
    return sorted(blocks, key=lambda b: (b.bound, b.path, b.start))
