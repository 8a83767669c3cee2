"""Variances, quantiles and estimated counts, out of what their states have kept exactly."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from cep.compile.aggregate.groups import Groups
from cep.compile.aggregate.spec import Answer
from cep.kernels.blocks import BLOCK_WORDS
from cep.kernels.columns import Column
from cep.kernels.row_order import from_ordered
from cep.kernels.states.exact_sum import SPECIAL, SUM_WORDS, whole_number
from cep.kernels.states.registers import estimate
from cep.kernels.states.squares import whole_squares
from cep.kernels.tables.buckets import middles, take_buckets

#: A sum of squares of float64s counts units of 2**-2148, their sum units of the square root of that.
_UNIT_BITS = 2148


def variances(answer: Answer, groups: Groups) -> Column:
    """(n * sum of squares - the sum's square) / (n * (n - 1)), in whole numbers, rounded once; of the population n * n below."""
    population = answer.function.name.endswith("_pop")
    counts = groups.word(answer.places[-1])
    values = np.array([_variance(answer, groups, row, n, population) for row, n in enumerate(counts.tolist())], np.float64)
    if answer.function.name.startswith("stddev"):
        values = np.sqrt(values)
    valid = counts >= (1 if population else 2)
    return Column(answer.field.type, values, None if valid.all() else valid.astype(np.uint8))


def _variance(answer: Answer, groups: Groups, row: int, n: int, population: bool) -> float:
    divisor = n * (n if population else n - 1)
    sum_place, squares_place, _ = answer.places
    table = groups.table
    words = table.entries[(groups.start + row) * table.width :]  # of the entry, and what is behind it
    squares = whole_squares(words[squares_place : squares_place + BLOCK_WORDS], table.arena)
    if answer.column is not None and answer.column.type.name != "float64":
        total = int.from_bytes(words[sum_place : sum_place + 2].tobytes(), "little", signed=True)
        return (n * squares - total * total) / divisor if divisor else 0.0
    if words[sum_place] & SPECIAL:
        return np.nan
    total = whole_number(words[sum_place : sum_place + SUM_WORDS], table.pool)
    try:
        return (n * squares - total * total) / (divisor << _UNIT_BITS) if divisor else 0.0
    except OverflowError:
        return np.inf


def quantiles(answer: Answer, groups: Groups) -> Column:
    """The value of rank max(1, ceil(q * n)): the least and the greatest as they are, of others the middle of the bucket that holds
    it, or the least or greatest value if that lies beyond."""
    buckets, least, greatest, counted = answer.places
    counts = groups.word(counted)
    ranks = _ranks(answer, counts)
    low, high = (_reals(answer, groups.word(place)) for place in (least, greatest))
    values = middles(_buckets_at(groups, buckets, ranks))
    values = np.where(values < low, low, np.where(values > high, high, values))
    values = np.where(ranks <= 1, low, np.where(ranks >= counts, high, values))
    return Column(answer.field.type, values, None if counts.all() else (counts > 0).astype(np.uint8))


def _ranks(answer: Answer, counts: np.ndarray) -> np.ndarray:
    """`q` means the decimal number that it is written as: 0.07 of 100 is 7, not a little more."""
    q = Fraction(1, 2) if answer.function.name == "median" else Fraction(str(answer.function.parameter("q")))
    return np.array([max(1, -(-q.numerator * n // q.denominator)) for n in counts.tolist()], np.int64)


def _reals(answer: Answer, words: np.ndarray) -> np.ndarray:
    """float64[n] of the words of an Extreme."""
    assert answer.column is not None
    return from_ordered(words) if answer.column.type.name == "float64" else words.astype(np.float64)


def _buckets_at(groups: Groups, place: int, ranks: np.ndarray) -> np.ndarray:
    """The bucket that holds the value of rank `ranks[i]` in group i, int64[n]; 0 where there is none."""
    size = int(groups.word(place + 2).sum())
    numbers, buckets, counts = (np.empty(size, np.int64) for _ in range(3))
    width = groups.table.width
    take_buckets(groups.table.entries, groups.start * width + place, width, groups.table.arena, numbers, buckets, counts)
    order = np.lexsort((buckets, numbers))
    ends = np.cumsum(counts[order])
    taken = np.bincount(numbers, counts, len(groups)).astype(np.int64)
    before = np.cumsum(taken) - taken
    at = np.searchsorted(ends, before + np.minimum(ranks, taken))
    found: np.ndarray = buckets[order][np.minimum(at, max(size - 1, 0))] if size else np.zeros(len(groups), np.int64)
    return found


def about_distinct(answer: Answer, groups: Groups) -> Column:
    """Half a value rounds to even."""
    out = np.empty(len(groups), np.float64)
    width, precision = groups.table.width, int(answer.function.parameter("precision"))
    estimate(groups.table.entries, groups.start * width + answer.places[0], width, groups.table.arena, precision, out)
    return Column(answer.field.type, np.rint(out).astype(np.int64))
