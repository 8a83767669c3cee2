"""Files of columns, whose places are rows: what Parquet and Arrow files have in common.

A block is a part of the file as it was written: a row group, a record batch. Only the columns that are needed are read. A row is bad if
a value has no place in its field (`docs/values.md`); a part that cannot be read at all is as many bad rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from copy import copy
from itertools import accumulate, pairwise
from typing import ClassVar, Self

import numpy as np
import pyarrow as pa

from cep.dataflow.dead_letters import RECORD_BYTES_MAX
from cep.dataflow.sources.arrow_values import ArrowValues, check_type, taken
from cep.dataflow.sources.blocks import BadRecord, Block, Extent, Piece, unreadable
from cep.dataflow.sources.event_time import ComputedTime, of_bad
from cep.dataflow.sources.lateness import all_in_range, in_range
from cep.elements import MIN_TIME
from cep.errors import DataError
from cep.kernels.columns import Columns, from_arrow
from cep.model.expr import columns_of
from cep.model.limits import odd_time
from cep.model.schema import Field
from cep.model.streams import Stream
from cep.world.store import ReadableFile, Store

#: Rows that are read at once; and in search of the first that has an event time.
ROWS, PROBE_ROWS = 1 << 16, 1 << 10
#: So many bad rows of one reading are described, the last ones.
DESCRIBED_MAX = 10_000
#: What is raised of a file that is no file of columns. The last: a column's name is no UTF-8.
_NO_SUCH_FILE = (OSError, pa.ArrowException, UnicodeDecodeError)


class Parts(ABC):
    """An open file, in parts."""

    def __init__(self, readable: ReadableFile) -> None:
        """Raises OSError, pa.ArrowException or UnicodeDecodeError."""
        self.readable = readable

    @abstractmethod
    def rows(self) -> Sequence[int]:
        """How many rows each part has. Raises OSError or pa.ArrowException."""

    @property
    @abstractmethod
    def schema(self) -> pa.Schema: ...

    @abstractmethod
    def batches(self, part: int, names: Sequence[str], rows_max: int) -> Iterator[pa.RecordBatch]:
        """The rows of a part, so many at a time, with these columns. Raises OSError or pa.ArrowException."""

    @abstractmethod
    def close(self) -> None: ...


class RowFormat:
    """Files that `parts` opens."""

    unit: ClassVar[str] = "row"
    parts: ClassVar[type[Parts]]

    def __init__(self, store: Store, stream: Stream, needed: Collection[str]) -> None:
        self.store, self.stream, self.times = store, stream, stream.times
        timed = _timed(stream)
        self.fields = tuple(field for field in stream.schema.fields if field.name in needed or field.name in timed)
        self.timed = tuple(field for field in self.fields if field.name in timed)
        computed = stream.event_time is not None and stream.event_time_column is None
        self.computed = ComputedTime(stream) if computed else None
        self.ends: dict[str, list[int]] = {}  # by path: where the parts end
        self.rows_at_once = ROWS
        self.kept: tuple[str, Parts] | None = None  # the file of the block before: what tells of its parts is read once, unless it changes

    @classmethod
    def of(cls, stream: Stream, needed: Collection[str], read_bytes: int, store: Store) -> Self:
        return cls(store, stream, needed)

    @classmethod
    def check(cls, stream: Stream, path: str, store: Store) -> None:
        try:
            opened = cls._opened(path, store)
            try:
                _check_schema(opened.schema, stream.schema.fields, _timed(stream), path)
            finally:
                opened.close()
        except _NO_SUCH_FILE as error:
            raise DataError(f"file {path!r}: {error}") from None

    def warm(self) -> None:
        """Its first event time is computed where blocks are cut, before anything runs."""

    def cut(self, path: str, size: int) -> Iterator[Extent]:
        opened = self.open_parts(path)
        try:
            _check_schema(opened.schema, self.fields, _timed(self.stream), path)
            ends = self.ends[path] = list(accumulate(opened.rows()))
            for part, (start, end) in enumerate(pairwise([0, *ends])):
                if start < end:
                    yield Extent(start, end, self._first_time(opened, part))
        except (*_NO_SUCH_FILE, DataError) as error:
            raise unreadable(path, opened.readable.failed or error) from error
        finally:
            opened.close()

    def open(self, block: Block) -> RowBlock:
        return RowBlock(self, block)

    def peeking(self) -> Self:
        made = copy(self)
        made.rows_at_once, made.kept = PROBE_ROWS, None
        return made

    def parts_of(self, path: str) -> Parts:
        """An open file, to be given back by `keep`. Raises ClusterError where it cannot be read."""
        kept, self.kept = self.kept, None
        if kept is not None and kept[0] == path and kept[1].readable.is_as_opened():
            return kept[1]
        if kept is not None:
            kept[1].close()
        return self.open_parts(path)

    def keep(self, path: str, opened: Parts) -> None:
        """For the next block, unless the store could not read it."""
        self.rest()
        if opened.readable.failed:
            opened.close()
        else:
            self.kept = path, opened

    def rest(self) -> None:
        kept, self.kept = self.kept, None
        if kept is not None:
            kept[1].close()

    def open_parts(self, path: str) -> Parts:
        try:
            return self._opened(path, self.store)
        except _NO_SUCH_FILE as error:
            raise unreadable(path, error) from error

    @classmethod
    def _opened(cls, path: str, store: Store) -> Parts:
        """Raises what _NO_SUCH_FILE names."""
        file = ReadableFile(store.open(path))
        try:
            return cls.parts(file)
        except BaseException:
            file.close()
            if file.failed:
                raise file.failed from None
            raise

    def _first_time(self, opened: Parts, part: int) -> int:
        if not self.timed:
            return MIN_TIME
        try:
            for batch in opened.batches(part, [field.name for field in self.timed], PROBE_ROWS):
                times = self.times_of(taken(batch, self.timed))
                found = times[times > MIN_TIME]
                if len(found):
                    return int(found[0])
        except (OSError, pa.ArrowException):  # its reader says so
            if opened.readable.failed:
                raise
        return MIN_TIME

    def times_of(self, found: ArrowValues) -> np.ndarray:
        """int64[n], µs: the event times of all rows; MIN_TIME where a row has none."""
        columns: Columns = {field.name: from_arrow(found.arrays[field.name], field.type) for field in self.timed}
        if self.computed is not None:
            times = self.computed.of(columns, found.rows)
        else:
            (column,) = columns.values()
            if column.valid is None and all_in_range(column.values, self.times):
                times = column.values
            else:
                timed = in_range(column.values, self.times)
                times = np.where(timed if column.valid is None else timed & (column.valid != 0), column.values, MIN_TIME)
        for field in self.timed:
            if (wrong := found.wrong(field)) is not None:
                times = np.where(wrong, MIN_TIME, times)
        return times


def _timed(stream: Stream) -> frozenset[str]:
    """The columns that make the event time."""
    return frozenset() if stream.event_time is None else columns_of(stream.event_time)


def _check_schema(there: pa.Schema, fields: Sequence[Field], timed: frozenset[str], path: str) -> None:
    """Raises DataError. A column may be missing where NULL is allowed and no event time is made of it; none may be there twice."""
    names = there.names
    for field in fields:
        if (count := names.count(field.name)) > 1:
            raise DataError(f"file {path!r}: {count} columns {field.name!r}; there are {', '.join(names)}")
        if count:
            check_type(there.field(field.name).type, field, path)
        elif not field.nullable or field.name in timed:
            raise DataError(f"file {path!r}: no column {field.name!r}; there are {', '.join(names) or 'none'}")


class RowBlock:
    """An open block of a file of columns."""

    def __init__(self, format_: RowFormat, block: Block) -> None:
        self.format, self.block = format_, block
        self.file = format_.parts_of(block.path)
        self.part = bisect_right(format_.ends[block.path], block.start)
        self.batches: Iterator[pa.RecordBatch] | None = None
        self.place = block.start  # where `batches` goes on

    def close(self) -> None:
        self.format.keep(self.block.path, self.file)

    def read(self, place: int) -> Piece:
        try:
            batch = self._next(place)
        except (OSError, pa.ArrowException) as error:
            if self.file.readable.failed:  # perhaps the rows are good
                raise unreadable(self.block.path, self.file.readable.failed) from error
            return self._unreadable(place, error)
        return self._piece(batch, place)

    def _next(self, place: int) -> pa.RecordBatch:
        """The rows from `place` on."""
        if self.batches is None or self.place > place:
            there = set(self.file.schema.names)
            wanted = [field.name for field in self.format.fields if field.name in there]
            self.batches = self.file.batches(self.part, wanted, self.format.rows_at_once)
            self.place = self.block.start
        while True:
            batch = next(self.batches, None)
            if batch is None:
                raise pa.ArrowInvalid(f"it ends before row {place}")
            self.place += batch.num_rows
            if self.place > place:
                return batch.slice(batch.num_rows - (self.place - place))

    def _unreadable(self, place: int, error: Exception) -> Piece:
        rows = self.block.end - place
        none = np.zeros(0, np.int64)
        bad = [BadRecord(place, f"{rows} rows cannot be read: {error}")]
        columns = {field.name: from_arrow(pa.nulls(0, field.type.arrow), field.type) for field in self.format.fields}
        return Piece(columns, none if self.format.timed else None, none, rows, self.block.end, bad, rows)

    def _piece(self, batch: pa.RecordBatch, place: int) -> Piece:
        form, rows = self.format, batch.num_rows
        found = taken(batch, form.fields)
        times = form.times_of(found) if form.timed else None
        good = np.ones(rows, bool) if times is None else times > MIN_TIME
        for field in form.fields:
            if (wrong := found.wrong(field)) is not None:
                good &= ~wrong
        kept = np.flatnonzero(good)
        columns = {field.name: from_arrow(found.arrays[field.name], field.type) for field in form.fields}
        if len(kept) == rows:
            return Piece(columns, times, kept, rows, place + rows)
        refused = np.flatnonzero(~good)
        bad = [self._bad(found, times, int(row), place) for row in refused[-DESCRIBED_MAX:]]
        columns = {name: column.take(kept) for name, column in columns.items()}
        bad_rows, bad_times = of_bad(times, kept) if times is not None else (kept[:0], kept[:0])
        return Piece(columns, None if times is None else times[kept], kept, rows, place + rows, bad, len(refused), bad_rows, bad_times)

    def _bad(self, found: ArrowValues, times: np.ndarray | None, row: int, place: int) -> BadRecord:
        record = found.record(row)[:RECORD_BYTES_MAX]
        field = found.wrong_at(self.format.fields, row)
        return BadRecord(place + row, self._untimed(found, row) if field is None else found.reason(field, row), record)

    def _untimed(self, found: ArrowValues, row: int) -> str:
        if self.format.computed is not None:
            return "event time: NULL, failed, or out of range"
        (field,) = self.format.timed
        is_null = not found.arrays[field.name][row].is_valid
        return found.reason(field, row) + ("" if is_null else f", which is out of its range: {odd_time(self.format.times)}")
