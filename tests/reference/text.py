"""Delimited text cut into blocks and parsed, apart from the engine's scanner (DESIGN 4.9, 4.10).

A line is a record, its fields split at the separator, without quoting; `\\r` before `\\n` belongs to the line's end; a
last line without `\\n` is a record like any other. A record belongs to the block in which its first byte lies. Only the
fields that a query needs are looked at, so a record is bad only by them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from cep.model.expr import columns_of
from cep.model.functions import Function
from cep.model.operators import Aggregate, Filter, Map
from cep.model.query import Query
from cep.model.schema import INT64, STRING, Field
from cep.model.streams import Stream
from tests.reference.expressions import Failed, cast, evaluate
from tests.reference.rows import Bad, Partition
from tests.reference.source import in_range


class Unparsable(Exception):
    """A field whose text is no value of its type."""


def blocks(query: Query, stream: Stream, files: Mapping[str, bytes]) -> list[Partition]:
    """The partitions of `stream`, whose files have these contents: blocks by path of their file, then by position."""
    assert stream.files is not None
    needed = needed_columns(query, stream)
    partitions: list[Partition] = []
    for path in sorted(files):
        for records in _cut(files[path], stream.files.header, stream.files.block_bytes):
            rows = [_record(record, stream, needed) for record in records]
            partitions.append(Partition(len(partitions), rows, file=path))
    return partitions


def _cut(data: bytes, header: bool, block_bytes: int) -> list[list[bytes]]:
    """The records of each block, line ends and all."""
    cut: list[list[bytes]] = [[] for _ in range(math.ceil(len(data) / block_bytes))]
    for number, (offset, line) in enumerate(_lines(data)):
        if number > 0 or not header:
            cut[offset // block_bytes].append(line)
    return cut


def _lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    offset = 0
    while offset < len(data):
        end = data.find(b"\n", offset) + 1 or len(data)
        yield offset, data[offset:end]
        offset = end


def _record(line: bytes, stream: Stream, needed: frozenset[str]) -> tuple[Any, ...] | Bad:
    """A row in which columns that nobody needs are None; or what is wrong, and the event time where that parses."""
    assert stream.files is not None
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
    return None if time is None else in_range(int(time))


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


def needed_columns(query: Query, stream: Stream) -> frozenset[str]:
    """The columns of `stream` that the query needs: its event time's, those an operator reads, and those that come out.

    What an expression of a Map or a function of an Aggregate reads is needed also where nobody reads the result, so
    that an answer does not depend on how well a planner prunes. All are, if late rows go to a stream.
    """
    needed = _needed_of(query, stream.name, frozenset(stream.schema.names))
    if query.late is not None and stream.event_time is not None:
        needed |= frozenset(stream.schema.names)
    return needed | (frozenset() if stream.event_time is None else columns_of(stream.event_time))


def _compares_rows(query: Query, name: str, functions: tuple[tuple[str, Function], ...]) -> bool:
    """Rows of `name` that came from one row of a source on two ways are ordered by all their columns (DESIGN 4.5)."""
    beginnings = _beginnings(query, name)
    return any(f.name in ("first", "last") for _, f in functions) and len(set(beginnings)) < len(beginnings)


def _beginnings(query: Query, name: str) -> list[str]:
    """Where the origins of the rows of `name` were made, once for each way from there."""
    made = [operator for operator in query.operators if operator.name == name and not isinstance(operator, Aggregate)]
    return [begin for operator in made for input_ in operator.inputs for begin in _beginnings(query, input_)] or [name]


def _needed_of(query: Query, name: str, everything: frozenset[str]) -> frozenset[str]:
    """What is read of the rows of `name`, of those columns of a stream that reach it unchanged."""
    if any(output.input == name for output in query.outputs):
        return everything
    needed: frozenset[str] = frozenset()
    for operator in query.operators:
        if name not in operator.inputs:
            continue
        match operator:
            case Map(fields=fields):
                needed |= frozenset().union(*(columns_of(expression) for _, expression in fields))
            case Aggregate(functions=functions) if _compares_rows(query, name, functions):
                needed |= everything
            case Aggregate(by=by, functions=functions):
                needed |= frozenset(by) | {f.column for _, f in functions if f.column is not None}
            case Filter(condition=condition):
                needed |= columns_of(condition) | _needed_of(query, operator.name, everything)
            case _:
                needed |= _needed_of(query, operator.name, everything)
    return needed & everything
