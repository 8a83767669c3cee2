"""Sets of integers: the number by which a free slot is known is one like any other, wherever it comes from."""

from __future__ import annotations

import random

import numpy as np
import pytest

from cep.kernels.jit import kernel
from cep.kernels.states.numbers import NO_NUMBER, NUMBER, numbers_add, numbers_merge, numbers_room
from numa_cep import TIME, Query, count_distinct, stream, testing

FREE = int(NO_NUMBER.astype(np.int64))
_ARENA = 1 << 16


@kernel("void(int64[:], uint8[:], int64[:], const uint64[:])")
def add_all(words: np.ndarray, arena: np.ndarray, used: np.ndarray, numbers: np.ndarray) -> None:
    for i in range(len(numbers)):
        used[0] = numbers_add(words, 0, arena, used[0], numbers[i])


@kernel("void(int64[:], uint8[:], int64[:], const int64[:], const uint8[:])")
def merge_all(words: np.ndarray, arena: np.ndarray, used: np.ndarray, other: np.ndarray, other_arena: np.ndarray) -> None:
    used[0] = numbers_merge(words, 0, arena, used[0], other, 0, other_arena)


@kernel("int64(int64[:], int64)")
def room_for(words: np.ndarray, more: int) -> int:
    return numbers_room(words, 0, more)


class Numbers:
    """A set, beside what Python's says."""

    def __init__(self) -> None:
        self.words, self.arena, self.used = np.zeros(3, np.int64), np.zeros(_ARENA, np.uint8), np.zeros(1, np.int64)
        self.expected: set[int] = set()

    def add(self, numbers: list[int]) -> None:
        add_all(self.words, self.arena, self.used, np.array(numbers, np.int64).view(np.uint64))
        self.expected.update(numbers)
        self.check()

    def merge(self, other: Numbers) -> None:
        room, before = room_for(self.words, int(other.words[2])), int(self.used[0])
        merge_all(self.words, self.arena, self.used, other.words, other.arena)
        self.expected |= other.expected
        assert self.used[0] - before <= room
        self.check()

    def check(self) -> None:
        start, size, count = self.words.tolist()
        kept = self.arena[start : start + size].view(np.uint64)
        kept = kept[kept != NO_NUMBER].view(np.int64)
        assert count == len(self.expected) and 4 * len(kept) <= 3 * (size // NUMBER)
        assert sorted(kept.tolist()) == sorted(self.expected - {FREE})


@pytest.mark.parametrize("seed", range(20))
def test_as_pythons_sets_however_they_are_put_together(seed: int) -> None:
    choose = random.Random(seed)
    domain = [FREE, FREE + 1, 0, -1, 2**63 - 1, -(2**63), *(choose.getrandbits(64) - 2**63 for _ in range(choose.choice((3, 200))))]
    sets = [Numbers() for _ in range(3)]
    for _ in range(25):
        one, other = choose.sample(sets, 2)
        if choose.random() < 0.2:
            one.merge(other)
        else:
            one.add(choose.choices(domain, k=choose.randrange(30)))


@pytest.mark.parametrize("instances", [1, 3])
def test_counted_by_partial_rows_too(instances: int) -> None:
    """Partial rows have the slots that are taken, and how many numbers there are."""
    rows = stream("rows", t="timestamp[us]", k=str, v=int, event_time="t", disorder="0s")
    query = Query("q").source(rows).aggregate("n", TIME("1s"), by="k", n=count_distinct("v")).output("out")
    choose = random.Random(instances)
    given = [{"t": i, "k": choose.choice("ab"), "v": choose.choice((FREE, FREE - 1, 7, i % 50))} for i in range(300)]
    expected = {k: len({row["v"] for row in given if row["k"] == k}) for k in "ab"}
    found = testing.answers(query, {"rows": given}, instances=instances)["out"]
    assert {row["k"]: row["n"] for row in found} == expected
