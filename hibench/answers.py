"""Answers of the fixed-window query, whoever computed them, and when two sets of them are equal.

Equal means: the same rows as often, in any order. `Answers` says so by a checksum in which order plays no part: every
row becomes 64 well-mixed bits; their sum (mod 2**64) and their exclusive or are folded into the checksum.
`difference` compares the rows themselves and shows those that only one side has.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

ANSWER = pa.schema([("ip", pa.string()), ("first_ms", pa.int64()), ("last_ms", pa.int64()), ("visits", pa.int64())])
_SHOWN_ROWS = 5
_KEY_WORDS_LEAST = 2


@dataclass(frozen=True)
class Answers:
    """A multiset of answers in brief. `events`: how many records they count together."""

    rows: int
    events: int
    checksum: str

    def __str__(self) -> str:
        return f"{self.rows:,} answers over {self.events:,} events, checksum {self.checksum}"


class AnswerSum:
    """Adds up answers a batch at a time, in any order and cutting."""

    def __init__(self) -> None:
        self._rows = self._events = self._sum = self._xor = 0

    def add(self, table: pa.Table | pa.RecordBatch) -> None:
        """Rows with the fields of ANSWER."""
        hashes = _row_hashes(table)
        self._rows += table.num_rows
        self._events += pc.sum(table["visits"]).as_py() or 0
        self._sum = (self._sum + int(hashes.sum(dtype=np.uint64))) % 2**64
        self._xor ^= int(np.bitwise_xor.reduce(hashes))

    def result(self) -> Answers:
        folded = int(_mixed(np.array([self._sum], np.uint64))[0]) ^ self._xor
        return Answers(self._rows, self._events, f"{folded:016x}")


def summarise(table: pa.Table) -> Answers:
    """The answers of a whole table with the fields of ANSWER."""
    total = AnswerSum()
    for batch in table.to_batches(max_chunksize=1 << 18):
        total.add(batch)
    return total.result()


def difference(expected: pa.Table, got: pa.Table) -> str:
    """'' if both hold the same rows as often; else how many rows only one side has, and the first few."""
    sides = [_one_sided(expected, 1), _one_sided(got, -1)]
    balance = pa.concat_tables(sides).group_by(ANSWER.names).aggregate([("side", "sum")])
    odd = balance.filter(pc.not_equal(balance["side_sum"], 0)).sort_by([(name, "ascending") for name in ANSWER.names])
    if not odd.num_rows:
        return ""
    missing = odd.filter(pc.greater(odd["side_sum"], 0))
    extra = odd.filter(pc.less(odd["side_sum"], 0))
    return f"{_shown('expected but missing', missing)}\n{_shown('got but not expected', extra)}"


def _one_sided(table: pa.Table, side: int) -> pa.Table:
    return table.select(ANSWER.names).cast(ANSWER).append_column("side", pa.array(np.full(table.num_rows, side, np.int64)))


def _shown(label: str, rows: pa.Table) -> str:
    first = [
        f"  {row['ip']!r}: {row['visits']} visits, {row['first_ms']} to {row['last_ms']} ms"
        for row in rows.slice(0, _SHOWN_ROWS).to_pylist()
    ]
    more = [f"  … and {rows.num_rows - _SHOWN_ROWS:,} more"] if rows.num_rows > _SHOWN_ROWS else []
    return "\n".join([f"{label}: {rows.num_rows:,} different rows", *first, *more])


def _row_hashes(table: pa.Table | pa.RecordBatch) -> np.ndarray:
    """uint64[rows], each from all four fields; NULL is a value like any other."""
    hashes = _text_hashes(pc.fill_null(table["ip"], "\x00NULL"))
    for name in ("first_ms", "last_ms", "visits"):
        values = pc.fill_null(table[name], np.iinfo(np.int64).min).to_numpy(zero_copy_only=False)
        hashes = _mixed(hashes ^ _mixed(values.view(np.uint64) + np.uint64(len(name))))
    return hashes


def _text_hashes(texts: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """A string's words of eight bytes folded in turn; the hash depends on its own length, not on its neighbours'."""
    lengths = pc.binary_length(texts).to_numpy(zero_copy_only=False)
    longest = int(lengths.max(initial=0))
    words = max(_KEY_WORDS_LEAST, -(-longest // 8))
    padded = pc.binary_join_element_wise(texts, pc.binary_repeat(" ", pa.array(words * 8 - lengths)), "")
    if isinstance(padded, pa.ChunkedArray):
        padded = padded.combine_chunks()
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
    return words ^ (words >> np.uint64(31))
