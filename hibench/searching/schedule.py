"""Which record is created when in an open loop, and what is in it.

The records are those of a dataset, cycled where more than POOL_EVENTS are sent (HiBench's own sender cycles through a seed of a
million visits), each with the creation that the schedule says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from hibench.records.dataset import Dataset
from hibench.records.records import lines
from hibench.runs.reference import parsed
from hibench.workloads.workload import CREATION

POOL_EVENTS = 1_000_000
PADDING = "padding"


@dataclass(frozen=True)
class Schedule:
    """When every record is created: `burst` of them together, `rate` a second on average, from `start_s` on (seconds since 1970)."""

    start_s: float
    rate: int
    events: int
    burst: int = 1

    def due(self, moment_s: float) -> int:
        """How many records have been created by then."""
        bursts = np.floor((moment_s - self.start_s) * self.rate / self.burst) + 1
        return int(min(self.events, max(0.0, bursts * self.burst)))

    def created_s(self, numbers: np.ndarray) -> np.ndarray:
        return self.start_s + numbers // self.burst * self.burst / self.rate

    def first_from(self, moments_s: np.ndarray) -> np.ndarray:
        """The first record created at each moment or after it (a millionth of a burst is no time); one that is not among `events` if none
        is."""
        bursts: np.ndarray = np.ceil((moments_s - self.start_s) * self.rate / self.burst - 1e-6)
        first: np.ndarray = np.maximum(0, bursts * self.burst)
        return first.astype(np.int64)

    def created_us(self, numbers: np.ndarray) -> np.ndarray:
        """The creation in whole µs, which is the event time."""
        return np.floor(self.created_s(numbers) * 1e6).astype(np.int64)


class Pool:
    """The records that are sent, again and again: the first of the dataset, with `columns`."""

    def __init__(self, dataset: Dataset, columns: dict[str, object]) -> None:
        text = b"".join(map(bytes, lines(dataset, range(min(dataset.events, POOL_EVENTS)))))
        kept = {name: type_ for name, type_ in columns.items() if name != PADDING or dataset.record_bytes}
        self.rows = parsed(pa.py_buffer(text), kept, dataset.record_bytes > 0).combine_chunks()

    def runs(self, numbers: range) -> Iterator[tuple[range, pa.Table]]:
        """The records with these numbers, cut where the pool begins again."""
        first, size = numbers.start, self.rows.num_rows
        while first < numbers.stop:
            until = min(numbers.stop, first - first % size + size)
            yield range(first, until), self.rows.slice(first % size, until - first)
            first = until

    def created(self, numbers: range, created: pa.Array) -> Iterator[pa.Table]:
        """The records with these numbers, with their creation."""
        place = self.rows.schema.get_field_index(CREATION)
        for run, rows in self.runs(numbers):
            yield rows.set_column(place, CREATION, created.slice(run.start - numbers.start, len(run)))


def created_records(pool: Pool, schedule: Schedule) -> Iterator[pa.Table]:
    """All records that were sent, with their creation in ms."""
    for first in range(0, schedule.events, POOL_EVENTS):
        numbers = range(first, min(first + POOL_EVENTS, schedule.events))
        created = pa.array(schedule.created_us(np.arange(numbers.start, numbers.stop)) // 1000)
        yield from pool.created(numbers, created)
