"""What a program has been given of a query that tells its answers at once, and that the query makes once more when it recovers.

A query that goes on from checkpoint *n* makes again all rows that came behind the marks of *n* at its outlets: a superset of what has been
given, in another order, in other batches, from other instances. So what has been given is a multiset of rows, `ahead`, and each row that
is in it and comes again is dropped and taken out. What came meanwhile, dropped or not, is noted by the last mark that its outlet had
passed: at the next recovery, from *m*, all of it behind *m* will come again, too. A commit frees the notes of before it, and never empties
`ahead`.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from driver.streams.resuming.row_keys import KEY_BYTES, keys_of, salt_of

#: Batches are noted as they are up to so many bytes together, then as the keys of their rows. What makes an instance ask for a commit
#: (`EARLY_TOLD_BYTES` there) is a fifth.
NOTED_BYTES_MAX = 128 << 20
#: So many batches are let go of at once. More are with each batch that comes: ten thousand take tens of milliseconds.
FREED_AT_ONCE = 64


class KeyedRows(NamedTuple):
    """Rows as `keys_of` has them, and their event times."""

    keys: bytes
    times: np.ndarray

    def each(self) -> list[bytes]:
        return [self.keys[at : at + KEY_BYTES] for at in range(0, len(self.keys), KEY_BYTES)]


class RegeneratedRows:
    """Pure. A row is all of its columns, the last of which is its event time."""

    def __init__(self, salt: str) -> None:
        self._salt = salt_of(salt)
        self.ahead: Counter[bytes] = Counter()  # none of them is there 0 times
        self._times: dict[bytes, int] = {}  # of those
        self._notes: dict[int, list[pa.RecordBatch | KeyedRows]] = {}  # by mark
        self._note_bytes: dict[int, int] = {}  # likewise, of batches
        self._noted_bytes = 0
        self._freed: list[pa.RecordBatch | KeyedRows] = []  # they are of no use any more

    def new_of(self, mark: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        """It has come behind that mark: the rows that the program does not have."""
        del self._freed[-2:]
        if not self.ahead:
            self._note(mark, batch)
            return batch
        keyed = self._keyed(batch)
        self._notes.setdefault(mark, []).append(keyed)
        new = [row for row, key in enumerate(keyed.each()) if not self._takes_out(key)]
        return batch if len(new) == batch.num_rows else batch.take(pa.array(new, pa.int64()))

    def _takes_out(self, key: bytes) -> bool:
        left = self.ahead.get(key, 0) - 1
        if left > 0:
            self.ahead[key] = left
        elif left == 0:
            self.ahead.pop(key)  # `del` of a Counter is a function of Python's
            self._times.pop(key)
        return left >= 0

    def committed(self, number: int) -> None:
        """What came before the marks of that checkpoint does not come again."""
        for mark in [mark for mark in self._notes if mark < number]:
            self._noted_bytes -= self._note_bytes.pop(mark, 0)
            self._freed += self._notes.pop(mark)
        del self._freed[-max(FREED_AT_ONCE, len(self._freed) // 8) :]

    def go_back(self, number: int) -> None:
        """The query goes on from that checkpoint."""
        for mark, noted in self._notes.items():
            for each in noted if mark >= number else ():
                keyed = each if isinstance(each, KeyedRows) else self._keyed(each)
                keys = keyed.each()
                self.ahead.update(keys)
                self._times.update(zip(keys, keyed.times.tolist(), strict=True))
        self._notes.clear()
        self._note_bytes.clear()
        self._noted_bytes = 0

    def missing(self, watermark: int) -> int:
        """So many rows should have come again by now, for nothing older than `watermark` comes any more."""
        return sum(self.ahead[key] for key, time in self._times.items() if time < watermark)

    def _keyed(self, batch: pa.RecordBatch) -> KeyedRows:
        times = batch.column(batch.num_columns - 1).cast(pa.int64()).to_numpy(zero_copy_only=False)
        return KeyedRows(keys_of(batch, self._salt), times)

    def _note(self, mark: int, batch: pa.RecordBatch) -> None:
        """Those that are there stay as they are: a commit frees them first, and keys of theirs would be made for nothing."""
        size = batch.nbytes
        is_kept = self._noted_bytes + size <= NOTED_BYTES_MAX
        self._notes.setdefault(mark, []).append(batch if is_kept else self._keyed(batch))
        if is_kept:
            self._noted_bytes += size
            self._note_bytes[mark] = self._note_bytes.get(mark, 0) + size
