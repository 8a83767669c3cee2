"""Small record batches of a published stream, as they travel: the objects that Arrow makes of columns cost more than all the rest.

Arrow's own message of such a batch is what travels. Where event times are a hidden column it stands behind the others, and the metadata
that say so before them. These are the same for all batches with the same metadata, which say how many rows, NULLs and bytes of texts
there are, so they are kept.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from cep.dataflow.sources.lateness import Range, greatest_of
from cep.elements import MIN_TIME
from cep.kernels.arrays import int64_array
from cep.model.streams import Stream
from cep.transport.ipc import SHAPES_KEPT
from cep.transport.wire import LAYOUTS_KEPT, Format

ROWS_MAX, BYTES_MAX = 256, 1 << 20
_WORD = struct.Struct("<q")
_BEGINNING = struct.Struct("<4xi")  # of a message: how many bytes of metadata follow

#: The metadata that travel, and where in the message the event times lie that are a column.
_Known = tuple[bytes, int]


class Written(NamedTuple):
    """Rows to be sent, as a message or as a batch with its hidden column; what is None is made of the other where it is needed.
    `greatest`: of their event times, µs; MIN_TIME: no row has one."""

    rows: int
    greatest: int
    body: Any
    whole: pa.RecordBatch | None = None


class SmallBatches:
    """Those of all streams of a format. `column`: which is the event time; None: it is the time of ingestion. `allowed`: its range."""

    def __init__(self, format: Format, column: str | None, allowed: Range) -> None:
        self.format, self.allowed = format, allowed
        self.column = None if column is None else format.schema.names.index(column)
        self.accepted = format.schema.arrow  # of the last batch
        self.known: dict[bytes, _Known | None] = {}  # by the metadata of a batch
        layout = replace(format, time="").layout
        narrow = layout is not None and any(dtype is not None and dtype.itemsize < _WORD.size for dtype in layout.dtypes)
        self.layout = layout if narrow else None  # of which Arrow's message is not if the batch is a part of another one

    def write(self, batch: pa.RecordBatch, now: int) -> Written | None:
        """`now`: the time of ingestion, µs. None: the batch is not small, or not of the stream's schema as it stands, or has to be looked
        into."""
        rows = batch.num_rows
        if not 0 < rows <= ROWS_MAX or (batch.schema != self.accepted and not self._accept(batch.schema)):
            return None
        message = batch.serialize()
        found = memoryview(message)
        metadata = bytes(found[: _BEGINNING.unpack_from(found)[0] + _BEGINNING.size])
        try:
            known = self.known[metadata]
        except KeyError:
            known = self._learn(metadata, message)
        if known is None:
            return None
        times: bytes | memoryview
        if self.column is None:
            greatest, times = now, _WORD.pack(now) * rows
        else:
            times = found[known[1] : known[1] + 8 * rows]
            greatest = _greatest(times, self.allowed)
        if self.format.hides_time:
            return Written(rows, greatest, b"".join((known[0], found[len(metadata) :], times)))
        return Written(rows, greatest, message)

    def _accept(self, schema: pa.Schema) -> bool:
        """What it says about NULLs is not asked: whether there are any is."""
        ours = self.format.schema.arrow
        if schema.names != ours.names or schema.types != ours.types:
            return False
        self.accepted = schema
        return True

    def _learn(self, metadata: bytes, message: pa.Buffer) -> _Known | None:
        if len(self.known) >= SHAPES_KEPT:
            self.known.clear()
        self.known[metadata] = known = self._known_of(metadata, message)
        return known

    def _known_of(self, metadata: bytes, message: pa.Buffer) -> _Known | None:
        batch = pa.ipc.read_record_batch(message, self.format.schema.arrow)
        columns = batch.columns
        nulls = [i for i, column in enumerate(columns) if column.null_count]
        if len(message) > BYTES_MAX or self.column in nulls or not all(self.format.schema.fields[i].nullable for i in nulls):
            return None
        if not nulls and self.layout is not None and self.layout.read(message) is None:
            return None
        times = 0 if self.column is None else columns[self.column].buffers()[1].address - message.address
        if not self.format.hides_time:
            return metadata, times
        hidden = np.zeros(batch.num_rows, np.int64)
        whole = pa.RecordBatch.from_arrays([*columns, int64_array(hidden)], schema=self.format.arrow).serialize().to_pybytes()
        behind = b"".join((memoryview(message)[len(metadata) :], hidden.data))
        return (whole[: -len(behind)], times) if whole.endswith(behind) else None


def _greatest(times: memoryview, allowed: Range) -> int:
    """As `greatest_of`, but of a single one without an array."""
    if len(times) > _WORD.size:
        return greatest_of(np.frombuffer(times, np.int64), allowed)
    (found,) = _WORD.unpack(times)
    return found if allowed[0] <= found <= allowed[1] else MIN_TIME


def small_batches(stream: Stream) -> SmallBatches | None:
    """None: event times are to be computed, or there are lists, whose elements are looked into."""
    computed = stream.event_time is not None and stream.event_time_column is None
    if computed or any(field.type.is_list for field in stream.schema.fields):
        return None
    return _of_format(Format.published(stream), stream.event_time_column, stream.times)


@lru_cache(LAYOUTS_KEPT)
def _of_format(format: Format, column: str | None, times: Range) -> SmallBatches | None:
    return SmallBatches(format, column, times)
