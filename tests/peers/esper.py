"""Esper 9.0 as a peer, by its row patterns and its patterns of events. It is of the GPL: fetched where it is asked, known to nothing else.

`python -m tests.peers.esper --cases 500 [--seed 1]` prints each difference, and how many there are.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Sequence

from tests.peers import event_patterns
from tests.peers.command import compared
from tests.peers.event_patterns import Following
from tests.peers.java import JavaPeer, program
from tests.peers.row_patterns import Asked, Found, Row, drawn_rows, lines, ours

ESPER = program("Epl", "com.espertech:esper-compiler:9.0.0", "com.espertech:esper-runtime:9.0.0")
GROUPS = 12


def drawn(choose: random.Random) -> Asked:
    """Any that both can say, where no row may be two variables: of several matches from a start Esper tells the one that ends first."""
    names = "ABCD"[: choose.randint(2, 4)]
    pattern = " ".join(_part(choose, name) for name in names[:-1]) + f" {names[-1]}"
    once = [name for name in names if f"{name} " in f"{pattern} "]
    define = tuple((name, _condition(choose, name, kind, once)) for kind, name in enumerate(names))
    after = choose.choice(("PAST LAST ROW", "TO NEXT ROW"))
    return Asked(pattern, define, after, None, drawn_rows(choose, GROUPS))


def _part(choose: random.Random, name: str) -> str:
    return name + choose.choice(("", "", "", "+", "*", "?", "{2}", "{1,2}", "{2,}"))


def _condition(choose: random.Random, name: str, kind: int, once: list[str]) -> str:
    """`once`: variables of one row."""
    condition, before = f"{name}.kind = {kind}", [each for each in once if each < name]
    if before and choose.random() < 0.3:
        return f"{condition} AND {name}.v >= {choose.choice(before)}.v"
    return f"{condition} AND {name}.v >= PREV(v)" if choose.random() < 0.2 else condition


def text_of(asked: Asked) -> str:
    """In its language. Its own `partition by` fails where two matches of a group come out at once (`test_esper.py`)."""
    define = ", ".join(f"{name} as {re.sub(r'PREV.v.', f'prev({name}.v)', condition)}" for name, condition in asked.define)
    measures = ", ".join(f"{name} as {name}" for name in asked.names)
    return f"""
        create context Groups partition by g from Events;
        context Groups select * from Events match_recognize (
            measures {measures} after match skip {asked.after.lower()} pattern ({asked.pattern}) define {define})
    """


def theirs(peer: JavaPeer, rows: Sequence[Row], text: str) -> Counter[Found]:
    groups = {row.i: row.g for row in rows}
    found = []
    for words in peer.ask(lines(rows, text)):
        match = {name: tuple(map(int, taken.split(","))) for name, taken in (word.split(":") for word in words)}
        found.append((groups[next(iter(match.values()))[0]], tuple(sorted(match.items()))))
    return Counter(found)


def _any(number: int) -> Asked | Following:
    choose = random.Random(number)
    return drawn(choose) if number % 2 else event_patterns.drawn(choose)


if __name__ == "__main__":
    compared(
        ESPER,
        _any,
        lambda case: ours(case) if isinstance(case, Asked) else event_patterns.ours(case),
        lambda peer, case: theirs(peer, case.rows, text_of(case) if isinstance(case, Asked) else event_patterns.text_of(case)),
    )
