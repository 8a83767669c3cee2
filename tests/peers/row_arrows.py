"""Random patterns of rows with others between (`->`), and the same said by a blank: what may be left out between is a variable too."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import pairwise

from tests.peers.row_patterns import KINDS, VALUES

#: How often: (least, most), as written.
TIMES = {"": (1, 1), "+": (1, None), "*": (0, None), "?": (0, 1), "{2}": (2, 2), "{1,2}": (1, 2), "{2,}": (2, None)}
LEFT_OUT = "S"
"""Names of what is left out begin so."""
NEGATED = "X"
Define = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Part:
    """One of the sequence, and how often it comes."""

    name: str
    times: str
    reluctant: bool
    negated: bool
    """No X between it and the next one."""

    def __str__(self) -> str:
        return f"{self.name}{self.times}{'?' * self.reluctant}{f' -> !{NEGATED}' * self.negated}"

    @property
    def bounds(self) -> tuple[int, int | None]:
        return TIMES[self.times]


@dataclass(frozen=True, slots=True)
class Arrows:
    """`ours`, `blanks`: the pattern; `left_out`: what is between, as conditions."""

    names: str
    ours: str
    blanks: str
    define: Define
    left_out: Define


def drawn(choose: random.Random) -> Arrows:
    """Each variable once, so that what has been taken says what is possible behind it."""
    names = "ABCD"[: choose.randint(2, 4)]
    parts = [_part(choose, name) for name in names[:-1]] + [Part(names[-1], "", False, False)]
    for k, (part, behind) in enumerate(pairwise(parts)):
        if part.bounds[0] == part.bounds[1] and behind.bounds[0] and choose.random() < 0.2:
            parts[k] = Part(part.name, part.times, part.reluctant, True)
    define = dict[str, str]()
    for name in names + NEGATED * any(part.negated for part in parts):
        define[name] = _condition(choose, [other for other in names if other != name])
    left_out = dict[str, str]()
    blanks = " ".join(_spelled(parts, at, define, left_out) for at in range(len(parts)))
    return Arrows(
        names, " -> ".join(map(str, parts)), blanks, tuple(define.items()), tuple((name, said) for said, name in left_out.items())
    )


def _part(choose: random.Random, name: str) -> Part:
    times = choose.choice(("", "", *TIMES))
    return Part(name, times, bool(times) and choose.random() < 0.3, False)


def _condition(choose: random.Random, others: list[str]) -> str:
    """Of the row at hand and of others' rows."""
    kind = choose.randrange(KINDS)
    alone = choose.choice(
        (f"kind = {kind}", f"kind = {kind}", f"kind IN ({kind}, {choose.randrange(KINDS)})", f"kind <= {kind}", f"v < {kind}")
    )
    if not others or choose.random() < 0.7:
        return alone
    other = choose.choice(others)
    more = choose.choice((f"v >= {other}.v", f"COUNT({other}.*) < 2", f"COALESCE(SUM({other}.v), 0) < {choose.randrange(1, 2 * VALUES)}"))
    return f"{alone} AND {more}"


def _spelled(parts: list[Part], at: int, define: dict[str, str], left_out: dict[str, str]) -> str:
    """Each of its rows, and behind it what is left out: rows that nothing which is possible there takes."""
    part, last = parts[at], at == len(parts) - 1
    (least, most), how = part.bounds, "?" * part.reluctant
    if last:
        return part.name

    def row(k: int) -> str:
        """The k-th, from 1."""
        possible = {part.name} if most is None or k < most else set()
        if k >= least:
            possible |= _first(parts[at + 1 :])
        if part.negated and k == most:
            possible.add(NEGATED)
        said = " AND ".join(f"NOT COALESCE({define[name]}, FALSE)" for name in sorted(possible))
        return f"{part.name} {left_out.setdefault(said, f'{LEFT_OUT}{len(left_out)}')}*"

    must = " ".join(row(k) for k in range(1, least + 1))
    if most is None:
        return f"{must} ({row(least + 1)})*{how}"
    return must if most == least else f"{must} ({row(most)})?{how}"


def _first(parts: list[Part]) -> set[str]:
    """The variables that may be the next row."""
    found = set[str]()
    for part in parts:
        found.add(part.name)
        if part.bounds[0]:
            break
    return found
