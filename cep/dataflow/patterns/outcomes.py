"""What comes of a pattern's ways as batches: matches, starts that timed out, rows in no match. Each has the columns of all three, and says
in `out` which it is; a branch reads its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from cep.compile.aggregate.results import GroupFailure, describe_group, origins
from cep.compile.patterns.groups import Emitted
from cep.compile.patterns.measures import Measures
from cep.dataflow.dead_letters import DeadLetters, Letter
from cep.dataflow.operators.operator import put_overflows
from cep.dataflow.patterns.kept_rows import KeptRows
from cep.dataflow.state.merging import ROWS_MAX
from cep.elements import Batch
from cep.kernels.arrays import int64_array, text_array
from cep.kernels.columns import Column, Columns, from_arrow, nulls
from cep.kernels.patterns import places
from cep.kernels.patterns.columns import begins_of, order_together, told_by_rows
from cep.kernels.tables.group_numbers import GroupNumbers
from cep.kernels.tables.hashing import fold_origins
from cep.kernels.tables.keys import empty_keys, encode_keys
from cep.model.expr import RowRef
from cep.model.operators import PatternWays
from cep.model.operators.pattern_ways import ALL_ROWS, MATCH_NUMBER, OUT, VARIABLE
from cep.model.patterns.checks import ALL
from cep.model.patterns.refs import as_written, column_of, of_input, of_match, ref_field
from cep.model.schema import BOOL, INT32, INT64, STRING, Field, Schema


class Outcomes:
    """`pattern`: its name. `schema`: of rows, whose origins have `words` words. `numbers` has the keys of groups, `kept` the rows of
    matches."""

    def __init__(
        self,
        operator: PatternWays,
        pattern: str,
        schema: Schema,
        words: int,
        numbers: GroupNumbers,
        kept: KeptRows,
        dead_letters: DeadLetters,
    ) -> None:
        self.operator, self.pattern, self.schema, self.words = operator, pattern, schema, words
        self.numbers, self.kept, self.dead_letters = numbers, kept, dead_letters
        self.by = numbers.by
        #: Is all that comes out matches, each by itself, of which measures alone are told? And has a row its group's keys as they are?
        self._matches_alone = operator.matches != ALL and not operator.whole_rows and not operator.timed_out
        self._keys_of_rows = all(field.type in (BOOL, INT32, INT64) for field in self.by)
        self.measures = Measures(pattern, operator.refs, schema, {name: i for i, (name, _) in enumerate(operator.define)})

    def of(self, emitted: Emitted, batch: Batch | None) -> Iterator[Batch]:
        """`batch`: what lines are by row of."""
        if self._matches_alone and batch is not None and (made := self._by_rows(emitted, batch)) is not None:
            yield from _pieces(made)
            return
        kinds = emitted.lines[:, places.KIND].copy()
        for kind in (places.MATCH, places.TIMED_OUT, places.UNMATCHED):
            mine = kinds == kind
            if not mine.any():
                continue
            yield from _pieces(self._of_kind(kind, emitted if mine.all() else _only(emitted, np.flatnonzero(mine)), batch))

    def _by_rows(self, emitted: Emitted, batch: Batch) -> Batch | None:
        """Of matches alone, which rows have decided: the same in one pass over the lines. None: time has decided some."""
        assert batch.origin is not None
        n = len(emitted)
        (time, rows), origin = np.empty((2, n), np.int64), np.empty((n, self.words + 1), np.int64)
        if told_by_rows(emitted.lines, np.ascontiguousarray(batch.origin), time, rows, origin):
            return None
        if self._keys_of_rows:
            keys: Columns = {field.name: batch.columns[field.name].take(rows) for field in self.by}
        else:
            keys = self.numbers.columns_of(emitted.lines[:, places.OF_GROUP])
        own = {of_input(name): column for name, column in keys.items()}
        return self._batch(places.MATCH, {**own, **self._measured(emitted)}, time, origin)

    def _of_kind(self, kind: int, emitted: Emitted, batch: Batch | None) -> Batch:
        if kind == places.UNMATCHED:
            return self._unmatched(emitted)
        begins = np.empty(len(emitted) + 1, np.int64)
        begins_of(emitted.rows, begins)
        ordinals = self._ordinals(emitted, begins) if kind == places.MATCH else np.zeros(len(emitted), np.int64)
        read = self._measured(emitted)
        keys = self.numbers.columns_of(emitted.lines[:, places.OF_GROUP])
        origin = self._origins(emitted, batch if kind == places.MATCH else None, keys)
        if kind == places.MATCH and self.operator.rows == ALL_ROWS:
            return self._all_rows(emitted, begins, ordinals, read, origin)
        columns = self._whole(emitted.rows[begins[1:] - 1, 1]) if self.operator.whole_rows else {}
        columns |= {of_input(name): column for name, column in keys.items()} if self.operator.rows != ALL_ROWS else {}
        origin[:, -1] = ordinals << 32
        return self._batch(kind, {**columns, **read}, emitted.lines[:, places.AT].copy(), origin)

    def _all_rows(self, emitted: Emitted, begins: np.ndarray, ordinals: np.ndarray, read: dict[str, Column], origin: np.ndarray) -> Batch:
        matches = emitted.rows[:, 0]
        names = text_array([name for name, _ in self.operator.define]).take(int64_array(emitted.rows[:, 2]))
        more = {
            VARIABLE: from_arrow(names, STRING),
            MATCH_NUMBER: Column(INT64, emitted.lines[matches, places.NUMBER]),
        }
        columns = {**self._whole(emitted.rows[:, 1]), **{name: column.take(matches) for name, column in read.items()}, **more}
        origin = origin.take(matches, axis=0)
        origin[:, -1] = ordinals[matches] << 32 | (np.arange(len(matches)) - begins[matches])
        return self._batch(places.MATCH, columns, emitted.lines[matches, places.AT], origin)

    def _unmatched(self, emitted: Emitted) -> Batch:
        rows, n = emitted.lines[:, places.FIRST_ROW], len(emitted)
        empty = {of_match(ref): _nothing(ref_field(ref, self.schema), n) for ref in self.operator.refs}
        origin = np.column_stack([self.kept.origins(rows), np.full(n, -1)])
        return self._batch(places.UNMATCHED, {**self._whole(rows), **empty}, emitted.lines[:, places.AT].copy(), origin)

    def _batch(self, kind: int, columns: dict[str, Column], time: np.ndarray, origin: np.ndarray) -> Batch:
        n = len(time)
        if self.operator.rows == ALL_ROWS and VARIABLE not in columns:
            columns |= {VARIABLE: nulls(STRING, n), MATCH_NUMBER: nulls(INT64, n)}
        return Batch({OUT: Column(INT64, np.full(n, kind)), **columns}, time, origin)

    def _whole(self, rows: np.ndarray) -> dict[str, Column]:
        return {of_input(name): column for name, column in self.kept.columns(rows, self.kept.schema.names).items()}

    def _ordinals(self, emitted: Emitted, begins: np.ndarray) -> np.ndarray:
        """Of matches that are decided together each one's number, by their rows, then variables; `NUMBER` follows that order."""
        lines = emitted.lines
        if self.operator.matches == ALL and lines[:, places.TOGETHER].any():
            together = np.ascontiguousarray(lines[:, places.TOGETHER])
            order, room = np.empty((2, len(lines)), np.int64)
            order_together(emitted.rows, begins, together, order, room)
            for word in (places.NUMBER, places.TOGETHER):
                lines[order, word] = lines[:, word].copy()
        return lines[:, places.TOGETHER]

    def _origins(self, emitted: Emitted, batch: Batch | None, keys: Columns) -> np.ndarray:
        """int64[n, words + 1], whose last word is to be given: that of the row by which each was decided, or what time decided, a hash."""
        by_row = emitted.lines[:, places.BY_ROW].copy()
        by_time = by_row < 0 if batch is not None else np.ones(len(emitted), bool)
        if not by_time.any():
            found = np.empty((len(emitted), self.words + 1), np.int64)
            assert batch is not None and batch.origin is not None
            found[:, : self.words] = batch.origin.take(by_row, axis=0)
            return found
        found = np.full((len(emitted), self.words + 1), -1)
        if by_time.all():
            found[:, :2] = self._origins_of_time(emitted.lines, keys)
            return found
        assert batch is not None and batch.origin is not None
        times = np.flatnonzero(by_time)
        found[:, : self.words] = batch.origin.take(np.maximum(by_row, 0), axis=0)
        found[times] = -1
        some = {name: column.take(times) for name, column in keys.items()}
        found[times, :2] = self._origins_of_time(emitted.lines.take(times, axis=0), some)
        return found

    def _origins_of_time(self, lines: np.ndarray, keys: Columns) -> np.ndarray:
        """Of what time decided."""
        encoded = encode_keys(keys, self.by) if self.by else empty_keys(len(lines))
        hashed = origins(self.pattern, encoded, lines[:, places.FIRST_TIME])
        return fold_origins(hashed, self.kept.origins(lines[:, places.FIRST_ROW]))

    def _measured(self, emitted: Emitted) -> dict[str, Column]:
        read, failures, more = self.measures.of(emitted, self.kept.column, self.kept.columns)
        if failures or more:
            put_overflows(self.pattern, self.dead_letters, [self._named(each, emitted) for each in failures], more)
        return read

    def _named(self, failure: GroupFailure, emitted: Emitted) -> GroupFailure:
        """`failure` of a match, with the match's group and time."""
        line = emitted.lines[int(failure.group.rpartition("=")[2])]
        keys = self.numbers.columns_of(line[places.OF_GROUP : places.OF_GROUP + 1])
        return replace(failure, group=describe_group(keys, self.by, 0), time=int(line[places.AT]))


