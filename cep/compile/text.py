"""Text records to columns: one kernel generated for the types and positions of the fields a query needs (rule 4.9).

A record is a line; its fields stand between separators, without quoting. '\\r' before '\\n' is a part of the line end.
Only the fields up to the last one needed are looked at, so what is behind them may be missing. How values are written:
`cep.kernels.literals`. An empty field is the empty text, or NULL if it is no text. A record with a needed field that is
missing or wrong, or NULL where the schema has no NULL or the event time is read, is *bad*: counted, described, left out.
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cep.errors import QueryError
from cep.kernels.arrays import numbers_in
from cep.kernels.column import Words, WordsRequest
from cep.kernels.columns import Column
from cep.kernels.jit import Kernel, generate, warm
from cep.kernels.text import EMPTY, NEWLINE, RANGE, READABLE, gather
from cep.model.limits import ANY_TIME, odd_time
from cep.model.schema import FLOAT64, STRING, UNIT_US, DataType, Field, Schema

#: So many bad records of one call are described, the last ones; all are counted.
BAD_MAX = 10_000

_LOOK_BACK = 1 << 16  # bytes, for a line end
_SHORT = 7  # beside the errors of the kernels
_SHOWN_MAX = 40
_AGAIN = 64  # records, before lines are tried to be taken as they are once more


@dataclass(frozen=True, slots=True)
class Bad:
    """A bad record: its number within the call, where its line is in `data` (without the line end), what is wrong."""

    record: int
    offset: int
    length: int
    reason: str


@dataclass(frozen=True, slots=True)
class Parsed:
    """The good records of a call, and what else was seen.

    `columns` are the needed fields; texts are views of `data`. `records` is int64[n], the number of each row's record
    within the call, bad ones counted. `count` records were taken, good and bad, up to byte `consumed`.
    `bad` are the last ones of `bad_count`. Bad records whose event times parse move the stamp of the source: the
    greatest of those before row `bad_rows[k]` (rising; n = behind the last row) is `bad_times[k]`, for `late_among`.
    """

    columns: dict[str, Column]
    records: np.ndarray
    count: int
    consumed: int
    bad: tuple[Bad, ...]
    bad_count: int
    bad_rows: np.ndarray
    bad_times: np.ndarray

    def __len__(self) -> int:
        return len(self.records)


class TextParser:
    """Parses blocks of text. Not for two threads at once."""

    def __init__(
        self, schema: Schema, needed: tuple[Field, ...], separator: str, event_time: str | None, times: tuple[int, int] = ANY_TIME
    ) -> None:
        self.schema, self.needed, self.event_time, self.times = schema, needed, event_time, times
        self._separator = separator.encode()
        self._positions = [schema.names.index(field.name) for field in needed]
        self.kernel: Kernel = generate(_source(schema, needed, event_time, times), "text").parse
        self._bad = np.empty((BAD_MAX, 4), np.int64)
        self._word_requests = {field.name: WordsRequest() for field in needed if field.type.is_text}
        self._line_bytes = 64.0  # of the lines seen last: how many rows to expect

    @staticmethod
    def make(
        schema: Schema,
        needed: Collection[str],
        separator: str = ",",
        event_time: str | None = None,
        times: tuple[int, int] = ANY_TIME,
    ) -> TextParser:
        """A parser of the fields `needed` and of `event_time`, one that is a timestamp or None; `times`: the first and the last of these
        that a record may have.

        Raises QueryError for a separator that is not one byte or an event time of another type.
        """
        if len(separator.encode()) != 1 or separator in "\r\n":
            raise QueryError(f"separator {separator!r}: expected one ASCII character that does not end a line")
        if event_time is not None and schema[event_time].type.name != "timestamp":
            raise QueryError(f"event time {event_time!r}: expected a timestamp, got {schema[event_time].type}")
        fields = [field for field in schema.fields if field.name in needed or field.name == event_time]
        # NULL has no place in time: to the parser the field is one without NULL.
        plain = tuple(Field(f.name, f.type) if f.name == event_time else f for f in fields)
        return TextParser(schema, plain, separator, event_time, times)

    def warm(self) -> None:
        """Compiles or loads the kernels; else the first calls of `parse` and `first_time` do."""
        warm(self.kernel, gather)

    def is_packed(self, field: Field) -> bool:
        """Are its texts made words while they are parsed? They are once they have been requested: to come back to a text, its record
        no longer in the nearest cache, costs 3 to 9 ns more."""
        return field.type.is_text and self._word_requests[field.name].wanted

    def parse(self, data: np.ndarray, start: int, end: int, rows_max: int) -> Parsed:
        """Takes records of `data[start:end]`, which is whole lines, until `rows_max` (>= 1) are good.

        It may stop earlier, after at least one record. `data` is uint8[any] and must stay as it is while text columns
        are read. Raises ValueError where the last line is not ended.
        """
        if start < end and (end > len(data) or data[end - 1] != NEWLINE):
            raise ValueError(f"bytes {start} to {end} of {len(data)}: expected whole lines, the last ended by '\\n'")
        behind = 0
        if end + READABLE > len(data):
            data, start, end, behind = _room_behind(data, start, end)
        run = _Run(self, min(rows_max, 64 + int((end - start) / self._line_bytes)))
        run.parse(data, start, end)
        if run.seen:
            self._line_bytes = max(1.0, 0.9 * (run.at - start) / run.seen)
        return run.parsed(data, behind)

    def first_time(self, data: np.ndarray, start: int, end: int) -> int | None:
        """Event time of the first record of `data[start:end]` whose event time parses, µs; None if there is none."""
        while self.event_time is not None and start < end:
            parsed = self.parse(data, start, end, 1)
            if len(parsed.bad_times) and parsed.count > 1:  # of these only the greatest is known
                middle = start + int(_line_ends(data[start : parsed.consumed])[parsed.count // 2 - 1]) + 1
                first = self.first_time(data, start, middle)
                return self.first_time(data, middle, end) if first is None else first
            times = [*parsed.bad_times, *parsed.columns[self.event_time].values]
            if times:
                return int(times[0])
            start = parsed.consumed
        return None


def _line_ends(data: np.ndarray) -> np.ndarray:
    return np.flatnonzero(data == NEWLINE)


def _room_behind(data: np.ndarray, start: int, end: int) -> tuple[np.ndarray, int, int, int]:
    """(data, start, end, d): lines that have READABLE bytes behind them; d more is where they are in `data`.

    All lines but the last few and, once these are reached, a copy of them.
    """
    safe = len(data) - READABLE + 1
    low = max(start, safe - _LOOK_BACK)
    line_ends = _line_ends(data[low : max(low, safe)])
    if len(line_ends):
        return data, start, low + int(line_ends[-1]) + 1, 0
    copy = np.zeros(end - start + READABLE, np.uint8)
    copy[: end - start] = data[start:end]
    return copy, 0, end - start, start


class _Run:
    """The arrays of one call."""

    def __init__(self, parser: TextParser, capacity: int) -> None:
        self.parser, self.capacity = parser, capacity
        self.packed = [field for field in parser.needed if parser.is_packed(field)]
        self.outputs = [array for field in parser.needed for array in _outputs(field, capacity, field in self.packed)]
        self.long_bytes = np.zeros(len(parser.needed), np.int64)
        self.records = np.empty(capacity, np.int64)
        self.bad_rows, self.bad_times = np.empty(capacity + 1, np.int64), np.empty(capacity + 1, np.int64)
        reals = sum(field.type.name == "float64" for field in parser.needed)
        self.slow = np.empty((capacity * reals, 4), np.int64)
        self.rows = self.seen = self.wrong = self.timed = self.slowed = self.at = self.whole = 0

    def parse(self, data: np.ndarray, start: int, end: int) -> None:
        scratch = (self.parser._bad, self.slow, self.bad_rows, self.bad_times, self.long_bytes, self.records)
        counts = self.parser.kernel(data, start, end, ord(self.parser._separator), *scratch, *self.outputs)
        self.rows, self.seen, self.wrong, self.timed, self.slowed, self.at, self.whole = counts

    def parsed(self, data: np.ndarray, behind: int) -> Parsed:
        outputs = iter(self.outputs)
        columns = [self._column(i, field, outputs, data) for i, field in enumerate(self.parser.needed)]
        _convert_slow(columns, data, self.slow[: self.slowed])
        return Parsed(
            {field.name: column for field, column in zip(self.parser.needed, columns, strict=True)},
            self.records[: self.rows],
            self.seen,
            self.at + behind,
            tuple(_describe(self.parser, data, behind, *row) for row in self._bad_records()),
            self.wrong,
            self.bad_rows[: self.timed],
            self.bad_times[: self.timed],
        )

    def _column(self, i: int, field: Field, outputs: Iterator[np.ndarray], data: np.ndarray) -> Column:
        values = next(outputs)[: self.rows]
        if field.type.is_text:
            starts, low, high = next(outputs)[: self.rows], next(outputs)[: self.rows], next(outputs)[: self.rows]
            request = self.parser._word_requests[field.name]
            words = Words(request, low, high, int(self.long_bytes[i])) if field in self.packed else Words(request)
            return Column(field.type, values, None, data, starts, ord(self.parser._separator) if self.whole else None, words)
        valid = next(outputs)[: self.rows] if field.nullable else None
        return Column(field.type, values, None if valid is None or valid.all() else valid)

    def _bad_records(self) -> list[list[int]]:
        """The last BAD_MAX, in order, of a ring."""
        ring = self.parser._bad
        described = ring[: self.wrong] if self.wrong <= BAD_MAX else np.roll(ring, -(self.wrong % BAD_MAX), axis=0)
        rows: list[list[int]] = described.tolist()
        return rows


_DTYPES = {"bool": np.uint8, "int32": np.int32, "int64": np.int64, "timestamp": np.int64, "float64": np.float64}


def _outputs(field: Field, capacity: int, packed: bool) -> list[np.ndarray]:
    if field.type.is_text:
        low, high = np.empty((2, capacity if packed else 0), np.uint64)
        return [np.empty(capacity, np.int32), np.empty(capacity, np.int64), low, high]
    values = np.empty(capacity, _DTYPES[field.type.name])
    return [values, np.empty(capacity, np.uint8)] if field.nullable else [values]


def _convert_slow(columns: list[Column], data: np.ndarray, slow: np.ndarray) -> None:
    """Floats that the kernel found well formed but left: rows of (index of the field, row, start, stop)."""
    for index in np.unique(slow[:, 0]) if len(slow) else ():
        mine = slow[slow[:, 0] == index]
        columns[index].values[mine[:, 1]] = _floats(data, mine[:, 2], mine[:, 3])


def _floats(data: np.ndarray, starts: np.ndarray, stops: np.ndarray) -> np.ndarray:
    """Arrow converts as exactly as Python, and many at once, but refuses what is beyond the range of float64."""
    starts = starts + (data[starts] == ord("+"))
    offsets = np.zeros(len(starts) + 1, np.int32)
    np.cumsum(stops - starts, out=offsets[1:])
    body = np.empty(int(offsets[-1]), np.uint8)
    gather(data, starts, offsets, body)
    texts = pa.Array.from_buffers(pa.string(), len(starts), [None, pa.py_buffer(offsets), pa.py_buffer(body)])
    try:
        return numbers_in(pc.cast(texts, pa.float64()), np.dtype(np.float64))
    except pa.ArrowInvalid:
        return np.array([float(text) for text in texts.to_pylist()])


def _describe(parser: TextParser, data: np.ndarray, behind: int, record: int, at: int, end: int, code: int) -> Bad:
    line = data[at:end].tobytes().removesuffix(b"\r")
    fields = line.split(parser._separator)
    index, error = divmod(code, 8)
    if error == _SHORT:
        wanted = parser._positions[-1] + 1
        reason = f"expected at least {wanted} fields separated by {parser._separator.decode()!r}, got {len(fields)}"
    else:
        field = parser.needed[index]
        reason = _reason(field, error, fields[parser._positions[index]])
        if error == RANGE and field.name == parser.event_time:
            reason += f": {odd_time(parser.times)}"
    return Bad(record, at + behind, len(line), reason)


def _reason(field: Field, error: int, text: bytes) -> str:
    expected = f"field {field.name!r}: expected {field.type}"
    if error == EMPTY:
        return f"{expected}, got NULL"
    if field.type.name == "string":
        return f"{expected}, got bytes that are not UTF-8: {text[:_SHOWN_MAX]!r}"
    shown = repr(text[:_SHOWN_MAX].decode(errors="backslashreplace"))
    return f"{expected}, got {shown}" + (", which is out of its range" if error == RANGE else "")


# --- the generated kernel ---------------------------------------------------------------------------------------------

_KERNEL = '''"""Generated by cep.compile.text."""
import numpy as np
from cep.kernels.jit import kernel
from cep.kernels.tables.keys import long_room, text_words
from cep.kernels.literals import SLOW, boolean, calendar, instant_of, integer, real, small_integer
from cep.kernels.text import EMPTY, RANGE, field_end, has_return, line_end, next_mark, plain_lines, scan, text_error

@kernel(
    "UniTuple(int64, 7)(const uint8[:], int64, int64, uint8,"
    "int64[:, :], int64[:, :], int64[:], int64[:], int64[:], int64[:]{kinds})"
)
def parse(data, start, end, separator, bad, slow, bad_rows, bad_times, long_bytes, records{names}):
    at, row, seen, wrong, timed, slowed, again, whole = start, 0, 0, 0, 0, 0, 0, {are_lines}
    while at < end and row < len(records):
{lines}
        marks, newlines, highs = scan(data, at, separator)
        block, mark, slowed_before = at, at - 1, slowed
{fields}
        line = line_end(data, block, newlines & marks)
{ended}
        records[row] = seen
        short = {short}
        if short{errors}:
            place = wrong % len(bad)
            bad[place, 0], bad[place, 1], bad[place, 2] = seen, at, line
            bad[place, 3] = {shortness} if short else {code}
            wrong, slowed, whole = wrong + 1, slowed_before, 0
{time}
        else:
{words}
            row += 1
        seen += 1
        at = line + 1
    return row, seen, wrong, timed, slowed, at, whole
'''
_NEXT = "mark, ended, block, marks, newlines, highs = next_mark(data, separator, block, marks, newlines, highs)"
_TIME = """\
if error_{i} == 0:
    if timed == 0 or bad_rows[timed - 1] < row:
        bad_rows[timed], bad_times[timed] = row, values_{i}[row]
        timed += 1
    elif bad_times[timed - 1] < values_{i}[row]:
        bad_times[timed - 1] = values_{i}[row]"""
_LINES = """\
if seen >= again:
    at, plain = plain_lines(data, at, end, separator, starts_0, lengths_0, records, row, seen)
    again = seen + {again} if plain == row else 0
    for taken in range(row if len(low_0) > 0 else plain, plain):
        low_0[taken], high_0[taken] = text_words(data, starts_0[taken], np.int64(lengths_0[taken]))
        long_bytes[0] += long_room(np.int64(lengths_0[taken]))
    seen, row = seen + plain - row, plain
    if at >= end or row >= len(records):
        break"""
_WORDS = """\
if len(low_{i}) > 0:
    low_{i}[row], high_{i}[row] = text_words(data, start_{i}, stop_{i} - start_{i})
    long_bytes[{i}] += long_room(stop_{i} - start_{i})"""
_ENDED = "whole &= stop_0 == line and not has_return(data, at, line)"
_FUNCTIONS = {"bool": "boolean", "int32": "small_integer", "int64": "integer", "float64": "real"}
_TYPES = {"bool": "uint8", "timestamp": "int64"}


def _source(schema: Schema, needed: tuple[Field, ...], event_time: str | None, times: tuple[int, int]) -> str:
    """Names do not go into it, so that streams of the same types share it."""
    outputs = [output for i, field in enumerate(needed) for output in _named_outputs(i, field)]
    time = [i for i, field in enumerate(needed) if field.name == event_time]
    are_lines = len(schema.fields) == len(needed) == 1 and needed[0].type.is_text
    numbered = range(len(needed))
    return _KERNEL.format(
        kinds="".join(f", {kind}[:]" for _, kind in outputs),
        names="".join(f", {name}" for name, _ in outputs),
        are_lines=int(are_lines),
        lines=textwrap.indent(_LINES.format(again=_AGAIN), " " * 8) if are_lines else "",
        ended=" " * 8 + _ENDED if are_lines else "",
        words=textwrap.indent("\n".join(_WORDS.format(i=i) for i, field in enumerate(needed) if field.type.is_text), " " * 12),
        fields=textwrap.indent("\n".join(_walk(schema, needed, event_time, times)), " " * 8),
        short=f"start_{len(needed) - 1} > mark" if needed else "False",
        shortness=_SHORT,
        errors="".join(f" or error_{i} != 0" for i in numbered),
        code="".join(f"{8 * i} + error_{i} if error_{i} != 0 else " for i in numbered) + "0",
        time=textwrap.indent(_TIME.format(i=time[0]) if time else "pass", " " * 12),
    )


def _named_outputs(i: int, field: Field) -> list[tuple[str, str]]:
    """Arguments of the kernel, and their types, in the order of `_outputs`."""
    if field.type.is_text:
        return [(f"lengths_{i}", "int32"), (f"starts_{i}", "int64"), (f"low_{i}", "uint64"), (f"high_{i}", "uint64")]
    values = (f"values_{i}", _TYPES.get(field.type.name, field.type.name))
    return [values, (f"valid_{i}", "uint8")] if field.nullable else [values]


def _walk(schema: Schema, needed: tuple[Field, ...], event_time: str | None, times: tuple[int, int]) -> Iterator[str]:
    """Statements from the first to the last needed field of a record."""
    before = -1
    for i, field in enumerate(needed):
        position = schema.names.index(field.name)
        if position - before > 1:
            yield f"for _ in range({position - before - 1}):"
            yield f"    {_NEXT}"
        yield f"start_{i} = mark + 1"
        yield _NEXT
        yield f"stop_{i} = field_end(data, start_{i}, mark, ended)"
        yield from _text(i, field) if field.type.is_text else _value(i, field)
        if field.name == event_time:
            inside = f"{times[0]} <= values_{i}[row] <= {times[1]}"
            yield f"error_{i} = RANGE if error_{i} == 0 and not {inside} else error_{i}"
        before = position


def _text(i: int, field: Field) -> Iterator[str]:
    yield f"lengths_{i}[row], starts_{i}[row] = stop_{i} - start_{i}, start_{i}"
    # `highs` is of all blocks up to here: most text has no byte above 127 anywhere.
    yield f"error_{i} = " + (f"text_error(data, start_{i}, stop_{i}) if highs else 0" if field.type == STRING else "0")


def _value(i: int, field: Field) -> Iterator[str]:
    yield f"values_{i}[row], error_{i} = {_call(field.type, f'data, start_{i}, stop_{i}')}"
    if field.nullable:
        yield f"valid_{i}[row] = error_{i} != EMPTY"
        yield f"error_{i} = 0 if error_{i} == EMPTY else error_{i}"
    if field.type == FLOAT64:
        yield f"if error_{i} == SLOW:"
        yield f"    slow[slowed, 0], slow[slowed, 1], slow[slowed, 2], slow[slowed, 3] = {i}, row, start_{i}, stop_{i}"
        yield f"    slowed, error_{i} = slowed + 1, 0"


def _call(type_: DataType, where: str) -> str:
    if type_.name != "timestamp":
        return f"{_FUNCTIONS[type_.name]}({where})"
    return f"instant_of({where}, {UNIT_US.get(type_.unit, 0)})" if type_.unit else f"calendar({where})"
