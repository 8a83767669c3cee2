"""Functions of the C library, for kernels (`cep.kernels.machine.instructions`) and for Python alike: the same code is called, so that both
get the same bits.

Not NumPy's, nor what LLVM may put in their place for vectors: these differ from the C library, and from machine to machine, in the
last bit. No function fails: outside its domain it is NaN, beyond float64 an infinity, as IEEE 754 has it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

_library = ctypes.CDLL("libm.so.6")


def _function(name: str) -> Callable[[float], float]:
    plain = _plain(name, 1)

    def function(x: float) -> float:
        return np.float64(plain(x))

    return function


def _function_of_two(name: str) -> Callable[[float, float], float]:
    plain = _plain(name, 2)

    def function(x: float, y: float) -> float:
        return np.float64(plain(x, y))

    return function


def _plain(name: str, arguments: int) -> Any:
    plain = getattr(_library, name)
    plain.restype, plain.argtypes = ctypes.c_double, [ctypes.c_double] * arguments
    return plain


#: By the names that the library has for them.
OF_ONE = {name: _function(name) for name in ("exp", "log", "log10", "log2", "sin", "cos", "tan", "asin", "acos", "atan")}
OF_TWO = {name: _function_of_two(name) for name in ("pow", "atan2")}

libm_exp, libm_log, libm_decimal_log, libm_binary_log = (OF_ONE[name] for name in ("exp", "log", "log10", "log2"))
libm_sin, libm_cos, libm_tan = (OF_ONE[name] for name in ("sin", "cos", "tan"))
libm_asin, libm_acos, libm_atan = (OF_ONE[name] for name in ("asin", "acos", "atan"))
libm_pow, libm_atan2 = OF_TWO["pow"], OF_TWO["atan2"]
