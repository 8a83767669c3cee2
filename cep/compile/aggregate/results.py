"""What comes out of the tables of an aggregate: answers or partial rows, a run of entries at a time.

Passes of NumPy over columns of the entries: an emission is a few ns per row, so generating a loop for each shape, as for
what goes in, would only add to what is compiled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from cep.compile.aggregate.groups import Groups
from cep.compile.aggregate.spec import AggregateSpec, Answer
from cep.compile.aggregate.states import StatePart
from cep.compile.aggregate.statistics import about_distinct, quantiles, variances
from cep.compile.aggregate.ties import ROW, packed_column
from cep.compile.aggregate.words import round_128
from cep.elements import Batch
from cep.kernels.columns import Column, Columns
from cep.kernels.jit import Kernel, kernel
from cep.kernels.row_order import FIXED_BYTES, from_ordered
from cep.kernels.states.exact_sum import POOL_WORDS, SPILLED
from cep.kernels.states.lists import lists_of
from cep.kernels.tables.first_rows import take_rows
from cep.kernels.tables.hashing import hash64, hash_of, mix64
from cep.kernels.tables.keys import Keys, decode_keys
from cep.model.schema import BINARY, INT64, DataType, Field
from cep.model.windows import CumulateWindow

SUM_OVERFLOW = "sum overflow"
NAMES_KEPT = 4_096

Instant = int | np.ndarray


@dataclass(frozen=True)
class GroupFailure:
    """A result that could not be given, and is NULL: for the dead letters. `time` is the answer's event time."""

    operator: str
    reason: str
    group: str
    time: int


def answers_of_window(
    spec: AggregateSpec, name: str, groups: Groups, bounds: tuple[Instant, Instant], failures: list[GroupFailure]
) -> Batch:
    """The answers of a window, given by its `bounds`, for `groups`, or of a window for each; results that do not fit go to `failures`."""
    (start, end), keys = bounds, groups.keys(0)
    columns = answer_columns(spec, name, groups, (end - 1, start, end), failures, spec.decode(keys))
    known_by = end if isinstance(spec.window, CumulateWindow) else start  # several of these begin together
    origin = origins(name, keys, known_by) if spec.origin else None
    return Batch(columns, np.full(len(groups), end - 1, np.int64), origin, groups.table.created)


def answer_columns(
    spec: AggregateSpec,
    name: str,
    groups: Groups,
    times: tuple[Instant, ...],
    failures: list[GroupFailure],
    rows: Columns | None = None,
) -> dict[str, Column]:
    """The columns of the answers for `groups`. `times`: their event time, start and end of their windows, each one for all or int64[n].
    `rows`: columns of rows, one for each group, that have its key."""
    time, start, end = times
    columns = spec.decode(groups.keys(0)) if rows is None else {field.name: rows[field.name] for field in spec.by}
    for answer in spec.answers:
        columns[answer.field.name] = _result(answer, groups, start, end)
    _check_sums(spec, name, groups, columns, time, failures)
    return columns


def _result(answer: Answer, groups: Groups, start: Instant, end: Instant) -> Column:
    type_, places = answer.field.type, answer.places
    match answer.function.name:
        case "count":
            return Column(type_, groups.word(places[0]))
        case "window_start" | "window_end":
            return Column(type_, np.full(len(groups), start if answer.function.name == "window_start" else end, np.int64))
        case "sum" | "avg":
            return _total(answer, groups)
        case "min" | "max" | "first" | "last" if answer.is_time:
            return Column(type_, values_of(type_, groups.word(places[0])))
        case "min" | "max" if not type_.is_text:
            return Column(type_, values_of(type_, groups.word(places[0])), _counted(groups, places[1:]))
        case "min" | "max":
            return groups.text(places[0], answer.field)
        case "var" | "stddev" | "var_pop" | "stddev_pop":
            return variances(answer, groups)
        case "quantile" | "median":
            return quantiles(answer, groups)
        case "count_distinct":
            return Column(type_, groups.word(places[0] + 2))
        case "approx_count_distinct":
            return about_distinct(answer, groups)
        case "collect":
            return _collected(answer, groups)
        case "first" | "last" | "arg_min" | "arg_max":
            return _of_a_row(answer, groups)
    raise TypeError(f"nothing answers {answer.function.name!r}; say here what comes of its states")


