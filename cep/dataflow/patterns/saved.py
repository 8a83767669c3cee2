"""What snapshots of ways and of cohorts have in common: parts whose rows have the keys of their groups, and lines that get new numbers
where they are restored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from cep.dataflow.operators.operator import Keep, Part
from cep.dataflow.patterns.kept_rows import KeptRows
from cep.elements import Batch
from cep.kernels.arrays import int64_array, numbers_in
from cep.kernels.columns import from_arrow, to_arrow
from cep.kernels.patterns import places
from cep.kernels.tables.group_numbers import GroupNumbers
from cep.model.schema import INT64

#: The part that has rows of tuples.
ROWS = "rows"
#: What the names of columns begin with: words of lines, columns of tuples.
WORD, _COLUMN = "__w", "of."


def part_of(numbers: GroupNumbers, groups: np.ndarray, words: np.ndarray, more: Mapping[str, pa.Array] | None = None) -> pa.RecordBatch:
    keys = {name: to_arrow(column) for name, column in numbers.columns_of(np.ascontiguousarray(groups)).items()}
    own = {f"{WORD}{i}": int64_array(words[:, i]) for i in range(words.shape[1])}
    arrays = {**keys, **own, **(more or {})}
    return pa.RecordBatch.from_arrays(list(arrays.values()), list(arrays))


@dataclass(frozen=True)
class SavedRows:
    """Of a part the rows that are this instance's: their groups, their words, int64[n, any], and the rest by name."""

    groups: np.ndarray
    words: np.ndarray
    batch: pa.RecordBatch

    @staticmethod
    def of(part: Part, numbers: GroupNumbers, keep: Keep) -> SavedRows:
        batch = part.batch
        names = [name for name in batch.schema.names if name.startswith(WORD)]
        own = {field.name: from_arrow(batch.column(field.name), field.type) for field in numbers.by}
        kept = np.flatnonzero(keep(0, {**own, WORD: from_arrow(batch.column(names[0]), INT64)}))
        batch = batch.take(int64_array(kept))
        keys = {name: column.take(kept) for name, column in own.items()}
        words = np.column_stack([numbers_in(batch.column(name)) for name in names])
        return SavedRows(numbers.of(keys, len(kept)), words.reshape(len(kept), len(names)), batch)


class Renaming:
    """From numbers of lines there to those here."""

    def __init__(self, before: np.ndarray, first: int) -> None:
        self.order, self.first = np.argsort(before, kind="stable"), first
        self.before = before[self.order]

    def __call__(self, numbers: np.ndarray) -> np.ndarray:
        if not len(self.before):
            return np.full(len(numbers), places.NONE)
        at = np.minimum(np.searchsorted(self.before, numbers), len(self.before) - 1)
        found: np.ndarray = np.where(numbers >= 0, self.first + self.order[at], places.NONE)
        return found


class RowOwners:
    """Of each row of `kept` the group that it is of."""

    def __init__(self, kept: KeptRows) -> None:
        self.kept, self.groups = kept, np.full(kept.rows - kept.first, places.NONE)

    def put(self, rows: np.ndarray, groups: np.ndarray) -> None:
        """Rows, by number, and their groups; other rows nobody has."""
        self.groups[rows - self.kept.first] = groups


def saved_rows(numbers: GroupNumbers, owners: RowOwners) -> pa.RecordBatch:
    """The rows of tuples that groups have, by number."""
    kept, owned = owners.kept, np.flatnonzero(owners.groups != places.NONE)
    rows, owner = owned + kept.first, owners.groups[owned]
    if not len(rows):
        return part_of(numbers, rows, np.empty((0, 2), np.int64))
    columns = {f"{_COLUMN}{name}": to_arrow(column) for name, column in kept.columns(rows, kept.schema.names).items()}
    return part_of(numbers, owner, np.column_stack([rows, kept.origins(rows)]), columns)


def restored_rows(part: SavedRows | None, kept: KeptRows) -> Renaming:
    """`kept` has them too from now on."""
    if part is None or not len(part.groups):
        return Renaming(np.empty(0, np.int64), 0)
    renaming = Renaming(part.words[:, 0], kept.rows)
    columns = {field.name: from_arrow(part.batch.column(f"{_COLUMN}{field.name}"), field.type) for field in kept.schema.fields}
    kept.add(Batch(columns, np.empty(len(part.groups), np.int64), part.words[:, 1:]))
    return renaming
