"""A query that only picks and renames columns of eight bytes, in two subqueries: its small messages take the fast path."""

from __future__ import annotations

import random

from cep.model.query import Query
from driver import col, stream
from driver.builder.query import Query as QueryBuilder
from tests.reference import Partition

ROWS = (200, 400)
INTERVALS_US = (100_000, 300_000, 1_000_000)
BATCH_ROWS = (1, 2, 1, 3)
DISORDER_MS = 5


def picks_query(number: int) -> Query:
    choose = random.Random(f"picks {number}")
    read = stream("s", t="timestamp[ms]", key="int64", v="float64", event_time="t", disorder=f"{DISORDER_MS}ms")
    first = {"t": col("t"), "k": col("key"), "v": col("v")}
    second = {"k": col("k"), "t": col("t")} if choose.random() < 0.5 else {"w": col("v"), "k": col("k"), "t": col("t")}
    return QueryBuilder("picks").source(read).map("first", **first).map("second", **second).output("out").build()


def picks_rows(choose: random.Random) -> list[Partition]:
    """Of one publisher, mostly; some rows are late, many are equal."""
    return [_partition(choose, index) for index in range(1 if choose.random() < 0.8 else 2)]


def _partition(choose: random.Random, index: int) -> Partition:
    rows, at = list[tuple[int, int, float]](), 1_000
    for _ in range(choose.randint(*ROWS)):
        at += choose.choice((0, 0, 1, 20, 200))
        late = choose.choice((0, 0, 0, 0, 2, DISORDER_MS)) if choose.random() < 0.97 else 2 * DISORDER_MS + 1
        rows.append((at - late, choose.randrange(3), choose.randrange(3) / 2))
    return Partition(index, rows)
