"""What an Aggregate remembers and answers, derived from its description. Nothing runs here."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate

from cep.compile.aggregate.answering import Answering
from cep.compile.aggregate.blocks import Distinct, DistinctNumbers, FirstRows, Registers, Squares, ValueBuckets
from cep.compile.aggregate.records import ORIGIN_WORDS, RowRecord, records_of
from cep.compile.aggregate.source import KEY_WORDS, Loops, compile_loops, places_of, sums_of, width_of
from cep.compile.aggregate.states import AggregateState, Count, Extreme, FloatSum, IntegerSum, StatePart, TextExtreme
from cep.compile.aggregate.ties import ROW
from cep.elements import EVENT_TIME_MAX
from cep.errors import QueryError
from cep.kernels.jit import warm
from cep.kernels.states.exact_sum import round_exact
from cep.kernels.tables.keys import Decoder, Encoder, decoder, encoder, key_kernels
from cep.kernels.tables.table import fill_slots
from cep.model.functions import OF_A_ROW, Function, result_field
from cep.model.operators import Aggregate
from cep.model.schema import BINARY, INT64, DataType, Field, Schema
from cep.model.windows import PanedWindow, TimeWindow, UnboundedWindow

#: Event times lie within ±TIME_MAX µs and windows are at most `cep.model.limits.SPAN_US_MAX` long, so that no bound of a window
#: overflows. What sources let in is half as far: every aggregate on the way may add a SPAN_US_MAX.
TIME_MAX = 2 * EVENT_TIME_MAX

_TEXT = (Field("", BINARY),)

STAGES = ("whole", "partial", "final")


@dataclass(frozen=True)
class Answer:
    """A field of the answer: from the states of `function`, which begin at `places` of an entry."""

    field: Field
    function: Function
    column: Field | None
    is_time: bool
    places: tuple[int, ...]
    row: tuple[Field, ...] = ()  # what is remembered is ROW, which has these columns, rather than values of the column
    records: FirstRows | None = None  # its state, if it has many rows
    may_overflow: bool = False  # it is a sum of two words, and NULL and a dead letter where it does not fit int64 (rule 5.7)


@dataclass(frozen=True)
class AggregateSpec:
    """An Aggregate over tuples of `schema`, or one of its two stages; `origin`: do its answers carry one? `ties`: may tuples
    have the same event time and origin (`ties.py`)? Then `schema` has all their columns. Origins are of `origin_words` words.
    `keyed`: partial rows have the columns of their key, for a reader of less than all of it. `each`: every row is answered from the entry
    that it is taken into.

    Stages: "whole" takes tuples and gives answers, "partial" takes tuples and gives one partial row for each group and
    pane, "final" takes partial rows and gives answers. `schema` is that of the tuples in all three.
    """

    operator: Aggregate
    schema: Schema
    time_columns: frozenset[str]
    stage: str
    origin: bool = field(default=False)
    ties: bool = field(default=False)
    origin_words: int = ORIGIN_WORDS
    keyed: bool = field(default=False)
    each: bool = field(default=False)

    @staticmethod
    def of(
        operator: Aggregate,
        schema: Schema,
        time_columns: frozenset[str],
        stage: str,
        *,
        origin: bool = False,
        ties: bool = False,
        origin_words: int = ORIGIN_WORDS,
        keyed: bool = False,
    ) -> AggregateSpec:
        """`time_columns` are the columns that are the event time. Raises QueryError where a function does not fit its column."""
        spec = AggregateSpec(operator, schema, frozenset(time_columns), stage, origin, ties, origin_words, keyed)
        if stage not in STAGES:
            raise QueryError(f"operator {operator.name!r}: stage {stage!r} is none of {', '.join(STAGES)}")
        assert spec.output_schema
        return spec

    @cached_property
    def window(self) -> PanedWindow:
        """The windows as panes see them; for periodic answers that is one pane."""
        window = self.operator.window
        if isinstance(window, UnboundedWindow) and window.advance is not None:
            return TimeWindow(window.advance, window.advance)
        assert isinstance(window, PanedWindow)
        return window

    @property
    def periodic(self) -> bool:
        """UNBOUNDED with an answer `every` so often."""
        return isinstance(self.operator.window, UnboundedWindow) and self.operator.window.advance is not None

    @cached_property
    def by(self) -> tuple[Field, ...]:
        return tuple(self.schema[name] for name in self.operator.by)

    @cached_property
    def encode(self) -> Encoder:
        """From the columns of rows to the keys of their groups."""
        return encoder(self.by)

    @cached_property
    def decode(self) -> Decoder:
        """And back."""
        return decoder(self.by)

    @cached_property
    def needs_origin(self) -> bool:
        """Must the tuples carry their origin?"""
        return self.stage != "final" and any(state.origin for state in self.states)

    @cached_property
    def output_schema(self) -> Schema:
        if self.stage == "partial":
            return self.entry_schema
        return Schema(self.by + tuple(answer.field for answer in self.answers))

    @cached_property
    def asked(self) -> tuple[AggregateState, ...]:
        """What answers are made of, each thing once."""
        return tuple(dict.fromkeys(state for _, function in self.operator.functions for state in self._states_of(function)))

    @cached_property
    def states(self) -> tuple[AggregateState, ...]:
        """What is remembered: first what answers are made of, then what else has to be known of a group."""
        begins_anew = getattr(self.operator.window, "ttl", None) is not None
        more: list[AggregateState] = [Count()] if self.each else []  # for a person to read
        more += [Extreme(False, None)] if self.periodic and begins_anew else []
        more += [Extreme(True, None)] if (self.periodic or self.each) and begins_anew else []
        return tuple(dict.fromkeys((*self.asked, *more)))

    @cached_property
    def width(self) -> int:
        return width_of(self.states)

    @cached_property
    def places(self) -> dict[AggregateState, int]:
        """Where in an entry each state begins."""
        return dict(zip(self.states, places_of(self.states), strict=True))

    @cached_property
    def parts(self) -> tuple[tuple[int, StatePart], ...]:
        """The parts of the states, each with its place in an entry."""
        parts = [part for state in self.states for part in state.parts]
        ends = list(accumulate((part.words for part in parts), initial=KEY_WORDS))
        return tuple(zip(ends[:-1], parts, strict=True))

    @cached_property
    def sums(self) -> int:
        """Exact sums in an entry."""
        return sums_of(self.states)

    @cached_property
    def entry_schema(self) -> Schema:
        """A partial row on its way from stage to stage (`entries.py`)."""
        return Schema((self.by if self.keyed else ()) + self.entry_fields)

    @cached_property
    def entry_fields(self) -> tuple[Field, ...]:
        """The entry, whose name says how many words it has, and what it only points to."""
        prefix = free_prefix("_s", self.operator.by)
        apart = [_type_apart(part) for _, part in self.parts if part.kind != "words"]
        return Field(f"{prefix}entry{self.width}", BINARY), *(Field(f"{prefix}{i}", *type_) for i, type_ in enumerate(apart))

    @cached_property
    def partial_schema(self) -> Schema:
        """A partial row in a snapshot: the `by` fields, then the words of its states: a text column for two words of text, int64 for every
        other, and behind those of an exact sum a binary column for one that has spilled. A block is the int64 that it counts, and a
        binary column with its slots."""
        prefix = free_prefix("_s", self.operator.by)
        types = [type_ for _, part in self.parts for type_ in _partial_types(part)]
        return Schema(self.by + tuple(Field(f"{prefix}{i}", *type_) for i, type_ in enumerate(types)))

    def partial_columns_in(self, other: AggregateSpec) -> list[str]:
        """Where in a partial row of `other`, which remembers all that this one does and perhaps more, the columns of its own stand."""
        names = other.partial_schema.names[len(self.by) :]
        there = dict(zip((each for state in other.states for each in _snapshot_columns(state)), names, strict=True))
        return [*self.partial_schema.names[: len(self.by)], *(there[each] for state in self.states for each in _snapshot_columns(state))]

    @cached_property
    def answers(self) -> tuple[Answer, ...]:
        return tuple(self._answer(name, function) for name, function in self.operator.functions)

    @cached_property
    def last(self) -> int | None:
        """Which word of an entry is the event time of its last row, where a group begins anew after a while; None: it does not."""
        return None if getattr(self.operator.window, "ttl", None) is None else self.places[Extreme(True, None)]

    @cached_property
    def loops(self) -> Loops:
        answering = Answering(len(self.asked), self.last) if self.each else None
        return compile_loops(self.states, {f.name: f.type for f in (*self.schema.fields, ROW)}, answering)

    def warm(self, restored: bool = False) -> None:
        """Makes its machine code now; `restored`: also for what is taken over from a snapshot."""
        if not all(part.kind in ("words", "text") for _, part in self.parts) or self.ties:
            warm()  # blocks, exact sums and whole rows are read with many small kernels
        merged = restored or self.stage == "final" or self.window.overlaps or self.periodic
        texts = any(part.kind == "text" for _, part in self.parts) or any(what == "low" for _, what in self.loops.arguments)
        loops = [self.loops.update] * (self.stage != "final") + [self.loops.merge] * merged
        warm(*loops, fill_slots, *key_kernels(self.by), *(key_kernels(_TEXT) if texts else ()), *([round_exact] if self.sums else []))

    def _column(self, name: str | None) -> Field | None:
        if name is not None and name not in self.schema:
            raise QueryError(f"operator {self.operator.name!r}: no column {name!r} in {self.schema}")
        return None if name is None else self.schema[name]

    def _states_of(self, function: Function) -> list[AggregateState]:
        """The state that answers `function`, then what else it needs: last the count of its values, if that is needed."""
        column, by = self._column(function.column), self._column(function.by)
        if column is None:
            return [Count()] if function.name == "count" else []
        values = Count(column if column.nullable else None)
        last = function.name in ("last", "max")
        match function.name:
            case "count":
                return [values]
            case "sum" | "avg":
                total = _sum(column)
                return [total, values] if column.nullable or function.name == "avg" else [total]
            case "min" | "max" | "first" | "last" if column.name in self.time_columns:
                return [Extreme(last, None)]
            case "min" | "max" if column.type.is_text:
                return [TextExtreme(last, column)]
            case "min" | "max":
                return [Extreme(last, column), values] if column.nullable else [Extreme(last, column)]
            case "var" | "stddev" | "var_pop" | "stddev_pop":
                return [_sum(column), Squares(column), values]
            case "quantile" | "median":
                return [ValueBuckets(column), Extreme(False, column), Extreme(True, column), values]
            case "count_distinct":
                return [DistinctNumbers(column) if column.type.name in ("int64", "int32", "timestamp") else Distinct(column)]
            case "approx_count_distinct":
                return [Registers(column, int(function.parameter("precision")))]
            case name if name in OF_A_ROW:
                return [self._records[function.name, by, self._kept(column)]]
            case "collect":
                return [FirstRows(self._kept(column), int(function.parameter("at_most")), self.origin_words)]
        raise TypeError(f"nothing computes {function.name!r}; say here what it remembers of a group")

    def _kept(self, column: Field) -> Field:
        """What is kept of a row for `column`."""
        return ROW if self.ties else column

    @cached_property
    def _records(self) -> dict[tuple[str, Field | None, Field], RowRecord]:
        """By function, `by` and column."""
        wanted: dict[tuple[str, Field | None], dict[Field, None]] = {}
        for _, function in self.operator.functions:
            column, by = self._column(function.column), self._column(function.by)
            if column is not None and function.name in OF_A_ROW and not (by is None and column.name in self.time_columns):
                wanted.setdefault((function.name, by), {})[self._kept(column)] = None
        return {
            (name, by, column): record
            for (name, by), columns in wanted.items()
            for record in records_of(name in ("last", "arg_max"), tuple(columns), by, self.origin_words)
            for column in record.columns
        }

    def _answer(self, name: str, function: Function) -> Answer:
        column, by, states = self._column(function.column), self._column(function.by), self._states_of(function)
        places = tuple(self.places[state] for state in states)
        row: tuple[Field, ...] = ()
        match states:
            case [RowRecord() as record]:
                assert column is not None
                places = (places[0] + record.value(self._kept(column)),)
                row = self.schema.fields if self.ties else ()
            case [FirstRows()] if self.ties:
                row = self.schema.fields
        records = next((state for state in states if isinstance(state, FirstRows)), None)
        is_time = function.column in self.time_columns
        field = result_field(name, function, column, by)
        return Answer(field, function, column, is_time, places, row, records, function.name == "sum" and field.type == INT64)


def free_prefix(wanted: str, names: Iterable[str]) -> str:
    """`wanted`, or a longer one, with which none of `names` begins: for columns that belong to no field."""
    taken = tuple(names)
    while any(name.startswith(wanted) for name in taken):
        wanted += "_"
    return wanted


def _sum(column: Field) -> AggregateState:
    return FloatSum(column) if column.type.name == "float64" else IntegerSum(column)


def _type_apart(part: StatePart) -> tuple[DataType, bool]:
    return (part.type, True) if part.kind == "text" else (BINARY, part.kind == "sum")


def _snapshot_columns(state: AggregateState) -> list[Hashable]:
    """What each of its columns in a snapshot is, in their order. Those of a row are found in any order of its functions."""
    if isinstance(state, RowRecord):
        return state.snapshot_columns
    return [(state, k) for k in range(sum(len(_partial_types(part)) for part in state.parts))]


def _partial_types(part: StatePart) -> list[tuple[DataType, bool]]:
    match part.kind:
        case "text":
            return [(part.type, True)]
        case "sum":
            return [*[(INT64, False)] * part.words, (BINARY, True)]
        case "block":
            return [(INT64, False), (BINARY, False)]
    return [(INT64, False)] * part.words
