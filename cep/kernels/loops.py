"""Loops around users' functions: what one takes and gives. How one is compiled: `cep.kernels.machine.user_code`, imported with Numba, when
the first is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence

import numpy as np

from cep.model.schema import DataType, Field

LoopFunction = Callable[..., None]
_COMPILER = "cep.kernels.machine.user_code"


class NotCompilable(Exception):
    """Why a function cannot be machine code, in one line."""


def row_loop(function: Callable[..., object], arguments: Sequence[DataType], result: Field) -> LoopFunction:
    """A compiled `loop(start, n, called, at, *columns, out, valid)`: for each row i from `start` to before `n` where
    `called[i]` (uint8[n]) is not 0 it sets `at[0]` (int64[1]) to i, calls, and sets `out[i]` and `valid[i]` (uint8[n], 0 before; left
    0 for None). An error of the function is raised out of it. `columns` and `out` are as `array_of` makes them.

    Raises NotCompilable: text or lists among the types, or Numba does not take it.
    """
    loop: LoopFunction = importlib.import_module(_COMPILER).compiled_loop(function, arguments, result)
    return loop


def array_of(values: np.ndarray, type_: DataType) -> np.ndarray:
    """The values of a column as the loop takes them."""
    return np.ascontiguousarray(values).astype(np.bool_ if type_.name == "bool" else _dtype(type_), copy=False)


def out_of(type_: DataType, n: int) -> np.ndarray:
    """Room for `n` results: bool[n], int64[n] or float64[n]."""
    return np.zeros(n, np.bool_ if type_.name == "bool" else _dtype(type_))


def _dtype(type_: DataType) -> type[np.generic]:
    return np.float64 if type_.name == "float64" else np.int64
