"""Functions called, and arrays read, by address: so a long loop is compiled once, and what differs from query to query is a small function
that is compiled for itself.

The loop is given a `Callee`: where the function is, and where its arrays are. It calls `call_of`; the function looks for its arrays with
`int64s_at` and its like. Each is plain Python that Numba knows as machine code (`cep.kernels.machine.instructions`). To these the
function, and the arrays, are themselves; machine code has numbers instead, and knows no types: `Callee.of` checks them.

A kernel that hands many arrays on to functions of its own has them by address too (`Handed`): an array as an argument is eight words, and
twenty of them, put down for a call and taken up again, take longer than most functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cep.kernels.jit import Kernel, accessor, interpreting
from cep.values import value

#: What a function that is called by address takes: four numbers, and where its arrays are.
CALLED = "int64(int64, int64, int64, int64, int64)"


@value
class Callee:
    """`function` and `arrays`, as `call_of` finds them. `kept`: what has to live as long as they are used."""

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


@value
class Handed:
    """Arrays as a kernel hands them on to what it calls: one number in place of eight words of each. `arrays` is what a kernel takes, as an
    int64. `kept`: what has to live as long as it is used."""

    arrays: Any
    kept: Sequence[Any] = ()

    @staticmethod
    def of(arrays: Sequence[np.ndarray | Callee]) -> Handed:
        """All of int64s, and functions with theirs. Raises TypeError where they are others."""
        for k, array in enumerate(arrays):
            if isinstance(array, np.ndarray) and not (array.dtype == np.int64 and array.flags.c_contiguous):
                raise TypeError(f"array {k}: expected int64, contiguous, got {array.dtype}, {array.strides}")
        if interpreting():
            return Handed(arrays)
        words = np.array([_address_of(each) for each in arrays], np.int64).ravel()
        return Handed(words.ctypes.data, (words, *arrays))


def _address_of(array: np.ndarray | Callee) -> tuple[int, int]:
    """Of an array its address and length; of a function its own, and that of its arrays."""
    if isinstance(array, Callee):
        return array.function, array.arrays.ctypes.data
    return array.ctypes.data, array.size


def table_at(k: int, width: int = 0) -> Callable[[Any], Any]:
    """What finds array `k` of what is `Handed`; its lines have `width` items: where that is a constant, a line is found without a
    multiplication. 0: it has no lines."""

    def table(arrays: Any) -> Any:
        return arrays[k]

    return accessor(table, k, width)


def call_of(arrays: Any, k: int, a: int, b: int, c: int, d: int) -> Any:
    """What function `k` of what is `Handed` returns, an int64."""
    callee = arrays[k]
    return callee.function(a, b, c, d, callee.arrays)


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
