"""Publishers of a query on Spark: what they send becomes Parquet files in the folder of the stream's source."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa

from cep.errors import ClusterError
from cep.model.streams import Stream
from cep.transport import wire
from driver.spark.sources import end_feed, feed_schema, write_feed
from driver.streams.arrow import record_batches

#: Rows of a publisher in one file at most; fewer when it has been waiting for so long.
FILE_ROWS, FILE_SECONDS = 1 << 20, 0.2
_PARTITION_MASK = (1 << 47) - 1  # as instance managers number publishers


class PublishedFolder:
    """The folder of a published stream. It ends when its last publisher has closed, or when the query is drained."""

    def __init__(self, stream: Stream, folder: Path, on_end: Callable[[], None]) -> None:
        self.stream, self.folder, self.on_end = stream, folder, on_end
        self.ended = False
        self.open: set[FeedPublisher] = set()
        self.records: dict[str, int] = {}
        self._files = 0
        self._lock = threading.Lock()

    def publisher(self, name: str | None, keep_open: bool) -> FeedPublisher:
        """Raises ClusterError: the stream has ended."""
        with self._lock:
            if self.ended:
                raise ClusterError(f"stream {self.stream.name!r} has ended for this query")
            made = FeedPublisher(self, name or f"publisher-{len(self.records)}", keep_open)
            self.records.setdefault(made.name, 0)
            self.open.add(made)
            return made

    def write(self, publisher: str, batches: list[tuple[pa.RecordBatch, int]]) -> None:
        """(rows, time of ingestion in µs)."""
        with self._lock:
            table = pa.concat_tables([self._numbered(publisher, batch, stamp) for batch, stamp in batches])
            self._files += 1
            write_feed(table, self.folder / f"{self._files:012}.parquet")

    def _numbered(self, publisher: str, batch: pa.RecordBatch, stamp: int) -> pa.Table:
        first, rows = self.records[publisher], batch.num_rows
        self.records[publisher] = first + rows
        partition = wire.name_id(publisher) & _PARTITION_MASK
        hidden = [
            pa.array([partition] * rows, pa.int64()),
            pa.array(range(first, first + rows), pa.int64()),
            pa.array([stamp] * rows, pa.int64()),
        ]
        return pa.Table.from_arrays([*batch.columns, *hidden], schema=feed_schema(self.stream.schema))

    def leave(self, publisher: FeedPublisher, ends: bool) -> None:
        with self._lock:
            self.open.discard(publisher)
        if ends and not self.open:
            self.end()

    def end(self) -> None:
        """Nothing comes after; once is enough."""
        with self._lock:
            if self.ended:
                return
            self.ended = True
            self._files += 1
            end_feed(self.stream.schema, self.folder / f"{self._files:012}.parquet")
        self.on_end()


class FeedPublisher:
    """As `driver.streams.publisher.Publisher`: leaving the block closes it, and the last one ends the stream, unless by an exception."""

    def __init__(self, feed: PublishedFolder, name: str, keep_open: bool) -> None:
        self.feed, self.name, self.keep_open = feed, name, keep_open
        self.closed = False
        self._held: list[tuple[pa.RecordBatch, int]] = []
        self._since = time.monotonic()

    def __enter__(self) -> FeedPublisher:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close(keep_open=self.keep_open or kind is not None)

    def send(self, data: Any) -> int:
        """Takes rows as `Publisher.send` does; returns how many. They are in a file after FILE_SECONDS, if more are sent, or by `flush`."""
        if self.closed or self.feed.ended:
            raise ClusterError(f"publisher {self.name!r} of stream {self.feed.stream.name!r} is closed; open another one")
        batches = record_batches(data, self.feed.stream)
        self._held += [(batch, time.time_ns() // 1000) for batch in batches]
        if sum(batch.num_rows for batch, _ in self._held) >= FILE_ROWS or time.monotonic() - self._since >= FILE_SECONDS:
            self.flush()
        return sum(batch.num_rows for batch in batches)

    def flush(self) -> None:
        """What was sent is in a file that Spark sees."""
        if any(batch.num_rows for batch, _ in self._held):
            self.feed.write(self.name, self._held)
        self._held, self._since = [], time.monotonic()

    def close(self, keep_open: bool = False) -> None:
        if not self.closed:
            self.flush()
            self.closed = True
            self.feed.leave(self, not keep_open)
