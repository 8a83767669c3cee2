"""Partitioning is a stable sort by target."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cep.kernels.tables.partition import partition


@settings(deadline=None)
@given(st.integers(1, 300).flatmap(lambda parts: st.tuples(st.just(parts), st.lists(st.integers(0, parts - 1)))))
def test_partition_is_a_stable_sort(case: tuple[int, list[int]]) -> None:
    parts, targets = case
    array = np.array(targets, np.int32)
    order, bounds = partition(array, parts)
    assert order.tolist() == np.argsort(array, kind="stable").tolist()
    assert bounds.tolist() == [0, *np.cumsum(np.bincount(array, minlength=parts)).tolist()]
