"""What comes out of the tables of an aggregate: answers or partial rows, a run of entries at a time.

Passes of NumPy over columns of the entries: an emission is a few ns per row, so generating a loop for each shape, as for
what goes in, would only add to what is compiled.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cep.compile.aggregate_spec import AggregateSpec, Answer
from cep.compile.aggregate_states import FloatSum, State, TextEdge, TextExtreme
from cep.compile.aggregate_ties import ROW, column_of
from cep.compile.aggregate_words import round_128
from cep.elements import Batch
from cep.kernels.columns import Column
from cep.kernels.exact_sum import POOL_WORDS, SPILLED, round_exact
from cep.kernels.hashing import LONG, hash64, hash_of, mix64
from cep.kernels.jit import kernel
from cep.kernels.keys import Keys, decode_keys
from cep.kernels.row_order import from_ordered
from cep.kernels.table import Table
from cep.model.schema import BINARY, INT64, DataType, Field

SUM_OVERFLOW = "sum overflow"

_TOP, _OFFSET = np.uint64(56), np.uint64((1 << 56) - 1)


@dataclass(frozen=True)
class GroupFailure:
    """A result that could not be given, and is NULL: for the dead letters. `time` is the answer's event time."""

    operator: str
    reason: str
    group: str
    time: int


@dataclass(frozen=True)
class Groups:
    """Entries `start` to `stop` of a table."""

    table: Table
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def word(self, place: int) -> np.ndarray:
        """One word of each entry, int64[n]; a copy."""
        return self.table.matrix[self.start : self.stop, place].copy()

    def keys(self, place: int) -> Keys:
        """The key, or text, in the two words at `place`, with just the bytes it needs."""
        low, high = self.word(place).view(np.uint64), self.word(place + 1).view(np.uint64)
        long = np.flatnonzero((high >> _TOP) == LONG)
        if not len(long):
            return Keys(low, high, self.table.arena[:0])
        offsets = (high[long] & _OFFSET).astype(np.int64)
        first, last = int(offsets.min()), int(offsets.max())
        length = int(self.table.arena[last : last + 4].view(np.uint32)[0])
        high[long] -= np.uint64(first)
        return Keys(low, high, self.table.arena[first : last + 4 + length].copy())

    def text(self, place: int, field: Field) -> Column:
        return decode_keys(self.keys(place), (field,))[field.name]

    def exact(self, place: int) -> np.ndarray:
        """Exact sums rounded, float64[n]."""
        out = np.empty(len(self), np.int64)
        width = self.table.width
        round_exact(self.table.entries, self.start * width + place, width, self.table.pool, out)
        return out.view(np.float64)


def answers(spec: AggregateSpec, name: str, groups: Groups, window_start: int, failures: list[GroupFailure]) -> Batch:
    """The answers of a window for `groups`; results that do not fit go to `failures`."""
    end = window_start + spec.window.size
    keys = groups.keys(0)
    columns = decode_keys(keys, spec.by)
    for answer in spec.answers:
        columns[answer.field.name] = _result(answer, groups, window_start, end)
    _check_sums(spec, name, groups, columns, end - 1, failures)
    origin = origins(name, keys, window_start) if spec.origin else None
    return Batch(columns, np.full(len(groups), end - 1, np.int64), origin, groups.table.created)


def _result(answer: Answer, groups: Groups, start: int, end: int) -> Column:
    type_ = answer.field.type
    match answer.function:
        case "count":
            return Column(type_, groups.word(answer.place))
        case "window_start" | "window_end":
            return Column(type_, np.full(len(groups), start if answer.function == "window_start" else end, np.int64))
        case "sum" | "avg":
            return _total(answer, groups)
        case "min" | "max" | "first" | "last" if answer.is_time:
            return Column(type_, _values(type_, groups.word(answer.place)))
        case "min" | "max" if not type_.is_text:
            return Column(type_, _values(type_, groups.word(answer.place)), _has_values(answer, groups))
        case "min" | "max":
            return groups.text(answer.place, answer.field)
        case _ if answer.row:
            return column_of(groups.text(answer.place + 3, ROW), answer.row, answer.column)
        case _ if type_.is_bytes:
            return groups.text(answer.place + 3, answer.field)
        case _:
            valid = groups.word(answer.place + 3).astype(np.uint8) if answer.field.nullable else None
            return Column(type_, _values(type_, groups.word(answer.place + 4)), valid)


def _total(answer: Answer, groups: Groups) -> Column:
    type_, valid = answer.field.type, _has_values(answer, groups)
    if answer.type is not None and answer.type.name == "float64":
        total = groups.exact(answer.place)
    else:
        low, high = groups.word(answer.place), groups.word(answer.place + 1)
        if answer.function == "sum":
            fits = high == low >> 63
            return Column(type_, low, _and(valid, fits))
        total = np.empty(len(groups), np.float64)
        round_128(low, high, total)
    if answer.function == "avg":
        assert answer.count is not None
        with np.errstate(invalid="ignore", divide="ignore"):  # of no values: NULL
            total = total / groups.word(answer.count)
        valid = valid if answer.field.nullable else None
    return Column(type_, total, valid)


