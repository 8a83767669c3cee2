"""What an Aggregate remembers and answers, derived from its description. Nothing runs here."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from cep.compile.aggregate_source import Loops, compile_loops, places_of, width_of
from cep.compile.aggregate_states import Count, Edge, Extreme, FloatSum, IntegerSum, State, TextEdge, TextExtreme
from cep.compile.aggregate_ties import ROW
from cep.elements import EVENT_TIME_MAX
from cep.errors import QueryError
from cep.kernels.jit import warm
from cep.model.functions import Function, result_field
from cep.model.operators import Aggregate
from cep.model.schema import BINARY, INT64, DataType, Field, Schema
from cep.model.windows import TimeWindow

#: Event times lie within ±TIME_MAX µs and windows are at most `cep.model.windows.SIZE_MAX` long, so that no bound of a window
#: overflows. What sources let in is half as far: every aggregate on the way may add a SIZE_MAX.
TIME_MAX = 2 * EVENT_TIME_MAX

STAGES = ("whole", "partial", "final")


@dataclass(frozen=True)
class Answer:
    """A field of the answer: from the state at `place` of an entry and, where the column may be NULL, the count of its values
    at `count`."""

    field: Field
    function: str
    type: DataType | None  # of the column
    is_time: bool
    place: int
    count: int | None
    row: tuple[Field, ...] = ()  # it is the value of `function` in the row at `place`, which has these columns
    column: str = ""  # of that row


@dataclass(frozen=True)
class AggregateSpec:
    """An Aggregate over tuples of `schema`, or one of its two stages; `origin`: do its answers carry one? `ties`: may tuples
    have the same event time and origin (`aggregate_ties`)? Then `schema` has all their columns.

    Stages: "whole" takes tuples and gives answers, "partial" takes tuples and gives one partial row for each group and
    pane, "final" takes partial rows and gives answers. `schema` is that of the tuples in all three.
    """

    operator: Aggregate
    schema: Schema
    time_columns: frozenset[str]
    stage: str
    origin: bool = field(default=False)
    ties: bool = field(default=False)

    @staticmethod
    def of(
        operator: Aggregate, schema: Schema, time_columns: frozenset[str], stage: str, *, origin: bool = False, ties: bool = False
    ) -> AggregateSpec:
        """`time_columns` are the columns that are the event time. Raises QueryError where a function does not fit its column,
        or there is no partial stage."""
        spec = AggregateSpec(operator, schema, frozenset(time_columns), stage, origin, ties)
        if stage not in STAGES:
            raise QueryError(f"operator {operator.name!r}: stage {stage!r} is none of {', '.join(STAGES)}")
        if stage != "whole" and not spec.mergeable_cheaply:
            raise QueryError(f"operator {operator.name!r}: the exact sum of a float64 column has no small partial; use stage 'whole'")
        assert spec.output_schema
        return spec

    @property
    def window(self) -> TimeWindow:
        assert isinstance(self.operator.window, TimeWindow)
        return self.operator.window

    @cached_property
    def by(self) -> tuple[Field, ...]:
        return tuple(self.schema[name] for name in self.operator.by)

    @cached_property
    def needs_origin(self) -> bool:
        """Must the tuples carry their origin?"""
        return self.stage != "final" and any(state.origin for state in self.states)

    @cached_property
    def mergeable_cheaply(self) -> bool:
        """Are partial rows small? An exact sum of floats is not."""
        return not any(isinstance(state, FloatSum) for state in self.states)

    @cached_property
    def output_schema(self) -> Schema:
        if self.stage == "partial":
            return self.partial_schema
        return Schema(self.by + tuple(answer.field for answer in self.answers))

    @cached_property
    def states(self) -> tuple[State, ...]:
        """What is remembered, each thing once."""
        found: dict[State, None] = {}
        for _, function in self.operator.functions:
            found |= dict.fromkeys(self._states_of(function))
        return tuple(found)

    @cached_property
    def width(self) -> int:
        return width_of(self.states)

    @cached_property
    def places(self) -> dict[State, int]:
        """Where in an entry each state begins."""
        return dict(zip(self.states, places_of(self.states), strict=True))

    @cached_property
    def sums(self) -> int:
        """Exact sums in an entry."""
        return sum(isinstance(state, FloatSum) for state in self.states)

    @cached_property
    def partial_schema(self) -> Schema:
        """A partial row: the `by` fields, then the words of its states: a text column for two words of text, int64 for every
        other, and behind those of an exact sum a binary column for one that has spilled."""
        prefix = self._free_prefix()
        types: list[tuple[DataType, bool]] = []
        for state in self.states:
            types += _partial_types(state)
        return Schema(self.by + tuple(Field(f"{prefix}{i}", *type_) for i, type_ in enumerate(types)))

    @cached_property
    def answers(self) -> tuple[Answer, ...]:
        return tuple(self._answer(name, function) for name, function in self.operator.functions)

    @cached_property
    def loops(self) -> Loops:
        return compile_loops(self.states, {f.name: f.type for f in (*self.schema.fields, ROW)})

    def warm(self) -> None:
        """Makes its machine code now."""
        warm(self.loops.update, self.loops.merge)

    def _free_prefix(self) -> str:
        prefix = "_s"
        while any(f.name.startswith(prefix) for f in self.by):
            prefix += "_"
        return prefix

    def _column(self, function: Function) -> Field | None:
        if function.column is not None and function.column not in self.schema:
            raise QueryError(f"operator {self.operator.name!r}: no column {function.column!r} in {self.schema}")
        return None if function.column is None else self.schema[function.column]

    def _states_of(self, function: Function) -> list[State]:
        """The state that answers `function`, then the count of its values if there is one."""
        column = self._column(function)
        if column is None:
            return [Count()] if function.name == "count" else []
        values = Count(column if column.nullable else None)
        is_time = column.name in self.time_columns
        last = function.name in ("last", "max")
        match function.name:
            case "count":
                return [values]
            case "sum" | "avg":
                total: State = FloatSum(column) if column.type.name == "float64" else IntegerSum(column)
                return [total, values] if column.nullable or function.name == "avg" else [total]
            case "min" | "max" | "first" | "last" if is_time:
                return [Extreme(last, None)]
            case "min" | "max" if column.type.is_text:
                return [TextExtreme(last, column)]
            case "min" | "max":
                return [Extreme(last, column), values] if column.nullable else [Extreme(last, column)]
            case _ if self.ties:
                return [TextEdge(last, ROW)]
            case _:
                return [TextEdge(last, column) if column.type.is_bytes else Edge(last, column)]

    def _answer(self, name: str, function: Function) -> Answer:
        column, states = self._column(function), self._states_of(function)
        place = self.places[states[0]] if states else 0
        count = self.places[states[1]] if len(states) > 1 else None
        is_time = function.column in self.time_columns
        type_ = None if column is None else column.type
        row = self.schema.fields if TextEdge(function.name == "last", ROW) in states else ()
        return Answer(result_field(name, function, column), function.name, type_, is_time, place, count, row, function.column or "")


def _partial_types(state: State) -> list[tuple[DataType, bool]]:
    words: list[tuple[DataType, bool]] = [(INT64, False)] * state.words
    if isinstance(state, TextExtreme | TextEdge):
        return [*words[:-2], (state.column.type, True)]
    return [*words, (BINARY, True)] if isinstance(state, FloatSum) else words
