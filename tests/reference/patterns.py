"""Pattern: its matches by the definitions, word by word.

A *derivation* is one way to read a word of the pattern: the variables one after the other, what stands between two of them, and what stands
behind the last. Derivations are written out in order of preference, up to one row more than there are: what is longer is cut there, for it
cannot be complete. A *family* is a mapping so far (rows
and their variables) with the derivations that it may still become, of which each *thread* is one: it lives until a row or the passing of
time shows that it cannot be.

    seq [A, {repeat: B}, C] by then, rows a b b c        derivations  A B C · A B B C · A B B B C · …
    family (a)  ──b──►  family (a b)  ──b──►  family (a b b)  ──c──►  family (a b b c), of which A B B C is complete

Events are ordered: a row of time t is (t, 0, its number), the passing of t is (t, 1, 0), behind all rows of t.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import permutations
from typing import Any

from cep.model.expr import Binary, Call, ColumnRef, Expr, PrevRef, RowRef
from cep.model.functions import Function
from cep.model.operators import Pattern
from cep.model.patterns.parts import AllOf, AnyOf, Not, PatternPart, Repeat, Seq, Var, walk
from cep.model.patterns.rows import conjuncts, parts, replaced
from cep.model.schema import INT64, Field, Schema
from tests.reference.aggregates import Group
from tests.reference.aggregates import apply as function_of
from tests.reference.expressions import Failed
from tests.reference.rows import SUM_OVERFLOW, AggregateOrigin, DeadLetter, Evaluate, JoinedOrigin, Origin, Row, Values
from tests.reference.types import type_of
from tests.reference.values import fits_int64
from tests.reference.windows import by_key, runs

END = 2**61
NEVER = 2**62
Event = tuple[int, int, int]


# --- words ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Joint:
    """Between two neighbours; that of the least depth counts."""

    depth: int
    by: str | None
    gap: int


class Cut:
    """In place of all rows that are too many."""


CUT = Cut()
Token = str | Joint | Not | Cut


@dataclass(frozen=True)
class Item:
    """A row of the word, and what stands between it and the one before."""

    variable: str
    by: str | None
    gap: int
    forbids: frozenset[str]
    directly: frozenset[str]


@dataclass(frozen=True)
class Derivation:
    items: tuple[Item, ...]
    spans: tuple[tuple[str, int], ...]  # at the end: no such row for so long
    directly: frozenset[str]  # at the end: not in the row right behind

    @property
    def waits(self) -> bool:
        return bool(self.spans or self.directly)


def derivations(part: PatternPart, rows: int) -> tuple[Derivation, ...]:
    """The first so many rows of each, the preferred first; equal ones once."""
    return tuple(dict.fromkeys(_derivation(tokens) for tokens in _tokens(part, rows, 0, None, NEVER)))


def _tokens(part: PatternPart, limit: int, depth: int, by: str | None, gap: int) -> Iterator[tuple[Token, ...]]:
    match part:
        case Var(name=name):
            yield (name,) if limit > 0 else (CUT,)
        case Not():
            yield (part,)
        case AnyOf(items=items):
            for item in items:
                yield from _tokens(item, limit, depth + 1, by, gap)
        case Seq(items=items):
            yield from _joined(items, limit, depth, part.by or by, min(gap, part.gap_us or NEVER))
        case AllOf(items=items):
            for order in permutations(items):
                yield from _joined(order, limit, depth, part.by, min(gap, part.gap_us or NEVER))
        case Repeat():
            yield from _repeated(part, 0, limit, depth, replace(part, by=part.by or by, gap_us=min(gap, part.gap_us or NEVER)))


def _joined(
    items: Sequence[PatternPart], limit: int, depth: int, by: str | None, gap: int, first: bool = True
) -> Iterator[tuple[Token, ...]]:
    """One of each, one behind the other."""
    if not items:
        yield ()
        return
    joint: tuple[Token, ...] = () if first or isinstance(items[0], Not) else (Joint(depth, by, gap),)
    for head in _tokens(items[0], limit, depth + 1, by, gap):
        if CUT in head:
            yield (*joint, *head)
            continue
        for rest in _joined(items[1:], limit - _rows(head), depth, by, gap, first and isinstance(items[0], Not)):
            yield (*joint, *head, *rest)


def _repeated(part: Repeat, done: int, limit: int, depth: int, whole: Repeat) -> Iterator[tuple[Token, ...]]:
    def more() -> Iterator[tuple[Token, ...]]:
        if part.most is not None and done == part.most:
            return
        joint: tuple[Token, ...] = (Joint(depth, whole.by, whole.gap_us or NEVER),) if done else ()
        for head in _tokens(part.item, limit, depth + 1, whole.by, whole.gap_us or NEVER):
            if CUT in head:
                yield (*joint, *head)
                continue
            for rest in _repeated(part, done + 1, limit - _rows(head), depth, whole):
                yield (*joint, *head, *rest)

    if done < part.least:
        yield from more()
    elif part.greedy:
        yield from more()
        yield ()
    else:
        yield ()
        yield from more()


def _rows(tokens: Sequence[Token]) -> int:
    return sum(isinstance(token, str) for token in tokens)


def _derivation(tokens: Sequence[Token]) -> Derivation:
    items: list[Item] = []
    between: list[Joint | Not] = []
    for token in tokens:
        if isinstance(token, str):
            joints = [each for each in between if isinstance(each, Joint)]
            joint = min(joints, key=lambda each: each.depth, default=Joint(0, None, NEVER))
            nots = [each for each in between if isinstance(each, Not)] if items else []
            items.append(Item(token, joint.by, joint.gap, _names(nots, False), _names(nots, True)))
            between = []
        elif not isinstance(token, Cut):
            between.append(token)
    nots = [each for each in between if isinstance(each, Not)]
    return Derivation(tuple(items), tuple((each.name, each.for_) for each in nots if each.for_ is not None), _names(nots, True))


def _names(nots: Sequence[Not], directly: bool) -> frozenset[str]:
    return frozenset(each.name for each in nots if each.directly == directly and each.for_ is None)


# --- conditions -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Taken:
    """A mapping so far: (variable, number of the row)."""

    rows: tuple[tuple[str, int], ...]

    def of(self, variable: str) -> list[int]:
        return [row for name, row in self.rows if name == variable]


def read(ref: RowRef, members: Sequence[Row], schema: Schema) -> Any:
    """What `ref` reads of the rows that its variable has. Raises Failed: an integer sum that does not fit."""
    if ref.function == "count":
        return len(members)
    values = [row.values[schema.names.index(ref.column or "")] for row in members]
    if ref.function == "first":
        return values[0] if values else None
    if ref.function == "last":
        return values[-1 - ref.k] if len(values) > ref.k else None
    found = function_of(Function(ref.function, ref.column), Group(0, 0, (), tuple(members)), schema)
    if ref.function == "sum" and isinstance(found, int) and not fits_int64(found):
        raise Failed(SUM_OVERFLOW)
    return found


def field_of(ref: RowRef | PrevRef, schema: Schema) -> Field:
    """As a column, which may be NULL."""
    if isinstance(ref, PrevRef):
        return Field(named(ref), schema[ref.column].type, True)
    if ref.function == "count":
        return Field(named(ref), INT64)
    type_ = schema[ref.column or ""].type
    if ref.function == "avg":
        type_ = type_of(Binary("/", ColumnRef(ref.column or ""), ColumnRef(ref.column or "")), schema)
    if ref.function == "sum" and type_.name == "int32":
        type_ = INT64
    return Field(named(ref), type_, True)


def named(ref: RowRef | PrevRef) -> str:
    return repr((type(ref).__name__, *(getattr(ref, name) for name in ref.__dataclass_fields__)))


def refs_of(expr: Expr) -> list[RowRef | PrevRef]:
    return [part for part in parts(expr) if isinstance(part, RowRef | PrevRef)]


def over_columns(expr: Expr, schema: Schema) -> tuple[Expr, Schema]:
    """With a column in place of each reference."""
    made = replaced(expr, lambda part: ColumnRef(named(part)) if isinstance(part, RowRef | PrevRef) else None)
    return made, Schema((*schema.fields, *{named(ref): field_of(ref, schema) for ref in refs_of(expr)}.values()))


@dataclass
class Run:
    """The rows of a group between two pauses, and which variables' conditions over the row alone are true of each."""

    operator: Pattern
    schema: Schema
    rows: list[Row]
    alone: list[set[str]]
    value: Evaluate
    began: dict[tuple[Any, ...], bool] = field(default_factory=dict)

    def holds(self, variable: str, taken: Taken, i: int) -> bool:
        """Is row `i` one of `variable`, behind the rows that are taken?"""
        if variable not in self.alone[i]:
            return False
        key = (variable, taken, i)
        if key not in self.began:
            self.began[key] = all(self._true(each, Taken((*taken.rows, (variable, i))), i) for each in self._others(variable))
        return self.began[key]

    def _others(self, variable: str) -> list[Expr]:
        condition = dict(self.operator.define)[variable].condition
        return [each for each in conjuncts(condition) if refs_of(each)] if condition is not None else []

    def _true(self, expr: Expr, taken: Taken, i: int) -> bool:
        values = dict(zip(self.schema.names, self.rows[i].values, strict=True))
        for ref in refs_of(expr):
            values[named(ref)] = self._read(ref, taken, i)
        made, schema = over_columns(expr, self.schema)
        return self.value(Call("try", (made,)), schema, values) is True

    def _read(self, ref: RowRef | PrevRef, taken: Taken, i: int) -> Any:
        if isinstance(ref, PrevRef):
            return self.rows[i - ref.k].values[self.schema.names.index(ref.column)] if i >= ref.k else None
        try:
            return read(ref, [self.rows[j] for j in taken.of(ref.variable)], self.schema)
        except Failed:
            return None

    def event(self, i: int) -> Event:
        return (self.rows[i].time, 0, i)

    @property
    def over(self) -> Event:
        """When it ends: by its ttl, or with the stream."""
        ttl = self.operator.time_to_live
        return (self.rows[-1].time + ttl, 1, 0) if ttl is not None else (NEVER, 1, 0)


