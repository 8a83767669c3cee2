"""Exact sums against whole-number arithmetic: any values, any order, any way of merging."""

from __future__ import annotations

import math
import struct
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep.kernels.jit import interpreted, kernel, warm
from cep.kernels.states.exact_sum import POOL_WORDS, SUM_WORDS, add_all, exact_sum, merge_exact, round_exact

LARGEST, LEAST = 1.7976931348623157e308, 5e-324
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.1, 2.0**53, -(2.0**53), LARGEST, -LARGEST, LEAST, -LEAST, 2.0**-1022, 2.0**77, 2.0**-114, 1e-30)
NUMBERS = st.one_of(st.sampled_from(SPECIAL), st.floats(-1e6, 1e6), st.floats(allow_nan=False, allow_infinity=False))
ANY = st.one_of(NUMBERS, st.sampled_from((math.inf, -math.inf, math.nan)))


def reference(values: list[float]) -> float:
    infinities = {value for value in values if math.isinf(value)}
    if any(map(math.isnan, values)) or len(infinities) == 2:
        return math.nan
    if infinities:
        return infinities.pop()
    total = sum(map(Fraction, values), Fraction(0))
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def bits(value: float) -> bytes:
    return struct.pack("<d", math.nan if math.isnan(value) else value)


@kernel("int64(int64[:], int64[:, :], int64, const int64[:], const int64[:, :])")
def merge(words: np.ndarray, pool: np.ndarray, used: int, other: np.ndarray, other_pool: np.ndarray) -> int:
    return merge_exact(words, 0, pool, used, other, 0, other_pool)


class Sum:
    """One sum, as an entry of a table would hold it."""

    def __init__(self, values: list[float]) -> None:
        self.words, self.pool = np.zeros(SUM_WORDS, np.int64), np.zeros((1, POOL_WORDS), np.int64)
        add_all(self.words, self.pool, np.array(values, np.float64).view(np.int64))

    def merge(self, other: Sum) -> None:
        used = 1 if self.words[0] & 8 else 0
        assert merge(self.words, self.pool, used, other.words, other.pool) <= 1

    @property
    def value(self) -> float:
        out = np.zeros(1, np.int64)
        round_exact(self.words, 0, SUM_WORDS, self.pool, out)
        return float(out.view(np.float64)[0])


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    """Hypothesis watches every line that runs inside a property, a compiler's too."""
    warm()


@settings(deadline=None)
@given(st.lists(ANY, max_size=20))
def test_is_the_exact_sum_rounded_once(values: list[float]) -> None:
    assert bits(exact_sum(np.array(values, np.float64))) == bits(reference(values))


@settings(deadline=None)
@given(st.lists(NUMBERS, max_size=20), st.data())
def test_what_cancels_leaves_nothing(values: list[float], data: st.DataObject) -> None:
    rest = data.draw(st.lists(NUMBERS, max_size=3))
    shuffled = data.draw(st.permutations(values + [-value for value in values] + rest))
    assert bits(exact_sum(np.array(shuffled, np.float64))) == bits(reference(rest))


@settings(deadline=None)
@given(st.lists(st.lists(ANY, max_size=6), min_size=1, max_size=6), st.data())
def test_any_merge_tree_gives_the_same_bits(parts: list[list[float]], data: st.DataObject) -> None:
    expected = reference([value for part in parts for value in part])
    sums = [Sum(part) for part in parts]
    while len(sums) > 1:
        taken = sums.pop(data.draw(st.integers(0, len(sums) - 1)))
        sums[data.draw(st.integers(0, len(sums) - 1))].merge(taken)
    assert bits(sums[0].value) == bits(expected)


@settings(deadline=None)
@given(st.lists(st.floats(-1e15, 1e15), max_size=50))
def test_equals_fsum(values: list[float]) -> None:
    assert bits(exact_sum(np.array(values, np.float64))) == bits(math.fsum(values))


@settings(deadline=None, max_examples=20)
@given(st.lists(ANY, max_size=8))
def test_runs_uncompiled(values: list[float]) -> None:
    with interpreted():
        assert bits(exact_sum(np.array(values, np.float64))) == bits(reference(values))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], 0.0),
        ([-0.0, -0.0], 0.0),
        ([1e308, 1e308, -1e308], 1e308),
        ([LARGEST, LARGEST], math.inf),
        ([-LARGEST, -LARGEST], -math.inf),
        ([LARGEST, 2.0**969], LARGEST),  # a quarter of the last bit
        ([LARGEST, 2.0**970], math.inf),  # half of it: a tie, which goes to even
        ([2.0**53, 1.0], 2.0**53),  # a tie, to even
        ([2.0**53, 1.0, LEAST], 2.0**53 + 2),  # just above it
        ([2.0**53 + 2, 1.0], 2.0**53 + 4),
        ([LEAST, LEAST, LEAST], 3 * LEAST),
        ([2.0**-1022, -LEAST], 2.0**-1022 - LEAST),
        ([1.0, math.inf, -LARGEST], math.inf),
        ([math.inf, -math.inf], math.nan),
        ([math.nan, math.inf], math.nan),
    ],
)
def test_corners(values: list[float], expected: float) -> None:
    assert bits(exact_sum(np.array(values, np.float64))) == bits(expected)


def test_sums_beyond_three_words_spill_and_stay_exact() -> None:
    values = np.full(200_000, 1e20)
    assert exact_sum(np.concatenate([values, [1e-300]])) == 2e25
    assert exact_sum(np.concatenate([values, [1e-300], -values])) == 1e-300
