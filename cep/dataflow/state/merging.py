"""Batches in stream order, and one out of several: (event time, origin), and what ties on both by all its columns.

Very many rows are merged a bounded number at a time. Each run is cut into pieces, which are taken in the order of their first rows; what
was taken and is before the first row of the next piece can go, for nothing before it is still to come:

    run a   1 . . 4 | 6 . . 9 |          taken: 1 … 4, 3 … 5, and 6 … 9 begins next: up to 6 all is there
    run b     3 . . 5 | 8 . . . 12

Senders that read blocks of one file in turn have pieces that lie apart (a: 1 … 4, 9 … 12; b: 5 … 8): they are taken as they lie there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush

import numpy as np

from cep.compile.aggregate.ties import rows_of
from cep.dataflow.outputs.output import concatenated
from cep.elements import PAUSE, Batch
from cep.kernels.jit import kernel
from cep.model.schema import Schema

#: Rows merged at a time, and of how many rows a piece is at least.
ROWS_MAX, PIECE_MIN = 65_536, 64
#: To sort so many rows takes as long as to find a piece that lies apart.
APART_ROWS = 1_024


def pieces_apart(runs: Sequence[Batch], enough: int) -> tuple[list[Batch], list[Batch]]:
    """Pieces of `runs`, each in stream order, one behind the other, and what is left of the runs, which is behind all of them: everything
    where the pieces would have fewer than `enough` rows."""
    if sum(map(len, runs)) < enough * len(runs):
        return [], list(runs)
    found: list[tuple[int, int, int]] = []  # run, first row, row after the last
    begins, covered = [0] * len(runs), 0
    waiting = [(place_of(run, 0), i) for i, run in enumerate(runs)]
    heapify(waiting)
    while waiting and len(found) < len(runs) + covered // enough:
        first, i = heappop(waiting)
        run, begin = runs[i], begins[i]
        end = _before(run, waiting[0][0]) if waiting else len(run)
        if end == begin:  # it ties with another
            heappush(waiting, (first, i))
            break
        found.append((i, begin, end))
        covered += end - begin
        if end < len(run):
            begins[i] = end
            heappush(waiting, (place_of(run, end), i))
    if covered < enough * len(runs):  # a batch of few rows of its own would cost more than to sort them with the others
        return [], list(runs)
    return [_rows(runs[i], begin, end) for i, begin, end in found], [_rows(runs[i], begins[i], len(runs[i])) for _, i in waiting]


def _rows(run: Batch, begin: int, end: int) -> Batch:
    return run if end - begin == len(run) else run.take(slice(begin, end))


def merged(runs: Sequence[Batch], schema: Schema, ties: bool, most: int = ROWS_MAX) -> Iterator[Batch]:
    """The rows of `runs`, each in stream order, in stream order: about `most` in a batch, at most twice as many."""
    if not runs:
        return
    if sum(map(len, runs)) <= most:
        yield in_stream_order(concatenated(list(runs)), schema, ties)
        return
    pieces, rest, taken, rows = list(_by_first_row(runs, max(PIECE_MIN, most // len(runs)))), PAUSE, [], 0
    for i, (run, start, stop) in enumerate(pieces):
        taken.append(runs[run].take(slice(start, stop)))
        rows += stop - start
        if i + 1 == len(pieces) or rows >= most:
            whole = in_stream_order(concatenated([*([rest] if len(rest) else []), *taken]), schema, ties)
            ready = len(whole) if i + 1 == len(pieces) else _before(whole, place_of(runs[pieces[i + 1][0]], pieces[i + 1][1]))
            yield whole.take(slice(0, ready)) if ready else PAUSE
            rest, taken, rows = whole.take(slice(ready, None)), [], 0


def _by_first_row(runs: Sequence[Batch], size: int) -> Iterator[tuple[int, int, int]]:
    """(run, first row, row after the last) of pieces of `size` rows, in the order of their first rows."""
    starts = [np.arange(0, len(run), size) for run in runs]
    numbers = np.repeat(np.arange(len(runs)), list(map(len, starts)))
    firsts = concatenated([Batch({}, run.time[at], _origin(run)[at]) for run, at in zip(runs, starts, strict=True)])
    first = np.concatenate(starts)
    for i in _order(*_places(firsts)).tolist():
        yield int(numbers[i]), int(first[i]), min(int(first[i]) + size, len(runs[numbers[i]]))


def _before(batch: Batch, limit: tuple[int, ...]) -> int:
    """How many rows of `batch`, in stream order, are before the place `limit`."""
    low, high = int(batch.time.searchsorted(limit[0])), int(batch.time.searchsorted(limit[0], "right"))
    while low < high:
        middle = (low + high) // 2
        if place_of(batch, middle) < limit:
            low = middle + 1
        else:
            high = middle
    return low


def in_stream_order(batch: Batch, schema: Schema, ties: bool) -> Batch:
    """The same rows, sorted."""
    if is_in_order(batch):
        return batch
    time, origin = _places(batch)
    order = _order(time, origin)
    if ties:
        _untie(order, time, origin, batch, schema)
    return batch.take(order)


def _order(time: np.ndarray, origin: np.ndarray) -> np.ndarray:
    return np.lexsort((*(origin[:, word] for word in reversed(range(origin.shape[1]))), time))


def _origin(batch: Batch) -> np.ndarray:
    assert batch.origin is not None, "rows that are taken in order must carry their origin"
    return batch.origin


def _places(batch: Batch) -> tuple[np.ndarray, np.ndarray]:
    """What stream order goes by: event times and origins."""
    return np.ascontiguousarray(batch.time), np.ascontiguousarray(_origin(batch))


def place_of(batch: Batch, row: int) -> tuple[int, ...]:
    """The place of one row in the order of its stream."""
    return int(batch.time[row]), *_origin(batch)[row].tolist()


def is_behind(batch: Batch, last: Batch) -> bool:
    """Is its first row behind the last of `last`?"""
    before, after = last.time.item(-1), batch.time.item(0)
    return bool(before < after or (before == after and place_of(last, -1) < place_of(batch, 0)))


def is_in_order(batch: Batch) -> bool:
    """Is every row strictly before the next one?"""
    return batch.in_order or len(batch.time) == 1 or bool(in_order(*_places(batch)))


@kernel("boolean(const int64[:], const int64[:, :])")
def in_order(time: np.ndarray, origin: np.ndarray) -> bool:
    """Is every row strictly before the next one?"""
    for i in range(1, len(time)):
        if time[i - 1] < time[i]:
            continue
        if time[i - 1] > time[i]:
            return False
        k = 0
        while k < origin.shape[1] and origin[i - 1, k] == origin[i, k]:
            k += 1
        if k == origin.shape[1] or origin[i - 1, k] > origin[i, k]:
            return False
    return True


def _untie(order: np.ndarray, time: np.ndarray, origin: np.ndarray, batch: Batch, schema: Schema) -> None:
    """Sorts the runs of rows in `order` that tie by all their columns."""
    same = (time[order[1:]] == time[order[:-1]]) & (origin[order[1:]] == origin[order[:-1]]).all(axis=1)
    tied = np.flatnonzero(same)
    if not len(tied):
        return
    starts = tied[np.concatenate(([True], np.diff(tied) > 1))]
    stops = tied[np.concatenate((np.diff(tied) > 1, [True]))] + 2
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        rows = order[start:stop]
        part = batch.take(rows)
        order[start:stop] = rows[_by_columns(part, schema)]


def _by_columns(batch: Batch, schema: Schema) -> Sequence[int]:
    column = rows_of(batch.columns, schema.fields, len(batch))
    assert column.starts is not None and column.data is not None
    keys = [column.data[s : s + n].tobytes() for s, n in zip(column.starts.tolist(), column.values.tolist(), strict=True)]
    return sorted(range(len(keys)), key=keys.__getitem__)
