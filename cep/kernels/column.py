"""One column as kernels see it: NumPy views of Arrow buffers (rule 4.1)."""

from __future__ import annotations

import numpy as np

from cep.model.schema import DataType
from cep.values import value

NO_BYTES = np.zeros(16, np.uint8)


class WordsRequest:
    """Are the texts of a field wanted as words? The parser that makes its columns and all code that reads them share it."""

    __slots__ = ("wanted",)

    def __init__(self) -> None:
        self.wanted = False


@value
class Words:
    """The texts of a column as the words of keys (`cep.kernels.tables.keys`), made while their bytes were at hand, uint64[n] each.
    The second word of a long text, which takes at most `long_bytes` in `Keys.data`, is just its top byte. None: not made; `request`
    asks for those of the texts to come."""

    request: WordsRequest
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    long_bytes: int = 0

    def cut(self, rows: slice) -> Words:
        return self if self.low is None or self.high is None else Words(self.request, self.low[rows], self.high[rows], self.long_bytes)


@value
class Column:
    """`n` values of one type.

    Fixed width: `values` is int32[n], int64[n] (also timestamps, µs), float64[n], or uint8[n] for bool.
    Text and lists: `values` is int32[n], the lengths in bytes; value i is `data[starts[i] : starts[i] + values[i]]`. What the bytes
    of a list are: `cep.kernels.states.lists`.
    `valid` is uint8[n] (1 = not NULL), or None when there is no NULL. What stands at a NULL's place is defined nowhere.
    `lines`: the texts are lines of `data`, one behind the other, each ended by '\\n', and none has this byte or '\\r' in it. None: that is
    not known.
    `words`: the same texts as words, and whether they should be made.
    """

    type: DataType
    values: np.ndarray
    valid: np.ndarray | None = None
    data: np.ndarray | None = None  # uint8[any]
    starts: np.ndarray | None = None  # int64[n]
    lines: int | None = None
    words: Words | None = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def body_bytes(self) -> int:
        """Bytes of all its texts."""
        if self.data is None:
            return 0
        if self.lines is not None:
            return len(self.whole_lines()) - len(self.values)
        # Not `sum`, which takes twice as long on its way to the same loop; and a single row needs none.
        return int(self.values[0]) if len(self.values) == 1 else int(np.add.reduce(self.values, dtype=np.int64))

    def whole_lines(self) -> np.ndarray:
        """uint8[any]: the part of `data` that texts are which are `lines`, line ends and all."""
        assert self.data is not None and self.starts is not None, "texts have bytes"
        return self.data[self.starts[0] : self.starts[-1] + self.values[-1] + 1] if len(self.values) else self.data[:0]

    def take(self, indices: np.ndarray | slice) -> Column:
        """Rows `indices` (int64[m] or a slice); bytes of text stay where they are."""
        run = isinstance(indices, slice) and indices.step is None
        return Column(
            self.type,
            self.values[indices],
            None if self.valid is None else self.valid[indices],
            self.data,
            None if self.starts is None else self.starts[indices],
            self.lines if run else None,
            self.words.cut(indices) if self.words is not None and isinstance(indices, slice) else None,
        )
