"""The whole query: read every source, then every operator once, in the order of the DAG.

No watermarks here: nothing becomes late after the source (DESIGN 4.7), and at the end everything fires (4.13).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cep.model.operators import Aggregate, Filter, Map, Operator, Union
from cep.model.query import Query
from cep.model.schema import Schema
from tests.reference.aggregates import AggregateOrigin, aggregate
from tests.reference.expressions import Failed
from tests.reference.expressions import evaluate as value_of
from tests.reference.rows import DeadLetter, Origin, Partition, Row, Values
from tests.reference.source import read
from tests.reference.types import operator_schema

TimedRow = tuple[int, Values]


@dataclass
class Answer:
    """Rows with their event times, in no order: `outputs` by output stream, `late` by source."""

    outputs: dict[str, list[TimedRow]] = field(default_factory=dict)
    late: dict[str, list[TimedRow]] = field(default_factory=dict)
    dead: list[DeadLetter] = field(default_factory=list)

    def dead_counts(self) -> Counter[str]:
        """How many dead letters every operator (or stream, for bad input) has."""
        return Counter(letter.operator for letter in self.dead)


def some_origin(operator: str, key: Values, start: int) -> Origin:
    """A stand-in for the project's hash: good where no two rows of an aggregate tie."""
    text = repr((operator, key, start)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little", signed=True), start


def evaluate(
    query: Query,
    inputs: Mapping[str, Sequence[Partition]],
    *,
    aggregate_origin: AggregateOrigin = some_origin,
    now_us: int = 0,
) -> Answer:
    """The answer to `query` once all partitions of all its sources have ended. `inputs` is by name of stream."""
    run = _Run(query, aggregate_origin, now_us)
    run.read_sources(inputs)
    for output in query.outputs:
        rows = run.rows_of(output.input)
        run.answer.outputs.setdefault(output.stream, []).extend((row.time, row.values) for row in rows)
    for operator in query.operators:
        run.rows_of(operator.name)  # also one that feeds no output fails where it fails
    return run.answer


class _Run:
    """Rows and schema of every stream and operator, each made once."""

    def __init__(self, query: Query, aggregate_origin: AggregateOrigin, now_us: int) -> None:
        self.query = query
        self.operators = {operator.name: operator for operator in query.operators}
        self.aggregate_origin, self.now_us = aggregate_origin, now_us
        self.rows: dict[str, list[Row]] = {}
        self.schemas: dict[str, Schema] = {stream.name: stream.schema for stream in query.streams}
        self.answer = Answer()

    def read_sources(self, inputs: Mapping[str, Sequence[Partition]]) -> None:
        for number, stream in enumerate(sources_of(self.query)):
            arrivals = read(stream, number, inputs.get(stream.name, ()))
            self.rows[stream.name] = arrivals.on_time
            self.answer.late[stream.name] = [(row.time, row.values) for row in arrivals.late]
            self.answer.dead += arrivals.bad

    def rows_of(self, name: str) -> list[Row]:
        if name not in self.rows:
            operator = self.operators[name]
            inputs = [self.rows_of(input_) for input_ in operator.inputs]
            schemas = [self.schemas[input_] for input_ in operator.inputs]
            self.schemas[name] = operator_schema(operator, schemas)
            self.rows[name] = self.apply(operator, schemas[0], inputs)
        return self.rows[name]

    def apply(self, operator: Operator, schema: Schema, inputs: list[list[Row]]) -> list[Row]:
        match operator:
            case Union():
                return [row for rows in inputs for row in rows]
            case Aggregate():
                rows, dead = aggregate(operator, schema, inputs[0], self.aggregate_origin)
                self.answer.dead += dead
                return rows
            case Map() | Filter():
                return [made for row in inputs[0] for made in self.stateless(operator, schema, row)]

    def stateless(self, operator: Map | Filter, schema: Schema, row: Row) -> list[Row]:
        """No row or one; a row that fails is a dead letter of this operator and goes on elsewhere."""
        values = dict(zip(schema.names, row.values, strict=True))
        try:
            if isinstance(operator, Filter):
                return [row] if self.value(operator.condition, schema, values) is True else []
            made = tuple(self.value(expression, schema, values) for _, expression in operator.fields)
        except Failed as failed:
            self.answer.dead.append(DeadLetter(operator.name, failed.reason, row.origin))
            return []
        return [Row(row.time, row.origin, made)]

    def value(self, expression: Any, schema: Schema, values: Mapping[str, Any]) -> Any:
        return value_of(expression, schema, values, self.now_us)


def sources_of(query: Query) -> list[Any]:
    """The streams that the query reads, by name: the place in this list is the source of an origin (DESIGN 4.5)."""
    read_names = {name for operator in query.operators for name in operator.inputs} | {o.input for o in query.outputs}
    return sorted((s for s in query.streams if s.name in read_names), key=lambda stream: stream.name)
