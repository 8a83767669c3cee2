"""What the operators of expressions compute, one scalar function each: the cells of docs/arithmetic.md.

An operation that can fail is two functions. The one computes and is total: it returns something for every input, so
that a loop may run it ahead of the check, also at NULLs, whose values are arbitrary. The other (`..._fails`,
`..._overflows`) says whether that something is wrong.

Where integers may overflow they are added as uint64: Numba marks signed arithmetic `nsw`, so that LLVM takes a check of
its wrapped result for one that never fails and drops it.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from cep.kernels.jit import inlined

__all__ = [  # what generated loops import
    "difference_overflows",
    "float_equal",
    "float_less",
    "float_quotient",
    "float_remainder",
    "float_to_int",
    "float_to_int32_fails",
    "float_to_int64_fails",
    "int_to_int32_fails",
    "is_least",
    "product_overflows",
    "quotient",
    "quotient_overflows",
    "remainder",
    "sum_excess",
    "sum_overflows",
    "text_equal",
    "text_less",
    "wrapped_difference",
    "wrapped_magnitude",
    "wrapped_product",
    "wrapped_sum",
]

# What Numba makes of them; NumPy's stubs know no arithmetic that stays within one width.
Int: TypeAlias = Any  # int64
Float: TypeAlias = Any  # float64
Truth: TypeAlias = Any  # bool
Bytes: TypeAlias = Any  # uint8[any]

_PRODUCT_SAFE = 9.2e18  # below 2**63 by more than the three roundings in the test can hide
_LEAST = -(2**63)
_LOW32, _HIGH32 = -(2**31), 2**31 - 1
_LOW64, _END64 = -(2.0**63), 2.0**63

# --- integers --------------------------------------------------------------------------------------------------------


@inlined
def wrapped_sum(a: Int, b: Int) -> Int:
    """a + b modulo 2**64."""
    return np.int64(np.uint64(a) + np.uint64(b))


@inlined
def wrapped_difference(a: Int, b: Int) -> Int:
    """a - b modulo 2**64."""
    return np.int64(np.uint64(a) - np.uint64(b))


@inlined
def wrapped_product(a: Int, b: Int) -> Int:
    """a * b modulo 2**64."""
    return np.int64(np.uint64(a) * np.uint64(b))


@inlined
def wrapped_magnitude(a: Int) -> Int:
    """|a| modulo 2**64: the least integer stays what it is."""
    return wrapped_difference(np.int64(0), a) if a < 0 else a


@inlined
def sum_excess(a: Int, b: Int) -> Int:
    """Negative where a + b is outside int64: both signs differ from the sign of the wrapped sum."""
    total = wrapped_sum(a, b)
    return (a ^ total) & (b ^ total)


@inlined
def sum_overflows(a: Int, b: Int) -> Truth:
    """Whether a + b is outside int64."""
    return sum_excess(a, b) < 0


@inlined
def difference_overflows(a: Int, b: Int) -> Truth:
    """Whether a - b is outside int64."""
    return ((a ^ b) & (a ^ wrapped_difference(a, b))) < 0


@inlined
def product_overflows(a: Int, b: Int) -> Truth:
    """Whether a * b is outside int64. In floats first: a division costs ten times as much."""
    if abs(np.float64(a) * np.float64(b)) < _PRODUCT_SAFE:
        return False
    # Neither is 0 here. A wrapped product is at least 2**64 away from the true one, so its quotient is not b.
    return b == _LEAST if a == -1 else wrapped_product(a, b) // a != b


@inlined
def is_least(a: Int) -> Truth:
    """The one integer whose negation is outside int64."""
    return a == _LEAST


@inlined
def quotient(a: Int, b: Int) -> Int:
    """a / b rounded toward zero; 0 where b is 0, wrapped where it overflows."""
    if b == 0:
        return np.int64(0)
    if b == -1:
        return wrapped_difference(np.int64(0), a)  # the machine's division would trap on the least integer
    return a // b + 1 if (a < 0) != (b < 0) and a % b != 0 else a // b


@inlined
def quotient_overflows(a: Int, b: Int) -> Truth:
    """The one quotient that is outside int64."""
    return (a == _LEAST) & (b == -1)


@inlined
def remainder(a: Int, b: Int) -> Int:
    """What `quotient` leaves, with the sign of a; 0 where b is 0."""
    if b == 0 or b == -1:
        return np.int64(0)
    rest = a % b
    return rest - b if rest != 0 and (a < 0) != (b < 0) else rest


# --- floats ----------------------------------------------------------------------------------------------------------


@inlined
def float_quotient(a: Float, b: Float) -> Float:
    """a / b, rounded toward zero."""
    return np.trunc(a / b)


@inlined
def float_remainder(a: Float, b: Float) -> Float:
    """C's fmod: exact, with the sign of a; NaN where b is 0 or a is infinite."""
    return np.fmod(a, b)


@inlined
def float_equal(a: Float, b: Float) -> Truth:
    """NaN equals NaN; -0.0 equals 0.0."""
    return (a == b) | ((a != a) & (b != b))


@inlined
def float_less(a: Float, b: Float) -> Truth:
    """NaN is greater than every other value."""
    return (a < b) | ((a == a) & (b != b))


# --- casts -----------------------------------------------------------------------------------------------------------


@inlined
def float_to_int(a: Float) -> Int:
    """The nearest integer, halves to even; 0 where it fails."""
    nearest = np.rint(a)
    return np.int64(nearest) if (nearest >= _LOW64) & (nearest < _END64) else np.int64(0)


@inlined
def float_to_int64_fails(a: Float) -> Truth:
    """NaN, or the nearest integer is outside int64."""
    nearest = np.rint(a)
    return not (nearest >= _LOW64) & (nearest < _END64)


@inlined
def float_to_int32_fails(a: Float) -> Truth:
    """NaN, or the nearest integer is outside int32."""
    nearest = np.rint(a)
    return not (nearest >= _LOW32) & (nearest <= _HIGH32)


@inlined
def int_to_int32_fails(a: Int) -> Truth:
    """Outside int32."""
    return (a < _LOW32) | (a > _HIGH32)


# --- text ------------------------------------------------------------------------------------------------------------


@inlined
def text_equal(data: Bytes, start: Int, length: Int, other: Bytes, other_start: Int, other_length: Int) -> Truth:
    """Whether two runs of bytes are the same."""
    same = length == other_length
    i = 0
    while same and i < length:
        same = data[start + i] == other[other_start + i]
        i += 1
    return same


@inlined
def text_less(data: Bytes, start: Int, length: Int, other: Bytes, other_start: Int, other_length: Int) -> Truth:
    """Bytewise order, which for UTF-8 is the order of code points; a prefix comes first."""
    for i in range(min(length, other_length)):
        if data[start + i] != other[other_start + i]:
            return data[start + i] < other[other_start + i]
    return length < other_length
