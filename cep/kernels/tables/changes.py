"""Which entries of a table a checkpoint has to write: those that have changed since one that is on the disk had them. Rules:

1. A block is some entries, one behind the other, the last one what is left. The loop that changes an entry marks its block.
2. What was taken for a checkpoint is on the disk when `stored` says so. Until then that is in doubt, and the next one takes it again.
3. Each checkpoint takes a part of the others besides, a `round`-th of all, the next time the next ones. So what is needed of the disk is
   not much older than `round` checkpoints, about as much as the table, and never written as a whole but at the beginning.
4. Of a small table all is taken, and where that is not much more than what has changed.
5. A table that is restored as it was, each block in its place, goes on: what checkpoints before have of it is not taken again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cep.values import value


@dataclass(frozen=True, slots=True)
class BlockSizes:
    """A block is 2**`shift` entries, 32 at most. A table of less than `whole_bytes` is small."""

    shift: int = 5
    round: int = 64
    whole_bytes: int = 1 << 18


_SIZES = [BlockSizes()]


@contextmanager
def block_sizes(sizes: BlockSizes) -> Iterator[None]:
    """Others for the tables that are made within: those of the simulation are small."""
    _SIZES.append(sizes)
    try:
        yield
    finally:
        _SIZES.pop()


@value
class TakenBlocks:
    """Blocks `numbers`, int64[n] ascending, of `size` entries, of a table of `rows` that is known by the number `table`. Blocks of it that
    were not taken are in checkpoints from `oldest` on."""

    table: int
    rows: int
    size: int
    oldest: int
    numbers: np.ndarray

    @property
    def entries(self) -> int:
        """How many lie in them: the last block of the table is what is left."""
        if not len(self.numbers):
            return 0
        return min(int(self.numbers[-1] + 1) * self.size, self.rows) + (len(self.numbers) - 1 - int(self.numbers[-1])) * self.size

    def between(self, start: int, stop: int) -> TakenBlocks:
        """Of the entries that were taken those from `start`, where a block begins, to before `stop`."""
        numbers = self.numbers[start // self.size : -(-stop // self.size)]
        return TakenBlocks(self.table, self.rows, self.size, self.oldest, numbers)


class FoundBlocks(NamedTuple):
    """They were restored from `checkpoint`."""

    blocks: TakenBlocks
    checkpoint: int


class ChangedBlocks:
    """Of one table, whose entries stay where they are and become more; of another one make another of these. `table`: its number, which no
    other of its operator has. `marks`: uint8[blocks]."""

    def __init__(self, table: int) -> None:
        self.table, self.sizes = table, _SIZES[-1]
        self.marks = np.ones(0, np.uint8)
        self._lies_in = np.zeros(0, np.int64)  # by block: the last checkpoint that has taken it
        self._doubtful: np.ndarray | None = None
        self._number = self._next = 0

    @staticmethod
    def going_on(found: Sequence[FoundBlocks]) -> ChangedBlocks | None:
        """Of a table that is as they say, each in its place. None: blocks had another size then."""
        first = found[0].blocks
        again = ChangedBlocks(first.table)
        if first.size != 1 << again.sizes.shift:
            return None
        again.fit(first.rows)
        again.marks[:] = 0
        for each in found:
            again._lies_in[each.blocks.numbers] = each.checkpoint
        again._next = int(again._lies_in.argmin()) if len(again.marks) else 0
        return again

    @property
    def bytes(self) -> int:
        return self.marks.nbytes + self._lies_in.nbytes

    def fit(self, entries: int) -> None:
        """There is room for so many now."""
        blocks = -(-entries >> self.sizes.shift)
        if blocks > len(self.marks):
            marks, lies_in = np.ones(blocks, np.uint8), np.zeros(blocks, np.int64)
            marks[: len(self.marks)], lies_in[: len(self.marks)] = self.marks, self._lies_in
            self.marks, self._lies_in = marks, lies_in

    def mark_all(self) -> None:
        """Any of them may have changed."""
        self.marks[:] = 1

    def take(self, number: int, rows: int, row_bytes: int) -> TakenBlocks:
        """For checkpoint `number`, which is greater than those before, of a table that has `rows` entries of `row_bytes` by now."""
        size = 1 << self.sizes.shift
        blocks = -(-rows // size)
        marks = self.marks[:blocks]
        if self._doubtful is not None:
            marks[self._doubtful] = 1
        if rows * row_bytes < self.sizes.whole_bytes:
            marks[:] = 1
        step = blocks // self.sizes.round + 1
        self._next = 0 if self._next >= blocks else self._next
        marks[self._next : self._next + step] = 1
        self._next += step
        numbers = np.flatnonzero(marks)
        if 2 * len(numbers) > blocks:
            numbers = np.arange(blocks)
        marks[:] = 0
        self._lies_in[numbers] = number
        self._doubtful, self._number = numbers, number
        oldest = int(self._lies_in[:blocks].min()) if blocks else number
        return TakenBlocks(self.table, rows, size, oldest, numbers)

    def stored(self, number: int) -> None:
        """Checkpoint `number` is on the disk."""
        if number == self._number:
            self._doubtful = None