# --- the ways of one start --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Thread:
    """Derivation `number` was possible with the rows `taken` until `until`; or it is complete, from `until` on."""

    number: int
    taken: Taken
    until: Event
    complete: bool


def threads_of(seq: Run, start: int, known: Sequence[Derivation]) -> list[Thread]:
    """Everything that may come of a first row `start`, and when each is decided; none if it is no start."""
    found: list[Thread] = []
    for variable in dict.fromkeys(each.items[0].variable for each in known):
        if seq.holds(variable, Taken(()), start):
            mine = [n for n, each in enumerate(known) if each.items[0].variable == variable]
            found += _family(seq, Taken(((variable, start),)), mine, known)
    return found


def _family(seq: Run, taken: Taken, mine: Sequence[int], known: Sequence[Derivation]) -> Iterator[Thread]:
    """The threads of a mapping and of all that it may become."""
    length, (_, last) = len(taken.rows), taken.rows[-1]
    for n in mine:
        if len(known[n].items) == length:
            yield _ended(seq, taken, n, known[n], last)
    open_ = {n: known[n].items[length] for n in mine if len(known[n].items) > length}
    broken: dict[int, set[str]] = {n: set() for n in open_}
    for i in range(last + 1, len(seq.rows)):
        for n in [n for n, item in open_.items() if _passed(seq, taken, item) < seq.event(i)]:
            yield Thread(n, taken, _passed(seq, taken, open_.pop(n)), False)
        takers = {n: item for n, item in open_.items() if _takes(seq, taken, item, i, last, broken[n])}
        for variable in dict.fromkeys(item.variable for item in takers.values()):
            yield from _family(
                seq, Taken((*taken.rows, (variable, i))), [n for n, item in takers.items() if item.variable == variable], known
            )
        for n, item in list(open_.items()):
            broken[n] |= {name for name in item.forbids if seq.holds(name, taken, i)}
            goes_on = item.by == "any" or (item.by == "then" and not takers)
            direct = i == last + 1 and any(seq.holds(name, taken, i) for name in item.directly)
            if not goes_on or broken[n] or direct:
                del open_[n]
                yield Thread(n, taken, seq.event(i), False)
    for n, item in open_.items():
        yield Thread(n, taken, min(_passed(seq, taken, item), seq.over), False)


