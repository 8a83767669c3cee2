"""A query, and rows for it, for what is to happen to the subqueries in its middle: they count, and have something open at all times."""

from __future__ import annotations

import random

from cep.model.query import Query
from driver import SIZE, TIME, col, count, stream, sum_
from driver.builder.query import Query as QueryBuilder
from tests.reference import Partition

ROWS = (40, 90)
KEYS, PARTS = 4, 6
DISORDER_MS = 5


def chain_query(number: int) -> Query:
    """SQ1 reads, SQ2 counts by two columns, and divides by what may be zero, SQ3 adds up by one, and SQ4 lets all out."""
    choose = random.Random(f"chain {number}")
    window = choose.choice((TIME("10ms"), TIME("40ms"), TIME("40ms", "10ms"), SIZE(3)))
    read = stream("s", t="timestamp[ms]", key=int, part=int, v=int, event_time="t", disorder=f"{DISORDER_MS}ms")
    made = QueryBuilder("chain").source(read).aggregate("first", window, by=["key", "part"], n=count(), v=sum_("v"))
    made = made.map("shared", key=col("key"), n=col("n"), v=col("v") // (col("n") - 1))
    made = made.aggregate("second", TIME("80ms"), by="key", n=sum_("n"), v=sum_("v"))
    return made.output("out").build()


def chain_rows(choose: random.Random) -> list[Partition]:
    """Of one or two publishers; some rows are late."""
    return [_partition(choose, index) for index in range(choose.randint(1, 2))]


def _partition(choose: random.Random, index: int) -> Partition:
    rows, at = list[tuple[int, int, int, int]](), 1_000
    for _ in range(choose.randint(*ROWS)):
        at += choose.choice((0, 1, 1, 2, 5))
        late = choose.choice((0, 0, 0, 2, DISORDER_MS, 2 * DISORDER_MS + 1))
        rows.append((at - late, choose.randrange(KEYS), choose.randrange(PARTS), choose.randrange(100)))
    return Partition(index, rows)
