"""A pattern as it is described, and what stands for it in a plan: what finds its matches, and a branch for each kind of outcome."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from cep.errors import QueryError, escaped, meant
from cep.model.checked import check_fields
from cep.model.contract import phrases
from cep.model.contract.columns import check_columns, computed
from cep.model.contract.forms import BY, FIELDS, FLAG, NAMES, NUMBER, SPAN, TEXT, Form, optional
from cep.model.contract.operator import NO_KEY, Fields, Operator, Origins, Wanted
from cep.model.duration import format_duration
from cep.model.expr import ColumnRef, Expr, RowRef, columns_of, lit
from cep.model.functions import Order
from cep.model.operators.filter import Choosing, Filter
from cep.model.operators.map import Map
from cep.model.operators.stateful_map import beyond_loop
from cep.model.patterns import parts
from cep.model.patterns.automaton import Automaton
from cep.model.patterns.checks import ALL, FIRST, MATCHES, PAST_LAST, VARIABLES_MAX, checked_automaton
from cep.model.patterns.families import Families, families_of
from cep.model.patterns.forms import DEFINE, PATTERN, Definitions
from cep.model.patterns.outlooks import Outlooks, outlooks_of, why_apart, why_by_ways
from cep.model.patterns.parts import NEXT, Definition, Not, PatternPart, Var, walk
from cep.model.patterns.refs import as_column, as_written, column_of, of_input, of_match, ref_field, typed_over
from cep.model.patterns.rows import prevs_read, replaced, rows_read
from cep.model.schema import BOOL, INT64, STRING, Field, Schema
from cep.model.types import listing, text_of
from cep.model.windows import PanedWindow, SizeWindow, check_span

#: In place of a ttl that is not said.
NOT_SAID = -1
LIMIT = 10_000
"""Open starts of a group, unless said."""
FAIL, DROP_OLDEST = ON_LIMIT = ("fail", "drop_oldest")
ONE, ALL_ROWS = ROWS = ("one", "all")
TIMED_OUT, UNMATCHED = "timed_out", "unmatched"
#: What the ways yield: which branch a row is of; a column of the input; what a measure reads of a match; `rows: all`.
OUT, VARIABLE, MATCH_NUMBER = "out", "variable", "match_number"
OUT_OF: Mapping[str, int] = {"": 0, TIMED_OUT: 1, UNMATCHED: 2}


class InSequence(Operator):
    """What a pattern, and what runs it in a plan, have in common."""

    by: tuple[str, ...]

    @property
    def input_keys(self) -> tuple[str, ...]:
        return tuple(f"inputs/{i}" for i in range(len(self.inputs)))

    @property
    def keeps_time(self) -> bool:
        return False

    @property
    def origins(self) -> Origins:
        return Origins.NUMBERED

    @property
    def repeats(self) -> bool:
        return False

    @property
    def stateful(self) -> bool:
        return True

    @property
    def everywhere(self) -> int | None:
        return None

    @property
    def why_together(self) -> str:
        return "" if self.by else NO_KEY

    @property
    def row_order(self) -> Order:
        return Order.SEQUENTIAL

    def reads_origins(self, times: Collection[str]) -> bool:
        return True

    def grain(self, below: int) -> int:
        return 1

    @property
    def windows(self) -> Mapping[str, PanedWindow | SizeWindow]:
        return {}

    @property
    def files(self) -> tuple[str, ...]:
        return ()

    @property
    def expected_yield(self) -> float:
        return 0.1


@dataclass(frozen=True)
class PatternDescription(InSequence):
    """Matches of `pattern`, whose variables `define` says, among the rows of each group of all `inputs`.

    Args:
        within: µs from the first row of a match to the last. ttl: a group that no row touched for longer begins anew, None: never;
            one of the two is said.
        matches: "first": of each start the preferred match, and then on `after` it (past_last, to_next, to_first V, to_last V); "all".
        measures: what comes out of a match behind the group's key, over `row(…)`.
        rows: "one" for a match, or "all" of its rows with the measures, `variable` and `match_number`.
        timed_out, unmatched: are there branches `name.timed_out` and `name.unmatched`?
        limit: open starts of a group; beyond it the query fails, or, `on_limit` "drop_oldest", the oldest is dropped, and counted.
    """

    name: str
    inputs: tuple[str, ...]
    define: Definitions
    pattern: PatternPart
    by: tuple[str, ...] = ()
    within: int | None = None
    ttl: int | None = NOT_SAID
    matches: str = FIRST
    after: str = PAST_LAST
    measures: Fields = ()
    rows: str = ONE
    timed_out: bool = False
    unmatched: bool = False
    limit: int = LIMIT
    on_limit: str = FAIL

    def __post_init__(self) -> None:
        check_fields(self)
        for key, value, known in (("matches", self.matches, MATCHES), ("rows", self.rows, ROWS), ("on_limit", self.on_limit, ON_LIMIT)):
            if value not in known:
                raise self._error(f"{key}: expected one of {', '.join(known)}, got {value!r}{meant(value, known)}", f"/{key}")
        self._check_spans()
        if self.matches == ALL and (self.timed_out or self.after != PAST_LAST):
            key = "timed_out" if self.timed_out else "after"
            raise self._error(f"{key}: with matches: all every match comes out, so there is none", f"/{key}")
        if not self.by and not self.measures and self.rows == ONE:
            raise self._error("nothing would come out of a match: say measures, by, or rows: all", "/measures")
        if not 1 <= self.limit <= 1_000_000:
            raise self._error(f"limit: expected 1 to 1,000,000 open starts, got {self.limit:,}", "/limit")
        self._check_variables()
        assert self.automaton

    def _error(self, message: str, pointer: str) -> QueryError:
        return QueryError(f"operator {self.pattern_name!r}: {message}", pointer)

    @property
    def pattern_name(self) -> str:
        """What users call it, in a plan too."""
        return self.name

    def _check_spans(self) -> None:
        for key in ("within", "ttl"):
            span = getattr(self, key)
            if span is not None and (key, span) != ("ttl", NOT_SAID):
                check_span(span, key, f"/{key}")
        if self.within is None and self.ttl == NOT_SAID:
            raise self._error("expected within, or a ttl (null: groups are kept for ever)", "/ttl")
        if self.matches == ALL and self.within is None:
            raise self._error("with matches: all every start is open until within is over: say within", "/within")

    def _check_variables(self) -> None:
        known = dict(self.define)
        if len(known) != len(self.define) or len(known) > VARIABLES_MAX:
            raise self._error(f"define: expected at most {VARIABLES_MAX} variables, each once, got {len(self.define)}", "/define")
        written = {part.name: pointer for part, pointer in walk(self.pattern) if isinstance(part, Var | Not)}
        for name, pointer in written.items():
            if name not in known:
                raise self._error(f"no variable {name!r} in define{meant(name, known)}; there {listing(known)}", f"/pattern{pointer}")
        for name, definition in self.define:
            pointer = f"/define/{escaped(name)}"
            if name not in written:
                raise self._error(f"variable {name!r} is not in the pattern", pointer)
            if definition.input not in (*self.inputs, None) or (definition.input is None and len(self.inputs) > 1):
                expected = f"expected one of {', '.join(self.inputs)}, got {definition.input!r}"
                raise self._error(f"variable {name!r}: of which input is it? {expected}", f"{pointer}/input")

    @staticmethod
    def keys() -> Mapping[str, Form]:
        return {
            "inputs": NAMES,
            "by": BY,
            "define": DEFINE,
            "pattern": PATTERN,
            "within": optional(SPAN),
            "ttl": optional(SPAN),
            "matches": TEXT,
            "after": TEXT,
            "measures": FIELDS,
            "rows": TEXT,
            "timed_out": FLAG,
            "unmatched": FLAG,
            "limit": NUMBER,
            "on_limit": TEXT,
        }

    # What follows from it

    @property
    def time_to_live(self) -> int | None:
        """µs; None: for ever."""
        return None if self.ttl == NOT_SAID else self.ttl

    @cached_property
    def automaton(self) -> Automaton:
        try:
            return checked_automaton(self.pattern, self.matches, self.after, self.within, self.time_to_live)
        except QueryError as error:
            raise self._error(error.message, error.pointer) from None

    @cached_property
    def takes_all(self) -> bool:
        """Are all rows in the sequence, and not only those that some variable may take?"""
        prevs = any(prevs_read(each.condition) for _, each in self.define if each.condition is not None)
        edges = [edge for state in self.automaton.states for edge in state.edges]
        directly = any(edge.directly or edge.by == NEXT for edge in edges) or any(
            s.wait is not None and s.wait.directly for s in self.automaton.states
        )
        said = any(getattr(part, "by", None) == NEXT for part, _ in walk(self.pattern))  # also where it joins nothing
        return self.unmatched or prevs or directly or said

    # Schemas

    def united(self, *inputs: Schema) -> Schema:
        """The columns of all inputs, those of one name once; NULL in rows of an input that has none of that name."""
        found: dict[str, Field] = {}
        for i, schema in enumerate(inputs):
            for field in schema.fields:
                known = found.get(field.name, field)
                if known.type != field.type:
                    message = f"column {field.name!r} is {known.type} and, in {self.inputs[i]!r}, {field.type}: map one to another name"
                    raise self._error(message, f"/inputs/{i}")
                found[field.name] = replace(field, nullable=known.nullable or field.nullable)
        everywhere = [{field.name for field in schema.fields} for schema in inputs]
        missing = {name for name in found if not all(name in names for names in everywhere)}
        return Schema(tuple(replace(field, nullable=field.nullable or field.name in missing) for field in found.values()))

    @property
    def key(self) -> tuple[tuple[str, ...], ...]:
        return tuple((column,) * len(self.inputs) for column in self.by)

    def checked_input(self, *inputs: Schema) -> Schema:
        """The united schema, over which everything is what it has to be."""
        if not self.inputs or len(set(self.inputs)) != len(self.inputs):
            raise self._error(f"inputs: expected at least one, each once, got {', '.join(self.inputs) or 'none'}", "/inputs")
        schema = self.united(*inputs)
        for each in inputs:
            check_columns(self.pattern_name, "by", self.by, each)
        for name, definition in self.define:
            self._check_condition(name, definition, schema)
        self._check_measures(schema)
        return schema

    def _check_measures(self, schema: Schema) -> None:
        for name, expr in self.measures:
            try:
                for ref in rows_read(expr):
                    self._check_ref(ref, schema, None)
                if bare := columns_of(replaced(expr, lambda part: lit(None, "bool") if isinstance(part, RowRef) else None)):
                    raise QueryError(f"{min(bare)!r} is of no row of the match: write row(variable)[{min(bare)!r}]")
            except QueryError as error:
                raise self._error(f"measure {name!r}: {error.message}", f"/measures/{escaped(name)}{error.pointer}") from None
        fields = tuple((name, replaced(expr, as_column)) for name, expr in self.measures)
        try:
            computed(self.pattern_name, "measures", fields, self.read_of(schema))
        except QueryError as error:
            refs = [ref for _, expr in self.measures for ref in rows_read(expr)]
            raise QueryError(as_written(error.message, refs), error.pointer) from None

    def read_of(self, schema: Schema) -> Schema:
        """What measures read of a match, as columns, over rows of `schema`."""
        return Schema(tuple({of_match(ref): ref_field(ref, schema) for _, expr in self.measures for ref in rows_read(expr)}.values()))

    def _check_condition(self, name: str, definition: Definition, schema: Schema) -> None:
        if definition.condition is None:
            return
        pointer = f"/define/{escaped(name)}" + ("" if definition.input is None else "/condition")
        try:
            for ref in rows_read(definition.condition):
                self._check_ref(ref, schema, name)
            tree = typed_over(definition.condition, schema)
            refs = {of_match(ref) for ref in rows_read(definition.condition)}
            if refs and (found := beyond_loop(tree, refs)) is not None:
                raise QueryError(f"{text_of(found.expr)} cannot be computed in a condition: it is made of texts of the match, or of a list")
            type_ = tree.type
        except QueryError as error:
            raise self._error(f"condition of {name!r}: {error.message}", f"{pointer}{error.pointer}") from None
        if type_ != BOOL:
            raise self._error(f"condition of {name!r}: expected bool, got {type_} of {text_of(definition.condition)}", pointer)

    def _check_ref(self, ref: RowRef, schema: Schema, own: str | None) -> None:
        takers = {*self.automaton.variables, *(() if own is None else (own,))}
        if ref.variable not in takers:
            known = dict(self.define)
            why = "is negated, so it has no row in a match" if ref.variable in known else f"is no variable{meant(ref.variable, known)}"
            raise QueryError(f"{text_of(ref)}: {ref.variable!r} {why}")
        field = ref_field(ref, schema)
        if own is not None and ref.function in ("min", "max") and schema[ref.column or ""].type.is_bytes:
            raise QueryError(f"{text_of(ref)}: of texts there is no {ref.function} in a condition")
        if own is not None and field.type.is_list:
            raise QueryError(f"{text_of(ref)}: a list of a row of the match cannot be read in a condition")

    @property
    def read_columns(self) -> frozenset[str]:
        """Those that key, conditions and measures read."""
        conditions = [each.condition for _, each in self.define if each.condition is not None]
        return frozenset(self.by).union(*(columns_of(expr) for expr in (*conditions, *(expr for _, expr in self.measures))))

    def explained(self) -> str:
        bounds = [
            f"{key} {format_duration(span)}" for key, span in (("within", self.within), ("ttl", self.time_to_live)) if span is not None
        ]
        how = "all matches" if self.matches == ALL else f"first match, then on {self.after.replace('_', ' ')}"
        where = ", ".join(f"{name}: {text_of(each.condition)}" for name, each in self.define if each.condition is not None)
        said = ", ".join([how, *bounds])
        return f"pattern {parts.text_of(self.pattern)}{phrases.by(self.by)}, {said}" + (f" where {where}" if where else "")


@dataclass(frozen=True)
class PatternWays(PatternDescription):
    """A pattern in a plan: what comes of its matches, of starts that timed out and of rows in no match, in one stream."""

    @property
    def branches(self) -> tuple[str, ...]:
        return (self.name,)

    def in_full(self) -> tuple[Operator, ...]:
        return (self,)

    @property
    def pattern_name(self) -> str:
        """That of the pattern of which they are."""
        return self.name.removesuffix(".ways")

    @property
    def whole_rows(self) -> bool:
        """Do rows come out, with all their columns?"""
        return self.rows == ALL_ROWS or self.unmatched

    @cached_property
    def refs(self) -> tuple[RowRef, ...]:
        """What measures read of a match, each once."""
        return tuple({of_match(ref): ref for _, expr in self.measures for ref in rows_read(expr)}.values())

    @cached_property
    def outlooks(self) -> Outlooks | str:
        """What may become of a start, if its starts go on together; or why they do not."""
        why = why_apart(self.automaton, self.matches, self.unmatched, self.define)
        numbers = {name: number for number, (name, _) in enumerate(self.define)}
        return why or outlooks_of(self.automaton, numbers) or "there are too many ways in which they may go on"

    @cached_property
    def families(self) -> Families | str:
        """Where all matches are asked for, what may become of the rows of one, if such go on together; or why they do not."""
        if self.matches != ALL:
            return "of each start one match is asked for"
        why = why_by_ways(self.automaton, self.unmatched, self.define)
        numbers = {name: number for number, (name, _) in enumerate(self.define)}
        return why or families_of(self.automaton, numbers) or "there are too many ways in which they may go on"

    def output_schema(self, *inputs: Schema) -> Schema:
        schema = self.checked_input(*inputs)
        kept = schema.fields if self.whole_rows else tuple(schema[name] for name in self.by)
        more = (Field(VARIABLE, STRING, True), Field(MATCH_NUMBER, INT64, True)) if self.rows == ALL_ROWS else ()
        return Schema(
            (Field(OUT, INT64), *(replace(field, name=of_input(field.name)) for field in kept), *self.read_of(schema).fields, *more)
        )

    def reads(self, port: int, names: tuple[str, ...], wanted: Wanted) -> Collection[str]:
        seen = wanted([of_input(name) for name in names])
        return {*self.read_columns, *(name for name in names if of_input(name) in seen)}

    def passes(self, column: str) -> tuple[str, ...] | None:
        return next(((name,) * len(self.inputs) for name in self.by if column == of_input(name)), None)


@dataclass(frozen=True)
class PatternBranch(Choosing):
    """A branch of a pattern in a plan: of what `PatternWays` yields the rows of one kind ("", timed_out or unmatched), as users see it."""

    name: str
    input: str
    kind: str
    by: tuple[str, ...]
    measures: Fields = ()
    rows: str = ONE

    @staticmethod
    def keys() -> Mapping[str, Form]:
        return {"input": TEXT, "kind": TEXT, "by": BY, "measures": FIELDS, "rows": TEXT}

    def explained(self) -> str:
        return {"": "matches", TIMED_OUT: "starts that timed out", UNMATCHED: "rows in no match"}[self.kind]

    def steps(self, names: Sequence[str]) -> tuple[Filter, Map]:
        """The same as a filter and a map of what the ways yield, whose columns are called `names`."""
        return Filter(self.name, self.input, ColumnRef(OUT) == OUT_OF[self.kind]), Map(self.name, self.input, tuple(self._fields(names)))

    def _fields(self, names: Sequence[str]) -> Iterator[tuple[str, Expr]]:
        whole = self.kind == UNMATCHED or (self.rows == ALL_ROWS and not self.kind)
        kept = [name for name in map(column_of, names) if name is not None] if whole else self.by
        yield from ((name, ColumnRef(of_input(name))) for name in kept)
        if self.kind != UNMATCHED:
            yield from ((name, replaced(expr, as_column)) for name, expr in self.measures)
        if self.rows == ALL_ROWS and not self.kind:
            yield from ((name, ColumnRef(name)) for name in (VARIABLE, MATCH_NUMBER))

    def output_schema(self, *inputs: Schema) -> Schema:
        filter_, map_ = self.steps(inputs[0].names)
        filter_.output_schema(inputs[0])
        return map_.output_schema(inputs[0])

    def reads(self, port: int, names: tuple[str, ...], wanted: Wanted) -> Collection[str]:
        return {OUT, *(column for _, expr in self._fields(names) for column in columns_of(expr))}

    def passes(self, column: str) -> tuple[str, ...] | None:
        return (of_input(column),) if column in self.by else None

    @property
    def origins(self) -> Origins:
        return Origins.KEPT
