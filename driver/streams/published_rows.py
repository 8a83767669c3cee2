"""Rows as the publishers of a stream send them: cut into batches, with their event times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from cep.dataflow.sources.event_time import ComputedTime
from cep.dataflow.sources.lateness import Range, greatest_of
from cep.dataflow.sources.replicas import shares
from cep.kernels.arrays import int64_array
from cep.kernels.columns import columns_from_arrow, nulls
from cep.model.streams import Stream
from cep.plan.route import Route
from cep.transport.wire import LAYOUTS_KEPT, Format
from driver.streams.arrow import event_times, record_batches
from driver.streams.small_batches import ROWS_MAX, Written, small_batches

BATCH_BYTES = 4 << 20


class Share(NamedTuple):
    """What one replica of a query gets of a batch, and the stamp before it."""

    replica: int
    body: pa.Buffer
    stamp: int


class PublishedRows:
    """Cuts and stamps the rows of one publisher."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.small = small_batches(stream)
        self.format = Format.published(stream) if self.small is None else self.small.format
        self.numbered = Format.published(stream, 1)  # with which rows carry their numbers
        self._times = _event_time_of(stream)
        self._formats: dict[frozenset[str], Format] = {}  # by the columns that are read

    def pieces(self, data: Any, latest: Callable[[], int]) -> Iterator[Written]:
        """Batches of at most about BATCH_BYTES. `latest`: the time, µs, where rows are stamped as they are sent. Raises DataError."""
        for batch in record_batches(data, self.stream):
            for piece in _cut(batch):
                times, greatest = self._times(piece, latest)
                hidden = [times] * self.format.hides_time
                yield Written(piece.num_rows, greatest, self._few(piece, hidden), self._whole(piece, hidden))

    def _whole(self, batch: pa.RecordBatch, hidden: list[np.ndarray]) -> pa.RecordBatch:
        """With the hidden columns. Where there are none it has its schema already, or one that Arrow's messages do not tell from it."""
        if not hidden:
            return batch
        return pa.RecordBatch.from_arrays([*batch.columns, *map(int64_array, hidden)], schema=self.format.arrow)

    def _few(self, batch: pa.RecordBatch, hidden: list[np.ndarray]) -> bytes | None:
        """The message of few rows without NULLs, however their batch lies."""
        layout = self.format.layout if batch.num_rows <= ROWS_MAX else None
        return None if layout is None else layout.write_arrow(batch.num_rows, batch.columns, *hidden)

    def body(self, written: Written, reads: frozenset[str] | None) -> tuple[Any, int]:
        """The message of all rows for a reader of the columns `reads`, None: of all, and its fingerprint. Few rows go with all their
        columns: to leave some out takes longer than they do."""
        if written.body is not None or written.whole is None:
            return written.body, self.format.fingerprint
        format_ = self._format_of(reads)
        whole = written.whole if format_ is self.format else written.whole.select(format_.arrow.names)
        return whole.serialize(), format_.fingerprint

    def _format_of(self, reads: frozenset[str] | None) -> Format:
        """How rows go to a reader of these columns."""
        if reads is None:
            return self.format
        if (found := self._formats.get(reads)) is None:
            if len(self._formats) >= LAYOUTS_KEPT:
                self._formats.clear()
            found = self._formats[reads] = self.format.of_columns(reads)
        return found

    def shares(self, written: Written, route: Route, created_ns: int, before: int, after: int, record: int) -> Iterator[Share]:
        """What each replica of a query gets: the rows whose keys it has. `before`, `after`: the greatest event time sent, µs; `record`: the
        number of the first row."""
        whole = pa.ipc.read_record_batch(written.body, self.format.arrow) if written.whole is None else written.whole
        batch, disorder = self.format.from_arrow(whole, created_ns), self.stream.disorder or 0
        unknown = {f.name: nulls(f.type, written.rows) for f in route.fields if f.name not in self.stream.schema}
        batch = replace(batch, columns={**batch.columns, **unknown}) if unknown else batch
        for replica, rows, stamp in shares(route, batch, before, after, disorder, self.stream.times, record):
            yield Share(replica, self.numbered.to_arrow(rows).serialize(), stamp)


def _cut(batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
    """Pieces of at most about BATCH_BYTES, none of them empty."""
    rows = batch.num_rows
    if batch.get_total_buffer_size() <= BATCH_BYTES:  # of the arrays that it may be a part of, so at least its own
        return (batch,) if rows else ()
    size = max(1, rows * BATCH_BYTES // max(batch.nbytes, 1))
    return (batch.slice(start, size) for start in range(0, rows, size))


def _event_time_of(stream: Stream) -> Callable[[pa.RecordBatch, Callable[[], int]], tuple[np.ndarray, int]]:
    """(batch, time of ingestion) -> its times, int64[n], µs, MIN_TIME where NULL; and the greatest of them."""
    if stream.event_time is None:
        return _all_now
    if (column := stream.event_time_column) is not None:
        return lambda batch, latest: _with_greatest(event_times(batch, column), stream.times)
    computed = ComputedTime(stream)
    return lambda batch, latest: _with_greatest(computed.of(columns_from_arrow(batch, stream.schema), batch.num_rows), stream.times)


def _all_now(batch: pa.RecordBatch, latest: Callable[[], int]) -> tuple[np.ndarray, int]:
    now = latest()
    times = np.empty(batch.num_rows, np.int64)
    times.fill(now)  # not `np.full`, which takes four times as long
    return times, now


def _with_greatest(times: np.ndarray, allowed: Range) -> tuple[np.ndarray, int]:
    return times, greatest_of(times, allowed)
