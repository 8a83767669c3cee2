"""Memory of large arrays: kept when they are gone, and taken for others."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import numpy as np
import pytest

from cep.kernels.tables import growing
from cep.kernels.tables.growing import LARGE, grow, keep, let_go

ROWS = LARGE // 8


class Holder:
    """Of an array, int64[n]."""

    def __init__(self, rows: int) -> None:
        self.array = np.arange(4)
        grow(self, "array", rows)

    @property
    def address(self) -> int:
        return int(self.array.__array_interface__["data"][0])


@pytest.fixture(autouse=True)
def nothing_is_kept() -> Iterator[None]:
    """Nor anything of the tests before, in this process, that lies in cycles and would come to it in the midst of a test."""
    gc.collect()
    keep(0)
    let_go()
    yield
    let_go()
    keep(0)


def kept() -> list[int]:
    """The bytes of each memory that is."""
    return sorted(map(len, growing._KEPT))


def test_what_is_free_is_kept_up_to_a_bound_and_goes_when_it_is_to() -> None:
    keep(3 * LARGE)
    for _ in range(3):  # each time anew
        holders = [Holder(ROWS), Holder(ROWS), Holder(2 * ROWS)]
        assert kept() == []
        del holders
        assert LARGE <= sum(kept()) <= 3 * LARGE
    let_go()
    assert kept() == []


def test_memory_is_kept_again_and_again() -> None:
    keep(2 * LARGE)
    first = Holder(ROWS)
    address = first.address
    del first
    for _ in range(4):
        holder = Holder(ROWS)
        assert holder.address == address and kept() == []
        del holder
        assert kept() == [LARGE]


def test_memory_is_not_free_while_a_part_of_an_array_is_looked_at() -> None:
    keep(2 * LARGE)
    holder = Holder(ROWS)
    part = holder.array[1:3][::-1]
    del holder
    assert kept() == [] and part.tolist() == [2, 1]
    del part
    assert kept() == [LARGE]


def test_without_a_word_nothing_is_kept() -> None:
    del_me = Holder(ROWS)
    del del_me
    assert kept() == []


def test_the_first_array_that_becomes_large_takes_the_largest() -> None:
    keep(10 * LARGE)
    large, small = Holder(3 * ROWS), Holder(ROWS)
    addresses = large.address, small.address
    del large, small
    one, other = Holder(ROWS), Holder(ROWS)
    assert (one.address, other.address) == addresses and len(one.array) == len(other.array) == ROWS
    assert one.array[:4].tolist() == [0, 1, 2, 3]


def test_an_array_in_longer_memory_is_copied_where_others_look_at_it() -> None:
    keep(10 * LARGE)
    before = Holder(4 * ROWS)
    address = before.address
    del before
    holder = Holder(ROWS)
    assert holder.address == address
    grow(holder, "array", 2 * ROWS)
    assert holder.address == address and len(holder.array) == 2 * ROWS
    view = holder.array[:4]
    grow(holder, "array", 3 * ROWS)
    holder.array[:] = 9
    assert view.tolist() == [0, 1, 2, 3] and len(holder.array) == 3 * ROWS
    grow(holder, "array", 8 * ROWS)
    assert holder.array[: 3 * ROWS].min() == 9


def test_an_array_in_memory_of_another_kind_is_copied() -> None:
    holder = Holder(4)
    holder.array = np.frombuffer(np.arange(4).tobytes(), np.int64)
    grow(holder, "array", 8)
    assert len(holder.array) == 8 and holder.array[:4].tolist() == [0, 1, 2, 3]


def test_room_is_of_memory_that_fits_and_not_of_much_more() -> None:
    keep(64 << 20)
    try:
        growing.room(40 << 20)[:] = 1
        small = growing.room(1 << 20)
        assert len(growing._KEPT) == 1, "what is held for long would hold all of the large one"
        again = growing.room(30 << 20)
        assert not growing._KEPT and again[0] == 1 and len(small) == 1 << 20
    finally:
        keep(0)
        let_go()
