"""A user's function over batches: Arrow in, Arrow out, checked; the rows on which it fails are found by cutting the batch in two."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from cep.compile.user.functions import called, check_callable_with, failure_text, resolve_function
from cep.compile.user.values import WrongResult, python_values
from cep.kernels.columns import Columns, columns_from_arrow, columns_to_arrow, from_arrow
from cep.model.schema import INT64, Field, Schema

#: The column that says of which row of the batch a row of the result is made.
ROW = "__row"


@dataclass(frozen=True)
class Made:
    """Rows that the function made: `rows`, int64[m], are the rows handed in that they are made of."""

    columns: Columns
    rows: np.ndarray


class BatchFunction:
    """`reference` ("module:name"), called with batches of `columns`; what it returns has to be of `schema`."""

    def __init__(self, reference: str, columns: Schema, schema: Schema) -> None:
        self.reference, self.columns, self.schema = reference, columns, schema
        self.function: Callable[[pa.RecordBatch], Any] = resolve_function(reference)
        check_callable_with(reference, self.function, 1)

    def run(self, columns: Columns, n: int) -> Iterator[Made | tuple[int, str] | None]:
        """What it made of `n` rows, piece by piece, and (row, what happened) of the rows on which it failed, in order; None after a call
        that failed on several rows."""
        yield from self._pieces(columns_to_arrow(columns, self.columns), 0, n)

    def _pieces(self, batch: pa.RecordBatch, start: int, stop: int) -> Iterator[Made | tuple[int, str] | None]:
        """What the function makes of the rows from `start` to before `stop`."""
        piece = batch.slice(start, stop - start)
        try:
            made = called(self._made, piece, stop - start)
        except Exception as error:
            if stop - start == 1:
                yield start, failure_text(self.reference, [self._row(piece)], error)
                return
        else:
            yield Made(made.columns, made.rows + start)
            return
        yield None
        middle = (start + stop) // 2
        yield from self._pieces(batch, start, middle)
        yield from self._pieces(batch, middle, stop)

    def _made(self, piece: pa.RecordBatch, n: int) -> Made:
        return self._checked(self.function(piece), n)

    def _row(self, piece: pa.RecordBatch) -> dict[str, Any]:
        """The only row there is. Not as Arrow's own Python values: a timestamp may be beyond what a datetime can say."""
        return {name: python_values(column)[0] for name, column in columns_from_arrow(piece, self.columns).items()}

    def _checked(self, result: Any, n: int) -> Made:
        """Raises WrongResult where it is not what a function of `n` rows has to return."""
        if not isinstance(result, pa.RecordBatch):
            raise WrongResult(f"expected a pyarrow.RecordBatch, got {type(result).__name__}")
        names = set(result.schema.names)
        if len(names) < result.num_columns or names - {ROW} != set(self.schema.names):
            raise WrongResult(f"expected the columns {', '.join(self.schema.names)}, got {', '.join(result.schema.names) or 'none'}")
        rows = self._rows(result, n)
        arrays = [_typed(result.column(field.name), field) for field in self.schema.fields]
        return Made(columns_from_arrow(pa.RecordBatch.from_arrays(arrays, schema=self.schema.arrow), self.schema), rows)

    def _rows(self, result: pa.RecordBatch, n: int) -> np.ndarray:
        if ROW not in result.schema.names:
            if result.num_rows != n:
                raise WrongResult(f"expected {n} rows, or a column {ROW!r} that says of which each is made, got {result.num_rows} rows")
            return np.arange(n)
        array = _typed(result.column(ROW), Field(ROW, INT64))
        rows = from_arrow(array, INT64).values
        if len(rows) and not 0 <= rows.min() <= rows.max() < n:
            raise WrongResult(f"column {ROW!r}: expected rows from 0 to {n - 1}, got {rows.min()} to {rows.max()}")
        return rows


def _typed(array: pa.Array, field: Field) -> pa.Array:
    """Arrow gives a column that is all NULL a type of its own. Raises WrongResult where the column does not fit."""
    if pa.types.is_null(array.type):
        array = array.cast(field.type.arrow)
    if array.type != field.type.arrow:
        raise WrongResult(f"column {field.name!r}: expected {field.type.arrow}, got {array.type}")
    if array.null_count and not field.nullable:
        raise WrongResult(f"column {field.name!r}: expected no NULL, got {array.null_count}")
    return array