def _takes(seq: Run, taken: Taken, item: Item, i: int, last: int, broken: set[str]) -> bool:
    if (item.by == "next" and i != last + 1) or broken:
        return False
    if i == last + 1 and any(seq.holds(name, taken, i) for name in item.directly):
        return False
    return seq.holds(item.variable, taken, i)


def _passed(seq: Run, taken: Taken, item: Item) -> Event:
    """When time has passed in which `item` could come."""
    first, last = seq.rows[taken.rows[0][1]].time, seq.rows[taken.rows[-1][1]].time
    within = NEVER if seq.operator.within is None else first + seq.operator.within
    gap = NEVER if item.gap == NEVER else last + item.gap
    return (min(within, gap), 1, 0)


def _ended(seq: Run, taken: Taken, n: int, derivation: Derivation, last: int) -> Thread:
    """All its rows are there: it is complete now, or when nothing has come for as long as it says."""
    if not derivation.waits:
        return Thread(n, taken, seq.event(last), True)
    until = seq.rows[last].time + max((span for _, span in derivation.spans), default=NEVER)
    for i in [i for i in range(last + 1, len(seq.rows)) if seq.rows[i].time <= until]:
        late = any(seq.rows[i].time <= seq.rows[last].time + span and seq.holds(name, taken, i) for name, span in derivation.spans)
        if late or (i == last + 1 and any(seq.holds(name, taken, i) for name in derivation.directly)):
            return Thread(n, taken, seq.event(i), False)
    if derivation.spans:
        return Thread(n, taken, min((until, 1, 0), seq.over), True)
    return Thread(n, taken, seq.event(last + 1) if last + 1 < len(seq.rows) else seq.over, True)


