"""Functions called, and arrays read, by address: so a long loop is compiled once, and what differs from query to query is a small function
that is compiled for itself.

The loop is given a `Callee`: where the function is, and where its arrays are. It calls `call_at`; the function looks for its arrays with
`int64s_at` and its like. Each is plain Python that Numba knows as machine code (`cep.kernels.machine.instructions`). To these the
function, and the arrays, are themselves; machine code has numbers instead, and knows no types: `Callee.of` checks them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cep.kernels.jit import Kernel, interpreting
from cep.values import value

#: What a function that is called by address takes: four numbers, and where its arrays are.
CALLED = "int64(int64, int64, int64, int64, int64)"


@value
class Callee:
    """`function` and `arrays` are what `call_at` takes. `kept`: what has to live as long as they are used."""

    function: Any
    arrays: Any
    kept: Sequence[np.ndarray] = ()

    @staticmethod
    def of(kernel: Kernel, arrays: Sequence[np.ndarray], dtypes: Sequence[str]) -> Callee:
        """`kernel`, of signature `CALLED`, with arrays of `dtypes`. Raises TypeError where they are others."""
        for k, (array, dtype) in enumerate(zip(arrays, dtypes, strict=True)):
            if array.dtype != dtype or not array.flags.c_contiguous:
                raise TypeError(f"kernel {kernel.__name__!r}, array {k}: expected {dtype}, contiguous, got {array.dtype}, {array.strides}")
        if interpreting():
            return Callee(kernel, arrays)
        return Callee(kernel.address(), _words(arrays), arrays)


#: In place of a function that is never called.
NOT_CALLED = Callee(0, np.zeros(0, np.int64))


def _words(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """int64[2 * n]: of each array its address and length."""
    words = np.empty((len(arrays), 2), np.int64)
    for k, array in enumerate(arrays):
        words[k] = array.__array_interface__["data"][0], array.size
    return words.ravel()


def call_at(function: Any, arrays: Any, a: int, b: int, c: int, d: int) -> Any:
    """What the function returns, an int64."""
    return function(a, b, c, d, arrays)


def int64s_at(arrays: Any, k: int) -> Any:
    """Array `k`, which is only read, as are the others but those that are called written."""
    return arrays[k]


def int32s_at(arrays: Any, k: int) -> Any:
    return arrays[k]


def float64s_at(arrays: Any, k: int) -> Any:
    return arrays[k]


def uint8s_at(arrays: Any, k: int) -> Any:
    return arrays[k]


def written_int64s_at(arrays: Any, k: int) -> Any:
    return arrays[k]


def written_float64s_at(arrays: Any, k: int) -> Any:
    return arrays[k]


def written_lines_at(arrays: Any, k: int, width: int) -> Any:
    """int64[any, width]."""
    return arrays[k]


def lines_of(table: np.ndarray, width: int) -> np.ndarray:
    """`table`, whose lines have `width` items: where that is a constant, a line is found without a multiplication, and the width is handed
    to no function."""
    return table
