"""Random MATCH_RECOGNIZE of which Trino too has everything: parts in parts, what comes out, measures, groups or none; our rows."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

from driver import sql, stream
from driver.streaming_sql.errors import SqlError
from numa_cep import testing
from tests.peers import row_arrows
from tests.peers.row_arrows import Arrows
from tests.peers.row_patterns import KINDS, VALUES, Asked, Row, drawn_rows

GROUPS, FEW, LONGEST = 16, 2, 40
BY: tuple[tuple[str, ...], ...] = (("g",), ("g",), ("g",), ("v",), ("kind", "g"), ())
EVENTS = stream("events", g=int, t="timestamp[ms]", i=int, kind=int, v="int64?", event_time="t", disorder="0s")
TIMES = ("", "", "", "", "", "+", "*", "?", "{2}", "{1,2}", "{2,}", "{,2}")
ALL, ONE, UNMATCHED = "ALL ROWS PER MATCH", "ONE ROW PER MATCH", "UNMATCHED ROWS"
Told = tuple[Any, ...]
"""A row that comes out."""


@dataclass(frozen=True, slots=True)
class RowQuery:
    """`asked`, of which variables; what comes out; measures, of the whole match; columns of groups; how far apart neighbours may be, in
    ms, which is said of the pattern (GAP) or of groups (TTL); `arrows`, if it has some; whether the matches' numbers come out."""

    asked: Asked
    names: str
    out: str
    measures: tuple[str, ...]
    by: tuple[str, ...]
    apart: int | None = None
    gap: bool = False
    arrows: Arrows | None = None
    numbered: bool = False

    @property
    def columns(self) -> str:
        """What is selected."""
        numbered = [f"m{k}" for k in range(len(self.measures))]
        if self.out == ONE:
            return ", ".join([*self.by, *numbered])
        return ", ".join(["g", "i", *(["number"] if self.numbered else []), *(["variable", *numbered] if self.out == ALL else [])])

    @property
    def clauses(self) -> tuple[str, str]:
        """PARTITION BY and MEASURES, as both write them."""
        final = "FINAL " if self.out == ALL else ""
        measures = [f"{final}{measure} AS m{k}" for k, measure in enumerate(self.measures)]
        if self.out == ALL:
            measures += ["CLASSIFIER() AS variable", "MATCH_NUMBER() AS number"]
        return f"PARTITION BY {', '.join(self.by)}" if self.by else "", f"MEASURES {', '.join(measures)}" if measures else ""


def drawn(choose: random.Random) -> RowQuery:
    """One that we take: what may be of no row, or skip to a row that may be none, is refused."""
    while True:
        query = _numbered(_with_arrows(choose) if choose.random() < 0.2 else _any(choose))
        if len(query.asked.pattern) > LONGEST:
            continue
        try:
            sql(our_text(query), streams=[EVENTS])
        except SqlError as error:
            if error.code != "SQL-QUERY":
                raise
        else:
            return query


def _numbered(query: RowQuery) -> RowQuery:
    """Ours have their numbers as they come out, and from 1 again where a group begins anew."""
    in_order = query.asked.after != "TO NEXT ROW" and (query.apart is None or query.gap)
    return replace(query, numbered=query.out == ALL and in_order)


def _any(choose: random.Random) -> RowQuery:
    names = "ABCDE"[: choose.randint(2, 4)]
    pattern = _alternatives(choose, names, 0) if choose.random() < 0.2 else " ".join(_part(choose, names, 0) for _ in names)
    names = "".join(name for name in names if name in pattern.replace("PERMUTE", ""))
    define = tuple((name, _condition(choose, name, names)) for name in names if choose.random() < 0.9)
    by = choose.choice(BY)
    asked = Asked(pattern, define or ((names[0], f"{names[0]}.kind < {KINDS}"),), *_how(choose, names, by))
    prev = any("PREV" in condition for _, condition in define)  # it looks back into what a TTL ended, there
    gap = "|" not in pattern and " " in pattern and choose.random() < 0.5
    apart = choose.choice((None, None, 1, 2)) if gap or not prev else None
    return RowQuery(asked, names, *_out(choose, names, (ALL, ALL, ONE, UNMATCHED)), by, apart, gap)


def _with_arrows(choose: random.Random) -> RowQuery:
    """What is left out is in no match: there it is told by the match that has it between."""
    arrows, by = row_arrows.drawn(choose), choose.choice(BY)
    asked = Asked(arrows.ours, arrows.define, *_how(choose, arrows.names, by))
    return RowQuery(asked, arrows.names, *_out(choose, arrows.names, (ALL, ONE)), by, arrows=arrows)


