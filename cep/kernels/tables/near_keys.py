"""Groups by number where keys are whole numbers that lie near each other, as ids and codes do: a table with a place for each number from
the least key to the greatest. A row finds its group with one look, which takes a third of what a hash, a slot and an entry take
(`benchmarks/log/patterns.md`). The table of groups by hash has all of them too: this one only answers for it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cep.kernels.jit import kernel, warm

#: Places for each group, and more, between the least key and the greatest: keys that lie farther apart are found by their hashes.
SPREAD, SPREAD_MORE = 4, 1_024
#: Of the keys of a batch, one in so many may lie outside before that is no table for them.
OUTSIDE = 8


@kernel("int64(const int64[:], int64, const int32[:], int64[:], int64[:])", on_demand=True)
def find_near(keys: np.ndarray, least: int, known: np.ndarray, numbers: np.ndarray, missing: np.ndarray) -> int:
    """The number of the group of each key, as `known` has it: of `least` + k behind its first item, one more than the number. Rows for
    which it has none go to `missing`, which has room for one more than there are keys; returns how many they are."""
    count, places = 0, np.uint64(len(known) - 1)
    for row in range(len(keys)):
        place = np.uint64(keys[row]) - np.uint64(np.int64(least))
        found = np.int64(known[np.int64(place) + 1 if place < places else 0])
        numbers[row], missing[count] = found - 1, row
        count += int(found == 0)
    return count


@kernel("int64(const int64[:], int64, int32[:], const int64[:])", on_demand=True)
def note_near(keys: np.ndarray, least: int, known: np.ndarray, numbers: np.ndarray) -> int:
    """Notes the groups `numbers` of keys. Returns how many keys lie outside."""
    outside, places = 0, np.uint64(len(known) - 1)
    for row in range(len(keys)):
        place = np.uint64(keys[row]) - np.uint64(np.int64(least))
        if place < places:
            known[np.int64(place) + 1] = np.int32(numbers[row] + 1)
        else:
            outside += 1
    return outside


class NearKeys:
    """What is known of the keys from the least one on."""

    def __init__(self) -> None:
        warm(find_near, note_near)
        self.forget()

    def forget(self) -> None:
        """The groups have other numbers."""
        self._drop()
        self._look_at = 1  # so many groups: whether their keys lie near each other is looked at then, and when they are twice as many

    def _drop(self) -> None:
        self._least, self._known = 0, np.zeros(1, np.int32)

    @property
    def bytes(self) -> int:
        return self._known.nbytes

    @property
    def is_there(self) -> bool:
        return len(self._known) > 1

    def find(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of int64[n] the numbers of their groups, int64[n], and the rows of those that are not known, int64[any]."""
        numbers, missing = np.empty(len(keys), np.int64), np.empty(len(keys) + 1, np.int64)
        return numbers, missing[: find_near(keys, self._least, self._known, numbers, missing)]

    def note(self, keys: np.ndarray, numbers: np.ndarray, of_rows: int) -> None:
        """The groups of keys, int64[m], that were not known, of a batch of `of_rows` rows."""
        if note_near(keys, self._least, self._known, numbers) > of_rows // OUTSIDE:
            self._drop()

    def look(self, groups: int, keys: Callable[[], tuple[np.ndarray, np.ndarray]]) -> None:
        """There are so many groups. `keys`: their keys that are whole numbers, and their numbers, int64[any] each."""
        if groups < self._look_at:
            return
        self._look_at = 2 * groups
        there, numbers = keys()
        span = int(there.max()) - int(there.min()) + 1 if len(there) else 0
        if 0 < span <= SPREAD * groups + SPREAD_MORE:
            self._least, self._known = int(there.min()), np.zeros(1 + 2 * span, np.int32)  # ids grow
            note_near(there, self._least, self._known, numbers)
