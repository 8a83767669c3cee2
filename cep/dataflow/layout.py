"""What a plan means for the data: the schema and format of everything that flows."""

from __future__ import annotations

from functools import lru_cache

from cep.compile.aggregate.window_state import AggregateSpec
from cep.compile.user.aggregates import collecting
from cep.model.operators import Aggregate
from cep.model.schema import Field, Schema
from cep.plan.balancers import route_fields
from cep.plan.feeds import feeds_tie, ties, words
from cep.plan.needed import leaves_with_origin, needed_columns, restrict, wants_origin
from cep.plan.physical import Edge, PhysicalPlan
from cep.plan.validate import Validated, validate
from cep.transport.wire import Format


class Layout:
    """What the plan means for the data: the schema and format of everything that flows."""

    def __init__(self, plan: PhysicalPlan) -> None:
        self.plan, self.query = plan, plan.query
        self.validated: Validated = validate(plan.query, plan.streams)
        self.operators = {operator.name: operator for operator in plan.query.operators}
        self.feeds_tie = feeds_tie(plan)  # rare, so then all columns travel everywhere
        self._columns: dict[str, Schema] = {}  # what was asked: to follow all readers down the query takes a while

    def columns(self, producer: str) -> Schema:
        """The columns of `producer` that travel."""
        if producer not in self._columns:
            self._columns[producer] = self._travelling(producer)
        return self._columns[producer]

    def _travelling(self, producer: str) -> Schema:
        schema = self.validated.schemas[producer]
        if self.feeds_tie:
            return schema
        return restrict(schema, needed_columns(self.query, producer, schema.names))

    def aggregate(self, name: str) -> Aggregate:
        """Operator `name`, of which there are partial results: no other kind has them."""
        aggregate = self.operators[name]
        assert isinstance(aggregate, Aggregate)
        return aggregate

    def spec(self, aggregate: Aggregate, stage: str) -> AggregateSpec:
        aggregate, times = collecting(aggregate), self.validated.event_time_columns[aggregate.input]
        origin = stage != "partial" and self.origin(aggregate.name)
        tied = ties(self.plan, aggregate.input)
        words = self.words(aggregate.input)
        keyed = stage != "whole" and not self.deals_entries(aggregate)
        return AggregateSpec.of(
            aggregate, self.columns(aggregate.input), times, stage, origin=origin, ties=tied, origin_words=words, keyed=keyed
        )

    def stage(self, aggregate: str) -> str:
        """The stage that answers."""
        return "final" if any(edge.partial and edge.consumer == aggregate for edge in self.plan.edges) else "whole"

    def deals_entries(self, aggregate: Aggregate) -> bool:
        """Are partial rows of it dealt by their whole key, as its columns are, or not at all?"""
        edge = next((edge for edge in self.plan.edges if edge.partial and edge.consumer == aggregate.name), None)
        if edge is None or edge.balancer != "route-key":
            return True
        schema = self.columns(aggregate.input)
        return self.route_fields(edge) == tuple(schema[name] for name in aggregate.by)  # NULLs of another edge can change the words

    def origin(self, producer: str) -> bool:
        """Does an operator below order the tuples of `producer` by origin, or may a query that reads an output?"""
        return leaves_with_origin(self.query, producer) or self.ordered(producer)

    def ordered(self, producer: str) -> bool:
        """Does an operator below order the tuples of `producer` by origin?"""
        return wants_origin(self.query, producer, self.validated.event_time_columns)

    def words(self, producer: str) -> int:
        """Of the origins of its tuples."""
        return words(self.plan, producer)

    def ties(self, producer: str) -> bool:
        """May two of its tuples have one event time and origin?"""
        return ties(self.plan, producer)

    def format(self, edge: Edge) -> Format:
        """How the batches of an edge look on the wire."""
        if edge.partial:
            return Format(self.spec(self.aggregate(edge.consumer), "partial").entry_schema)
        return Format(self.columns(edge.producer), words(self.plan, edge.producer) if self.origin(edge.producer) else 0)

    def route_fields(self, edge: Edge) -> tuple[Field, ...]:
        return route_fields(self.plan, edge, self.validated.schemas)

    def late_format(self, edge: Edge) -> Format:
        """How rows look that came too late: all columns of their stream."""
        return Format(self.plan.streams[edge.producer].schema)

    def source_index(self, stream: str) -> int:
        """Its place among the sources that origins count; of what another query puts out, whose rows have theirs, 0."""
        return 0 if stream in self.plan.feeds else self.plan.roots.index(stream)


@lru_cache(maxsize=8)
def layout_of(plan: PhysicalPlan) -> Layout:
    """That of a plan of which several instances are built one after the other: what it means is found once."""
    return Layout(plan)