def _collected(answer: Answer, groups: Groups) -> Column:
    """Lists of the values in the slots of blocks."""
    state, column = answer.records, answer.column
    assert state is not None and column is not None
    counts = groups.word(answer.places[0] + 2)
    slots = np.empty((int(counts.sum()), 2), np.int64)
    width, table = groups.table.width, groups.table
    take_rows(table.entries, groups.start * width + answer.places[0], width, table.arena, state.slot, slots)
    words = slots.view(np.uint64)
    if state.column.type.is_bytes:
        elements = decode_keys(Keys(words[:, 0].copy(), words[:, 1].copy(), table.arena), (state.column,))[state.column.name]
        elements = packed_column(elements, answer.row, column.name) if answer.row else elements
    else:
        elements = Column(column.type, values_of(column.type, slots[:, 1].copy()), slots[:, 0].astype(np.uint8))
    return lists_of(elements, np.concatenate([[0], np.cumsum(counts)]))


def _of_a_row(answer: Answer, groups: Groups) -> Column:
    """FIRST, LAST, ARG_MIN and ARG_MAX."""
    type_, place = answer.field.type, answer.places[0]
    if answer.row:
        assert answer.column is not None
        return packed_column(_blank_where_null(groups.text(place, ROW), answer.row), answer.row, answer.column.name)
    if type_.is_bytes:
        return groups.text(place, answer.field)
    if not answer.field.nullable:
        return Column(type_, values_of(type_, groups.word(place)))
    return Column(type_, values_of(type_, groups.word(place + 1)), groups.word(place).astype(np.uint8))


def _blank_where_null(rows: Column, fields: tuple[Field, ...]) -> Column:
    """ROW, a row of NULLs in place of no row: bytes that are 0."""
    if rows.valid is None:
        return rows
    assert rows.starts is not None and rows.data is not None
    starts = np.where(rows.valid, rows.starts, len(rows.data))
    return Column(BINARY, rows.values, None, np.append(rows.data, np.zeros(FIXED_BYTES * len(fields), np.uint8)), starts)


def _total(answer: Answer, groups: Groups) -> Column:
    type_, place, valid = answer.field.type, answer.places[0], _counted(groups, answer.places[1:])
    if answer.column is not None and answer.column.type.name == "float64":
        total = groups.exact(place)
    else:
        low, high = groups.word(place), groups.word(place + 1)
        if answer.may_overflow:
            fits = high == low >> 63
            return Column(type_, low, _and(valid, fits))
        total = np.empty(len(groups), np.float64)
        round_128(low, high, total)
    if answer.function.name == "avg":
        with np.errstate(invalid="ignore", divide="ignore"):  # of no values: NULL
            total = total / groups.word(answer.places[1])
        valid = valid if answer.field.nullable else None
    return Column(type_, total, valid)


def _counted(groups: Groups, places: Sequence[int]) -> np.ndarray | None:
    """uint8[n]: were there values that are not NULL? None where all had, or nothing counts them (`places` is empty)."""
    return _and(None, groups.word(places[0]) > 0) if places else None


def _and(valid: np.ndarray | None, also: np.ndarray) -> np.ndarray | None:
    if np.count_nonzero(also) == len(also):
        return valid
    return also.astype(np.uint8) if valid is None else valid & also


def values_of(type_: DataType, words: np.ndarray) -> np.ndarray:
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
    time: Instant,
    failures: list[GroupFailure],
) -> None:
    for answer in spec.answers:
        if not answer.may_overflow or columns[answer.field.name].valid is None:
            continue  # all there are fit
        low, high = groups.word(answer.places[0]), groups.word(answer.places[0] + 1)
        fails = np.flatnonzero(high != low >> 63).tolist()
        times = np.broadcast_to(time, len(groups))
        failures += [GroupFailure(name, SUM_OVERFLOW, describe_group(columns, spec.by, row), int(times[row])) for row in fails]


def describe_group(columns: dict[str, Column], by: tuple[Field, ...], row: int) -> str:
    """The group of `row` for a person to read: `ip='10.0.0.1', port=80`."""
    return ", ".join(f"{field.name}={_shown(_value(columns[field.name], row))}" for field in by) or "all rows"


