"""Groups by number, whether their keys are found by a table of all numbers between them or by their hashes.

Tests `group_numbers.py`.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cep.kernels.columns import Column
from cep.kernels.jit import interpreted
from cep.kernels.tables.group_numbers import GroupNumbers
from cep.kernels.tables.near_keys import OUTSIDE, SPREAD, SPREAD_MORE
from cep.model.schema import INT64, Field

FAR_APART = st.sampled_from((-(2**63), -(2**62), -1, 0, 1, 2**40, 2**63 - 1))
KEYS = st.one_of(st.integers(-3, 12), st.integers(5_000, 5_040), st.integers(0, SPREAD_MORE + 40 * SPREAD), FAR_APART)
BATCHES = st.lists(st.lists(st.none() | KEYS, max_size=30) | st.lists(st.integers(0, 20), max_size=30), max_size=8)


@dataclass
class Numbered:
    """What is expected of groups, and what there is."""

    found: GroupNumbers = field(default_factory=lambda: GroupNumbers((Field("k", INT64, True),)))
    known: dict[int | None, int] = field(default_factory=dict)

    def take(self, keys: list[int | None]) -> None:
        expected = [self.known.setdefault(key, len(self.known)) for key in keys]
        assert self.found.of({"k": column(keys)}, len(keys)).tolist() == expected
        assert len(self.found) == len(self.known)

    def keep(self, kept: set[int]) -> None:
        self.found.keep(np.array(sorted(kept), np.int64))
        left = [key for key, number in self.known.items() if number in kept]
        self.known = {key: number for number, key in enumerate(left)}


def column(keys: list[int | None]) -> Column:
    valid = np.array([key is not None for key in keys], np.uint8)
    return Column(INT64, np.array([key or 0 for key in keys], np.int64), None if valid.all() else valid)


@settings(deadline=None)
@given(BATCHES, st.sets(st.integers(0, 40)), BATCHES, st.booleans())
def test_groups_have_the_numbers_in_which_their_keys_came(
    before: list[list[int | None]], kept: set[int], after: list[list[int | None]], compiled: bool
) -> None:
    with nullcontext() if compiled else interpreted():
        numbered = Numbered()
        for keys in before:
            numbered.take(keys)
        numbered.keep({number for number in kept if number < len(numbered.known)})
        for keys in after:
            numbered.take(keys)


def there(numbered: Numbered) -> bool:
    assert numbered.found._near is not None
    return numbered.found._near.is_there


def test_keys_near_each_other_are_found_by_a_table_that_follows_them() -> None:
    numbered = Numbered()
    for first in range(0, 100_000, 1_000):
        numbered.take(list(range(first, first + 1_000)) * 2)
    assert there(numbered)
    assert numbered.found.bytes < 200 * len(numbered.known)


def test_keys_far_from_each_other_have_none() -> None:
    numbered = Numbered()
    for first in range(0, 10_000, 100):
        numbered.take([(first + k) * 2**40 for k in range(100)])
    assert not there(numbered)


def test_it_is_given_up_where_many_keys_lie_outside() -> None:
    numbered = Numbered()
    numbered.take(list(range(5_000)))
    assert there(numbered)
    numbered.take([*range(5_000), *(2**40 + k for k in range(5_000 // OUTSIDE // 2))])
    assert there(numbered)
    numbered.take([2**50 + k for k in range(1_000)])
    assert not there(numbered)


def test_a_key_that_is_null_is_no_number() -> None:
    numbered = Numbered()
    numbered.take([None, 1, 2])
    numbered.take([0, 1, 2])
    numbered.take([0, 0, 1, None])
