"""Random MATCH_RECOGNIZE that others can say too, and rows for them; our matches."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from driver import sql, stream
from numa_cep import testing

KINDS, VALUES, LAST_MS = 4, 4, 100_000
EVENTS = stream("events", g=int, t="timestamp[ms]", i=int, kind=int, v=int, event_time="t", disorder="0s")
Found = tuple[int, tuple[tuple[str, tuple[int, ...]], ...]]
"""A match: its group, and the rows of each variable that has some."""


class Row(NamedTuple):
    """A row of the stream: group, ms, number, kind, value, which may be NULL."""

    g: int
    t: int
    i: int
    kind: int
    v: int | None


@dataclass(frozen=True, slots=True)
class Asked:
    """A pattern and its rows. `within`: ms; `define`: conditions in our SQL."""

    pattern: str
    define: tuple[tuple[str, str], ...]
    after: str
    within: int | None
    rows: tuple[Row, ...]

    @property
    def names(self) -> str:
        """The variables, each a letter, in their order."""
        return "".join(dict.fromkeys(letter for letter in self.pattern if letter.isalpha()))


def drawn_rows(choose: random.Random, groups: int) -> tuple[Row, ...]:
    """Some of each group, with ties, in the order of their times, often of the kind before or the next; of each group the last is far
    behind, and of no kind."""
    rows = []
    for g in range(groups):
        t = kind = 0
        for _ in range(choose.randint(3, 12)):
            t += choose.choice((0, 1, 1, 1, 2, 5))
            kind = choose.choice((kind, (kind + 1) % KINDS, choose.randrange(KINDS)))
            rows.append((t, g, kind, choose.randrange(VALUES)))
        rows.append((LAST_MS, g, KINDS, 0))
    rows.sort(key=lambda row: row[0])
    return tuple(Row(g, t, i, kind, v) for i, (t, g, kind, v) in enumerate(rows))


def lines(rows: Sequence[Row], text: str) -> Iterator[str]:
    """As the peers' programs read a case."""
    yield f"rows {len(rows)}"
    for row in rows:
        yield " ".join(map(str, row))
    yield " ".join(text.split())


def our_text(asked: Asked) -> str:
    time = f"WITHIN INTERVAL '{asked.within}' MILLISECOND" if asked.within is not None else "NO TTL"
    define = ", ".join(f"{name} AS {condition}" for name, condition in asked.define)
    return f"""
        SELECT g, i, number, variable FROM events MATCH_RECOGNIZE (
            PARTITION BY g ORDER BY t
            MEASURES CLASSIFIER() AS variable, MATCH_NUMBER() AS number ALL ROWS PER MATCH
            AFTER MATCH SKIP {asked.after} PATTERN ({asked.pattern}) {time} DEFINE {define})
    """


def ours(asked: Asked) -> Counter[Found]:
    query = sql(our_text(asked), streams=[EVENTS], name="found").output("matches")
    return counted(testing.answers(query, {"events": [row._asdict() for row in asked.rows]})["matches"])


def counted(rows: Sequence[dict[str, Any]]) -> Counter[Found]:
    """Matches of rows that say to which they belong."""
    matches = defaultdict[tuple[int, int], dict[str, list[int]]](lambda: defaultdict(list))
    for row in rows:
        matches[row["g"], row["number"]][row["variable"]].append(row["i"])
    return Counter((g, tuple(sorted((name, tuple(taken)) for name, taken in of.items()))) for (g, _), of in matches.items())
