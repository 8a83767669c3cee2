"""Random patterns that FlinkCEP can say too, and rows for them; our matches of a case."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from cep.model.expr import Expr, col
from cep.model.patterns.parts import PatternPart, event
from cep.model.patterns.rows import row
from driver import Query, stream
from numa_cep import testing

KINDS, WITHIN_MAX = 3, 16
Match = Mapping[str, tuple[int, ...]]
"""Variable -> the numbers of its rows; one that took none is left out."""


class Row(NamedTuple):
    """One of the stream: its time in ms, its kind, a value."""

    time: int
    kind: int
    value: int


@dataclass(frozen=True, slots=True)
class Part:
    """A variable of a sequence: how it follows the one before, which rows it takes, how many, and what may not be between the two."""

    name: str
    edge: str
    kind: int
    than: str | None = None  # a variable before, of which its value is the greater
    times: int = 1
    inner: str = "then"
    optional: bool = False
    never: tuple[int, str] | None = None  # a kind, and the edge by which it may not follow


@dataclass(frozen=True, slots=True)
class Case:
    """A pattern and its rows. `after`: "all", or where the search goes on behind a match; `named`: the variable of it; `within`: ms."""

    parts: tuple[Part, ...]
    after: str
    named: str | None
    within: int
    rows: tuple[Row, ...]


def drawn(choose: random.Random) -> Case:
    """Any case that both can say. The last row is behind all that is within, and of no kind that is asked for: FlinkCEP keeps a match back
    as long as an earlier start may yet become one, so without that row it would tell less."""
    names = "abcd"[: choose.randint(1, 4)]
    after = choose.choice(("all", "to_next", "past_last", "to_first", "to_last"))
    parts = tuple(_part(choose, i, names, after == "all") for i in range(len(names)))
    again = 0 if after == "to_first" or parts[0].times > 1 else 1  # a match would be found again from where it began
    sure = [part.name for part in parts[again if after == "to_last" else 1 :]]
    if after in ("to_first", "to_last") and not sure:
        after = "past_last"
    named = choose.choice(sure) if after in ("to_first", "to_last") else None
    parts = tuple(replace(part, never=None) if before.times > 1 else part for before, part in zip(parts[:1] + parts, parts, strict=False))
    time, rows = 0, []
    for _ in range(choose.randint(3, 14)):
        time += choose.choice((0, 1, 1, 1, 2, 5))
        rows.append(Row(time, choose.randrange(KINDS), choose.randrange(4)))
    rows.append(Row(time + 2 * WITHIN_MAX, KINDS, 0))
    return Case(parts, after, named, choose.choice((2, 4, 8, WITHIN_MAX)), tuple(rows))


def _part(choose: random.Random, i: int, names: str, every: bool) -> Part:
    """`every`: all matches are asked for, so rows may be skipped at will. What is said differently (`test_flinkcep.KNOWN`) is left out."""
    edges = ("next", "then", "then", *(("any", "any") if every else ()))
    than = choose.choice(names[:i]) if i and choose.random() < 0.3 else None
    times = choose.choice((1, 1, 1, 2, 3))
    edge, kind = choose.choice(edges) if i else "then", choose.randrange(KINDS)
    other = (kind + choose.randint(1, KINDS - 1)) % KINDS
    never = (other, choose.choice(("next", "then"))) if i and choose.random() < 0.25 else None
    return Part(names[i], edge, kind, than, times, choose.choice(edges), never=never)


def ours(case: Case) -> Counter[tuple[tuple[str, tuple[int, ...]], ...]]:
    """Our matches, as `counted` has them."""
    rows = stream("rows", t="timestamp[ms]", i=int, kind=int, value=int, event_time="t", disorder="0s")
    found = Query("found").source(rows).pattern("found", pattern(case), **_how(case)).output("matches")
    sent = [{"t": each.time, "i": i, "kind": each.kind, "value": each.value} for i, each in enumerate(case.rows)]
    matches = defaultdict[int, dict[str, tuple[int, ...]]](dict)
    for answer in testing.answers(found, {"rows": sent})["matches"]:
        match, name = matches[answer["match_number"]], str(answer["variable"])
        match[name] = (*match.get(name, ()), int(answer["i"]))
    return counted(list(matches.values()))


def counted(matches: Sequence[Match]) -> Counter[tuple[tuple[str, tuple[int, ...]], ...]]:
    return Counter(tuple(sorted((name, tuple(rows)) for name, rows in match.items())) for match in matches)


def _how(case: Case) -> dict[str, object]:
    after = {"after": f"{case.after} {case.named}" if case.named else case.after} if case.after != "all" else {"matches": "all"}
    return after | {"within": f"{case.within}ms", "rows": "all"}


def pattern(case: Case) -> PatternPart:
    """In our words."""
    made: PatternPart | None = None
    for part in case.parts:
        condition: Expr = col("kind") == part.kind
        if part.than is not None:
            condition = condition & (col("value") > row(part.than).first("value"))
        one: PatternPart = event(part.name, condition)
        if part.times > 1:
            one = one.times(part.times, by=part.inner)
        one = one.optional() if part.optional else one
        made = one if made is None else _behind(made, part, one)
    assert made is not None
    return made


def _behind(before: PatternPart, part: Part, one: PatternPart) -> PatternPart:
    if part.never is not None:
        kind, edge = part.never
        never = event(f"not{part.name}", col("kind") == kind)
        before = before.not_next(never) if edge == "next" else before.not_then(never)
    return before.next(one) if part.edge == "next" else before.then(one) if part.edge == "then" else before.then_any(one)