# --- matches ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """A match, or what a start came to that timed out, decided at `event`."""

    event: Event
    taken: Taken
    timed_out: bool = False


@dataclass
class Found:
    """What came of a sequence. `settled`: when each row's fate is known, as far as open starts go."""

    outcomes: list[Outcome]
    settled: list[Event]


def first_matches(seq: Run, known: Sequence[Derivation]) -> Found:
    how, _, variable = seq.operator.after.partition(" ")
    outcomes: list[Outcome] = []
    settled = [seq.event(i) for i in range(len(seq.rows))]
    begin, decided = 0, (-NEVER, 0, 0)
    for start in range(len(seq.rows)):
        threads = threads_of(seq, start, known) if start >= begin else []
        if not threads:
            continue
        event, match = _decided(threads)
        decided = max(decided, event)
        settled = [max(each, decided) if i >= start else each for i, each in enumerate(settled)]
        if match is not None:
            outcomes.append(Outcome(event if how == "to_next" else decided, match))
            begin = _behind(how, variable, match)
        elif event[1] and not any(start in [row for _, row in each.taken.rows] for each in outcomes if not each.timed_out):
            last = min((each for each in threads if each.until == event), key=lambda each: each.number)
            outcomes.append(Outcome(decided, last.taken, timed_out=True))
    return Found(outcomes, settled)


def _decided(threads: Sequence[Thread]) -> tuple[Event, Taken | None]:
    """When nothing preferred can come any more, and the match."""
    for event in sorted({each.until for each in threads}):
        complete = [each for each in threads if each.complete and each.until <= event]
        best = min(complete, key=lambda each: each.number, default=None)
        if best is not None and not any(each.number < best.number and each.until > event for each in threads):
            return event, best.taken
    return max(each.until for each in threads), None


