"""Lists: a value is the bytes of its elements one after the other, each as a column of a row is in `cep.kernels.row_order`.

So a list is moved, copied and ordered as text is: element by element, a list before those that it begins.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cep.kernels.column import NO_BYTES, Column
from cep.kernels.jit import inlined, kernel
from cep.kernels.row_order import FIXED_BYTES, add_sizes, get, put
from cep.model.schema import BINARY, DataType, list_of

#: Elements that come out of lists at a time.
PIECE_ELEMENTS = 65_536


def encode_elements(values: Column) -> Column:
    """`values`, of a type that is no list, as elements: the bytes (a binary column) of which lists of them consist."""
    sizes = np.zeros(len(values), np.int64)
    add_sizes(values, sizes)
    starts = np.cumsum(sizes) - sizes
    body = np.empty(int(sizes.sum()), np.uint8)
    put(values, starts.copy(), body)
    return Column(BINARY, sizes.astype(np.int32), None, body if len(body) else NO_BYTES, starts)


def lists_of(elements: Column, offsets: np.ndarray, valid: np.ndarray | None = None) -> Column:
    """The lists of which number i has the elements `offsets[i]` to `offsets[i + 1]`, integers[n + 1]; NULL where `valid` is 0."""
    encoded = encode_elements(elements)
    ends = np.zeros(len(elements) + 1, np.int64)
    np.cumsum(encoded.values, out=ends[1:])
    starts = ends[offsets[:-1]]
    return Column(list_of(elements.type), (ends[offsets[1:]] - starts).astype(np.int32), valid, encoded.data, starts)


def explode(lists: Column) -> tuple[np.ndarray, np.ndarray, Column]:
    """All elements of `lists`, in order: the row of each (int64[m]), its number in its list from 0 (int64[m]), and the elements.

    A NULL has none.
    """
    element = _element(lists)
    counts = list_lengths(lists)
    rows = np.repeat(np.arange(len(lists)), counts)
    ordinals = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    places = np.empty(len(rows), np.int64)
    data, starts, lengths = _arrays(lists)
    _find_elements(data, starts, lengths, element.is_text, places)
    return rows, ordinals, get(element, data, places, int(lengths.sum()))


def explode_in_pieces(lists: Column, most: int = PIECE_ELEMENTS) -> Iterator[tuple[np.ndarray, np.ndarray, Column]]:
    """As `explode`, about `most` elements at a time: at most twice as many, however many a list has."""
    counts = list_lengths(lists)
    ends = np.cumsum(counts)
    start = 0
    while start < len(lists):
        if counts[start] > most:
            yield from _explode_one(lists, start, most)
            start += 1
            continue
        stop = max(start + 1, int(np.searchsorted(ends, ends[start] - counts[start] + most, side="right")))
        rows, ordinals, elements = explode(lists.take(slice(start, stop)))
        yield rows + start, ordinals, elements
        start = stop


def _explode_one(lists: Column, row: int, most: int) -> Iterator[tuple[np.ndarray, np.ndarray, Column]]:
    """The parts of one list, which is cut into shorter ones."""
    one = lists.take(slice(row, row + 1))
    data, starts, lengths = _arrays(one)
    places = np.empty(int(list_lengths(one)[0]) + 1, np.int64)
    _find_elements(data, starts, lengths, _element(lists).is_text, places)
    places[-1] = starts[0] + lengths[0]
    for first in range(0, len(places) - 1, most):
        stop = min(first + most, len(places) - 1)
        part = Column(lists.type, (places[stop : stop + 1] - places[first]).astype(np.int32), None, data, places[first : first + 1])
        rows, ordinals, elements = explode(part)
        yield rows + row, ordinals + first, elements


def list_lengths(lists: Column) -> np.ndarray:
    """How many elements each list has, int64[n]; 0 for NULL."""
    counts = np.empty(len(lists), np.int64)
    _count_elements(*_arrays(lists), _element(lists).is_text, counts)
    return counts


def elements_at(lists: Column, ordinals: np.ndarray) -> Column:
    """Element number `ordinals[i]`, int64[n], from 0, of list i; NULL where there is none."""
    data, starts, lengths = _arrays(lists)
    element = _element(lists)
    places = np.empty(len(lists), np.int64)
    _find_element(data, starts, lengths, np.ascontiguousarray(ordinals), element.is_text, places)
    missing = places < 0
    if missing.any():  # an element that is NULL, for all of them
        places[missing] = len(data)
        data = np.append(data, np.zeros(FIXED_BYTES, np.uint8))
    return get(element, data, places, int(lengths.sum()))


def _element(lists: Column) -> DataType:
    assert lists.type.element is not None
    return lists.type.element


def _arrays(lists: Column) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    assert lists.data is not None and lists.starts is not None
    lengths = lists.values if lists.valid is None else np.where(lists.valid, lists.values, 0).astype(np.int32)
    return lists.data, np.ascontiguousarray(lists.starts), np.ascontiguousarray(lengths)


@inlined
def _behind(data: np.ndarray, place: int, text: bool) -> int:
    """Where the element behind the one at `place` begins."""
    if not text:
        return place + FIXED_BYTES
    if data[place] == 0:
        return place + 1
    place += 1
    while data[place] != 0 or data[place + 1] != 0:
        place += 2 if data[place] == 0 else 1
    return place + 2


@kernel("void(const uint8[:], const int64[:], const int32[:], boolean, int64[:])")
def _count_elements(data: np.ndarray, starts: np.ndarray, lengths: np.ndarray, text: bool, counts: np.ndarray) -> None:
    for i in range(len(starts)):
        place, end, count = starts[i], starts[i] + lengths[i], 0
        while place < end:
            place = _behind(data, place, text)
            count += 1
        counts[i] = count


@kernel("void(const uint8[:], const int64[:], const int32[:], boolean, int64[:])")
def _find_elements(data: np.ndarray, starts: np.ndarray, lengths: np.ndarray, text: bool, places: np.ndarray) -> None:
    found = 0
    for i in range(len(starts)):
        place, end = starts[i], starts[i] + lengths[i]
        while place < end:
            places[found] = place
            place = _behind(data, place, text)
            found += 1


@kernel("void(const uint8[:], const int64[:], const int32[:], const int64[:], boolean, int64[:])")
def _find_element(data: np.ndarray, starts: np.ndarray, lengths: np.ndarray, ordinals: np.ndarray, text: bool, places: np.ndarray) -> None:
    """-1 where there is none."""
    for i in range(len(starts)):
        place, end, left = starts[i], starts[i] + lengths[i], ordinals[i]
        while left > 0 and place < end:
            place = _behind(data, place, text)
            left -= 1
        places[i] = place if left == 0 and place < end else -1


#: What `list_lengths`, `elements_at` and `explode` run, beside the kernels of `cep.kernels.row_order`.
READERS = (_count_elements, _find_elements, _find_element)