def _has_values(answer: Answer, groups: Groups) -> np.ndarray | None:
    """uint8[n]: were there values that are not NULL? None where all had."""
    return None if answer.count is None else _and(None, groups.word(answer.count) > 0)


def _and(valid: np.ndarray | None, also: np.ndarray) -> np.ndarray | None:
    if also.all():
        return valid
    return also.astype(np.uint8) if valid is None else valid & also


def _values(type_: DataType, words: np.ndarray) -> np.ndarray:
    """From an int64 that sorts as the value does to the value."""
    match type_.name:
        case "float64":
            return from_ordered(words)
        case "int32":
            return words.astype(np.int32)
        case "bool":
            return words.astype(np.uint8)
        case _:
            return words


def _check_sums(
    spec: AggregateSpec,
    name: str,
    groups: Groups,
    columns: dict[str, Column],
    time: int,
    failures: list[GroupFailure],
) -> None:
    for answer in spec.answers:
        if answer.function == "sum" and answer.field.type == INT64:
            low, high = groups.word(answer.place), groups.word(answer.place + 1)
            for row in np.flatnonzero(high != low >> 63).tolist():
                failures.append(GroupFailure(name, SUM_OVERFLOW, describe(columns, spec.by, row), time))


def describe(columns: dict[str, Column], by: tuple[Field, ...], row: int) -> str:
    """The group of `row` for a person to read: `ip='10.0.0.1', port=80`."""
    return ", ".join(f"{field.name}={_value(columns[field.name], row)!r}" for field in by) or "all rows"


def _value(column: Column, row: int) -> object:
    if column.valid is not None and not column.valid[row]:
        return None
    if not column.type.is_text:
        return column.values[row].item()
    assert column.starts is not None and column.data is not None
    start = int(column.starts[row])
    body = column.data[start : start + int(column.values[row])].tobytes()
    return body if column.type == BINARY else body.decode()


def origins(name: str, keys: Keys, window_start: int) -> np.ndarray:
    """Origins of answers, int64[n, 2]: the hash of (operator name, key, window start), and window start (DESIGN 4.5)."""
    out = np.empty((len(keys), 2), np.int64)
    _origins(keys.w0, keys.w1, np.uint64(hash_of(np.frombuffer(name.encode(), np.uint8))), window_start, out)
    return out


@kernel("void(const uint64[:], const uint64[:], uint64, int64, int64[:, :])")
def _origins(w0: np.ndarray, w1: np.ndarray, name: int, start: int, out: np.ndarray) -> None:
    for i in range(len(w0)):
        out[i, 0] = np.int64(mix64(mix64(hash64(w0[i], w1[i]), np.uint64(name)), np.uint64(np.int64(start))))
        out[i, 1] = start


# --- partial rows ----------------------------------------------------------------------------------------------------


def partials(spec: AggregateSpec, groups: Groups, pane_end: int) -> Batch:
    """The partial rows of a pane for `groups`, at event time pane end - 1."""
    columns = partial_columns(spec, groups)
    return Batch(columns, np.full(len(groups), pane_end - 1, np.int64), None, groups.table.created)


def partial_columns(spec: AggregateSpec, groups: Groups) -> dict[str, Column]:
    """`groups` as columns of `spec.partial_schema`."""
    fields = spec.partial_schema.fields[len(spec.by) :]
    words = (column for state, place in spec.places.items() for column in _words(state, place, groups))
    return decode_keys(groups.keys(0), spec.by) | {field.name: column for field, column in zip(fields, words, strict=True)}


def _words(state: State, place: int, groups: Groups) -> Iterator[Column]:
    for k in range(state.words if state.text is None else state.text):
        yield Column(INT64, groups.word(place + k))
    if isinstance(state, TextExtreme | TextEdge):
        yield groups.text(place + state.text, Field("", state.column.type, True))
    if isinstance(state, FloatSum):
        yield _spilled(groups, place)


def _spilled(groups: Groups, place: int) -> Column:
    """The words of sums that have spilled, NULL where they have not."""
    spilled = (groups.word(place) & SPILLED) != 0
    rows = groups.word(place + 1)[spilled]
    lengths = np.where(spilled, 8 * POOL_WORDS, 0).astype(np.int32)
    starts = np.cumsum(lengths, dtype=np.int64) - lengths
    return Column(BINARY, lengths, spilled.view(np.uint8), groups.table.pool[rows].reshape(-1).view(np.uint8), starts)
