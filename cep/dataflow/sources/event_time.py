"""Event time that is declared as an expression, not as a column: computed from each row where the row is made (rule 4.4).

A row has none if the expression is NULL, fails, or yields a time out of range: bad input, like a column that does not parse.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

import numpy as np

from cep.compile.chain.chain import compile_chain
from cep.compile.text import Bad, Parsed
from cep.dataflow.sources.blocks import COMPUTED
from cep.dataflow.sources.lateness import in_range
from cep.dataflow.sources.lines import LineParser
from cep.elements import MIN_TIME
from cep.kernels.columns import Column, Columns
from cep.kernels.text import NEWLINE
from cep.model.expr import columns_of
from cep.model.operators import Map
from cep.model.schema import TIMESTAMP_US
from cep.model.streams import Stream


class ComputedTime:
    """The event times of rows of a stream. Raises QueryError for one without a declared event time that types."""

    def __init__(self, stream: Stream) -> None:
        assert stream.event_time is not None
        self.times = stream.times
        self.chain = compile_chain((Map("event_time", stream.name, (("time", stream.event_time),)),), stream.schema)

    def of(self, columns: Columns, n: int) -> np.ndarray:
        """int64[n], µs; MIN_TIME for a row that has none."""
        result = self.chain.process(columns, n, 0)
        found = result.columns["time"]
        values = found.values if found.valid is None else np.where(found.valid, found.values, MIN_TIME)
        times = np.full(n, MIN_TIME, np.int64)
        times[slice(None) if result.kept is None else result.kept] = np.where(in_range(values, self.times), values, MIN_TIME)
        return times


#: Makes a parser of fields, and of the column that is the event time.
Make = Callable[[Collection[str], str | None], LineParser]


class ComputedTimeParser:
    """A parser of lines for such a stream: its rows have a column COMPUTED more. Not for two threads at once.

    Records are parsed twice, first for the fields of the expression alone: a record that is bad otherwise has a time all the
    same, and moves the stamp (rule 4.7).
    """

    event_time: str | None = COMPUTED

    def __init__(self, stream: Stream, needed: Collection[str], make: Make) -> None:
        assert stream.event_time is not None
        operands = columns_of(stream.event_time)
        self.rows, self.operands = make({*needed, *operands}, None), make(operands, None)
        self.time = ComputedTime(stream)

    def warm(self) -> None:
        self.rows.warm()
        self.operands.warm()

    def parse(self, data: np.ndarray, start: int, end: int, rows_max: int) -> Parsed:
        """As `TextParser.parse`."""
        parsed = self.rows.parse(data, start, end, rows_max)
        times = self._times(data, start, parsed.consumed, parsed.count)
        timed = times[parsed.records] > MIN_TIME
        kept = np.flatnonzero(timed)
        columns = {name: column.take(kept) for name, column in parsed.columns.items()}
        columns[COMPUTED] = Column(TIMESTAMP_US, times[parsed.records[kept]])
        untimed = self._untimed(data, start, parsed.consumed, parsed.records[~timed])
        bad = tuple(sorted((*parsed.bad, *untimed), key=lambda each: each.record))
        bad_rows, bad_times = of_bad(times, parsed.records[kept])
        return replace(
            parsed,
            columns=columns,
            records=parsed.records[kept],
            bad=bad,
            bad_count=parsed.bad_count + len(untimed),
            bad_rows=bad_rows,
            bad_times=bad_times,
        )

    def first_time(self, data: np.ndarray, start: int, end: int) -> int | None:
        """As `TextParser.first_time`."""
        while start < end:
            parsed = self.operands.parse(data, start, end, end - start)
            times = self.time.of(parsed.columns, len(parsed))
            timed = times[times > MIN_TIME]
            if len(timed):
                return int(timed[0])
            start = parsed.consumed
        return None

    def _times(self, data: np.ndarray, start: int, end: int, count: int) -> np.ndarray:
        """int64[count]: of every record of `data[start:end]`, MIN_TIME where it has none."""
        times = np.full(count, MIN_TIME, np.int64)
        seen = 0
        while start < end:
            parsed = self.operands.parse(data, start, end, end - start)
            times[seen + parsed.records] = self.time.of(parsed.columns, len(parsed))
            seen, start = seen + parsed.count, parsed.consumed
        return times

    def _untimed(self, data: np.ndarray, start: int, end: int, records: np.ndarray) -> list[Bad]:
        """Records that parse but have no event time, as bad ones."""
        if not len(records):
            return []
        stops = start + np.flatnonzero(data[start:end] == NEWLINE)
        starts = np.concatenate(([start], stops[:-1] + 1))
        reason = "event time: NULL, failed, or out of range"
        return [Bad(r, int(starts[r]), int(stops[r] - starts[r]), reason) for r in records.tolist()]


def of_bad(times: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What `Parsed` has as bad_rows and bad_times: `times` are of all records, `rows` the numbers of the good ones."""
    bad = np.delete(np.arange(len(times)), rows)
    bad = bad[times[bad] > MIN_TIME]
    before, first = np.unique(np.searchsorted(rows, bad), return_index=True)
    return before, np.maximum.reduceat(times[bad], first) if len(bad) else times[:0]


def line_parser(stream: Stream, needed: Collection[str], make: Make) -> LineParser:
    """Parses the fields `needed` of the records of `stream`, and their event time."""
    if stream.event_time is not None and stream.event_time_column is None:
        return ComputedTimeParser(stream, needed, make)
    return make(needed, stream.event_time_column)