def _behind(how: str, variable: str, match: Taken) -> int:
    """The first row that may be a start again."""
    match how:
        case "past_last":
            return match.rows[-1][1] + 1
        case "to_next":
            return match.rows[0][1] + 1
        case "to_first":
            return match.of(variable)[0]
        case _:
            return match.of(variable)[-1]


def all_matches(seq: Run, known: Sequence[Derivation]) -> Found:
    found: dict[Taken, Event] = {}
    settled = [seq.event(i) for i in range(len(seq.rows))]
    for start in range(len(seq.rows)):
        threads = threads_of(seq, start, known)
        for each in threads:
            if each.complete:
                found[each.taken] = min(found.get(each.taken, each.until), each.until)
        decided = max((each.until for each in threads), default=(-NEVER, 0, 0))
        settled = [max(each, decided) if i >= start else each for i, each in enumerate(settled)]
    return Found([Outcome(event, taken) for taken, event in found.items()], settled)


# --- what comes out ---------------------------------------------------------------------------------------------------


@dataclass
class Answer:
    """Rows by branch."""

    branches: dict[str, list[Row]]
    dead: list[DeadLetter]


def pattern(
    operator: Pattern,
    schemas: Sequence[Schema],
    inputs: Sequence[Sequence[Row]],
    value: Evaluate,
    aggregate_origin: AggregateOrigin,
    joined_origin: JoinedOrigin,
) -> Answer:
    """`inputs`: the rows of each."""
    schema = united(schemas)
    found = Answer({name: [] for name in operator.branches}, [])
    rows = [(_widened(row, own, schema), number) for number, (own, each) in enumerate(zip(schemas, inputs, strict=True)) for row in each]
    seen = {id(row): _alone(operator, schema, row, number, value, found.dead) for row, number in rows}
    there = [row for row, _ in rows if seen[id(row)] is not None and (seen[id(row)] or takes_all(operator))]
    for key, members in by_key(schema, operator.by, there).items():
        for run in runs(operator.time_to_live, members):
            seq = Run(operator, schema, run, [seen[id(row)] or set() for row in run], value)
            _answer(
                seq, key, found, lambda t, row, key=key: joined_origin(operator.name, aggregate_origin(operator.name, key, t), row.origin)
            )
    return found


def united(schemas: Sequence[Schema]) -> Schema:
    fields: dict[str, Field] = {}
    for schema in schemas:
        for each in schema.fields:
            nullable = each.nullable or (each.name in fields and fields[each.name].nullable) or any(each.name not in s for s in schemas)
            fields[each.name] = replace(each, nullable=nullable)
    return Schema(tuple(fields.values()))


def _widened(row: Row, own: Schema, schema: Schema) -> Row:
    values = dict(zip(own.names, row.values, strict=True))
    return replace(row, values=tuple(values.get(name) for name in schema.names))


def takes_all(operator: Pattern) -> bool:
    """Are all rows in the sequence?"""
    each = [part for part, _ in walk(operator.pattern)]
    nexts = any(getattr(part, "by", None) == "next" or getattr(part, "directly", False) for part in each)
    conditions = [d.condition for _, d in operator.define if d.condition is not None]
    return operator.unmatched or nexts or any(isinstance(ref, PrevRef) for condition in conditions for ref in refs_of(condition))


def _alone(operator: Pattern, schema: Schema, row: Row, number: int, value: Evaluate, dead: list[DeadLetter]) -> set[str] | None:
    """The variables whose conditions over the row alone are true of it; None: one fails."""
    found = set()
    values = dict(zip(schema.names, row.values, strict=True))
    for name, definition in operator.define:
        if definition.input is not None and operator.inputs[number] != definition.input:
            continue
        mine = [each for each in conjuncts(definition.condition) if not refs_of(each)] if definition.condition is not None else []
        try:
            if not mine or value(reduce(lambda a, b: a & b, mine), schema, values) is True:
                found.add(name)
        except Failed as failed:
            dead.append(DeadLetter(operator.name, failed.reason, row.origin))
            return None
    return found


