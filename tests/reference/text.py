"""Delimited text cut into blocks and parsed, apart from the engine's scanner (rules 4.9, 4.10).

A line is a record, its fields split at the separator, without quoting; `\\r` before `\\n` belongs to the line's end; a
last line without `\\n` is a record like any other. A record belongs to the block in which its first byte lies. Only the
fields that a query needs are looked at, so a record is bad only by them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from cep.model.query import Query
from cep.model.schema import INT64, STRING, Field
from cep.model.streams import Stream, TextFiles
from tests.reference.expressions import Failed, cast, evaluate
from tests.reference.needed import needed_columns
from tests.reference.rows import Bad, Partition
from tests.reference.source import in_range


class Unparsable(Exception):
    """A field whose text is no value of its type."""


def blocks(query: Query, stream: Stream, files: Mapping[str, bytes]) -> list[Partition]:
    """The partitions of `stream`, whose files have these contents: blocks by path of their file, then by position."""
    assert isinstance(stream.files, TextFiles)
    needed = needed_columns(query, stream)
    partitions: list[Partition] = []
    for path in sorted(files):
        for records in _cut(files[path], stream.files.header, stream.files.block_bytes):
            rows = [_record(record, stream, needed) for record in records]
            partitions.append(Partition(len(partitions), rows, file=path))
    return partitions


def _cut(data: bytes, header: bool, block_bytes: int) -> list[list[bytes]]:
    """The records of each block, line ends and all. Where no record begins, behind a record of several blocks, there is no block."""
    cut: list[list[bytes]] = [[] for _ in range(math.ceil(len(data) / block_bytes))]
    for number, (offset, line) in enumerate(_lines(data)):
        if number > 0 or not header:
            cut[offset // block_bytes].append(line)
    return [block for block in cut if block]


def _lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    offset = 0
    while offset < len(data):
        end = data.find(b"\n", offset) + 1 or len(data)
        yield offset, data[offset:end]
        offset = end


def _record(line: bytes, stream: Stream, needed: frozenset[str]) -> tuple[Any, ...] | Bad:
    """A row in which columns that are not needed are None; or what is wrong, and the event time where that parses."""
    assert isinstance(stream.files, TextFiles)
    if len(line) > stream.files.block_bytes:
        return Bad("longer than a block")
    texts = line.removesuffix(b"\n").removesuffix(b"\r").split(stream.files.separator.encode())
    values: dict[str, Any] = {}
    reasons = []
    for position, field in enumerate(stream.schema.fields):
        if field.name in needed:
            try:
                values[field.name] = _field(texts[position] if position < len(texts) else None, field)
            except Unparsable as error:
                reasons.append(str(error))
    time = _time(stream, values)
    if reasons:
        return Bad(reasons[0], time)
    return tuple(values.get(name) for name in stream.schema.names)


def _time(stream: Stream, values: Mapping[str, Any]) -> int | None:
    assert stream.event_time is not None
    try:
        time = evaluate(stream.event_time, stream.schema, values)
    except (Failed, KeyError):  # KeyError: a column of it did not parse
        return None
    return None if time is None else in_range(stream, int(time))


def _field(text: bytes | None, field: Field) -> Any:
    if text is None:
        raise Unparsable(f"field {field.name!r} is not there")
    if field.type.name == "binary":
        return text
    if field.type.name == "string":
        return _string(text, field)
    if not text:
        if field.nullable:
            return None
        raise Unparsable(f"field {field.name!r} is empty, which is NULL, and may not be")
    return _word(text, field)


def _string(text: bytes, field: Field) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise Unparsable(f"field {field.name!r} is not valid UTF-8") from None


def _word(text: bytes, field: Field) -> Any:
    """As a cast of the text would have it, but that a timestamp with a unit is always an integer of it."""
    try:
        read = text.decode("ascii")
        if field.type.unit:
            return cast(cast(read, STRING, INT64), INT64, field.type)
        return cast(read, STRING, field.type)
    except (Failed, UnicodeDecodeError):
        raise Unparsable(f"field {field.name!r}: {text[:40]!r} is no {field.type}") from None
