"""Casts out of text: what is written in each row of a text column, by the rules of `cep.kernels.literals`."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from cep.kernels.columns import Column
from cep.kernels.jit import Kernel, kernel
from cep.kernels.literals import SLOW, boolean, calendar, instant_of, integer, real, small_integer
from cep.model.schema import UNIT_US, DataType

Array: TypeAlias = np.ndarray[Any, Any]

_TEXT = "const uint8[:], const int64[:], const int32[:], const uint8[:]"
_NO_UNIT, _NANOSECONDS = -1, 0  # in place of the µs of a timestamp's unit

# The kernels take (data, starts[n], lengths[n], valid[n], values[n], fits[n]). They set fits[i] to 1 where row i is
# NULL or says a value, to SLOW where `real` leaves it to Python, else to 0; values[i] to 0 where there is none.


@kernel(f"void({_TEXT}, int64[:], uint8[:])", on_demand=True)
def read_integers(data: Array, starts: Array, lengths: Array, valid: Array, values: Array, fits: Array) -> None:
    """int64 out of text."""
    for i in range(len(starts)):
        values[i], fits[i] = 0, 1
        if valid[i]:
            value, error = integer(data, starts[i], starts[i] + lengths[i])
            values[i], fits[i] = value, error == 0


@kernel(f"void({_TEXT}, int32[:], uint8[:])", on_demand=True)
def read_small_integers(data: Array, starts: Array, lengths: Array, valid: Array, values: Array, fits: Array) -> None:
    """int32 out of text."""
    for i in range(len(starts)):
        values[i], fits[i] = 0, 1
        if valid[i]:
            value, error = small_integer(data, starts[i], starts[i] + lengths[i])
            values[i], fits[i] = value, error == 0


@kernel(f"void({_TEXT}, uint8[:], uint8[:])", on_demand=True)
def read_booleans(data: Array, starts: Array, lengths: Array, valid: Array, values: Array, fits: Array) -> None:
    """bool out of text."""
    for i in range(len(starts)):
        values[i], fits[i] = 0, 1
        if valid[i]:
            value, error = boolean(data, starts[i], starts[i] + lengths[i])
            values[i], fits[i] = value, error == 0


@kernel(f"void({_TEXT}, float64[:], uint8[:])", on_demand=True)
def read_reals(data: Array, starts: Array, lengths: Array, valid: Array, values: Array, fits: Array) -> None:
    """float64 out of text; SLOW rows are left."""
    for i in range(len(starts)):
        values[i], fits[i] = 0.0, 1
        if valid[i]:
            value, error = real(data, starts[i], starts[i] + lengths[i])
            values[i], fits[i] = value, SLOW if error == SLOW else error == 0


@kernel(f"void({_TEXT}, int64[:], uint8[:], int64)", on_demand=True)
def read_instants(data: Array, starts: Array, lengths: Array, valid: Array, values: Array, fits: Array, unit_us: int) -> None:
    """Timestamps: ISO 8601, or an integer of `unit_us` µs (0: ns; -1: no integer)."""
    for i in range(len(starts)):
        values[i], fits[i] = 0, 1
        if valid[i]:
            stop = starts[i] + lengths[i]
            value, error = calendar(data, starts[i], stop)
            if error != 0 and unit_us != _NO_UNIT:
                value, error = instant_of(data, starts[i], stop, unit_us)
            values[i], fits[i] = value, error == 0


READERS: dict[str, Kernel] = {
    "bool": read_booleans,
    "int32": read_small_integers,
    "int64": read_integers,
    "float64": read_reals,
    "timestamp": read_instants,
}
_DTYPES = {"bool": np.uint8, "int32": np.int32, "int64": np.int64, "float64": np.float64, "timestamp": np.int64}


def read_texts(text: Column, target: DataType) -> tuple[Column, Array]:
    """The values that are written, and for each row whether it says one (uint8[n]); NULL does."""
    n = len(text)
    values, fits = np.empty(n, _DTYPES[target.name]), np.empty(n, np.uint8)
    valid = np.ones(n, np.uint8) if text.valid is None else text.valid
    unit = (_unit_us(target),) if target.name == "timestamp" else ()
    READERS[target.name](text.data, text.starts, text.values, valid, values, fits, *unit)
    if target.name == "float64":
        _read_slow(text, values, fits)
    return Column(target, values, text.valid), fits


def _unit_us(type_: DataType) -> int:
    return UNIT_US.get(type_.unit, _NANOSECONDS) if type_.unit else _NO_UNIT


def _read_slow(text: Column, values: Array, fits: Array) -> None:
    assert text.data is not None and text.starts is not None
    for i in np.flatnonzero(fits == SLOW):
        start = text.starts[i]
        values[i], fits[i] = float(text.data[start : start + text.values[i]].tobytes()), 1
