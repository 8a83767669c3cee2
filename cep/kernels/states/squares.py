"""Exact sums of squares, in a block (`cep.kernels.blocks`): for a variance that is rounded once.

Every float64 is a whole multiple of 2**-1074, so a square is one of 2**-2148, and a sum of squares a whole number in units of
that (of 1 for integers). Of its digits to base 2**64 the block holds a run, least significant first, and the block's third word
says which digit is the first; all others are 0. A run reaches one digit beyond what its squares touch, which is room for the carries
of 2**63 of them. Runs of more than RUN_MAX digits become whole: DIGITS.

NaN and infinities are left out: a variance sums the values too (`cep.kernels.states.exact_sum`), and sees them there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cep.kernels.jit import inlined
from cep.kernels.machine.memory import load_word, store_word

#: The most digits that any sum of squares of float64s has.
DIGITS = 68
RUN_MAX = 16
#: What the square of one number touches, and a digit for carries.
_TOUCHED = 4

_0, _1, _32, _63 = np.uint64(0), np.uint64(1), np.uint64(32), np.uint64(63)
_LOW = np.uint64(2**32 - 1)
_MANTISSA = 2**52 - 1


@inlined
def _exponent(bits: int) -> int:
    return (bits >> 52) & 2047


@inlined
def _first_digit(bits: int) -> int:
    """The first digit of the square of the float64 whose bits are `bits`."""
    return max(_exponent(bits) - 1, 0) * 2 >> 6


@inlined
def _run(words: np.ndarray, at: int, low: int, high: int) -> tuple[int, int]:
    """First digit, and digits, of a run that has those from `low` to before `high` too."""
    if words[at + 1] > 0:
        low, high = min(low, words[at + 2]), max(high, words[at + 2] + words[at + 1] // 8)
    if high - low > RUN_MAX:
        return 0, DIGITS
    return low, high - low


@inlined
def _run_room(words: np.ndarray, at: int, low: int, high: int) -> int:
    _, digits = _run(words, at, low, high)
    return 8 * digits if 8 * digits > words[at + 1] else 0


@inlined
def _reserve(words: np.ndarray, at: int, arena: np.ndarray, used: int, low: int, high: int) -> int:
    first, digits = _run(words, at, low, high)
    if 8 * digits <= words[at + 1]:
        return used
    for k in range(digits):
        store_word(arena, used + 8 * k, _0)
    for k in range(words[at + 1] // 8):
        store_word(arena, used + 8 * (words[at + 2] - first + k), load_word(arena, words[at] + 8 * k))
    words[at], words[at + 1], words[at + 2] = used, 8 * digits, first
    return used + 8 * digits


@inlined
def _add_digit(arena: np.ndarray, at: int, digit: Any, carry: Any) -> Any:
    a = load_word(arena, at) + digit
    out = _1 if a < digit else _0
    a += carry
    out += _1 if a < carry else _0
    store_word(arena, at, a)
    return out


@inlined
def _add(words: np.ndarray, at: int, arena: np.ndarray, digit: int, x: Any, y: Any, z: Any) -> None:
    """Adds three digits, the first of which is `digit`."""
    place, end = words[at] + 8 * (digit - words[at + 2]), words[at] + words[at + 1]
    carry = _add_digit(arena, place, x, _0)
    carry = _add_digit(arena, place + 8, y, carry)
    carry = _add_digit(arena, place + 16, z, carry)
    place += 24
    while carry != _0 and place < end:
        carry = _add_digit(arena, place, _0, carry)
        place += 8


@inlined
def _square(value: Any) -> tuple[Any, Any]:
    """128 bits, least significant word first."""
    a, b = value & _LOW, value >> _32
    low, middle, high = a * a, a * b, b * b
    high += middle >> np.uint64(31)
    middle = middle << np.uint64(33)
    low += middle
    return low, high + (_1 if low < middle else _0)


@inlined
def add_float_square(words: np.ndarray, at: int, arena: np.ndarray, used: int, bits: int) -> int:
    """Adds the square of the float64 whose bits are the int64 `bits`. Returns the bytes of arena in use after."""
    exponent, mantissa = _exponent(bits), bits & _MANTISSA
    if exponent == 2047 or (exponent == 0 and mantissa == 0):
        return used
    if exponent > 0:
        mantissa |= _MANTISSA + 1
    digit = _first_digit(bits)
    used = _reserve(words, at, arena, used, digit, digit + _TOUCHED)
    shift = np.uint64(max(exponent - 1, 0) * 2 & 63)
    low, high = _square(np.uint64(mantissa))
    _add(
        words,
        at,
        arena,
        digit,
        low << shift,
        (high << shift) | ((low >> _1) >> (_63 - shift)),
        (high >> _1) >> (_63 - shift),
    )
    return used


@inlined
def float_square_room(words: np.ndarray, at: int, bits: int) -> int:
    digit = _first_digit(bits)
    return _run_room(words, at, digit, digit + _TOUCHED)


@inlined
def add_integer_square(words: np.ndarray, at: int, arena: np.ndarray, used: int, value: int) -> int:
    """Adds the square of an int64. Returns the bytes of arena in use after."""
    used = _reserve(words, at, arena, used, 0, _TOUCHED)
    low, high = _square(_0 - np.uint64(value) if value < 0 else np.uint64(value))
    _add(words, at, arena, 0, low, high, _0)
    return used


@inlined
def integer_square_room(words: np.ndarray, at: int) -> int:
    return _run_room(words, at, 0, _TOUCHED)


@inlined
def squares_merge_room(words: np.ndarray, at: int, other: np.ndarray, s: int) -> int:
    return _run_room(words, at, other[s + 2], other[s + 2] + other[s + 1] // 8) if other[s + 1] > 0 else 0


@inlined
def squares_merge(words: np.ndarray, at: int, arena: np.ndarray, used: int, other: np.ndarray, s: int, other_arena: np.ndarray) -> int:
    digits, first = other[s + 1] // 8, other[s + 2]
    if digits == 0:
        return used
    used = _reserve(words, at, arena, used, first, first + digits)
    place, end, carry = words[at] + 8 * (first - words[at + 2]), words[at] + words[at + 1], _0
    for k in range(digits):
        carry = _add_digit(arena, place + 8 * k, load_word(other_arena, other[s] + 8 * k), carry)
    place += 8 * digits
    while carry != _0 and place < end:
        carry = _add_digit(arena, place, _0, carry)
        place += 8
    return used


def whole_squares(words: np.ndarray, arena: np.ndarray) -> int:
    """The number of the one block in `words`, int64[3]."""
    start, size, first = words.tolist()
    whole = int.from_bytes(arena[start : start + size].tobytes(), "little")
    return whole << (64 * int(first))