def _pieces(batch: Batch) -> Iterator[Batch]:
    for start in range(0, len(batch), ROWS_MAX):
        yield batch if len(batch) <= ROWS_MAX else batch.take(slice(start, start + ROWS_MAX))


def _only(emitted: Emitted, mine: np.ndarray) -> Emitted:
    """Those of `emitted` whose numbers are `mine`, int64[m] ascending."""
    numbers = np.full(len(emitted), -1)
    numbers[mine] = np.arange(len(mine))
    rows = emitted.rows[numbers[emitted.rows[:, 0]] >= 0].copy()
    rows[:, 0] = numbers[rows[:, 0]]
    return Emitted(emitted.lines[mine], rows)


def _nothing(field: Field, n: int) -> Column:
    return nulls(field.type, n) if field.nullable else Column(field.type, np.zeros(n, np.int64))


class BranchLetters(DeadLetters):
    """The letters of a branch, put among `letters` in users' words: `columns` has what the ways call what measures read of a match
    (`refs`), and columns of the input."""

    def __init__(self, letters: DeadLetters, refs: Sequence[RowRef], columns: Sequence[str]) -> None:
        super().__init__()
        self.whole, self.refs = letters, refs
        self.columns = {name: own for name in columns if (own := column_of(name)) is not None}

    @property
    def takes_values(self) -> bool:
        return self.whole.takes_values

    def put(self, letter: Letter) -> None:
        record = letter.record.partition(", ")[2] if letter.record.startswith(f"{OUT}=") else letter.record
        for name, own in self.columns.items():
            record = f", {record}".replace(f", {name}=", f", {own}=").removeprefix(", ")
        reason, record = (as_written(text, self.refs) for text in (letter.reason, record))
        self.whole.put(replace(letter, reason=reason, record=record))

    def count_only(self, operator: str, rows: int) -> None:
        self.whole.count_only(operator, rows)
