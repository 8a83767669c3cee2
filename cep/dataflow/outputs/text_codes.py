"""A dictionary of the texts of a state: a number for each, the same for equal texts (`cep.compile.stateful_lowering`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from cep.kernels.columns import Column, from_arrow
from cep.kernels.tables.group_numbers import GroupNumbers
from cep.model.schema import BINARY, INT64, DataType, Field

_TEXT = Field("text", BINARY, True)
#: Texts are looked through when they are twice as many as were left the last time, and this many more.
SWEEP_TEXTS = 4_096


class TextCodes:
    """`constants`, all different, have the codes 0, 1, … and keep them; there is at least one, which may stand at the place of a NULL."""

    def __init__(self, constants: Sequence[bytes]) -> None:
        self._numbers = GroupNumbers((_TEXT,))
        self.codes(from_arrow(pa.array(constants or [b""], pa.binary()), BINARY))
        self._constants = self._left = len(self._numbers)

    @property
    def bytes(self) -> int:
        return self._numbers.bytes

    def codes(self, texts: Column) -> Column:
        """int64; NULL where the text is."""
        return Column(INT64, self._numbers.of({_TEXT.name: replace(texts, type=BINARY)}, len(texts)), texts.valid)

    def texts(self, codes: Column, type_: DataType) -> Column:
        """What they stand for, of `type_`."""
        known = codes.values if codes.valid is None else np.where(codes.valid != 0, codes.values, 0)
        return replace(self._numbers.columns_of(known)[_TEXT.name], type=type_, valid=codes.valid)

    @property
    def wants_sweep(self) -> bool:
        return len(self._numbers) > 2 * self._left + SWEEP_TEXTS

    def keep(self, used: np.ndarray) -> np.ndarray:
        """Forgets all texts but the constants and `used`, int64[any]. Returns the new code of each, int64; of others nonsense."""
        kept = np.union1d(np.arange(self._constants), used)
        renumbered = np.zeros(len(self._numbers), np.int64)
        renumbered[kept] = np.arange(len(kept))
        self._numbers.keep(kept)
        self._left = len(kept)
        return renumbered
