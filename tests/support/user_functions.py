"""Users' functions, as a query names them: `tests.support.user_functions:nulls`."""

from __future__ import annotations

import math

import pyarrow as pa


def halved(n: int) -> int:
    """Refuses odd numbers."""
    if n % 2:
        raise ValueError("an odd number")
    return n // 2


def root(x: float) -> float | None:
    """None of what has no root."""
    return None if x < 0 else math.sqrt(x)


def first_character(text: str) -> str:
    """Refuses an empty text; Numba does not compile it."""
    return text[0]


def nulls(batch: pa.RecordBatch) -> pa.RecordBatch:
    """One row per row: how many of its columns are NULL."""
    counts = [sum(not value.is_valid for value in row) for row in _rows(batch)]
    return pa.RecordBatch.from_arrays([pa.array(counts, pa.int64())], names=["n"])


def copies(batch: pa.RecordBatch) -> pa.RecordBatch:
    """For each column of a row that is not NULL a row with the column's number; refuses a row whose first column is NULL."""
    if batch.column(0).null_count:
        raise ValueError("the first column is NULL")
    made = [(i, n) for i, row in enumerate(_rows(batch)) for n, value in enumerate(row) if value.is_valid]
    arrays = [pa.array([i for i, _ in made], pa.int64()), pa.array([n for _, n in made], pa.int64())]
    return pa.RecordBatch.from_arrays(arrays, names=["__row", "n"])


def _rows(batch: pa.RecordBatch) -> list[tuple[pa.Scalar, ...]]:
    return [tuple(column[i] for column in batch.columns) for i in range(batch.num_rows)]


def changes(state: tuple[int, object] | None, *columns: object) -> tuple[tuple[int, object], tuple[int] | None]:
    """How often the columns have changed; no tuple for one like the last. Refuses a tuple whose columns are all NULL."""
    if all(column is None for column in columns):
        raise ValueError("all columns are NULL")
    count, last = state or (0, None)
    seen = repr(columns)  # NaN is itself again
    return ((count, seen), None) if seen == last else ((count + 1, seen), (count + 1,))