def _answer(seq: Run, key: Values, found: Answer, hashed: Callable[[int, Row], Origin]) -> None:
    operator = seq.operator
    known = derivations(operator.pattern, len(seq.rows) + 1)
    result = (first_matches if operator.matches == "first" else all_matches)(seq, known)
    names = [name for name, _ in operator.define]
    order = lambda each: (each.event, [row for _, row in each.taken.rows], [names.index(name) for name, _ in each.taken.rows])  # noqa: E731
    counts: Counter[tuple[Event, bool]] = Counter()
    for match_number, outcome in enumerate(sorted((each for each in result.outcomes if not each.timed_out), key=order), 1):
        _matched(seq, key, outcome, (match_number, counts[outcome.event, False]), found, hashed)
        counts[outcome.event, False] += 1
    for outcome in result.outcomes:
        if outcome.timed_out and operator.timed_out:
            time, origin = _place(seq, (outcome.event[0], 1, 0), outcome.taken, 0, hashed)
            _measured(seq, key, outcome, found, lambda read, t=time, o=origin: [Row(t, o, (*key, *read))], "timed_out")
    matched = {row for each in result.outcomes if not each.timed_out for _, row in each.taken.rows}
    if operator.unmatched:
        rest = [(seq.rows[i], event) for i, event in enumerate(result.settled) if i not in matched]
        found.branches[f"{operator.name}.unmatched"] += [replace(row, time=_time(event)) for row, event in rest]


def _matched(
    seq: Run, key: Values, outcome: Outcome, numbers: tuple[int, int], found: Answer, hashed: Callable[[int, Row], Origin]
) -> None:
    match_number, number = numbers

    def rows(read: Values) -> list[Row]:
        if seq.operator.rows == "one":
            time, origin = _place(seq, outcome.event, outcome.taken, number << 32, hashed)
            return [Row(time, origin, (*key, *read))]
        made = []
        for k, (variable, i) in enumerate(outcome.taken.rows):
            time, origin = _place(seq, outcome.event, outcome.taken, number << 32 | k, hashed)
            made.append(Row(time, origin, (*seq.rows[i].values, *read, variable, match_number)))
        return made

    _measured(seq, key, outcome, found, rows, "")


def _place(seq: Run, event: Event, taken: Taken, ordinal: int, hashed: Callable[[int, Row], Origin]) -> tuple[int, Origin]:
    """Event time and origin of what comes out."""
    _, passing, i = event
    first = seq.rows[taken.rows[0][1]]
    return _time(event), (*(hashed(first.time, first) if passing else seq.rows[i].origin), ordinal)


def _time(event: Event) -> int:
    """What no time decides is decided at the end."""
    return END if event[0] >= NEVER else event[0]


def _measured(seq: Run, key: Values, outcome: Outcome, found: Answer, rows: Callable[[Values], list[Row]], branch: str) -> None:
    """A measure that fails is a dead letter in place of the answer; a sum that does not fit is NULL and a dead letter beside it."""
    operator, branch = seq.operator, f"{seq.operator.name}.{branch}" if branch else seq.operator.name
    values: dict[str, Any] = {}
    for name, ref in {named(ref): ref for _, expr in operator.measures for ref in refs_of(expr)}.items():
        assert isinstance(ref, RowRef)
        try:
            values[name] = read(ref, [seq.rows[i] for i in outcome.taken.of(ref.variable)], seq.schema)
        except Failed as failed:
            values[name] = None
            found.dead.append(DeadLetter(operator.name, failed.reason, (0, 0)))
    try:
        read_ = tuple(seq.value(*over_columns(expr, seq.schema), values) for _, expr in operator.measures)
        found.branches[branch] += rows(read_)
    except Failed as failed:
        found.dead.append(DeadLetter(branch, failed.reason, (0, 0)))
