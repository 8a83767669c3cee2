"""Flink SQL 2.3 as a peer, by its MATCH_RECOGNIZE.

`python -m tests.peers.flink_sql --cases 200 [--seed 1]` prints each difference, and how many there are.
"""

from __future__ import annotations

import random
from collections import Counter

from tests.peers.command import compared
from tests.peers.java import JavaPeer, program
from tests.peers.row_patterns import VALUES, Asked, drawn_rows, lines, ours

_JARS = ("flink-cep", "flink-table-planner_2.12", "flink-table-api-java-bridge", "flink-table-runtime", "flink-clients")
FLINK_SQL = program("FlinkSql", *(f"org.apache.flink:{name}:2.3.0" for name in _JARS))
GROUPS = 40
Told = tuple[int, tuple[tuple[str, int, int, int], ...]]
"""A match: its group, and of each variable that has rows the first, the last, and how many."""


def drawn(choose: random.Random) -> Asked:
    """Any that both can say, where no row may be two variables: of several matches from a start Flink tells another."""
    names = "ABCD"[: choose.randint(2, 4)]
    parts = [*_repeated(choose, names[:-1]), names[-1]]
    define = tuple((name, _condition(choose, name, kind, names)) for kind, name in enumerate(names))
    first = next(k for k, part in enumerate(parts) if part[-1] not in "*?" or part[1:] == "+?")
    sure = [part for part in parts[first + 1 :] if len(part) == 1]
    after = choose.choice(("PAST LAST ROW", "TO NEXT ROW", *(f"TO {where} {name}" for name in sure for where in ("FIRST", "LAST"))))
    return Asked(" ".join(parts), define, after, choose.choice((None, 4, 8, 16)), drawn_rows(choose, GROUPS))


def _repeated(choose: random.Random, names: str) -> list[str]:
    """An optional variable behind one that takes as many as it can is refused there."""
    parts: list[str] = []
    for name in names:
        greedy = bool(parts) and parts[-1][-1] in "+*}"
        times = choose.choice(("", "", "", "+", "{2}", "{1,2}", "{2,}", "+?", *(() if greedy else ("*", "?", "*?"))))
        parts.append(name + times)
    return parts


def _condition(choose: random.Random, name: str, kind: int, names: str) -> str:
    condition, before, how = f"{name}.kind = {kind}", [each for each in names if each < name], choose.random()
    if how < 0.3 and before:
        return f"{condition} AND {name}.v >= {choose.choice(before)}.v"
    if how < 0.4:
        return f"{condition} AND SUM({name}.v) < {choose.randrange(2, 3 * VALUES)}"
    return f"{condition} AND (LAST({name}.v, 1) IS NULL OR {name}.v >= LAST({name}.v, 1))" if how < 0.5 else condition


def text_of(asked: Asked) -> str:
    """In its dialect; its `within` leaves out its end."""
    time = f"WITHIN INTERVAL '0.{asked.within + 1:03}' SECOND(1, 3)" if asked.within is not None else ""
    define = ", ".join(f"{name} AS {condition}" for name, condition in asked.define)
    measures = ", ".join(f"FIRST({name}.i) AS {name}f, LAST({name}.i) AS {name}l, COUNT({name}.i) AS {name}c" for name in asked.names)
    return f"""
        SELECT * FROM events MATCH_RECOGNIZE (
            PARTITION BY g ORDER BY t MEASURES {measures}
            AFTER MATCH SKIP {asked.after} PATTERN ({asked.pattern}) {time} DEFINE {define})
    """


def theirs(peer: JavaPeer, asked: Asked) -> Counter[Told]:
    found = []
    for group, *words in peer.ask(lines(asked.rows, text_of(asked))):
        each = zip(asked.names, words[::3], words[1::3], words[2::3], strict=True)
        found.append((int(group), tuple((name, int(first), int(last), int(rows)) for name, first, last, rows in each if first != "null")))
    return Counter(found)


def ours_told(asked: Asked) -> Counter[Told]:
    found = Counter[Told]()
    for (group, match), times in ours(asked).items():
        found[group, tuple((name, rows[0], rows[-1], len(rows)) for name, rows in match)] += times
    return found


if __name__ == "__main__":
    compared(FLINK_SQL, lambda number: drawn(random.Random(number)), ours_told, theirs)
