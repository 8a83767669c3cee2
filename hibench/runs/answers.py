"""Answers of a workload, by whatever engine, and when two sets of them are equal.

Equal means: the same rows as often, in any order. `AnswerSum` says so by a checksum in which order plays no part: every
row becomes 64 well-mixed bits; their sum (mod 2**64) and their exclusive or are folded into the checksum. `difference`
finds the rows that only one side has by the same bits, 8 bytes a row, so that neither set has to be in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

RowsAgain = Callable[[], Iterable[pa.Table]]
"""The rows of a set of answers, a table at a time; they can be asked for again."""

_SHOWN_ROWS = 5
_WORDS_LEAST = 2
_CHUNK_ROWS = 1 << 18
_NULL_TEXT = "\x00NULL"
_NULL_NUMBER = np.iinfo(np.int64).min
_MILLISECONDS = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000), "ns": (1, 1_000_000)}


@dataclass(frozen=True)
class Shape:
    """What one answer is, and where it belongs.

    schema  its columns: texts, whole numbers, floats; a time is int64 ms since 1970
    time    the column, ms, that says in which window an answer lies
    events  the column that says how many records an answer counts; None: one
    key     of running answers the columns by which a later one replaces an earlier one; () where none is replaced
    running of running answers the column that says how many records of its key there have been
    """

    schema: pa.Schema
    time: str
    events: str | None = None
    key: tuple[str, ...] = ()
    running: str | None = None

    def last_only(self) -> Shape:
        """That of running answers of which only the last of every key is left."""
        return replace(self, events=self.running)

    def of(self, batch: pa.RecordBatch | pa.Table) -> pa.Table:
        """What an engine gave out as answers of this shape: the columns by name, times in ms; what else it has is left out."""
        return pa.table([_as_declared(batch[field.name], field.type) for field in self.schema], schema=self.schema)


@dataclass(frozen=True)
class AnswerSums:
    """A multiset of answers in brief. `events`: how many records they count together."""

    rows: int
    events: int
    checksum: str

    def __str__(self) -> str:
        return f"{self.rows:,} answers over {self.events:,} events, checksum {self.checksum}"


Windows = dict[int, tuple[int, int]]
"""When a window opens, ms since 1970 → the records that its answers count together, and how many answers there are."""


@dataclass(frozen=True)
class Expected:
    """What the answers have to be: in brief, by window, and, if asked for, row by row."""

    shape: Shape
    answers: AnswerSums
    windows: Windows
    rows: RowsAgain


class AnswerSum:
    """Adds up answers a table at a time, in any order and cutting; `window_ms`: by which they are counted in `windows`."""

    def __init__(self, shape: Shape, window_ms: int) -> None:
        self._shape, self._window_ms = shape, window_ms
        self._rows = self._events = self._sum = self._xor = 0
        self.windows: Windows = {}

    def add(self, table: pa.Table) -> None:
        """Rows of the shape."""
        for first in range(0, table.num_rows, _CHUNK_ROWS):
            self._add(table.slice(first, _CHUNK_ROWS).combine_chunks())

    def _add(self, table: pa.Table) -> None:
        hashes = row_hashes(table.select(self._shape.schema.names))
        self._rows += table.num_rows
        self._sum = (self._sum + int(hashes.sum(dtype=np.uint64))) % 2**64
        self._xor ^= int(np.bitwise_xor.reduce(hashes))
        starts = np.asarray(table[self._shape.time]) // self._window_ms * self._window_ms
        weights = np.asarray(table[self._shape.events]) if self._shape.events else np.ones(table.num_rows, np.int64)
        self._events += int(weights.sum())
        for start in np.unique(starts).tolist():
            here = starts == start
            events, rows = self.windows.get(start, (0, 0))
            self.windows[start] = events + int(weights[here].sum()), rows + int(here.sum())

    def result(self) -> AnswerSums:
        folded = int(_mixed(np.array([self._sum], np.uint64))[0]) ^ self._xor
        return AnswerSums(self._rows, self._events, f"{folded:016x}")


def summed(shape: Shape, tables: Iterable[pa.Table], window_ms: int) -> AnswerSum:
    """The answers of all tables together."""
    total = AnswerSum(shape, window_ms)
    for table in tables:
        total.add(table)
    return total


def folded(shape: Shape, tables: Iterable[pa.Table]) -> pa.Table:
    """The last running answer of every key. What runs never falls, so the last has the greatest of every column."""
    last = shape.schema.empty_table()
    others = [name for name in shape.schema.names if name not in shape.key]
    for table in tables:
        found = pa.concat_tables([last, table]).group_by(list(shape.key)).aggregate([(name, "max") for name in others])
        last = found.rename_columns([name.removesuffix("_max") for name in found.column_names]).select(shape.schema.names)
    return last


def difference(shape: Shape, expected: RowsAgain, got: RowsAgain) -> str:
    """'' if both hold the same rows as often; else how many rows only one side has, and the first few."""
    hashes = [_all_hashes(shape, rows()) for rows in (expected, got)]
    distinct, inverse = np.unique(np.concatenate(hashes), return_inverse=True)
    surplus = np.bincount(inverse[: len(hashes[0])], minlength=len(distinct)) - np.bincount(
        inverse[len(hashes[0]) :], minlength=len(distinct)
    )
    if not surplus.any():
        return ""
    missing = _shown("expected but missing", shape, expected(), distinct[surplus > 0])
    return f"{missing}\n{_shown('got but not expected', shape, got(), distinct[surplus < 0])}"


def _all_hashes(shape: Shape, tables: Iterable[pa.Table]) -> np.ndarray:
    found = [row_hashes(piece) for table in tables for piece in _pieces(table.select(shape.schema.names))]
    return np.concatenate(found) if found else np.empty(0, np.uint64)


def _pieces(table: pa.Table) -> Iterator[pa.Table]:
    return (table.slice(first, _CHUNK_ROWS).combine_chunks() for first in range(0, table.num_rows, _CHUNK_ROWS))


def _shown(label: str, shape: Shape, tables: Iterable[pa.Table], odd: np.ndarray) -> str:
    """How many rows have one of the hashes `odd`, and the first few of them."""
    rows: list[dict[str, object]] = []
    for piece in (piece for table in tables for piece in _pieces(table.select(shape.schema.names))):
        if len(rows) >= min(_SHOWN_ROWS, len(odd)):
            break
        found = piece.filter(pa.array(np.isin(row_hashes(piece), odd)))
        rows += found.slice(0, _SHOWN_ROWS - len(rows)).to_pylist()
    first = ["  " + ", ".join(f"{name} {value!r}" for name, value in row.items()) for row in rows]
    more = [f"  … and {len(odd) - len(first):,} more"] if len(odd) > len(first) else []
    return "\n".join([f"{label}: {len(odd):,} different rows", *first, *more])


def row_hashes(table: pa.Table) -> np.ndarray:
    """uint64[rows], each from all columns of a table of one chunk; NULL is a value like any other."""
    texts = [pc.fill_null(table[field.name], _NULL_TEXT) for field in table.schema if pa.types.is_string(field.type)]
    hashes = _text_hashes(_one(texts[0] if len(texts) == 1 else pc.binary_join_element_wise(*texts, "\x1f"))) if texts else None
    hashes = np.zeros(table.num_rows, np.uint64) if hashes is None else hashes
    for place, field in enumerate(table.schema):
        if not pa.types.is_string(field.type):
            hashes = _mixed(hashes ^ _mixed(_words(_one(table[field.name])) + np.uint64(place)))
    return hashes


def _words(values: pa.Array) -> np.ndarray:
    """uint64 for every number: an integer as it is, a float by its bits."""
    if pa.types.is_floating(values.type):
        return (np.asarray(pc.fill_null(values.cast(pa.float64()), np.nan)) + 0.0).view(np.uint64)  # no negative zero
    return np.ascontiguousarray(pc.fill_null(values.cast(pa.int64()), _NULL_NUMBER)).view(np.uint64)


def _one(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _text_hashes(texts: pa.Array) -> np.ndarray:
    """A string's words of eight bytes folded in turn; the hash depends on its own length, not on its neighbours'."""
    lengths = pc.binary_length(texts).to_numpy(zero_copy_only=False)
    longest = int(lengths.max(initial=0))
    words = max(_WORDS_LEAST, -(-longest // 8))
    padded = _one(pc.binary_join_element_wise(texts, pc.binary_repeat(" ", pa.array(words * 8 - lengths)), ""))
    data = np.frombuffer(padded.buffers()[2] or b"", np.uint64, len(padded) * words, padded.offset * words * 8)
    grid = data.reshape(len(padded), words)
    hashes = _mixed(lengths.astype(np.uint64))
    for word in range(words):
        hashes = np.where(lengths > word * 8, _mixed(hashes ^ grid[:, word]), hashes)
    return hashes


def _mixed(words: np.ndarray) -> np.ndarray:
    """splitmix64: a change of one bit changes every bit of the result with probability one half."""
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: np.ndarray = words ^ (words >> np.uint64(31))
    return mixed


def _as_declared(column: pa.Array | pa.ChunkedArray, type_: pa.DataType) -> pa.Array | pa.ChunkedArray:
    if not pa.types.is_timestamp(column.type):
        return column.cast(type_)
    times, per = _MILLISECONDS[column.type.unit]
    counts = column.cast(pa.int64())
    return pc.divide(pc.multiply(counts, times), per)  # event times here are whole milliseconds
