"""What measures read of matches: values of rows, and functions of aggregates over the rows of a variable, exact as everywhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from cep.compile.aggregate.results import GroupFailure
from cep.compile.aggregate.spec import AggregateSpec
from cep.compile.aggregate.window_state import WindowState
from cep.compile.patterns.groups import Emitted
from cep.elements import Batch
from cep.kernels.columns import Column, Columns, concatenated_columns, nulls
from cep.kernels.patterns.columns import count_rows_of, first_rows_of, last_rows_of
from cep.model.expr import RowRef
from cep.model.functions import Function
from cep.model.operators import Aggregate
from cep.model.patterns.refs import of_match, ref_field
from cep.model.schema import INT64, DataType, Field, Schema
from cep.model.windows import TimeWindow

_ROWS = ("first", "last")
_MATCH = "match"
#: (numbers of rows, negative: none; a column) -> the column of these rows, NULL where there is none.
Fetch = Callable[[np.ndarray, str], Column]
#: (numbers of rows, columns) -> these.
FetchAll = Callable[[np.ndarray, Sequence[str]], Columns]


class Measures:
    """Columns for `refs`; `schema` has the columns of rows, `variables` are numbers by name."""

    def __init__(self, name: str, refs: Sequence[RowRef], schema: Schema, variables: Mapping[str, int]) -> None:
        self.refs, self.schema, self.variables = refs, schema, variables
        summed = [ref for ref in refs if ref.function not in (*_ROWS, "count")]
        by_variable = dict.fromkeys(ref.variable for ref in summed)
        self.totals = {v: _Totals(name, [ref for ref in summed if ref.variable == v], schema) for v in by_variable}

    def of(self, emitted: Emitted, fetch: Fetch, fetch_all: FetchAll) -> tuple[dict[str, Column], list[GroupFailure], int]:
        """A value for each of `emitted`, by `of_match`; and sums that do not fit, the first of them (`group`: "match=" and its number),
        and how many more there were."""
        found: dict[str, Column] = {}
        failures: list[GroupFailure] = []
        more = 0
        for ref in self.refs:
            if ref.function in (*_ROWS, "count"):
                found[of_match(ref)] = self._of_row(ref, emitted, fetch)
        for variable, totals in self.totals.items():
            mine = np.flatnonzero(emitted.rows[:, 2] == self.variables[variable])
            matches, rows = emitted.rows[mine, 0], emitted.rows[mine, 1]
            found |= totals.of(len(emitted), matches, fetch_all(rows, totals.names))
            first, others = totals.state.take_failures()
            failures, more = failures + first, more + others
        return found, failures, more

    def _of_row(self, ref: RowRef, emitted: Emitted, fetch: Fetch) -> Column:
        variable, numbers = self.variables[ref.variable], np.empty(len(emitted), np.int64)
        match ref.function:
            case "count":
                count_rows_of(emitted.rows, variable, numbers)
                return Column(INT64, numbers)
            case "first":
                first_rows_of(emitted.rows, variable, numbers)
            case "last":
                last_rows_of(emitted.rows, variable, ref.k, numbers)
        return fetch(numbers, ref.column or "")


class _Totals:
    """Functions over the rows that a variable has in each match: an Aggregate by the number of the match."""

    def __init__(self, name: str, refs: Sequence[RowRef], schema: Schema) -> None:
        self.names = tuple(dict.fromkeys(ref.column or "" for ref in refs))
        own = {column: f"c{i}" for i, column in enumerate(self.names)}
        fields = (Field(_MATCH, INT64), *(Field(own[column], schema[column].type, schema[column].nullable) for column in self.names))
        functions = tuple((of_match(ref), Function(ref.function, own[ref.column or ""])) for ref in refs)
        aggregate = Aggregate(name, "", TimeWindow(1, 1), (_MATCH,), functions)
        self.types = {of_match(ref): ref_field(ref, schema).type for ref in refs}
        self.state = WindowState(AggregateSpec.of(aggregate, Schema(fields), frozenset(), "whole"), name)
        self.window = 0

    def of(self, n: int, matches: np.ndarray, columns: Columns) -> dict[str, Column]:
        """Of `n` matches; `matches`: of each row its match."""
        if len(matches):
            own = {f"c{i}": columns[name] for i, name in enumerate(self.names)}
            self.state.add(Batch({_MATCH: Column(INT64, matches), **own}, np.full(len(matches), self.window)))
        self.window += 1
        answers = list(self.state.advance(self.window))
        found = {name: _Scattered(type_, n) for name, type_ in self.types.items()}
        for batch in answers:
            if len(batch):
                for name, scattered in found.items():
                    scattered.put(batch.columns[_MATCH].values, batch.columns[name])
        return {name: scattered.column() for name, scattered in found.items()}


class _Scattered:
    """A column in the making, of values that come in any order; NULL where none came."""

    def __init__(self, type_: DataType, n: int) -> None:
        self.parts: list[tuple[np.ndarray, Column]] = []
        self.type, self.n = type_, n

    def put(self, places: np.ndarray, column: Column) -> None:
        self.parts.append((places, column))

    def column(self) -> Column:
        if not self.parts:
            return nulls(self.type, self.n)
        whole = concatenated_columns([column for _, column in self.parts])
        places = np.concatenate([each for each, _ in self.parts])
        where = np.zeros(self.n, np.int64)
        where[places] = np.arange(len(places))
        there = np.zeros(self.n, np.uint8)
        there[places] = 1
        taken = whole.take(where)
        valid = there if taken.valid is None else taken.valid & there
        return Column(taken.type, taken.values, None if valid.all() else valid, taken.data, taken.starts)
