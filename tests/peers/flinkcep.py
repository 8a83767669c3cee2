"""FlinkCEP 2.3 as a peer: its matches of the same cases.

`python -m tests.peers.flinkcep --cases 2000 [--seed 1]` prints each difference, and how many there are.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence

from tests.peers.command import compared
from tests.peers.java import JavaPeer, program
from tests.peers.pattern_cases import Case, Part, counted, drawn, ours

FLINK_CEP = program("Matches", "org.apache.flink:flink-cep:2.3.0", "org.apache.flink:flink-streaming-java:2.3.0")


def theirs(peer: JavaPeer, case: Case) -> Counter[tuple[tuple[str, tuple[int, ...]], ...]]:
    """Of a case with `within` as Flink has it, which leaves out its end."""
    split = ([word.split(":") for word in words] for words in peer.ask(_lines(case)))
    return counted([{name: tuple(map(int, rows.split(","))) for name, rows in words} for words in split])


def _lines(case: Case) -> Iterator[str]:
    yield f"case {case.after} {case.named or '-'} {case.within + 1} {len(case.parts)}"
    for part in case.parts:
        yield _line(part)
    yield f"rows {len(case.rows)}"
    for row in case.rows:
        yield f"{row.time} {row.kind} {row.value}"


def _line(part: Part) -> str:
    never, edge = part.never or (-1, "-")
    words: Sequence[object] = (part.name, part.edge, part.kind, part.than or "-", part.times, part.inner, int(part.optional), never, edge)
    return f"part {' '.join(map(str, words))}"


if __name__ == "__main__":
    compared(FLINK_CEP, lambda number: drawn(random.Random(number)), ours, theirs)
