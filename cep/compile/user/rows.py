"""A user's function called row by row: machine code where Numba takes it, else plain Python, which says that it is slow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from cep.compile.user.functions import called, check_callable_with, failure_text, resolve_function
from cep.compile.user.values import WrongResult, check_of, column_of_values, python_values
from cep.kernels.columns import Column
from cep.kernels.jit import interpreting
from cep.kernels.loops import LoopFunction, NotCompilable, array_of, out_of, row_loop
from cep.model.schema import DataType, Field

#: How many times longer, at least, a row takes in plain Python than compiled; measured: docs/custom_functions.md.
SLOWER = 30

Failures = list[tuple[int, str]]


class RowFunction:
    """`reference` ("module:name"), called with values of the types `arguments`; its results are checked against `result`.

    `notes` says why it is slow, where it is, once `warm` has tried to compile it.
    """

    def __init__(self, reference: str, arguments: Sequence[DataType], result: Field) -> None:
        self.reference, self.arguments, self.result = reference, tuple(arguments), result
        self.function: Callable[..., Any] = resolve_function(reference)
        check_callable_with(reference, self.function, len(self.arguments))
        self.notes: tuple[str, ...] = ()
        self._check = check_of(result)
        self._loop: LoopFunction | None = None

    def warm(self) -> None:
        """Compiles it now, if Numba can."""
        if interpreting():
            return
        try:
            self._loop = called(row_loop, self.function, self.arguments, self.result)
        except NotCompilable as refusal:
            self.notes = (slow_note(self.reference, f"Numba does not compile it: {refusal}"),)
            column_of_values([], self.result.type)  # Arrow looks for pandas at the first one

    def run(self, columns: Sequence[Column], wanted: np.ndarray) -> tuple[Column, Failures]:
        """Calls it for the rows where `wanted`, uint8[n], is not 0; elsewhere the result is NULL.

        Returns:
            The results, and (row, what happened) of the calls that failed, in order; their results are NULL.
        """
        if self._loop is None or interpreting():
            return self._run_python(columns, wanted)
        return self._run_compiled(self._loop, columns, wanted)

    def _run_compiled(self, loop: LoopFunction, columns: Sequence[Column], wanted: np.ndarray) -> tuple[Column, Failures]:
        n = len(wanted)
        arrays = [array_of(column.values, column.type) for column in columns]
        out, valid, at = out_of(self.result.type, n), np.zeros(n, np.uint8), np.array([-1], np.int64)
        failures: Failures = []
        start = 0
        while start < n:
            try:
                called(loop, start, n, wanted, at, *arrays, out, valid)
                start = n
            except Exception as error:
                row = int(at[0])
                if row < start:  # it was not the user's function that failed
                    raise
                failures.append((row, self._failure(columns, row, error)))
                start = row + 1
        failures = sorted(failures + list(self._wrong(columns, wanted, out, valid, dict(failures))))
        return _column(self.result.type, out, valid), failures

    def _wrong(
        self, columns: Sequence[Column], wanted: np.ndarray, out: np.ndarray, valid: np.ndarray, failed: dict[int, str]
    ) -> Iterator[tuple[int, str]]:
        """Results that compiled code made but that are not of the declared type; they become NULL."""
        suspects = np.flatnonzero((wanted != 0) & (valid == 0)) if not self.result.nullable else np.zeros(0, np.int64)
        if self.result.type.name == "int32":
            suspects = np.union1d(suspects, np.flatnonzero(valid & (out != out.astype(np.int32))))
        for row in suspects.tolist():
            if row not in failed:
                try:
                    self._check(out[row].item() if valid[row] else None)
                except WrongResult as error:
                    yield row, self._failure(columns, row, error)
                valid[row] = 0

    def _run_python(self, columns: Sequence[Column], wanted: np.ndarray) -> tuple[Column, Failures]:
        results: list[Any] = [None] * len(wanted)
        failures: Failures = []
        rows = zip(*map(python_values, columns), strict=True) if columns else iter([()] * len(wanted))
        for row, (is_wanted, arguments) in enumerate(zip(wanted.tolist(), rows, strict=True)):
            if is_wanted:
                try:
                    results[row] = called(self._result, *arguments)
                except Exception as error:
                    failures.append((row, failure_text(self.reference, arguments, error)))
        return column_of_values(results, self.result.type), failures

    def _result(self, *arguments: Any) -> Any:
        return self._check(self.function(*arguments))

    def _failure(self, columns: Sequence[Column], row: int, error: Exception) -> str:
        return failure_text(self.reference, [python_values(column.take(slice(row, row + 1)))[0] for column in columns], error)


def slow_note(reference: str, why: str) -> str:
    """What `status` says of a function that is not compiled."""
    return f"function {reference!r} runs row by row as plain Python, {SLOWER} times slower than compiled or more: {why}"


def _column(type_: DataType, out: np.ndarray, valid: np.ndarray) -> Column:
    dtype = {"bool": np.uint8, "int32": np.int32, "float64": np.float64}.get(type_.name, np.int64)
    return Column(type_, out.astype(dtype, copy=False), None if valid.all() else valid)
