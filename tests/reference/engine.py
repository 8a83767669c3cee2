"""The whole query: read every source, then every operator once, in the order of the DAG.

No watermarks here: nothing becomes late after the source (rule 4.7), and at the end everything fires (4.13).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cep.model.contract import matching
from cep.model.operators import Aggregate, Deduplicate, Demux, KeepLast, Operator, Over, Pattern, SampleN, Sort, StatefulMap, TopN, Union
from cep.model.query import Query
from cep.model.schema import Schema
from tests.reference.expressions import Failed
from tests.reference.expressions import evaluate as value_of
from tests.reference.joins import Joining
from tests.reference.order import deduplicated, last_of_each, ordered, sampled
from tests.reference.over import over
from tests.reference.patterns import pattern
from tests.reference.rows import AggregateOrigin, DeadLetter, JoinedOrigin, Origin, Partition, Row, Values
from tests.reference.schemas import branch_schemas
from tests.reference.source import read
from tests.reference.state import stateful_map
from tests.reference.stateless import Stateless, branches, made_of
from tests.reference.tables import Versions
from tests.reference.windows import aggregate, named

TimedRow = tuple[int, Values]
NO_TABLES: Mapping[str, Versions] = {}


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
    return _hash(operator, key, start), start


def some_joined_origin(operator: str, left: Origin | None, right: Origin | None) -> Origin:
    """The same for joined rows."""
    return _hash(operator, left, right), _hash(right, left, operator)


def _hash(*parts: object) -> int:
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=8).digest(), "little", signed=True)


def evaluate(
    query: Query,
    inputs: Mapping[str, Sequence[Partition]],
    *,
    aggregate_origin: AggregateOrigin = some_origin,
    joined_origin: JoinedOrigin = some_joined_origin,
    now_us: int = 0,
    tables: Mapping[str, Versions] = NO_TABLES,
) -> Answer:
    """The answer to `query` once all partitions of all its sources have ended. `inputs` is by name of stream; `tables` what was read for a
    Lookup with `refresh`, by its name: without, its table stays as it is."""
    run = _Run(query, aggregate_origin, joined_origin, now_us, tables)
    run.read_sources(inputs)
    for output in query.outputs:
        rows = run.rows_of(output.input)
        run.answer.outputs.setdefault(output.stream, []).extend((row.time, row.values) for row in rows)
    for operator in query.operators:
        run.run(operator)  # also one that feeds no output fails where it fails
    return run.answer


class _Run:
    """Rows and schema of every stream and operator, each made once."""

    def __init__(
        self, query: Query, aggregate_origin: AggregateOrigin, joined_origin: JoinedOrigin, now_us: int, tables: Mapping[str, Versions]
    ) -> None:
        self.query, self.tables = query, tables
        self.operators = {name: operator for operator in query.operators for name in operator.branches}
        self.aggregate_origin, self.joined_origin, self.now_us = aggregate_origin, joined_origin, now_us
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
            self.run(self.operators[name])
        return self.rows[name]

    def run(self, operator: Operator) -> None:
        """Makes the rows of `operator`, once."""
        names = operator.branches
        if names[0] in self.rows:
            return
        inputs = [self.rows_of(input_) for input_ in operator.inputs]
        schemas = [self.schemas[input_] for input_ in operator.inputs]
        self.schemas |= branch_schemas(operator, schemas)
        if isinstance(operator, Demux):
            self.demux(operator, schemas[0], inputs[0])
        elif isinstance(operator, Pattern):
            found = pattern(operator, schemas, inputs, self.value, self.aggregate_origin, self.joined_origin)
            self.rows |= found.branches
            self.answer.dead += found.dead
        else:
            self.rows[operator.name] = self.apply(operator, schemas, inputs)

    def apply(self, operator: Operator, schemas: list[Schema], inputs: list[list[Row]]) -> list[Row]:
        match operator:
            case Union():
                return [row for rows in inputs for row in rows]
            case Aggregate():
                return self.buried(*aggregate(operator, schemas[0], inputs[0], self.aggregate_origin, self.value))
            case StatefulMap():
                return self.buried(*stateful_map(operator, schemas[0], inputs[0], self.value))
            case Over():
                return self.buried(*over(operator, schemas[0], inputs[0]))
            case Sort() | TopN():
                return ordered(operator, schemas[0], inputs[0])
            case SampleN():
                return sampled(operator, schemas[0], inputs[0])
            case KeepLast():
                return last_of_each(operator, schemas[0], inputs[0])
            case Deduplicate():
                return deduplicated(operator, schemas[0], inputs[0])
            case matching.Joining():
                return self.joined(operator, schemas, inputs)
            case Demux() | Pattern():
                raise AssertionError("it has branches")
        return [made for row in inputs[0] for made in self.stateless(operator, schemas[0], row)]

    def buried(self, rows: list[Row], dead: list[DeadLetter]) -> list[Row]:
        self.answer.dead += dead
        return rows

    def joined(self, operator: matching.Joining, schemas: list[Schema], inputs: list[list[Row]]) -> list[Row]:
        joining = Joining(operator, *schemas, self.joined_origin, self.value)
        joining.run(*inputs)
        return self.buried(joining.out, joining.dead)

    def stateless(self, operator: Stateless, schema: Schema, row: Row) -> list[Row]:
        """What comes of a row; one that fails is a dead letter of this operator and goes on elsewhere."""
        values = named(schema, row)
        try:
            versions = self.tables.get(operator.name)
            return made_of(operator, schema, row, lambda expression: self.value(expression, schema, values), versions)
        except Failed as failed:
            self.answer.dead.append(DeadLetter(operator.name, failed.reason, row.origin))
            return []

    def demux(self, operator: Demux, schema: Schema, rows: list[Row]) -> None:
        """A condition that fails on a row is a dead letter of its branch alone."""
        self.rows |= {name: [] for name in operator.branches}
        for row in rows:
            values = named(schema, row)
            outcomes = branches(operator.cases, operator.otherwise, lambda expression, by=values: self.value(expression, schema, by))
            for branch, outcome in outcomes.items():
                if isinstance(outcome, Failed):
                    self.answer.dead.append(DeadLetter(f"{operator.name}.{branch}", outcome.reason, row.origin))
                elif outcome:
                    self.rows[f"{operator.name}.{branch}"].append(row)

    def value(self, expression: Any, schema: Schema, values: Mapping[str, Any]) -> Any:
        return value_of(expression, schema, values, self.now_us)


def sources_of(query: Query) -> list[Any]:
    """The streams that the query reads, by name: the place in this list is the source of an origin (rule 4.5)."""
    read_names = {name for operator in query.operators for name in operator.inputs} | {o.input for o in query.outputs}
    return sorted((s for s in query.streams if s.name in read_names), key=lambda stream: stream.name)
