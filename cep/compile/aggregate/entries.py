"""Partial rows on their way: the entries of a table as they lie there, which the table of the next stage takes in as they come.

A row is the words of its entry, key and all, and behind them the bytes of the key where it is long. What else an entry only points to,
texts, blocks and sums that have spilled, are columns of their own. A balancer that deals the rows by their whole key has it in the words;
where an edge is routed by fewer columns, the rows have those of the key too (`AggregateSpec.keyed`).

Columns of words instead, as in a snapshot, cost 24 ns a row more: a key is made a text and words again, three times in all.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cep.compile.aggregate.groups import Groups
from cep.compile.aggregate.results import Instant, spilled
from cep.compile.aggregate.rows import Matrix, PartialRows
from cep.compile.aggregate.spec import AggregateSpec
from cep.compile.aggregate.states import StatePart
from cep.elements import Batch
from cep.kernels.columns import NO_BYTES, Column, Columns, gathered
from cep.kernels.tables.hashing import LONG
from cep.kernels.tables.keys import Keys, encode_keys
from cep.kernels.text import gather
from cep.model.schema import BINARY, Field

_TOP, _OFFSET = np.uint64(56), np.uint64((1 << 56) - 1)
_LONG_WORD = np.uint64(LONG << 56)
_LENGTH_BYTES = 4  # before the bytes of a long key


def partials(spec: AggregateSpec, groups: Groups, pane_end: Instant) -> Batch:
    """The partial rows of a pane for `groups`, or of a pane for each, at event time pane end - 1. They may look at the entries of the
    table: it is not to be used again before they are gone (`Panes`)."""
    width, table = spec.width, groups.table
    matrix = table.entries[groups.start * width : groups.stop * width].reshape(-1, width)
    if 2 * matrix.size < len(table.entries):  # what is looked at is held as a whole
        matrix = matrix.copy()
    columns = entry_columns(spec, matrix, table.arena, groups)
    if spec.keyed:
        columns |= spec.decode(groups.keys(0))
    return Batch(columns, np.full(len(groups), pane_end - 1, np.int64), None, table.created)


def entry_columns(spec: AggregateSpec, matrix: np.ndarray, arena: np.ndarray, groups: Groups) -> dict[str, Column]:
    """Columns of `spec.entry_schema`, but for those of the key, of rows whose entries are `matrix`, int64[n, width], which they may look
    at from now on, and the bytes of whose long keys are in `arena`; the rest is that of `groups`."""
    entry, *others = spec.entry_fields
    columns = {entry.name: _packed(matrix, arena)}
    apart = ((place, part) for place, part in spec.parts if part.kind != "words")
    for field, (place, part) in zip(others, apart, strict=True):
        columns[field.name] = _apart(part, place, groups)
    return columns


def _apart(part: StatePart, place: int, groups: Groups) -> Column:
    match part.kind:
        case "text":
            return groups.text(place, Field("", part.type, True))
        case "block":
            return groups.block(place, part)
        case _:
            return spilled(groups, place)


def _packed(matrix: np.ndarray, arena: np.ndarray) -> Column:
    """Rows of words, and behind each the bytes of its key, if that is long."""
    size = 8 * matrix.shape[1]
    (long,) = ((matrix[:, 1].view(np.uint64) >> _TOP) == LONG).nonzero()
    if not len(long):
        return rows_of_words(matrix)
    own = matrix.reshape(-1).view(np.uint8)
    starts, lengths = np.empty((2, len(matrix), 2), np.int64)
    starts[:, 0], lengths[:, 0] = np.arange(len(matrix)) * size, size
    starts[:, 1] = lengths[:, 1] = 0
    keys = (matrix[long, 1].view(np.uint64) & _OFFSET).astype(np.int64)
    first = int(keys.min())
    prefixes = arena[keys[:, None] + np.arange(_LENGTH_BYTES)].view(np.uint32)[:, 0]
    starts[long, 1], lengths[long, 1] = keys - first + len(own), prefixes + _LENGTH_BYTES
    source = np.concatenate([own, arena[first : int((keys + lengths[long, 1]).max())]])
    offsets = np.zeros(2 * len(matrix) + 1, np.int32)
    np.cumsum(lengths.reshape(-1), out=offsets[1:])
    body = np.empty(int(offsets[-1]), np.uint8)
    gather(source, starts.reshape(-1), offsets, body)
    return Column(BINARY, np.diff(offsets[::2]), None, body, offsets[:-1:2].astype(np.int64))


def rows_of_words(matrix: np.ndarray) -> Column:
    """A column of the rows of `matrix`, int64[n, width], which stays as it is while it is looked at."""
    n, size = len(matrix), 8 * matrix.shape[1]
    starts = np.arange(0, n * size, size, dtype=np.int64)
    return Column(BINARY, np.full(n, size, np.int32), None, matrix.reshape(-1).view(np.uint8) if n else NO_BYTES, starts)


def words_of_rows(column: Column, width: int) -> np.ndarray | None:
    """int64[n, width], looking at the bytes of `column`, if its rows are words only and lie one behind the other; else None."""
    n, size = len(column), 8 * width
    starts, data = column.starts, column.data
    assert starts is not None and data is not None
    if not n:
        return np.zeros((0, width), np.int64)
    if not (column.values == size).all() or not (starts[1:] - starts[:-1] == size).all():
        return None
    words = data[starts[0] : starts[0] + n * size].view(np.int64)
    return words.reshape(n, width) if words.flags.aligned else words.copy().reshape(n, width)


def loose_words(column: Column, width: int) -> np.ndarray:
    """The same wherever the rows lie and whatever is behind their words; a copy."""
    n, size = len(column), 8 * width
    words = np.empty(n * width, np.int64)
    gather(column.data, column.starts, np.arange(0, (n + 1) * size, size, dtype=np.int32), words.view(np.uint8))
    return words.reshape(n, width)


def keys_of_entries(column: Column, width: int) -> Keys:
    """The keys of partial rows, whose hashes and no more are to be looked at: the bytes of long ones are not found by them."""
    words = words_of_rows(column, width)
    words = loose_words(column, width) if words is None else words
    return Keys(words[:, 0].astype(np.uint64), words[:, 1].astype(np.uint64), NO_BYTES)


def take_entries(column: Column, rows: np.ndarray, width: int) -> Column:
    """Rows `rows` of a column of entries, int64[m], with bytes of their own."""
    words = words_of_rows(column, width)
    if words is not None:
        return rows_of_words(words.take(rows, axis=0))
    taken = column.take(rows)
    offsets, body = gathered(taken)
    return Column(BINARY, taken.values, None, body, offsets[:-1].astype(np.int64))


def entry_rows(spec: AggregateSpec, columns: Columns, time: np.ndarray, created: int) -> PartialRows:
    """Rows of `spec.entry_schema` as the next stage takes them in; `time` is any instant of their panes."""
    entry, *others = spec.entry_fields
    column = columns[entry.name]
    words = words_of_rows(column, spec.width)
    if words is None or others:
        words = loose_words(column, spec.width) if words is None else words.copy()
    made = Matrix(words)
    _long_keys(made, column)
    fields: Iterator[Field] = iter(others)
    for place, part in spec.parts:
        match part.kind:
            case "text":
                field = next(fields)
                made.texts(place, encode_keys({field.name: columns[field.name]}, (field,)))
            case "block":
                made.blocks(place, part, made.matrix[:, place + 2].copy(), columns[next(fields).name])
            case "sum":
                made.spilled(place, columns[next(fields).name])
    return PartialRows(spec.loops, time, created, made.matrix, made.arena(), made.pool())


def _long_keys(made: Matrix, column: Column) -> None:
    """Where the bytes of long keys are now."""
    (long,) = (column.values > 8 * made.matrix.shape[1]).nonzero()
    if len(long):
        assert column.starts is not None and column.data is not None
        places = column.starts[long] + 8 * made.matrix.shape[1]
        made.matrix[long, 1] = (_LONG_WORD | places.astype(np.uint64)).view(np.int64)
        made.bytes(column.data)
