"""JSON Lines as a source: an object a line, read by Arrow, many lines at once.

Arrow gives up all of what it reads where one line is bad. Then halves are read, and halves of these, down to the line that is. It also
takes an object wherever it finds one. But where all lines begin with '{' and end with '}', no object goes from one into the next, since no
line within an object ends and the next one begins so; and then there are as many objects as lines only if each line is one.
"""

from __future__ import annotations

import json
from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.json

from cep.compile.chain.chain import compile_chain
from cep.compile.text import Bad, Parsed
from cep.dataflow.sources.arrow_values import ArrowValues, fitting
from cep.dataflow.sources.event_time import line_parser, of_bad
from cep.dataflow.sources.lateness import in_range
from cep.dataflow.sources.lines import LineFormat, LineParser
from cep.elements import MIN_TIME
from cep.kernels.arrays import empty_batch, int64_array, text_array
from cep.kernels.columns import from_arrow, to_arrow
from cep.kernels.text import NEWLINE
from cep.model.expr import Cast, ColumnRef
from cep.model.limits import ANY_TIME, odd_time
from cep.model.operators import Map
from cep.model.schema import STRING, TIMESTAMP, DataType, Field, Schema
from cep.model.streams import JsonLinesFiles, Stream
from cep.world.store import Store

#: So much is read at once: a bad line has some of it read again, a dozen times.
PIECE_BYTES = 1 << 19
_OPEN, _CLOSE, _RETURN = b"{}\r"
_BLANKS = np.frombuffer(b" \t", np.uint8)


class JsonLinesParser:
    """A parser of lines of the fields `needed` and of `event_time`. Not for two threads at once."""

    def __init__(self, schema: Schema, needed: Collection[str], event_time: str | None, times: tuple[int, int] = ANY_TIME) -> None:
        fields = [field for field in schema.fields if field.name in needed or field.name == event_time]
        # NULL has no place in time: to the parser the field is one without NULL.
        self.fields = tuple(Field(f.name, f.type) if f.name == event_time else f for f in fields)
        self.event_time, self.times = event_time, times
        self.iso = IsoInstants()
        self._options = pyarrow.json.ParseOptions(
            explicit_schema=pa.schema([(field.name, _written(field.type)) for field in self.fields]), unexpected_field_behavior="ignore"
        )

    def warm(self) -> None:
        self.iso.of(text_array([""]))

    def parse(self, data: np.ndarray, start: int, end: int, rows_max: int) -> Parsed:
        """All lines of `data[start:end]`, however many are good."""
        lines = _Lines(data[start:end])
        found = self._taken(lines)
        good = np.ones(found.rows, bool)
        for field in self.fields:
            if (wrong := found.wrong(field)) is not None:
                good &= ~wrong
        times = self._times(found, lines)
        if self.event_time is not None:
            good &= times[lines.taken] > MIN_TIME
        kept = np.flatnonzero(good)
        records = lines.taken[kept]
        columns = {field.name: from_arrow(found.arrays[field.name], field.type) for field in self.fields}
        if len(kept) < found.rows:
            columns = {name: column.take(kept) for name, column in columns.items()}
        bad = [*self._bad(found, lines, np.flatnonzero(~good)), *lines.bad.items()]
        described = tuple(Bad(i, start + int(lines.starts[i]), lines.length(i), reason) for i, reason in sorted(bad))
        return Parsed(columns, records, len(lines.starts), end, described, len(bad), *of_bad(times, records))

    def first_time(self, data: np.ndarray, start: int, end: int) -> int | None:
        lines = _Lines(data[start:end])
        times = self._times(self._taken(lines), lines)
        times = times[times > MIN_TIME]
        return int(times[0]) if len(times) else None

    def _taken(self, lines: _Lines) -> ArrowValues:
        """The objects of the lines that are some."""
        pieces: list[pa.RecordBatch] = []
        self._read(lines, 0, len(lines.starts), pieces)
        schema = self._options.explicit_schema
        given = pa.Table.from_batches(pieces, schema).combine_chunks().to_batches() if pieces else []
        batch = given[0] if given else empty_batch(schema)
        return ArrowValues(batch, {field.name: self._fitting(batch.column(field.name), field) for field in self.fields})

    def _read(self, lines: _Lines, first: int, last: int, pieces: list[pa.RecordBatch]) -> None:
        """Lines [first, last)."""
        if first == last:
            return
        if lines.shaped[first:last].all():
            found = self._objects(lines.between(first, last), last - first)
            if isinstance(found, list):
                pieces += found
                lines.took(first, last)
                return
        if last - first == 1:
            lines.bad[first] = self._reason(lines.between(first, last))
            return
        middle = (first + last) // 2
        self._read(lines, first, middle, pieces)
        self._read(lines, middle, last, pieces)

    def _objects(self, data: pa.Buffer, wanted: int) -> list[pa.RecordBatch] | str:
        """So many; or why there are not. Without fields there is nothing to read, but lines have to be objects all the same."""
        try:
            options = pyarrow.json.ReadOptions(use_threads=False, block_size=len(data))
            table = pyarrow.json.read_json(pa.BufferReader(data), options, self._options)
            table.validate(full=True)
        except pa.ArrowInvalid as error:
            return str(error)
        rows = int(table.num_rows)
        return list(table.to_batches()) if rows == wanted else f"{rows} JSON values in {wanted} {'line' if wanted == 1 else 'lines'}"

    def _reason(self, line: pa.Buffer) -> str:
        """Why a line is bad."""
        try:
            found = json.loads(line.to_pybytes())
        except (ValueError, RecursionError) as error:
            return f"no JSON: {error}"
        if not isinstance(found, dict):
            return f"expected a JSON object, got {found!r:.100}"
        for field in self.fields:
            only = JsonLinesParser(Schema((field,)), {field.name}, None)
            if field.name in found and isinstance(only._objects(_as_line({field.name: found[field.name]}), 1), str):
                return f"field {field.name!r}: expected {field.type}, got {found[field.name]!r:.100}"
        why = self._objects(line, 1)
        return why if isinstance(why, str) else "expected a JSON object that begins and ends its line"

    def _fitting(self, given: pa.Array, field: Field) -> pa.Array:
        if field.type == TIMESTAMP:
            return self.iso.of(given)
        if field.type.element == TIMESTAMP:
            whole = given.take(int64_array(np.arange(len(given)))) if given.offset else given
            mask = whole.is_null() if whole.null_count else None
            return pa.ListArray.from_arrays(whole.offsets, self.iso.of(whole.values), field.type.arrow, mask=mask)
        return fitting(given, field)

    def _times(self, found: ArrowValues, lines: _Lines) -> np.ndarray:
        """int64: the event time of every line, MIN_TIME where it has none."""
        times = np.full(len(lines.starts), MIN_TIME, np.int64)
        field = next((field for field in self.fields if field.name == self.event_time), None)
        if field is not None:
            values = from_arrow(found.arrays[field.name], field.type).values
            timed, wrong = in_range(values, self.times), found.wrong(field)
            times[lines.taken] = np.where(timed if wrong is None else timed & ~wrong, values, MIN_TIME)
        return times

    def _bad(self, found: ArrowValues, lines: _Lines, rows: np.ndarray) -> list[tuple[int, str]]:
        bad: list[tuple[int, str]] = []
        for row in rows.tolist():
            field = found.wrong_at(self.fields, row)
            bad.append((int(lines.taken[row]), self._out_of_range(found, row) if field is None else found.reason(field, row)))
        return bad

    def _out_of_range(self, found: ArrowValues, row: int) -> str:
        field = next(field for field in self.fields if field.name == self.event_time)
        return f"{found.reason(field, row)}, which is out of its range: {odd_time(self.times)}"


