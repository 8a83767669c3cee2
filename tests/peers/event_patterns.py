"""Random patterns of events that follow one another, in our words and in Esper's at once; our matches.

`every a -> b` begins at each a, so ours go on `to_next`; rows that nothing awaits are passed over by both (`then`).
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

from cep.model.expr import Expr, col
from cep.model.patterns.parts import PatternPart, all_of, event
from cep.model.patterns.rows import row
from driver import Query
from numa_cep import testing
from tests.peers.row_patterns import EVENTS, KINDS, Found, Row, counted, drawn_rows

GROUPS = 12
Two = tuple[PatternPart, str]
"""A part, and how Esper says it."""


@dataclass(frozen=True, slots=True)
class Following:
    """A pattern, as both say it, and its rows. `within`: ms; None: it says for how long something is absent."""

    ours: PatternPart
    theirs: str
    names: str
    within: int | None
    rows: tuple[Row, ...]


def drawn(choose: random.Random) -> Following:
    """Any that both can say. Each variable has a kind of its own: of several matches from a start Esper tells the one that ends first."""
    steps = choose.randint(1, 3)
    made, text, used = event("a", col("kind") == 0), "", "a"
    for step in range(steps):
        names = "abcdefg"[len(used) : len(used) + 2]
        if step == steps - 1 and choose.random() < 0.25:
            return _absent(choose, made, text, used)
        made, said, taken = _step(choose, made, names, used)
        text += f" -> {said}"
        used += taken
    within = choose.choice((2, 4, 8, 16))
    return Following(made, f"every a=Events(kind=0) -> ({text[4:]}) where timer:within({within + 1} msec)", used, within, _rows(choose))


def _rows(choose: random.Random) -> tuple[Row, ...]:
    return drawn_rows(choose, GROUPS)


def _step(choose: random.Random, made: PatternPart, names: str, used: str) -> tuple[PatternPart, str, str]:
    """What follows, of the variables `names`; which of them it has."""
    how = choose.choice(("one", "one", "times", "either", "all", "without"))
    one, said = _event(choose, names[0], used)
    if how == "times":
        times = choose.randint(2, 3)
        return made.then(one.times(times, by="then")), f"[{times}] {said}", names[0]
    if how in ("either", "all"):
        other, told = _event(choose, names[1], used)
        both = one | other if how == "either" else all_of(one, other, by="then")
        return made.then(both), f"({said} {'or' if how == 'either' else 'and'} {told})", names
    if how == "without":
        kind = (ord(names[0]) - ord("a") + choose.randint(1, KINDS - 1)) % KINDS
        never = event(f"not{names[0]}", col("kind") == kind)
        return made.not_then(never).then(one), f"({said} and not Events(kind={kind}))", names[0]
    return made.then(one), said, names[0]


def _event(choose: random.Random, name: str, used: str) -> Two:
    """Of the kind of its variable; perhaps of no less than the value of the first row."""
    kind = (ord(name) - ord("a")) % KINDS
    condition: Expr = col("kind") == kind
    if choose.random() < 0.3:
        return event(name, condition & (col("v") >= row("a")["v"])), f"{name}=Events(kind={kind}, v >= a.v)"
    return event(name, condition), f"{name}=Events(kind={kind})"


def _absent(choose: random.Random, made: PatternPart, text: str, used: str) -> Following:
    kind, time = choose.randrange(KINDS), choose.choice((2, 4, 8))
    part = made.absent(event("none", col("kind") == kind), for_=f"{time}ms")
    said = f"every a=Events(kind=0){text} -> (timer:interval({time + 1} msec) and not Events(kind={kind}))"
    return Following(part, said, used, None, _rows(choose))


def text_of(case: Following) -> str:
    return f"create context Groups partition by g from Events; context Groups select {', '.join(case.names)} from pattern [{case.theirs}]"


def ours(case: Following) -> Counter[Found]:
    time = {"within": f"{case.within}ms"} if case.within is not None else {"ttl": None}
    asked = Query("found").source(EVENTS).pattern("found", case.ours, by="g", after="to_next", rows="all", **time)
    return counted(
        [
            each | {"number": each["match_number"]}
            for each in testing.answers(asked.output("matches"), {"events": [row._asdict() for row in case.rows]})["matches"]
        ]
    )
