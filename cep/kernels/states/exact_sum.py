"""Exact sums: every float64 is a whole multiple of 2**-1074, so a sum of them is a whole number, kept whole and rounded once.

Sums come out as `math.fsum` would have them, whatever the order of the values and however partial sums were merged:
adding whole numbers knows no order. NaN, or inf with -inf, gives NaN; inf wins over numbers; no intermediate sum
overflows, and a sum beyond the range of float64 is an infinity. A sum of nothing but zeros is 0.0.

The whole number, in units of 2**-1074, would need 2,098 bits. A sum is four words of an entry of a table:

    tag       bits NAN, PLUS, MINUS: what it has met besides numbers; bit SPILLED: where the number is
    3 words   the number in units of 2**-114 as 192 bits, two's complement, least significant word first

which holds every value of 53 bits between 2e-19 and 1e20 and sums up to 1e23. What does not fit *spills*: all 34 words of the
number go to a row of `pool`, int64[any, 34], and the first of the three words says which. `pool` is the table's; `used` is the number
of rows taken; code that adds or merges makes sure that one more is free for each sum.

Rejected: a window of words that slides to the first value (two partial sums then rarely have the same one, and merging
spills), and two-float expansions (their length depends on the order, and a merge has to round or to grow).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cep.kernels.jit import inlined, kernel

SUM_WORDS = 4
POOL_WORDS = 34

NAN, PLUS, MINUS, SPILLED = 1, 2, 4, 8
SPECIAL = NAN | PLUS | MINUS
_FIRST = 15  # the word of the whole number that is the first of the three
_TOP = 2**61  # while both top words are below, neither three words nor their sum can overflow

_0, _1, _63 = np.uint64(0), np.uint64(1), np.uint64(63)
_HIDDEN = np.uint64(1 << 52)
_MANTISSA = np.uint64((1 << 52) - 1)
_HALVES = tuple(np.uint64(n) for n in (32, 16, 8, 4, 2, 1))
_NAN_BITS, _INFINITY_BITS = 0x7FF8 << 48, 0x7FF << 52
_SIGN_BIT = -(2**63)
_POSITION_MAX = 2045  # of the last of the 53 bits, in the greatest float64


@inlined
def add_exact(words: np.ndarray, at: int, pool: np.ndarray, used: int, bits: int) -> int:
    """Adds the float64 whose bits are the int64 `bits` to the sum at `words[at]`; returns the rows of `pool` in use after."""
    exponent = (bits >> 52) & 2047
    if exponent == 2047:
        words[at] |= _special(bits)
        return used
    mantissa = np.uint64(bits) & _MANTISSA
    if exponent > 0:
        mantissa |= _HIDDEN
        exponent -= 1
    if mantissa == _0:
        return used
    word, shift, sign = exponent >> 6, np.uint64(exponent & 63), np.uint64(bits >> 63)
    low = mantissa << shift
    high = ((mantissa >> _1) >> (_63 - shift)) ^ sign
    if low == _0:
        high += sign & _1
    low = (low ^ sign) + (sign & _1)
    if not words[at] & SPILLED:
        if _FIRST <= word <= _FIRST + 1 and -_TOP <= words[at + 3] < _TOP:
            if word == _FIRST:
                _add_three(words, at + 1, low, high, sign)
            else:
                _add_three(words, at + 1, _0, low, high)
            return used
        used = _spill(words, at, pool, used)
    _add_at(pool, words[at + 1], word, low, high, sign, sign)
    return used


@inlined
def merge_exact(words: np.ndarray, at: int, pool: np.ndarray, used: int, other: np.ndarray, other_at: int, other_pool: np.ndarray) -> int:
    """Adds the sum at `other[other_at]` to the one at `words[at]`; returns the rows of `pool` in use after."""
    tag = other[other_at]
    words[at] |= tag & SPECIAL
    x, y, z = other[other_at + 1], np.uint64(other[other_at + 2]), np.uint64(other[other_at + 3])
    small = -_TOP <= words[at + 3] < _TOP and -_TOP <= other[other_at + 3] < _TOP
    if small and not (words[at] | tag) & SPILLED:
        _add_three(words, at + 1, np.uint64(x), y, z)
        return used
    if not words[at] & SPILLED:
        used = _spill(words, at, pool, used)
    if tag & SPILLED:
        _add_rows(pool, words[at + 1], other_pool, x)
    else:
        _add_at(pool, words[at + 1], _FIRST, np.uint64(x), y, z, np.uint64(other[other_at + 3] >> 63))
    return used


@inlined
def _special(bits: int) -> int:
    if bits & (2**52 - 1):
        return NAN
    return MINUS if bits < 0 else PLUS


@inlined
def _add_three(words: np.ndarray, at: int, x: Any, y: Any, z: Any) -> None:
    a = np.uint64(words[at]) + x
    carry = _1 if a < x else _0
    b = np.uint64(words[at + 1]) + y
    carry_b = _1 if b < y else _0
    b += carry
    carry_b += _1 if b < carry else _0
    words[at], words[at + 1] = np.int64(a), np.int64(b)
    words[at + 2] = np.int64(np.uint64(words[at + 2]) + z + carry_b)


@inlined
def _spill(words: np.ndarray, at: int, pool: np.ndarray, used: int) -> int:
    for i in range(POOL_WORDS):  # pieces of arrays take Numba seconds to compile
        pool[used, i] = words[at + 3] >> 63 if i >= _FIRST else 0
    for i in range(3):
        pool[used, _FIRST + i] = words[at + 1 + i]
    words[at] |= SPILLED
    words[at + 1], words[at + 2], words[at + 3] = used, 0, 0
    return used + 1


@inlined
def _add_at(pool: np.ndarray, row: int, word: int, x: Any, y: Any, z: Any, sign: Any) -> None:
    """Adds the number whose words from `word` on are x, y, z and then `sign`, to the end."""
    carry = _add_word(pool, row, word, x, _0)
    carry = _add_word(pool, row, word + 1, y, carry)
    carry = _add_word(pool, row, word + 2, z, carry)
    for i in range(word + 3, POOL_WORDS):
        if sign + carry == _0:  # nothing, or -1 and a carry: the rest stays as it is
            break
        carry = _add_word(pool, row, i, sign, carry)


@inlined
def _add_rows(pool: np.ndarray, row: int, other: np.ndarray, other_row: int) -> None:
    carry = _0
    for i in range(POOL_WORDS):
        carry = _add_word(pool, row, i, np.uint64(other[other_row, i]), carry)


@inlined
def _add_word(pool: np.ndarray, row: int, i: int, x: Any, carry: Any) -> Any:
    a = np.uint64(pool[row, i]) + x
    out = _1 if a < x else _0
    a += carry
    out += _1 if a < carry else _0
    pool[row, i] = np.int64(a)
    return out


@inlined
def bit_length(value: Any) -> Any:
    length: Any = 0
    for step in _HALVES:
        if value >> step:
            value = value >> step
            length += np.int64(step)
    return length + (1 if value else 0)


@inlined
def _rounded(whole: np.ndarray) -> Any:
    """The bits of the float64 nearest to the POOL_WORDS words `whole`, ties to even; `whole` is used up."""
    negative = whole[POOL_WORDS - 1] < 0
    if negative:
        _negate(whole)
    top = POOL_WORDS - 1
    while top > 0 and whole[top] == 0:
        top -= 1
    bits = _nearest(whole, 64 * top + bit_length(np.uint64(whole[top])))
    return bits | _SIGN_BIT if negative else bits


@inlined
def _negate(whole: np.ndarray) -> None:
    carry = _1
    for i in range(POOL_WORDS):
        word = np.uint64(~whole[i]) + carry
        carry = carry if word == _0 else _0
        whole[i] = np.int64(word)


@inlined
def _nearest(whole: np.ndarray, length: Any) -> Any:
    """`whole` is positive and `length` bits long."""
    if length <= 53:
        return whole[0]  # a subnormal, or the first of the normal numbers: its bits are its value
    position = length - 53
    if position > _POSITION_MAX:
        return _INFINITY_BITS
    word, shift = position >> 6, np.uint64(position & 63)
    mantissa = np.uint64(whole[word]) >> shift
    if word + 1 < POOL_WORDS:
        mantissa |= (np.uint64(whole[word + 1]) << _1) << (_63 - shift)
    bits = (position << 52) + np.int64(mantissa & (_HIDDEN | _MANTISSA))
    if _round_up(whole, position - 1, bits & 1):
        bits += 1  # may carry into the exponent, even to infinity, which is right
    return bits


@inlined
def _round_up(whole: np.ndarray, half: Any, odd: Any) -> bool:
    word, bit = half >> 6, _1 << np.uint64(half & 63)
    value = np.uint64(whole[word])
    if value & bit == _0:
        return False
    if odd or value & (bit - _1):
        return True
    for i in range(word):  # noqa: SIM110 Numba has no any()
        if whole[i] != 0:
            return True
    return False


@inlined
def rounded_sum(words: np.ndarray, at: int, pool: np.ndarray, whole: np.ndarray) -> Any:
    """The bits of the float64 nearest to the sum at `words[at]`; `whole`, int64[POOL_WORDS], is worked in."""
    tag = words[at]
    if tag & NAN or tag & (PLUS | MINUS) == PLUS | MINUS:
        return _NAN_BITS
    if tag & PLUS:
        return _INFINITY_BITS
    if tag & MINUS:
        return _INFINITY_BITS | _SIGN_BIT
    if tag & SPILLED:
        for i in range(POOL_WORDS):
            whole[i] = pool[words[at + 1], i]
    else:
        for i in range(POOL_WORDS):
            whole[i] = words[at + 3] >> 63 if i >= _FIRST else 0
        for i in range(3):
            whole[_FIRST + i] = words[at + 1 + i]
    return _rounded(whole)


def whole_number(words: np.ndarray, pool: np.ndarray) -> int:
    """The number of the one sum in `words`, int64[SUM_WORDS], in units of 2**-1074; what it has met besides numbers is left out."""
    if words[0] & SPILLED:
        return int.from_bytes(pool[words[1]].tobytes(), "little", signed=True)
    return int.from_bytes(words[1:].tobytes(), "little", signed=True) << (64 * _FIRST)


@kernel("void(const int64[:], int64, int64, const int64[:, :], int64[:])", on_demand=True)
def round_exact(words: np.ndarray, first: int, stride: int, pool: np.ndarray, out: np.ndarray) -> None:
    """Rounds the n sums at `words[first]`, `words[first + stride]`, ...: `out`, int64[n], gets the bits of float64s."""
    whole = np.zeros(POOL_WORDS, np.int64)
    for i in range(len(out)):
        out[i] = rounded_sum(words, first + i * stride, pool, whole)


@kernel("void(int64[:], int64[:, :], const int64[:])", on_demand=True)
def add_all(words: np.ndarray, pool: np.ndarray, values: np.ndarray) -> None:
    """Adds all of `values`, the int64 bits of float64s, to the one sum in `words`; `pool` has at least one row."""
    used = 1 if words[0] & SPILLED else 0
    for i in range(len(values)):
        used = add_exact(words, 0, pool, used, values[i])


def exact_sum(values: np.ndarray) -> float:
    """The exact sum of float64[n], rounded once."""
    words, pool, out = np.zeros(SUM_WORDS, np.int64), np.zeros((1, POOL_WORDS), np.int64), np.zeros(1, np.int64)
    add_all(words, pool, np.ascontiguousarray(values).view(np.int64))
    round_exact(words, 0, SUM_WORDS, pool, out)
    return float(out.view(np.float64)[0])