class _Lines:
    """Whole lines: where they are, which have the shape of an object, and what became of them."""

    def __init__(self, data: np.ndarray) -> None:
        self.data = data
        self.stops = np.flatnonzero(data == NEWLINE)
        self.starts = np.concatenate(([0], self.stops[:-1] + 1))[: len(self.stops)]
        ends = self.stops - 1
        ends = ends - (data[np.maximum(ends, 0)] == _RETURN)
        ends = _without_blanks(data, ends, self.starts, -1)
        self.starts = _without_blanks(data, self.starts, ends, 1)
        self.shaped = (ends > self.starts) & (data[self.starts] == _OPEN) & (data[np.maximum(ends, 0)] == _CLOSE)
        self.bad: dict[int, str] = {}
        self._taken: list[np.ndarray] = []

    def between(self, first: int, last: int) -> pa.Buffer:
        return pa.py_buffer(self.data[self.starts[first] : self.stops[last - 1] + 1])

    def length(self, line: int) -> int:
        length = int(self.stops[line] - self.starts[line])
        return length - 1 if length and self.data[self.stops[line] - 1] == _RETURN else length

    def took(self, first: int, last: int) -> None:
        self._taken.append(np.arange(first, last))

    @property
    def taken(self) -> np.ndarray:
        """int64: the lines that are objects, in order."""
        return np.concatenate(self._taken) if self._taken else np.zeros(0, np.int64)


def _without_blanks(data: np.ndarray, ends: np.ndarray, limits: np.ndarray, step: int) -> np.ndarray:
    """Ends of lines without the blanks and tabs there, as far as the other ends."""
    while len(blank := np.flatnonzero((step * ends < step * limits) & np.isin(data[np.maximum(ends, 0)], _BLANKS))):
        ends = ends.copy()
        ends[blank] += step
    return ends


def _as_line(value: object) -> pa.Buffer:
    return pa.py_buffer(json.dumps(value).encode() + b"\n")


class IsoInstants:
    """Texts as instants, by the rules of casts (`docs/values.md`)."""

    def __init__(self) -> None:
        cast = Cast(ColumnRef("text"), TIMESTAMP, True)
        self.chain = compile_chain((Map("instant", "lines", (("instant", cast),)),), Schema((Field("text", STRING, True),)))

    def of(self, texts: pa.Array) -> pa.Array:
        """NULL where one is none."""
        return to_arrow(self.chain.process({"text": from_arrow(texts, STRING)}, len(texts), 0).columns["instant"])


def _written(type_: DataType) -> pa.DataType:
    """How a value is written: an instant as an integer of its unit, or without one as text in ISO 8601."""
    if type_.element is not None:
        return pa.list_(_written(type_.element))
    if type_.name == "timestamp":
        return pa.int64() if type_.unit else pa.string()
    return type_.arrow


class JsonLinesFormat(LineFormat):
    @classmethod
    def of(cls, stream: Stream, needed: Collection[str], read_bytes: int, store: Store) -> JsonLinesFormat:
        def make(fields: Collection[str], event_time: str | None) -> LineParser:
            return JsonLinesParser(stream.schema, fields, event_time, stream.times)

        files = stream.files
        assert isinstance(files, JsonLinesFiles)
        return cls(store, line_parser(stream, needed, make), files.block_bytes, min(read_bytes, PIECE_BYTES), not stream.disorder)
