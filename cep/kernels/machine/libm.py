"""Functions of the C library, for kernels and for Python alike: the same code is called, so that both get the same bits.

Not NumPy's, nor what LLVM may put in their place for vectors: these differ from the C library, and from machine to machine, in the
last bit. No function fails: outside its domain it is NaN, beyond float64 an infinity, as IEEE 754 has it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

_library = ctypes.CDLL("libm.so.6")


def _function(name: str) -> Callable[[float], float]:
    compiled: Any = types.ExternalFunction(name, types.float64(types.float64))
    plain = _plain(name, 1)

    def function(x: float) -> float:
        return np.float64(plain(x))

    overload(function)(lambda x: lambda x: compiled(x))
    return function


def _function_of_two(name: str) -> Callable[[float, float], float]:
    compiled: Any = types.ExternalFunction(name, types.float64(types.float64, types.float64))
    plain = _plain(name, 2)

    def function(x: float, y: float) -> float:
        return np.float64(plain(x, y))

    overload(function)(lambda x, y: lambda x, y: compiled(x, y))
    return function


def _plain(name: str, arguments: int) -> Any:
    plain = getattr(_library, name)
    plain.restype, plain.argtypes = ctypes.c_double, [ctypes.c_double] * arguments
    return plain


libm_exp, libm_log, libm_decimal_log, libm_binary_log = (_function(name) for name in ("exp", "log", "log10", "log2"))
libm_sin, libm_cos, libm_tan = (_function(name) for name in ("sin", "cos", "tan"))
libm_asin, libm_acos, libm_atan = (_function(name) for name in ("asin", "acos", "atan"))
libm_pow, libm_atan2 = _function_of_two("pow"), _function_of_two("atan2")
