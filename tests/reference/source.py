"""Sources: event time, lateness, origin (rules 4.4, 4.5, 4.7, 4.9, 4.11).

Every row of a source is exactly one of three: on time, late, or bad input.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from cep.model.streams import Stream
from tests.reference.expressions import Failed, evaluate
from tests.reference.rows import BAD_INPUT, Advance, Awake, Bad, DeadLetter, Idle, Mark, Origin, Partition, Row


@dataclass
class Arrivals:
    """What a source made of its records, in order of partition and record."""

    on_time: list[Row] = field(default_factory=list)
    late: list[Row] = field(default_factory=list)
    bad: list[DeadLetter] = field(default_factory=list)


def read(stream: Stream, source: int, partitions: Iterable[Partition]) -> Arrivals:
    """All records of `stream`, the query's source number `source`."""
    arrivals = Arrivals()
    ordered = sorted(partitions, key=lambda partition: partition.index)
    for partition in ordered:
        _read_partition(stream, source, partition, _first_stamp(stream, partition, ordered), arrivals)
    return arrivals


def _read_partition(stream: Stream, source: int, partition: Partition, stamp: float, arrivals: Arrivals) -> None:
    for record, time in enumerate(event_times(stream, partition)):
        stamp = max([stamp, *(_stamp_of(mark) for before, mark in partition.marks if before == record)])
        origin = (source << 48 | partition.index, record)
        row = partition.rows[record]
        if isinstance(row, Bad) or time is None:
            arrivals.bad.append(DeadLetter(stream.name, BAD_INPUT, origin))
        else:
            (arrivals.late if time < stamp else arrivals.on_time).append(_row(stream, time, origin, row))
        if time is not None:
            # So does a late row, and a bad one whose event time parsed: the stamp is a function of the data alone.
            stamp = max(stamp, time - disorder(stream))


def _stamp_of(mark: Mark) -> float:
    """What it raises the stamp to; the disorder is not subtracted."""
    match mark:
        case Idle():
            return -math.inf
        case Awake(stamp):
            return stamp
        case Advance(to):
            return to


def disorder(stream: Stream) -> int:
    """Stamps of ingestion are in order (rule 4.12)."""
    return stream.disorder or 0


def _first_stamp(stream: Stream, partition: Partition, ordered: Sequence[Partition]) -> float:
    """The stamp before the first row: for a block, of the first rows of its file's blocks up to it and its own."""
    stamp = -math.inf if partition.stamp is None else partition.stamp
    if partition.file is None:
        return stamp
    blocks = [block for block in ordered if block.file == partition.file and block.index <= partition.index]
    firsts = [time for block in blocks if (time := _first_time(stream, block)) is not None]
    return max([stamp, *(time - disorder(stream) for time in firsts)])


def _first_time(stream: Stream, block: Partition) -> int | None:
    """Of the first row whose event time parses."""
    return next((time for time in event_times(stream, block) if time is not None), None)


def event_times(stream: Stream, partition: Partition) -> list[int | None]:
    """Of each record; None where it is NULL or cannot be had."""
    if stream.event_time is None:
        assert partition.times is not None and len(partition.times) == len(partition.rows)
        return list(partition.times)
    return [row.time if isinstance(row, Bad) else _event_time(stream, _by_name(stream, row)) for row in partition.rows]


#: µs from 1970, either way: farther off is no event time.
EVENT_TIME_MAX = 2**61
#: From the first day of 1900 to the last of 2199.
USUAL = (-25_567 * 86_400_000_000, 84_006 * 86_400_000_000 - 1)


def _event_time(stream: Stream, values: Mapping[str, object]) -> int | None:
    assert stream.event_time is not None
    try:
        time = evaluate(stream.event_time, stream.schema, values)
    except Failed:
        return None
    assert time is None or isinstance(time, int)
    return None if time is None else in_range(stream, time)


def in_range(stream: Stream, time: int) -> int | None:
    first, last = (-EVENT_TIME_MAX, EVENT_TIME_MAX) if stream.event_times == "any" else USUAL
    return time if first <= time <= last else None


def _by_name(stream: Stream, row: tuple[object, ...] | Mapping[str, object]) -> Mapping[str, object]:
    return row if isinstance(row, Mapping) else dict(zip(stream.schema.names, row, strict=True))


def _row(stream: Stream, time: int, origin: Origin, row: tuple[object, ...] | Mapping[str, object]) -> Row:
    values = _by_name(stream, row)
    return Row(time, origin, tuple(values[name] for name in stream.schema.names))
