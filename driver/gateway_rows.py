"""The rows that clients of REST send: a list of JSON, lines of JSON, or a stream of Arrow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from cep.errors import DataError, ProtocolError
from cep.service.documents import read_json
from cep.transport.admission import read_stream
from driver.rows.json_rows import taken
from driver.streams.publisher import Publisher

NDJSON, ARROW = "application/x-ndjson", "application/vnd.apache.arrow.stream"

Saying = Callable[[Publisher], int]
"""What a publisher is to do, and how many rows it sends by it."""


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
    """Arrow's IPC, as a stream. Raises ProtocolError: it is none, or compressed: a few bytes of such are any number of rows."""
    try:
        schema, batches = read_stream(body)
    except ProtocolError as error:
        raise ProtocolError(f"the rows cannot be read as a stream of Arrow: {error}") from None
    table = pa.Table.from_batches(batches, schema)
    return lambda publisher: publisher.send(table) if table.num_rows else 0


def promise(body: bytes) -> Saying:
    """That no older row will come."""
    document = _read(body, "the time")
    if not isinstance(document, dict) or document.keys() != {"to"}:
        raise DataError(f'expected {{"to": a time}}, got {document!r}')

    def say(publisher: Publisher) -> int:
        publisher.advance(document["to"])
        return 0

    return say


def _sent(rows: list[Any]) -> Saying:
    return lambda publisher: publisher.send(taken(rows, publisher.stream)) if rows else 0


def _read(body: bytes, what: str) -> Any:
    try:
        return read_json(body)
    except ValueError as error:
        raise ProtocolError(f"{what} cannot be read: {error}") from None
