"""Late, decided once, per partition, from its rows alone (rule 4.7); and how a source numbers its rows (rule 4.5)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cep.elements import MIN_TIME, Batch, describe_time, greatest_time
from cep.kernels.lateness import is_late, late, late_among, rises
from cep.model.limits import odd_time

PARTITION_BITS = 48


def stamp_of(max_time: int, disorder: int) -> int:
    """The event time below which a row is late."""
    return max(max_time - disorder, MIN_TIME) if max_time > MIN_TIME + disorder else MIN_TIME


@dataclass(frozen=True, slots=True)
class Judged:
    """Which rows of a batch are on time, and the greatest event time after it. `rises`: none is before the one before it."""

    kept: np.ndarray | None  # int64[m], None: all
    max_time: int
    late: int
    rises: bool = False


class LateRows:
    """Rows that came too late, until they are taken; kept only where the query has a stream for them."""

    def __init__(self) -> None:
        self.wanted = False
        self.batches: list[Batch] = []

    def keep(self, batch: Batch, judged: Judged, since: int = MIN_TIME) -> None:
        """Those of `batch`, of which `judged` says the rest."""
        if self.wanted and judged.kept is not None:
            late = np.delete(np.arange(len(batch)), judged.kept)
            late = late[batch.time[late] >= since]
            self.batches += [batch.take(late)] if len(late) else []

    def take(self) -> list[Batch]:
        taken, self.batches = self.batches, []
        return taken


#: The first and the last event time that a row may have, µs.
Range = tuple[int, int]


def in_range(times: np.ndarray, allowed: Range) -> np.ndarray:
    """bool[n]: which are event times; MIN_TIME stands for none."""
    inside: np.ndarray = (times >= allowed[0]) & (times <= allowed[1])
    return inside


def all_in_range(times: np.ndarray, allowed: Range) -> bool:
    return not len(times) or bool(times.min() >= allowed[0] and times.max() <= allowed[1])


def greatest_of(times: np.ndarray, allowed: Range) -> int:
    """The greatest event time among `times`, int64[n]; MIN_TIME where there is none."""
    if len(times) and np.minimum.reduce(times) >= allowed[0] and (found := greatest_time(times)) <= allowed[1]:
        return found
    return int(times[in_range(times, allowed)].max(initial=MIN_TIME))


def out_of_range(time: int, allowed: Range) -> str:
    """For a dead letter."""
    return f"{odd_time(allowed)}: got {describe_time(time)}"


NONE_BAD = np.zeros(0, np.int64)


def judge(time: np.ndarray, max_time: int, disorder: int, bad_rows: np.ndarray = NONE_BAD, bad_times: np.ndarray = NONE_BAD) -> Judged:
    """Applies the rule of lateness to rows of one partition in order; `bad_*` as in `cep.compile.text.Parsed`."""
    if not len(bad_rows) and len(time) and not is_late(time.item(0), max_time, disorder) and rises(time):
        return Judged(None, max(max_time, time.item(-1)), 0, True)
    mask = np.empty(len(time), np.uint8)
    if len(bad_rows):
        after = int(late_among(time, max_time, disorder, mask, bad_rows, bad_times))
    else:
        after = int(late(time, max_time, disorder, mask))
    rows = int(np.count_nonzero(mask.view(bool)))
    return Judged(np.flatnonzero(mask == 0) if rows else None, after, rows)


def origin_of(source_index: int, partition: int, records: np.ndarray) -> np.ndarray:
    """int64[n, 2]: (source, partition) in one word, the record's number in its partition in the other."""
    origin = np.empty((len(records), 2), np.int64)
    origin[:, 0] = source_index << PARTITION_BITS | partition
    origin[:, 1] = records
    return origin
