"""The rows that clients of REST send, a list of JSON, lines of JSON, or a stream of Arrow; and what sends them on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pyarrow as pa

from cep.errors import ClusterError, DataError, ProtocolError
from cep.service.documents import read_json
from cep.transport.admission import read_stream
from driver.gateway_keys import KeyFile, RowsKey
from driver.rows.json_rows import taken
from driver.rows.unpacked import VALUE_BYTES, unpacked_bytes
from driver.streams.publisher import Publisher

NDJSON, ARROW = "application/x-ndjson", "application/vnd.apache.arrow.stream"

UNPACKED_BYTES_MAX = 64 << 20
"""What the rows of a stream of Arrow become at most, whose body is 4 MiB at most: sixteen times as much."""

Saying = Callable[[int, Publisher], int]
"""What a publisher is to do, but for so many rows that are there already; and how many rows it sends by it."""


def reader_of(content_type: str) -> Callable[[bytes], Saying]:
    """How rows of that type are read."""
    return {NDJSON: json_lines, ARROW: arrow_stream}.get(content_type.partition(";")[0].strip().lower(), json_list)


def json_list(body: bytes) -> Saying:
    """Raises ProtocolError: they are no JSON."""
    rows = _read(body, "the rows")
    if not isinstance(rows, list):
        raise DataError(f"expected a list of objects, one for each row, got {type(rows).__name__}")
    return _sent(rows)


def json_lines(body: bytes) -> Saying:
    """An object a line. Read as a list, they have its limits. Raises ProtocolError: one line is no JSON, or several values."""
    lines = [(at, line) for at, line in enumerate(body.split(b"\n"), 1) if line.strip()]
    for at, line in lines:
        if not (line.strip()[:1] == b"{" and line.strip()[-1:] == b"}"):
            raise ProtocolError(f"line {at}: expected an object, got {line[:50]!r}")
    rows = _read(b"[" + b",".join(line for _, line in lines) + b"]", "the lines")
    if len(rows) != len(lines):
        raise ProtocolError(f"{len(lines)} lines hold {len(rows)} objects; expected one in each")
    return _sent(rows)


def arrow_stream(body: bytes) -> Saying:
    """Arrow's IPC, as a stream. Raises ProtocolError: it is none; or its few bytes are many rows, compressed or otherwise."""
    try:
        schema, batches = read_stream(body)
    except ProtocolError as error:
        raise ProtocolError(f"the rows cannot be read as a stream of Arrow: {error}") from None
    table = pa.Table.from_batches(batches, schema)
    if table.num_rows > len(body):
        raise ProtocolError(f"{table.num_rows:,} rows in {len(body):,} bytes of Arrow; expected a byte for each row at least")
    unpacked = 0
    for name, column in zip(table.column_names, table.columns, strict=True):
        unpacked += sum(map(unpacked_bytes, column.chunks))
        _check_unpacked(unpacked, f"with column {name!r}")

    def say(there: int, publisher: Publisher) -> int:
        absent = len(publisher.stream.schema.fields) - table.num_columns
        _check_unpacked(unpacked + table.num_rows * VALUE_BYTES * absent, f"with {absent} columns of NULLs that they have not")
        return publisher.send(table.slice(there)) if table.num_rows > there else 0

    return say


def _check_unpacked(size: int, with_: str) -> None:
    if size > UNPACKED_BYTES_MAX:
        raise ProtocolError(f"the rows become {size:,} bytes {with_}; expected at most {UNPACKED_BYTES_MAX:,}")


def promise(body: bytes) -> Saying:
    """That no older row will come."""
    document = _read(body, "the time")
    if not isinstance(document, dict) or document.keys() != {"to"}:
        raise DataError(f'expected {{"to": a time}}, got {document!r}')

    def say(there: int, publisher: Publisher) -> int:
        publisher.advance(document["to"])
        return 0

    return say


def _sent(rows: list[Any]) -> Saying:
    return lambda there, publisher: publisher.send(taken(rows[there:], publisher.stream)) if len(rows) > there else 0


def _read(body: bytes, what: str) -> Any:
    try:
        return read_json(body)
    except ValueError as error:
        raise ProtocolError(f"{what} cannot be read: {error}") from None


class GatewayPublisher:
    """REST's publisher of a stream, which is opened when rows come for the first time."""

    def __init__(self, stream: str, keys: KeyFile) -> None:
        self.stream, self.keys = stream, keys
        self.turn = asyncio.Lock()
        self.publisher: Publisher | None = None
        self.wanted = 0  # by so many requests, those that wait for their turn among them: only at 0 may another take its place

    def send(
        self,
        open_: Callable[[], Publisher],
        renew: Callable[[Publisher], bool],
        body: bytes,
        read: Callable[[bytes], Saying],
        end: bool,
        key: RowsKey | None,
    ) -> int:
        """How many rows were sent, by `key` once. `renew`: has the stream got columns since the publisher was opened? In a thread."""
        say = read(body)
        if self.publisher is None:
            self.publisher = open_()
        try:
            if self.keys.in_doubt(self.stream):
                self.keys.settle(self.stream, self.publisher.accepted())
            there = 0 if key is None else self._begin(self.publisher, key)
            sent = there + _said(self.publisher, renew, partial(say, there))
        except ClusterError:  # it counts as closed somewhere; the next rows open another one
            with suppress(ClusterError):
                self._close(keep_open=True)
            raise
        if end:
            self._close()
        if key is not None:
            self.keys.finish(self.stream, key.name, sent)
        return sent

    def _begin(self, publisher: Publisher, key: RowsKey) -> int:
        """How many of the rows are there already."""
        known = self.keys.get(self.stream, key.name)
        there = 0 if known is None else known.rows
        self.keys.begin(self.stream, key, publisher.accepted() - there)
        return there

    def _close(self, keep_open: bool = False) -> None:
        publisher, self.publisher = self.publisher, None
        if publisher is not None:
            publisher.close(keep_open)


def _said(publisher: Publisher, renew: Callable[[Publisher], bool], say: Callable[[Publisher], int]) -> int:
    try:
        return say(publisher)
    except DataError:
        if not renew(publisher):
            raise
    return say(publisher)
