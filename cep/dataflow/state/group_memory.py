"""What an operator remembers of each group of its rows: the event time of the last row that counted, and values of its own.

A group that no row touched for more than `ttl` µs is as good as forgotten: `last` says so. When its memory is really freed
shows nowhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from cep.dataflow.outputs.text_codes import TextCodes
from cep.elements import MIN_TIME
from cep.kernels.columns import Column, Columns, from_arrow, to_arrow
from cep.kernels.tables.group_numbers import GroupNumbers
from cep.model.schema import INT64, Field

#: A group's `last` before a row counted.
NEVER = MIN_TIME
#: As `ttl`: for ever.
FOR_EVER = -1

_LAST = Field("__last", INT64)
_DTYPES = {"bool": "uint8", "timestamp": "int64", "string": "int64", "binary": "int64"}
#: Groups are looked through when they are twice as many as were left the last time, and this many more.
SWEEP_ROWS = 4_096


class GroupMemory:
    """By number of the group: `last`, int64[≥ groups], and for each field of `state` its values, of texts their codes, and, where it
    may be NULL, whether it is not (uint8). `constants` are the texts that have codes from the beginning."""

    def __init__(self, by: tuple[Field, ...], ttl: int | None, state: tuple[Field, ...] = (), constants: Sequence[bytes] = ()) -> None:
        self.texts = TextCodes(constants)
        self.by, self.ttl, self.state = by, FOR_EVER if ttl is None else ttl, state
        self.numbers = GroupNumbers(by)
        self.last = np.empty(0, np.int64)
        self.values = [np.empty(0, _DTYPES.get(field.type.name, field.type.name)) for field in state]
        self.valid = [np.empty(0, np.uint8) if field.nullable else None for field in state]
        self._left = 0  # groups after the last sweep

    @property
    def bytes(self) -> int:
        return self.numbers.bytes + self.texts.bytes + sum(array.nbytes for array in self.arrays)

    @property
    def arrays(self) -> list[np.ndarray]:
        """`last`, then of each field of the state its values and, if it is nullable, its validity."""
        pairs = zip(self.values, self.valid, strict=True)
        return [self.last, *(array for pair in pairs for array in pair if array is not None)]

    def of(self, columns: Columns, n: int) -> np.ndarray:
        """int64[n]: the number of each row's group, for which there is room in the arrays."""
        found = self.numbers.of(columns, n)
        if len(self.numbers) > len(self.last):
            self._resize(max(64, 2 * len(self.numbers)))
        return found

    def latest(self, most: int) -> list[int]:
        """The groups that rows touched last."""
        found: list[int] = np.argsort(self.last[: len(self.numbers)])[::-1][:most].tolist()
        return found

    def _resize(self, size: int) -> None:
        before, self.last = len(self.last), _resized(self.last, size)
        self.last[before:] = NEVER
        self.values = [_resized(array, size) for array in self.values]
        self.valid = [None if array is None else _resized(array, size) for array in self.valid]

    def forget(self, watermark: int) -> Iterator[None]:
        """Frees groups that any row from `watermark` on would begin anew, now and then. It yields between pieces, and is to be pulled to
        its end before anything else is called."""
        if self.ttl == FOR_EVER or len(self.numbers) < 2 * self._left + SWEEP_ROWS:
            return
        kept = np.flatnonzero(self.last[: len(self.numbers)] >= max(watermark - self.ttl, NEVER + 1))
        yield from self.numbers.keeping(kept)
        self._keep(kept)

    def keep(self, kept: np.ndarray) -> None:
        """Frees all groups but `kept`, int64[m] ascending, which are 0 to m - 1 from now on."""
        self.numbers.keep(kept)
        self._keep(kept)

    def _keep(self, kept: np.ndarray) -> None:
        self.last, self.values = self.last[kept], [array[kept] for array in self.values]
        self.valid = [None if array is None else array[kept] for array in self.valid]
        self._left = len(kept)

    def forget_texts(self) -> None:
        """Frees texts that no group has any more, now and then."""
        of_texts = [k for k, field in enumerate(self.state) if field.type.is_text]
        if not of_texts or not self.texts.wants_sweep:
            return
        touched = self.touched
        columns = [self._state(k).take(touched) for k in of_texts]
        used = [column.values if column.valid is None else column.values[column.valid != 0] for column in columns]
        renumbered = self.texts.keep(np.concatenate(used))
        for k, codes in zip(of_texts, columns, strict=True):
            known = codes.values if codes.valid is None else np.where(codes.valid != 0, codes.values, 0)
            self.values[k][touched] = renumbered[known]

    def _state(self, k: int) -> Column:
        field = self.state[k]
        return Column(INT64 if field.type.is_text else field.type, self.values[k], self.valid[k])

    # Snapshots

    @property
    def _fields(self) -> tuple[Field, ...]:
        return (*self.by, _LAST, *(Field(f"__state{k}", field.type, field.nullable) for k, field in enumerate(self.state)))

    def snapshot(self) -> pa.RecordBatch:
        """One row for each group that a row has touched."""
        touched = self.touched
        own = [self._state(k).take(touched) for k in range(len(self.state))]
        pairs = zip(self.state, own, strict=True)
        written = [self.texts.texts(column, field.type) if field.type.is_text else column for field, column in pairs]
        return self._part([to_arrow(column) for column in (*self._known(touched), *written)])

    @property
    def touched(self) -> np.ndarray:
        """int64[any]: the groups for which a row counted."""
        return np.flatnonzero(self.last[: len(self.numbers)] != NEVER)

    def _known(self, groups: np.ndarray) -> list[Column]:
        """The keys of groups, and when a row counted last."""
        return [column.take(groups) for column in (*self.numbers.columns.values(), Column(INT64, self.last))]

    def _part(self, arrays: list[pa.Array]) -> pa.RecordBatch:
        schema = pa.schema([pa.field(f.name, f.type.arrow, nullable=f.nullable) for f in self._fields])
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def columns(self, batch: pa.RecordBatch) -> dict[str, Column]:
        """Those of a snapshot."""
        return {f.name: from_arrow(batch.column(i), f.type) for i, f in enumerate(self._fields)}

    def restore(self, batch: pa.RecordBatch, kept: np.ndarray) -> None:
        """Adds the groups of a snapshot that `kept`, bool[n], names."""
        columns = {name: column.take(np.flatnonzero(kept)) for name, column in self.columns(batch).items()}
        at = self.of(columns, len(columns[_LAST.name]))
        self.last[at] = columns[_LAST.name].values
        for k, (values, valid) in enumerate(zip(self.values, self.valid, strict=True)):
            column = columns[f"__state{k}"]
            column = self.texts.codes(column) if column.type.is_text else column
            values[at] = column.values
            if valid is not None:
                valid[at] = 1 if column.valid is None else column.valid


def _resized(array: np.ndarray, size: int) -> np.ndarray:
    longer = np.empty(size, array.dtype)
    longer[: len(array)] = array
    return longer
