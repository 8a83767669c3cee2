"""Trino 430 as a peer, by its MATCH_RECOGNIZE: it reads all rows, and has what SQL:2016 says of them.

`python -m tests.peers.trino --cases 1000 [--seed 1]` prints each difference, and how many there are.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from tests.peers.command import compared
from tests.peers.java import JavaPeer, program
from tests.peers.row_arrows import LEFT_OUT
from tests.peers.row_patterns import lines
from tests.peers.row_queries import ALL, UNMATCHED, RowQuery, Told, drawn, ours

TRINO = program("Trino", "io.trino:trino-main:430")


def text_of(query: RowQuery) -> str:
    """In its dialect, whose rows come by their numbers. It has no spans: each variable says that its row is not too far behind."""
    asked, (by, measures) = query.asked, query.clauses
    spans = "" if asked.within is None else f" AND t - FIRST(t) <= {asked.within}"
    if query.apart:
        spans += f" AND (i = FIRST(i) OR t - PREV(t) <= {query.apart})"
    given, pattern = dict(asked.define), asked.pattern
    left_out, only = (), ""
    if query.arrows is not None:
        pattern, left_out = query.arrows.blanks, query.arrows.left_out
    define = ", ".join(
        f"{name} AS ({condition}){spans}"
        for name, condition in (*((n, given.get(n, "TRUE")) for n in query.names if spans or n in given), *left_out)
    )
    out, only = query.out, f"WHERE variable NOT LIKE '{LEFT_OUT}%'" if query.out == ALL else ""
    if out == UNMATCHED:
        measures, out, only = "MEASURES CLASSIFIER() AS variable", f"{ALL} WITH UNMATCHED ROWS", "WHERE variable IS NULL"
    return f"""
        SELECT {query.columns} FROM events MATCH_RECOGNIZE (
            {by} ORDER BY i {measures} {out} AFTER MATCH SKIP {asked.after} PATTERN ({pattern}) DEFINE {define}) {only}
    """


def theirs(peer: JavaPeer, query: RowQuery) -> Counter[Told]:
    return Counter(tuple(map(_value, words)) for words in peer.ask(lines(query.asked.rows, text_of(query))))


def _value(word: str) -> Any:
    if word == "null" or word.isalpha():
        return None if word == "null" else word
    return float(word) if "." in word else int(word)


if __name__ == "__main__":
    compared(TRINO, lambda number: drawn(random.Random(number)), ours, theirs)