def listed(groups: Sequence[str]) -> str:
    """Several of them: `ip='10.0.0.1' (12 rows); ip='10.0.0.2' (3 rows)`."""
    return "; ".join(groups) or "none"


def describe_row(columns: Mapping[str, Column], row: int, bytes_max: int) -> str:
    """The values of `row` for a person to read, at most about `bytes_max` bytes: `ip='10.0.0.1', n=3`; lists are named only."""
    found = ((name, column, _value(column, row, bytes_max)) for name, column in columns.items())
    values = ", ".join(
        f"{name}=[...]" if column.type.is_list and value is not None else f"{name}={_shown(value)}" for name, column, value in found
    )
    return values.encode()[:bytes_max].decode(errors="ignore")


def _shown(value: object) -> str:
    return "NULL" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)


def _value(column: Column, row: int, bytes_max: int | None = None) -> object:
    """Of a text as many bytes."""
    if column.valid is not None and not column.valid[row]:
        return None
    if not column.type.is_text:
        return column.values[row].item()
    assert column.starts is not None and column.data is not None
    start, size = int(column.starts[row]), int(column.values[row])
    body = column.data[start : start + (size if bytes_max is None else min(size, bytes_max))].tobytes()
    return body if column.type == BINARY else body.decode(errors="replace")


def origins(name: str, keys: Keys, window_start: Instant) -> np.ndarray:
    """Origins of answers, int64[n, 2]: the hash of (operator name, key, window start), and window start (rule 4.5).

    A hash is negative and a source's index is not, so that a query that reads these rows can tell (`cep.dataflow.sources.query_source`).
    """
    out = np.empty((len(keys), 2), np.int64)
    out[:, 1] = window_start
    _hash_origins(keys.w0, keys.w1, _hash_of_name(name), out)
    return out


@lru_cache(NAMES_KEPT)
def _hash_of_name(name: str) -> np.uint64:
    return np.uint64(hash_of(np.frombuffer(name.encode(), np.uint8)))


_NEGATIVE = np.uint64(1 << 63)


@kernel("void(const uint64[:], const uint64[:], uint64, int64[:, :])")
def _hash_origins(w0: np.ndarray, w1: np.ndarray, name: int, out: np.ndarray) -> None:
    for i in range(len(w0)):
        out[i, 0] = np.int64(mix64(mix64(hash64(w0[i], w1[i]), np.uint64(name)), np.uint64(out[i, 1])) | _NEGATIVE)


def answer_kernels(spec: AggregateSpec) -> tuple[Kernel, ...]:
    """What making answers runs."""
    averaged = any(answer.function.name == "avg" for answer in spec.answers)
    return (round_128,) * averaged + (hash_of, _hash_origins) * spec.origin


# --- partial rows ----------------------------------------------------------------------------------------------------


def partial_columns(spec: AggregateSpec, groups: Groups) -> dict[str, Column]:
    """`groups` as columns of `spec.partial_schema`."""
    fields = spec.partial_schema.fields[len(spec.by) :]
    words = (column for place, part in spec.parts for column in _words(part, place, groups))
    return spec.decode(groups.keys(0)) | {field.name: column for field, column in zip(fields, words, strict=True)}


def _words(part: StatePart, place: int, groups: Groups) -> Iterator[Column]:
    match part.kind:
        case "text":
            yield groups.text(place, Field("", part.type, True))
        case "block":
            yield Column(INT64, groups.word(place + 2))
            yield groups.block(place, part)
        case _:
            for k in range(part.words):
                yield Column(INT64, groups.word(place + k))
    if part.kind == "sum":
        yield spilled(groups, place)


def spilled(groups: Groups, place: int) -> Column:
    """The words of sums that have spilled, NULL where they have not."""
    spilled = (groups.word(place) & SPILLED) != 0
    rows = groups.word(place + 1)[spilled]
    lengths = np.where(spilled, 8 * POOL_WORDS, 0).astype(np.int32)
    starts = np.cumsum(lengths, dtype=np.int64) - lengths
    return Column(BINARY, lengths, spilled.view(np.uint8), groups.table.pool[rows].reshape(-1).view(np.uint8), starts)