def _how(choose: random.Random, names: str, by: tuple[str, ...]) -> tuple[str, int | None, tuple[Row, ...]]:
    """How it goes on, within, rows."""
    to = (f"TO{where} {choose.choice(names)}" for where in ("", " FIRST", " LAST"))
    after = choose.choice(("PAST LAST ROW", "PAST LAST ROW", "TO NEXT ROW", *to))
    rows = (row._replace(v=None) if choose.random() < 0.1 else row for row in drawn_rows(choose, GROUPS if "g" in by else FEW))
    return after, choose.choice((None, 2, 4, 8)), tuple(rows)


def _out(choose: random.Random, names: str, outs: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """What comes out, measures."""
    out = choose.choice(outs)
    measures = tuple(_measure(choose, names) for _ in range(choose.randint(1, 3))) if out != UNMATCHED else ()
    return out, measures


def _alternatives(choose: random.Random, names: str, depth: int) -> str:
    return " | ".join(" ".join(_part(choose, names, depth) for _ in range(choose.randint(1, 2))) for _ in range(choose.randint(2, 3)))


def _part(choose: random.Random, names: str, depth: int) -> str:
    """With how often it comes."""
    how, times = choose.random(), choose.choice(TIMES)
    if times and choose.random() < 0.3:
        times += "?"
    if how < 0.15 and depth < 2:
        return f"({_alternatives(choose, names, depth + 1)}){times}"
    if how < 0.25 and depth < 2:
        return f"({_part(choose, names, depth + 1)} {_part(choose, names, depth + 1)}){times}"
    if how < 0.35 and depth < 2:
        return f"PERMUTE({', '.join(_part(choose, names, depth + 1) for _ in range(choose.randint(2, 3)))})"
    return choose.choice(names) + times


def _condition(choose: random.Random, name: str, names: str) -> str:
    """Most kinds are of several variables."""
    kind, other = choose.randrange(KINDS), choose.choice(names)
    alone = choose.choice((f"{name}.kind = {kind}", f"kind <= {kind}", f"{name}.kind >= {kind}", f"kind <> {kind}", f"{name}.v < {kind}"))
    if choose.random() < 0.5:
        return alone
    more = choose.choice(
        (
            f"{name}.v >= {other}.v",
            f"SUM({other}.v) < {choose.randrange(2, 3 * VALUES)}",
            f"COUNT({other}.*) < {choose.randint(1, 4)}",
            f"(LAST({other}.v, 1) IS NULL OR v >= LAST({other}.v, 1))",
            f"v >= PREV(v, {choose.randint(1, 2)})",
            f"(MIN({other}.v) <> {name}.v OR {other}.v IS NULL)",
            f"v <= AVG({other}.v)",
            f"FIRST({other}.v) + MAX({name}.v) < {choose.randrange(2, 2 * VALUES)}",
            f"NOT {other}.kind = FIRST({other}.kind)",
            f"COALESCE({other}.v, 1) <= v",
            f"CASE WHEN {other}.v > 1 THEN v < 2 ELSE {other}.kind IN (0, {kind}) END",
            f"v BETWEEN FIRST({other}.v) AND LAST({other}.v)",
        )
    )
    return f"{alone} {choose.choice(('AND', 'AND', 'OR'))} {more}"


def _measure(choose: random.Random, names: str) -> str:
    name = choose.choice(names)
    column = choose.choice(("i", "v"))
    return choose.choice(
        (
            f"LAST({name}.{column})",
            f"FIRST({name}.{column})",
            f"LAST({name}.{column}, {choose.randint(1, 2)})",
            f"COUNT({name}.*)",
            *(f"{function}({name}.v)" for function in ("SUM", "AVG", "MIN", "MAX")),
        )
    )


def our_text(query: RowQuery) -> str:
    asked, (by, measures) = query.asked, query.clauses
    time = f"WITHIN INTERVAL '{asked.within}' MILLISECOND " if asked.within is not None else ""
    span = f"INTERVAL '{query.apart}' MILLISECOND"
    gap, ttl = f"GAP {span}" if query.apart and query.gap else "", f"TTL {span}" if query.apart and not query.gap else "NO TTL"
    define = ", ".join(f"{name} AS {condition}" for name, condition in asked.define)
    return f"""
        SELECT {query.columns} FROM events MATCH_RECOGNIZE (
            {by} ORDER BY t {measures} {query.out} AFTER MATCH SKIP {asked.after}
            PATTERN ({f"({asked.pattern}) {gap}" if gap else asked.pattern}) {time}{ttl} DEFINE {define})
    """


def ours(query: RowQuery) -> Counter[Told]:
    made = sql(our_text(query), streams=[EVENTS], name="found").output("matches")
    rows = testing.answers(made, {"events": [row._asdict() for row in query.asked.rows]})["matches"]
    names = query.columns.split(", ")
    return Counter(tuple(row[name] for name in names) for row in rows)
