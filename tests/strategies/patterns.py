"""Patterns over a stream: parts, conditions over the row, over rows of the match and over rows before, and everything that may be said
beside."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from cep.errors import QueryError
from cep.model.expr import Expr, col
from cep.model.operators import Pattern
from cep.model.patterns.parts import AllOf, AnyOf, Definition, Not, PatternPart, Repeat, Seq, Var, walk
from cep.model.patterns.rows import prev, row
from cep.model.schema import Schema
from tests.strategies.expressions import conditions

NAMES = ("A", "B", "C", "D")
_SPANS = st.sampled_from((1, 2, 3, 5, 8))


@st.composite
def parts(draw: DrawFn, names: Sequence[str], bys: Sequence[str], depth: int = 2, timed: bool = True) -> PatternPart:
    """A part of a pattern; it may be one that is refused. `timed`: with gaps, and what may not come at the end."""
    kind = draw(st.sampled_from(("seq", "seq", "repeat", "any_of", "all_of", "var")[: 6 if depth < 2 else 5] if depth else ("var",)))
    inner = parts(names, bys, depth - 1, timed)
    gaps = st.none() | st.none() | _SPANS if timed else st.none()
    match kind:
        case "seq":
            return Seq(tuple(draw(_items(inner, names, timed))), draw(st.sampled_from(bys)), draw(gaps))
        case "repeat":
            least = draw(st.sampled_from((1, 1, 0, 2)))
            most = draw(st.none() | st.integers(max(least, 1), 2))
            return Repeat(draw(inner), least, most, draw(st.booleans()), draw(st.sampled_from(bys)), draw(gaps))
        case "any_of":
            return AnyOf(tuple(draw(st.lists(inner, min_size=2, max_size=2))))
        case "all_of":
            return AllOf(tuple(draw(st.lists(inner, min_size=2, max_size=2))), draw(st.sampled_from(bys)))
    return Var(draw(st.sampled_from(names)))


@st.composite
def short_parts(draw: DrawFn, names: Sequence[str], bys: Sequence[str]) -> PatternPart:
    """One with few words, however many rows there are: the reference writes them all out."""
    one = st.sampled_from(names).map(Var)
    twice = st.builds(Repeat, one, st.integers(0, 2), st.just(2), st.booleans(), st.sampled_from(bys))
    items = draw(st.lists(one | twice | st.builds(AnyOf, st.tuples(one, one)), min_size=1, max_size=3))
    nots = [Not(draw(st.sampled_from(names)), draw(st.booleans()))] if draw(st.booleans()) else []
    return Seq((items[0], *nots, *items[1:]) if len(items) > 1 else tuple(items), draw(st.sampled_from(bys)))


@st.composite
def absences(draw: DrawFn, names: Sequence[str]) -> PatternPart:
    """A row, and then nothing of some kinds for a time, or right behind it."""
    one = st.sampled_from(names).map(Var)
    span = draw(_SPANS)
    late = st.builds(Not, st.sampled_from(names), st.just(False), st.just(span)) | st.builds(Not, st.sampled_from(names), st.just(True))
    ends = [Seq((draw(one), *draw(st.lists(late, min_size=1, max_size=2))), "then") for _ in range(draw(st.integers(1, 2)))]
    return AnyOf((*ends, draw(one))) if len(ends) > 1 or draw(st.booleans()) else ends[0]


@st.composite
def _items(draw: DrawFn, inner: SearchStrategy[PatternPart], names: Sequence[str], timed: bool) -> list[PatternPart]:
    """Parts, and now and then a negation between two, or, `timed`, at the end."""
    items: list[PatternPart] = [draw(inner)]
    for _ in range(draw(st.integers(1, 2))):
        if draw(st.integers(0, 3)) == 0:
            items.append(Not(draw(st.sampled_from(names)), draw(st.booleans())))
        items.append(draw(inner))
    if timed and draw(st.integers(0, 4)) == 0:
        items.append(
            draw(st.builds(Not, st.sampled_from(names), st.just(False), _SPANS) | st.builds(Not, st.sampled_from(names), st.just(True)))
        )
    return items


@st.composite
def conditions_over(draw: DrawFn, schema: Schema, own: str, takers: Sequence[str], alone: SearchStrategy[Expr]) -> Expr:
    """`alone`, and sometimes more: of rows of the match, and of rows before."""
    found = draw(alone)
    numbers = [field.name for field in schema.fields if field.type.is_number]
    texts = [field.name for field in schema.fields if field.type.name == "string"]
    for _ in range(draw(st.sampled_from((0, 0, 0, 1, 1, 2)))):
        found = found & draw(_more(own, takers, numbers, texts))
    return found


@st.composite
def _more(draw: DrawFn, own: str, takers: Sequence[str], numbers: Sequence[str], texts: Sequence[str]) -> Expr:
    rows, least = row(draw(st.sampled_from((*takers, own)))), draw(st.integers(-1, 3))
    kinds = ["count", *(["value", "value", "sum", "avg", "extreme", "prev", "either"] if numbers else []), *(["text"] if texts else [])]
    match draw(st.sampled_from(kinds)):
        case "value":
            name = draw(st.sampled_from(numbers))
            other = draw(st.sampled_from((rows[name], rows.first(name), rows.last(name, 1))))
            return draw(st.sampled_from((col(name) >= other, col(name) > other, col(name) != other, col(name) + other > least)))
        case "sum":
            return rows.sum(draw(st.sampled_from(numbers))) > least
        case "avg":
            return rows.avg(draw(st.sampled_from(numbers))) <= least
        case "extreme":
            name = draw(st.sampled_from(numbers))
            return draw(st.sampled_from((rows.min(name) <= least, rows.max(name) >= least)))
        case "prev":
            name = draw(st.sampled_from(numbers))
            return col(name) >= prev(name, draw(st.integers(1, 2)))
        case "either":
            name = draw(st.sampled_from(numbers))
            return (col(name) < least) | rows[name].is_null() | (rows.count() < 2)
        case "text":
            name = draw(st.sampled_from(texts))
            return draw(st.sampled_from((col(name) == rows[name], col(name) != rows.first(name), rows.last(name, 1).is_null())))
    return rows.count() <= max(least, 1)


@st.composite
def patterns(
    draw: DrawFn,
    inputs: Sequence[str],
    schema: Schema,
    name: str,
    by: Sequence[str],
    alone: SearchStrategy[Expr] | None = None,
    short: bool = False,
    together: str = "",
) -> Pattern:
    """Over `inputs`, which have all columns of `schema`; `alone`: conditions over the row; `short`: see `short_parts`; `together`, "first"
    or "all" (matches): mostly one whose starts, or families, go on together."""
    matches = together or draw(st.sampled_from(("first", "first", "all")))
    bys = ("then", "next", "any") if matches == "all" and not short else ("then", "next")
    bys = ("any", "any", "then", "next") if together == "all" else bys
    names = NAMES[: draw(st.integers(2, 3))]
    absent = together == "first" and draw(st.integers(0, 3)) == 0
    part = draw(absences(names) if absent else short_parts(names, bys) if short else parts(names, bys, timed=not together))
    if together == "all" and draw(st.booleans()):  # so that starts are open until their time is over
        part = Seq((Var(draw(st.sampled_from(names))), part), "any")
    written = list(dict.fromkeys(each.name for each, _ in walk(part) if isinstance(each, Var | Not)))
    takers = list(dict.fromkeys(each.name for each, _ in walk(part) if isinstance(each, Var))) or [names[0]]
    within = draw(_SPANS) if matches == "all" else draw(st.none() | _SPANS)
    ttl = draw(st.none() | _SPANS)
    every = conditions(schema) if alone is None else alone
    conditioned = (lambda each: every) if together else (lambda each: conditions_over(schema, each, takers, every))
    define = tuple(
        (each, Definition(draw(conditioned(each)), draw(st.sampled_from(inputs)) if len(inputs) > 1 else None)) for each in written
    )
    measures = tuple((f"{name}_{i}", draw(_measures(schema, takers))) for i in range(draw(st.integers(1, 3))))
    after = "past_last"
    if matches == "first":
        after = draw(st.sampled_from(("past_last", "to_next", f"to_first {takers[-1]}", f"to_last {takers[-1]}")))
    rows = draw(st.sampled_from(("one", "one", "all")))
    timed_out = matches == "first" and draw(st.booleans())
    unmatched = not together and draw(st.booleans())
    return _made(name, tuple(inputs), define, part, tuple(by), within, ttl, matches, after, measures, rows, timed_out, unmatched)


def _made(name: str, inputs: tuple[str, ...], define: tuple[tuple[str, Definition], ...], part: PatternPart, *rest: object) -> Pattern:
    """The pattern; where it is refused, one that goes on past the last row, then one within a span, at last one that takes its
    variables in turn."""
    by, within, ttl, matches, after, measures, *more = rest
    tried = ((part, within, after), (part, within, "past_last"), (part, within or 8, "past_last"))
    for each, span, on in tried:
        try:
            return Pattern(name, inputs, define, each, by, span, ttl, matches, on, measures, *more)  # type: ignore[arg-type]
        except QueryError:
            continue
    return Pattern(name, inputs, define, _plain(define), by, within, ttl, matches, "past_last", measures, *more)  # type: ignore[arg-type]


def _plain(define: tuple[tuple[str, Definition], ...]) -> PatternPart:
    """One of each variable."""
    names = [name for name, _ in define]
    return Var(names[0]) if len(names) == 1 else Seq(tuple(map(Var, names)), "then")


@st.composite
def _measures(draw: DrawFn, schema: Schema, takers: Sequence[str]) -> Expr:
    rows, name = row(draw(st.sampled_from(takers))), draw(st.sampled_from(schema.names))
    read = [rows[name], rows.first(name), rows.last(name, 1), rows.count()]
    if schema[name].type.is_number:
        read += [rows.sum(name), rows.avg(name), rows.min(name) + rows.count()]
    if not schema[name].type.is_list:
        read += [rows.max(name)]
    return draw(st.sampled_from(read))
