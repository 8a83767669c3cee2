"""Entries of a table, as arrays."""

from __future__ import annotations

import numpy as np

from cep.compile.aggregate.states import StatePart
from cep.kernels.blocks import block_lengths, write_blocks
from cep.kernels.columns import NO_BYTES, Column
from cep.kernels.states.exact_sum import round_exact
from cep.kernels.tables.hashing import LONG
from cep.kernels.tables.keys import Keys, decode_keys
from cep.kernels.tables.table import Table
from cep.model.schema import BINARY, Field
from cep.values import value

_TOP, _OFFSET = np.uint64(56), np.uint64((1 << 56) - 1)


@value
class Groups:
    """Entries `start` to `stop` of a table. `stays`: nothing will write its entries, so that what is read may be a view."""

    table: Table
    start: int
    stop: int
    stays: bool = False

    def __len__(self) -> int:
        return self.stop - self.start

    def word(self, place: int) -> np.ndarray:
        """One word of each entry, int64[n]; a copy, but where the table stays and the words lie side by side."""
        width = self.table.width
        words = self.table.entries[self.start * width + place : self.stop * width + place : width]
        return words if self.stays and width == 1 else words.copy()

    def keys(self, place: int) -> Keys:
        """The key, or text, in the two words at `place`, with just the bytes it needs."""
        low, high = self.word(place).view(np.uint64), self.word(place + 1).view(np.uint64)
        (long,) = ((high >> _TOP) == LONG).nonzero()
        if not len(long):
            return Keys(low, high, self.table.arena[:0])
        offsets = (high[long] & _OFFSET).astype(np.int64)
        first, last = int(offsets.min()), int(offsets.max())
        length = int(self.table.arena[last : last + 4].view(np.uint32)[0])
        high[long] -= np.uint64(first)
        return Keys(low, high, self.table.arena[first : last + 4 + length].copy())

    def text(self, place: int, field: Field) -> Column:
        return decode_keys(self.keys(place), (field,))[field.name]

    def exact(self, place: int) -> np.ndarray:
        """Exact sums rounded, float64[n]."""
        out = np.empty(len(self), np.int64)
        width = self.table.width
        round_exact(self.table.entries, self.start * width + place, width, self.table.pool, out)
        return out.view(np.float64)

    def block(self, place: int, part: StatePart) -> Column:
        """The contents of blocks, without slots that are free."""
        lengths = np.empty(len(self), np.int32)
        where = self.table.entries, self.start * self.table.width + place, self.table.width, self.table.arena
        kind = part.slot, part.text, int(part.free)
        block_lengths(*where, *kind, lengths)
        starts = np.cumsum(lengths, dtype=np.int64) - lengths
        data = np.empty(int(lengths.sum(dtype=np.int64)), np.uint8)
        write_blocks(*where, *kind, starts, data)
        return Column(BINARY, lengths, None, data if len(data) else NO_BYTES, starts)
