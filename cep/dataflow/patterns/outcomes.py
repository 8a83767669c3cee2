"""What comes of a pattern's ways as batches: matches, starts that timed out, rows in no match. Each has the columns of all three, and says
in `out` which it is; a branch reads its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from cep.compile.aggregate.results import GroupFailure, describe_group, origins
from cep.compile.patterns.groups import Emitted
from cep.compile.patterns.measures import Measures
from cep.dataflow.dead_letters import DeadLetters
from cep.dataflow.operators.operator import put_overflows
from cep.dataflow.patterns.kept_rows import KeptRows
from cep.elements import Batch
from cep.kernels.columns import Column, from_arrow, nulls
from cep.kernels.patterns import places
from cep.kernels.tables.group_numbers import GroupNumbers
from cep.kernels.tables.hashing import fold_origins
from cep.kernels.tables.keys import empty_keys, encode_keys
from cep.model.operators import PatternWays
from cep.model.operators.pattern_ways import ALL_ROWS, MATCH_NUMBER, OUT, VARIABLE
from cep.model.patterns.checks import ALL
from cep.model.patterns.refs import of_input, of_match, ref_field
from cep.model.schema import INT64, STRING, Field, Schema


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
        self.measures = Measures(pattern, operator.refs, schema, {name: i for i, (name, _) in enumerate(operator.define)})

    def of(self, emitted: Emitted, batch: Batch | None) -> Iterator[Batch]:
        """`batch`: what lines are by row of."""
        for kind in (places.MATCH, places.TIMED_OUT, places.UNMATCHED):
            mine = np.flatnonzero(emitted.lines[:, places.KIND] == kind)
            if len(mine) == len(emitted):
                yield self._of_kind(kind, emitted, batch)
            elif len(mine):
                numbers = np.full(len(emitted), -1)
                numbers[mine] = np.arange(len(mine))
                rows = emitted.rows[numbers[emitted.rows[:, 0]] >= 0].copy()
                rows[:, 0] = numbers[rows[:, 0]]
                yield self._of_kind(kind, Emitted(emitted.lines[mine], rows), batch)

    def _of_kind(self, kind: int, emitted: Emitted, batch: Batch | None) -> Batch:
        if kind == places.UNMATCHED:
            return self._unmatched(emitted)
        ordinals = self._ordinals(emitted) if kind == places.MATCH else np.zeros(len(emitted), np.int64)
        read = self._measured(emitted)
        origin = self._origins(emitted, batch if kind == places.MATCH else None)
        if kind == places.MATCH and self.operator.rows == ALL_ROWS:
            return self._all_rows(emitted, ordinals, read, origin)
        lasts = emitted.rows[np.cumsum(np.bincount(emitted.rows[:, 0], minlength=len(emitted))) - 1, 1]
        columns = self._whole(lasts) if self.operator.whole_rows else {}
        keys = self.numbers.columns_of(emitted.lines[:, places.OF_GROUP])
        columns |= {of_input(name): column for name, column in keys.items()} if self.operator.rows != ALL_ROWS else {}
        return self._batch(kind, {**columns, **read}, emitted.lines[:, places.AT], np.column_stack([origin, ordinals << 32]))

    def _all_rows(self, emitted: Emitted, ordinals: np.ndarray, read: dict[str, Column], origin: np.ndarray) -> Batch:
        matches = emitted.rows[:, 0]
        firsts = np.concatenate([[0], np.cumsum(np.bincount(matches, minlength=len(emitted)))[:-1]])
        ordinals = ordinals[matches] << 32 | (np.arange(len(matches)) - firsts[matches])
        names = pa.array([name for name, _ in self.operator.define], pa.string()).take(pa.array(emitted.rows[:, 2]))
        more = {
            VARIABLE: from_arrow(names, STRING),
            MATCH_NUMBER: Column(INT64, emitted.lines[matches, places.NUMBER]),
        }
        columns = {**self._whole(emitted.rows[:, 1]), **{name: column.take(matches) for name, column in read.items()}, **more}
        time = emitted.lines[matches, places.AT]
        return self._batch(places.MATCH, columns, time, np.column_stack([origin[matches], ordinals]))

    def _unmatched(self, emitted: Emitted) -> Batch:
        rows, n = emitted.lines[:, places.FIRST_ROW], len(emitted)
        origin = self.kept.take(rows, ()).origin
        assert origin is not None
        empty = {of_match(ref): _nothing(ref_field(ref, self.schema), n) for ref in self.operator.refs}
        ordinals = np.full(n, -1)
        return self._batch(
            places.UNMATCHED, {**self._whole(rows), **empty}, emitted.lines[:, places.AT], np.column_stack([origin, ordinals])
        )

    def _batch(self, kind: int, columns: dict[str, Column], time: np.ndarray, origin: np.ndarray) -> Batch:
        n = len(time)
        if self.operator.rows == ALL_ROWS and VARIABLE not in columns:
            columns |= {VARIABLE: nulls(STRING, n), MATCH_NUMBER: nulls(INT64, n)}
        return Batch({OUT: Column(INT64, np.full(n, kind)), **columns}, np.ascontiguousarray(time), np.ascontiguousarray(origin))

    def _whole(self, rows: np.ndarray) -> dict[str, Column]:
        columns = self.kept.take(rows, self.kept.schema.names).columns
        return {of_input(name): column for name, column in columns.items()}

    def _ordinals(self, emitted: Emitted) -> np.ndarray:
        """Of matches that are decided together each one's number, by their rows, then variables; `NUMBER` follows that order."""
        lines = emitted.lines
        if self.operator.matches == ALL and lines[:, places.TOGETHER].any():
            event = np.cumsum(lines[:, places.TOGETHER] == 0)
            ends = np.cumsum(np.bincount(emitted.rows[:, 0], minlength=len(lines)))[:-1]
            taken = [(rows[:, 3].tolist(), rows[:, 2].tolist()) for rows in np.split(emitted.rows, ends)]
            order = np.array(sorted(range(len(lines)), key=lambda i: (int(event[i]), *taken[i])))
            for word in (places.NUMBER, places.TOGETHER):
                lines[order, word] = lines[:, word].copy()
        return lines[:, places.TOGETHER]

    def _origins(self, emitted: Emitted, batch: Batch | None) -> np.ndarray:
        """int64[n, words - 1]: that of the row by which each was decided, or what time decided, a hash."""
        found = np.full((len(emitted), self.words), -1)
        by_row = emitted.lines[:, places.BY_ROW]
        rows = np.flatnonzero(by_row >= 0) if batch is not None else np.empty(0, np.int64)
        if len(rows):
            assert batch is not None and batch.origin is not None
            found[rows, : batch.origin.shape[1]] = batch.origin[by_row[rows]]
        times = np.delete(np.arange(len(emitted)), rows)
        if len(times):
            lines = emitted.lines[times]
            columns = self.numbers.columns_of(lines[:, places.OF_GROUP])
            keys = encode_keys(columns, self.by) if self.by else empty_keys(len(times))
            hashed = origins(self.pattern, keys, lines[:, places.FIRST_TIME])
            found[times, :2] = fold_origins(hashed, self.kept.take(lines[:, places.FIRST_ROW], ()).origin)
        return found

    def _measured(self, emitted: Emitted) -> dict[str, Column]:
        read, failures, more = self.measures.of(emitted, self.kept.column, lambda rows, names: self.kept.take(rows, names).columns)
        if failures or more:
            put_overflows(self.pattern, self.dead_letters, [self._named(each, emitted) for each in failures], more)
        return read

    def _named(self, failure: GroupFailure, emitted: Emitted) -> GroupFailure:
        """`failure` of a match, with the match's group and time."""
        line = emitted.lines[int(failure.group.rpartition("=")[2])]
        keys = self.numbers.columns_of(line[places.OF_GROUP : places.OF_GROUP + 1])
        return replace(failure, group=describe_group(keys, self.by, 0), time=int(line[places.AT]))


def _nothing(field: Field, n: int) -> Column:
    return nulls(field.type, n) if field.nullable else Column(field.type, np.zeros(n, np.int64))
