"""Answers as notebooks and programs like them: frames, the latest row of each key, `async for`, and the last rows as HTML."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from importlib import import_module
from time import monotonic
from typing import Any

import pyarrow as pa

from cep.errors import QueryError, counted, meant
from driver.builder.html import html_table, paragraph
from driver.rows.json_rows import shown_rows

ROWS_SHOWN = 10
ROWS_TOGETHER = 4096
LOOK_S = 0.5
"""So long the thread of an `async for` waits at a time: a program that has ended waits for it."""


class ReadableBatches(ABC):
    """What gives record batches. `stream`: of which; `rows`: so many have come."""

    stream: str
    _shown: pa.RecordBatch | None = None  # the last that was read
    _latest: tuple[tuple[str, ...], pa.Table] | None = None  # of each key, as far as it was asked for
    _reader: ThreadPoolExecutor | None = None
    _coming: Future[tuple[pa.RecordBatch | None, bool]] | None = None  # what that reads, or has read and no loop has taken

    @property
    @abstractmethod
    def rows(self) -> int: ...

    @abstractmethod
    def next_batch(self, timeout: float | None = None) -> pa.RecordBatch | None:
        """The next batch; None at the end of the stream. Raises TimeoutError after `timeout` seconds without one, and what has broken the
        stream."""

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        while (batch := self.next_batch()) is not None:
            yield batch

    async def __aiter__(self) -> AsyncIterator[pa.RecordBatch]:
        """Reads in a thread of its own. Where a loop is cancelled, what was read meanwhile comes to the next one."""
        self._reader = self._reader or ThreadPoolExecutor(1, "cep-reader")
        while True:
            self._coming = self._coming or self._reader.submit(self._soon)
            batch, has_ended = await asyncio.shield(asyncio.wrap_future(self._coming))
            self._coming = None
            if has_ended:
                return
            if batch is not None:
                yield batch

    def _soon(self) -> tuple[pa.RecordBatch | None, bool]:
        """A batch, if one comes soon; has the stream ended?"""
        try:
            batch = self.next_batch(LOOK_S)
        except TimeoutError:
            return None, False
        return batch, batch is None

    def to_arrow(self, timeout: float | None = None) -> pa.Table:
        """All rows until the stream ends, or those of so many seconds. Raises what has broken the stream."""
        batches = list(self._within(timeout))
        if batches or self._shown is not None:
            return pa.Table.from_batches(batches, (batches or [self._shown])[0].schema)
        return pa.table({})

    def to_pandas(self, timeout: float | None = None) -> Any:
        """The same as a frame of pandas."""
        return self.to_arrow(timeout).to_pandas()

    def to_polars(self, timeout: float | None = None) -> Any:
        """The same as a frame of polars, which has to be installed."""
        return import_module("polars").from_arrow(self.to_arrow(timeout))

    def latest(self, by: str | Sequence[str], timeout: float | None = 0.0) -> pa.Table:
        """The last row of each key, of all that this call and those before it have read: what has come by now, what comes within `timeout`
        seconds, or with None until the stream ends. Raises QueryError: there is no such column, or it is no key; and what has broken the
        stream."""
        keys = (by,) if isinstance(by, str) else tuple(by)
        known = self._latest[1] if self._latest is not None and self._latest[0] == keys else None
        read: list[pa.Table] = [] if known is None else [known]
        unsorted = 0
        for batch in self._within(timeout):
            read.append(pa.Table.from_batches([batch]))
            unsorted += batch.num_rows
            if unsorted > max(ROWS_TOGETHER, read[0].num_rows):  # not for each batch, for that looks at all keys
                read, unsorted = [_last_of_each(pa.concat_tables(read), keys)], 0
        if not read:
            return pa.table({})
        self._latest = keys, _last_of_each(pa.concat_tables(read), keys)
        return self._latest[1]

    def _within(self, timeout: float | None) -> Iterator[pa.RecordBatch]:
        deadline = None if timeout is None else monotonic() + timeout
        while True:
            try:
                batch = self.next_batch(None if deadline is None else max(0.0, deadline - monotonic()))
            except TimeoutError:
                return
            if batch is None:
                return
            yield batch

    def _repr_html_(self) -> str:
        read = paragraph(f"stream {self.stream}: {counted(self.rows, 'row')} read")
        if self._shown is None:
            return read
        last = self._shown.slice(max(0, self._shown.num_rows - ROWS_SHOWN))
        return read + html_table(last.schema.names, shown_rows(last))


def _last_of_each(table: pa.Table, keys: Sequence[str]) -> pa.Table:
    """In the order in which they came."""
    if unknown := next((key for key in keys if key not in table.column_names), None):
        raise QueryError(f"latest: no column {unknown!r}{meant(unknown, table.column_names)}; there is {', '.join(table.column_names)}")
    numbers = pa.table([*map(table.column, keys), pa.array(range(table.num_rows))], names=[*map(str, range(len(keys))), "row"])
    try:
        last = numbers.group_by([*map(str, range(len(keys)))], use_threads=False).aggregate([("row", "max")])
    except pa.ArrowNotImplementedError as error:
        raise QueryError(f"latest: {', '.join(keys)} is no key: {error}") from None
    return table.take(last.column("row_max").combine_chunks().sort())
