"""A query with many groups, and rows of which each touches one: what its checkpoints write is what has changed since earlier ones."""

from __future__ import annotations

import random
from typing import Any

from cep.model.query import Query
from driver import TIME, UNBOUNDED, count, count_distinct, max_, stream, sum_
from driver.builder.query import Query as QueryBuilder
from tests.reference import Partition

ROWS = (60, 120)
KEYS = 20
INTERVALS_US = (50_000, 100_000, 200_000)
DISORDER_MS = 5


def groups_query(number: int) -> Query:
    """By key since the beginning, an answer a row, perhaps forgotten after a while; or in windows that share panes."""
    choose = random.Random(f"groups {number}")
    window = choose.choice((UNBOUNDED(ttl=None), UNBOUNDED(ttl="2s"), TIME("10s", "1s"), TIME("6s", "2s"), TIME("30s")))
    functions: dict[str, Any] = {"n": count(), "v": sum_("v"), "most": max_("text"), "different": count_distinct("v")}
    chosen = {name: functions[name] for name in functions if choose.random() < 0.7} or {"n": count()}
    read = stream("s", t="timestamp[ms]", key=int, v=int, text=str, event_time="t", disorder=f"{DISORDER_MS}ms")
    return QueryBuilder("groups").source(read).aggregate("by-key", window, by="key", **chosen).output("out").build()


def groups_rows(choose: random.Random) -> list[Partition]:
    """Of one or two publishers; some rows are late, some keys come again and again."""
    return [_partition(choose, index) for index in range(choose.randint(1, 2))]


def _partition(choose: random.Random, index: int) -> Partition:
    rows, at = list[tuple[int, int, int, str]](), 1_000
    for _ in range(choose.randint(*ROWS)):
        at += choose.choice((0, 20, 100, 200, 400))
        late = choose.choice((0, 0, 0, 2, DISORDER_MS, 2 * DISORDER_MS + 1))
        key = choose.randrange(KEYS) if choose.random() < 0.5 else choose.randrange(4)
        rows.append((at - late, key, choose.randrange(20), "x" * choose.choice((1, 3, 20, 40)) + str(choose.randrange(30))))
    return Partition(index, rows)
