"""What a pattern is made of: frozen parts, a call each to put them together, and their document.

    event("a", col("v") < 2).then(event("b", col("v") > 100 * row("a")["v"]))      {seq: [a, b], by: then}
    event("s").next(event("d").one_or_more()).next(event("u").one_or_more())       {seq: [s, {repeat: d}, {repeat: u}], by: next}
    event("shelf").not_then(event("pay")).then(event("exit"))                      {seq: [shelf, {not: pay}, exit], by: then}
    event("cart").absent(event("buy"), for_="30m")                                 {seq: [cart, {not: buy, for: 30m}], by: then}

`by` is how near the next row has to be: `next`, the next row of the sequence; `then`, the first that anything awaited there
takes; `any`, any later one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from types import EllipsisType
from typing import Any

from cep.errors import QueryError
from cep.model.duration import format_duration, parse_duration
from cep.model.expr import Expr
from cep.model.limits import shown

NEXT, THEN, ANY = BYS = ("next", "then", "any")
ALL_OF_MAX = 8
"""Parts of an `all_of`."""


@dataclass(frozen=True)
class PatternPart:
    """A part of a pattern; it only carries the calls by which parts are put together."""

    def then(self, part: PatternPart) -> PatternPart:
        """Behind it, the first later row that anything awaited there takes: a row that can be taken is never skipped."""
        return _behind(self, part, THEN)

    def next(self, part: PatternPart) -> PatternPart:
        """Behind it, in the next row of the sequence."""
        return _behind(self, part, NEXT)

    def then_any(self, part: PatternPart) -> PatternPart:
        """Behind it, any later row: with `matches="all"`."""
        return _behind(self, part, ANY)

    def not_then(self, part: PatternPart) -> PatternPart:
        """No row strictly between it and what is said to follow satisfies the event `part`."""
        return Seq((self, _negated(part)), None)

    def not_next(self, part: PatternPart) -> PatternPart:
        """The row right behind it does not satisfy the event `part`."""
        return Seq((self, replace(_negated(part), directly=True)), None)

    def absent(self, part: PatternPart, for_: str | timedelta) -> PatternPart:
        """At the end: no row of the next `for_` satisfies the event `part`."""
        absent = replace(_negated(part), for_=parse_duration(for_, "for_"))
        if isinstance(self, Seq) and self.by is not None and self.gap_us is None:
            return Seq((*self.items, absent), self.by)
        return Seq((self, absent), THEN)

    def times(self, least: int, most: int | EllipsisType | None = ..., /, *, by: str | None = None) -> PatternPart:
        """From `least` to `most` times, as often as can be; without `most` exactly `least` times, with None any number more."""
        return Repeat(self, least, least if isinstance(most, EllipsisType) else most, True, by)

    def one_or_more(self, *, by: str | None = None) -> PatternPart:
        """At least once, as often as can be."""
        return Repeat(self, 1, None, True, by)

    def optional(self) -> PatternPart:
        """Once if that can be, else not at all."""
        return Repeat(self, 0, 1, True, None)

    def reluctant(self) -> PatternPart:
        """Of a repetition: as seldom as can be."""
        if not isinstance(self, Repeat):
            raise QueryError("reluctant: only what is repeated, or optional, can be reluctant")
        return replace(self, greedy=False)

    def gap(self, most: str | timedelta) -> PatternPart:
        """Of a sequence or repetition: rows that are neighbours in it are at most so far apart."""
        if not isinstance(self, Seq | Repeat | AllOf):
            raise QueryError("gap: only a sequence, a repetition or all_of has neighbours")
        return replace(self, gap_us=parse_duration(most, "gap"))

    def __or__(self, other: PatternPart) -> PatternPart:
        left = self.items if isinstance(self, AnyOf) else (self,)
        return AnyOf((*left, other))


@dataclass(frozen=True)
class Var(PatternPart):
    """One row that satisfies variable `name`; from `event`, also what the variable is."""

    name: str
    definition: Definition | None = None


@dataclass(frozen=True)
class Seq(PatternPart):
    """One behind the other."""

    items: tuple[PatternPart, ...]
    by: str | None
    gap_us: int | None = None


@dataclass(frozen=True)
class AnyOf(PatternPart):
    """One of them, the first rather than the second."""

    items: tuple[PatternPart, ...]


@dataclass(frozen=True)
class AllOf(PatternPart):
    """All of them in any order."""

    items: tuple[PatternPart, ...]
    by: str | None
    gap_us: int | None = None


@dataclass(frozen=True)
class Repeat(PatternPart):
    """`least` to `most` times (None: any number), greedy: one more rather than stopping."""

    item: PatternPart
    least: int = 1
    most: int | None = None
    greedy: bool = True
    by: str | None = None
    gap_us: int | None = None


@dataclass(frozen=True)
class Not(PatternPart):
    """In a Seq: no row between satisfies the variable; `directly`: the row right behind does not; `for_`, µs: at the end, none so long."""

    name: str
    directly: bool = False
    for_: int | None = None
    definition: Definition | None = None


@dataclass(frozen=True, eq=False)  # == of conditions builds an expression
class Definition:
    """What a row has to be to be taken by a variable: of `input` (None: of the only one), and `condition` true."""

    condition: Expr | None = None
    input: str | None = None

    @property
    def says(self) -> bool:
        """Is there anything said, or is every row one?"""
        return self.condition is not None or self.input is not None


def event(name: str, condition: Expr | None = None, *, of: str | None = None) -> Var:
    """One row that `condition` is true of, over its columns, `row(…)` and `prev(…)`; None: any row. `of`: the input that it is of."""
    if not isinstance(name, str) or not isinstance(condition, Expr | None):
        raise QueryError(f'event: expected a name and a condition such as col("v") > 1, got {shown(name)} and {shown(condition)}')
    return Var(name, Definition(condition, of))


def all_of(*parts: PatternPart, by: str) -> PatternPart:
    """All of them, in any order; `by` as between the parts of a sequence."""
    return AllOf(parts, by)


def _behind(left: PatternPart, right: PatternPart, by: str) -> PatternPart:
    if not isinstance(right, PatternPart):
        raise QueryError(f'{by}: expected a part of a pattern such as event("a", col("v") > 1), got {shown(right)}')
    if isinstance(left, Seq) and left.by is None and left.gap_us is None:
        before, nots = left.items[0], left.items[1:]
        inside = before.items if isinstance(before, Seq) and before.by == by and before.gap_us is None else (before,)
        return Seq((*inside, *nots, right), by)
    if isinstance(left, Seq) and left.by == by and left.gap_us is None:
        return Seq((*left.items, right), by)
    return Seq((left, right), by)


def _negated(part: PatternPart) -> Not:
    if not isinstance(part, Var):
        raise QueryError("only a single event can be negated; got a part that is made of several")
    return Not(part.name, definition=part.definition)


# --- looking into them -----------------------------------------------------------------------------------------------


def walk(part: PatternPart, pointer: str = "") -> Iterator[tuple[PatternPart, str]]:
    """Every part with its pointer into the document, outer ones first."""
    yield part, pointer
    match part:
        case Seq(items=items):
            children = [(item, f"{pointer}/seq/{i}") for i, item in enumerate(items)]
        case AnyOf(items=items):
            children = [(item, f"{pointer}/any_of/{i}") for i, item in enumerate(items)]
        case AllOf(items=items):
            children = [(item, f"{pointer}/all_of/{i}") for i, item in enumerate(items)]
        case Repeat(item=item):
            children = [(item, f"{pointer}/repeat")]
        case _:
            children = []
    for child, where in children:
        yield from walk(child, where)


def definitions(part: PatternPart) -> dict[str, Definition]:
    """What `event` said of each variable; of one that is written several times what is said of it once. Raises QueryError: two things."""
    found: dict[str, Definition] = {}
    for each, _ in walk(part):
        if isinstance(each, Var | Not) and each.definition is not None:
            given, known = each.definition, found.get(each.name)
            if known is not None and known.says and given.says and not _same(known, given):
                raise QueryError(f"event {each.name!r} is written with two conditions; give one of them another name", "/pattern")
            if known is None or not known.says:
                found[each.name] = given
    return found


def _same(one: Definition, other: Definition) -> bool:
    return (one.input, repr(one.condition)) == (other.input, repr(other.condition))


def bare(part: PatternPart) -> PatternPart:
    """Without what `event` said of variables: as documents have it."""
    match part:
        case Var() | Not():
            return replace(part, definition=None)
        case Seq() | AnyOf() | AllOf():
            return replace(part, items=tuple(map(bare, part.items)))
        case Repeat():
            return replace(part, item=bare(part.item))
    return part


def text_of(part: PatternPart) -> str:
    """As a person would write it: `shelf -> !pay -> exit`."""
    match part:
        case Var(name=name):
            return name
        case Seq(items=items, by=by):
            return _ARROWS[by].join(_inside(item) for item in items) + _gap(part.gap_us)
        case AnyOf(items=items):
            return " | ".join(_inside(item) for item in items)
        case AllOf(items=items):
            return f"all of ({', '.join(text_of(item) for item in items)})" + _gap(part.gap_us)
        case Repeat():
            return _inside(part.item) + _times(part) + _gap(part.gap_us)
        case Not(name=name, directly=directly, for_=for_):
            return f"!{name}" + (" next" if directly else "" if for_ is None else f" for {format_duration(for_)}")
    raise AssertionError(part)


_ARROWS: Mapping[str | None, str] = {NEXT: " ", THEN: " -> ", ANY: " ->> ", None: " ? "}


def _inside(part: PatternPart) -> str:
    return f"({text_of(part)})" if isinstance(part, Seq | AnyOf) else text_of(part)


def _gap(gap: int | None) -> str:
    return "" if gap is None else f" [gap {format_duration(gap)}]"


def _times(part: Repeat) -> str:
    reluctant = "" if part.greedy else "?"
    short = {(1, None): "+", (0, None): "*", (0, 1): "?"}.get((part.least, part.most))
    if short is not None:
        return short + reluctant
    most = "" if part.most is None else str(part.most)
    return f"{{{part.least}{'' if part.most == part.least else f',{most}'}}}{reluctant}"


# --- documents -------------------------------------------------------------------------------------------------------


def to_json(part: PatternPart) -> Any:
    match part:
        case Var(name=name):
            return name
        case Seq(items=items):
            return {"seq": list(map(to_json, items)), **_said(by=part.by), **_span(part.gap_us)}
        case AnyOf(items=items):
            return {"any_of": list(map(to_json, items))}
        case AllOf(items=items):
            return {"all_of": list(map(to_json, items)), **_said(by=part.by), **_span(part.gap_us)}
        case Repeat():
            limits = {"min": part.least} if part.least != 1 else {}
            limits |= {} if part.most is None else {"max": part.most}
            greedy = {} if part.greedy else {"greedy": False}
            return {"repeat": to_json(part.item), **limits, **greedy, **_said(by=part.by), **_span(part.gap_us)}
        case Not():
            for_ = {} if part.for_ is None else {"for": format_duration(part.for_)}
            return {"not": part.name, **({"next": True} if part.directly else {}), **for_}
    raise AssertionError(part)


def _said(**given: str | None) -> dict[str, str]:
    return {key: value for key, value in given.items() if value is not None}


def _span(gap: int | None) -> dict[str, str]:
    return {} if gap is None else {"gap": format_duration(gap)}


#: What may stand beside the first key of each.
_KEYS: Mapping[str, frozenset[str]] = {
    "seq": frozenset({"by", "gap"}),
    "any_of": frozenset(),
    "all_of": frozenset({"by", "gap"}),
    "repeat": frozenset({"min", "max", "greedy", "by", "gap"}),
    "not": frozenset({"next", "for"}),
}


def from_json(document: Any, pointer: str = "") -> PatternPart:
    """Raises QueryError with a pointer to what is no part of a pattern."""
    if isinstance(document, str):
        return Var(document)
    kind = next((key for key in _KEYS if isinstance(document, dict) and key in document), None)
    if kind is None:
        names = ", ".join(f'{{"{key}": ...}}' for key in _KEYS)
        raise QueryError(f"expected the name of a variable or one of {names}, got {shown(document)}", pointer)
    for key in document.keys() - _KEYS[kind] - {kind}:
        beside = ", ".join(sorted(_KEYS[kind])) or "nothing"
        raise QueryError(f"unknown key {key!r}: beside {kind!r} stand {beside}", f"{pointer}/{key}")
    if kind == "not":
        return _not_of(document, pointer)
    by, gap = _by(document, pointer), _duration(document, "gap", pointer)
    if kind == "repeat":
        item = from_json(document["repeat"], f"{pointer}/repeat")
        least, most = _count(document, "min", 1, pointer), _count(document, "max", None, pointer)
        return Repeat(item, 1 if least is None else least, most, _flag(document, "greedy", True, pointer), by, gap)
    items = document[kind]
    if not isinstance(items, list):
        raise QueryError(f"expected a list of parts, got {shown(items)}", f"{pointer}/{kind}")
    read = tuple(from_json(item, f"{pointer}/{kind}/{i}") for i, item in enumerate(items))
    return AnyOf(read) if kind == "any_of" else Seq(read, by, gap) if kind == "seq" else AllOf(read, by, gap)


def _not_of(document: Mapping[str, Any], pointer: str) -> Not:
    if not isinstance(document["not"], str):
        raise QueryError(f"expected the name of a variable, got {shown(document['not'])}", f"{pointer}/not")
    return Not(document["not"], _flag(document, "next", False, pointer), _duration(document, "for", pointer))


def _by(document: Mapping[str, Any], pointer: str) -> str | None:
    by = document.get("by")
    if by is not None and by not in BYS:
        raise QueryError(f"by: expected one of {', '.join(BYS)}, got {shown(by)}", f"{pointer}/by")
    return None if by is None else str(by)


def _duration(document: Mapping[str, Any], key: str, pointer: str) -> int | None:
    if document.get(key) is None:
        return None
    try:
        return parse_duration(document[key], key)
    except QueryError as error:
        raise QueryError(error.message, f"{pointer}/{key}") from None


def _count(document: Mapping[str, Any], key: str, default: int | None, pointer: str) -> int | None:
    value = document.get(key, default)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise QueryError(f"{key}: expected a whole number, got {shown(value)}", f"{pointer}/{key}")
    return value


def _flag(document: Mapping[str, Any], key: str, default: bool, pointer: str) -> bool:
    value = document.get(key, default)
    if not isinstance(value, bool):
        raise QueryError(f"{key}: expected true or false, got {shown(value)}", f"{pointer}/{key}")
    return value
