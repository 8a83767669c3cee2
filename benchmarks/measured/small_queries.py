"""Fifty structures of small queries, and as many variants of each as are asked for, which differ in literals only.

Ten ways to begin (filters, maps, expressions, membership) times five to end (the tuples themselves, a window of time, of size,
duplicates left out, a running count). Each reads a stream of its own.
"""

from __future__ import annotations

from collections.abc import Callable

from driver import SIZE, TIME, UNBOUNDED, Query, col, count, max_, stream, sum_, when

Step = Callable[[Query, int], Query]

BEGINNINGS: tuple[Step, ...] = (
    lambda q, v: q.filter("f", col("a") >= v - 1000),
    lambda q, v: q.filter("f", (col("b") * (1.5 + v) < 1e9) & (col("a") != -v)),
    lambda q, v: q.map("m", k=col("k"), a=col("a") + v, b=col("b") * 0.5 + v),
    lambda q, v: q.map("m", k=col("k"), a=col("a") * (v + 1), b=col("b")).filter("f", col("a") >= -v),
    lambda q, v: q.filter("f", col("a").is_in([-v - 1, *range(0, 100)])),
    lambda q, v: q.filter("f", col("k") != f"none-{v}"),
    lambda q, v: q.filter("f", ~col("k").is_in([f"x{v}", f"y{v}", "z"])),
    lambda q, v: q.map("m", k=col("k"), a=when(col("a") > v, col("a") - v).otherwise(col("a")), b=col("b")),
    lambda q, v: q.map("m", k=col("k"), a=col("a").abs() % (v + 2), b=(col("b") + v).sqrt()),
    lambda q, v: q.filter("f", col("a").between(-v, 1000 + v) | col("k").starts_with(f"k{v}")),
)
ENDINGS: tuple[Step, ...] = (
    lambda q, v: q,
    lambda q, v: q.aggregate("w", TIME(f"{2000 + v}ms"), by="k", n=count(), s=sum_("a"), m=max_("b")),
    lambda q, v: q.aggregate("w", SIZE(2 + v % 7), by="k", n=count(), s=sum_("a")),
    lambda q, v: q.deduplicate("d", by="a", ttl=f"{100 + v}ms"),
    lambda q, v: q.aggregate("w", UNBOUNDED(ttl=None), by="k", n=count(), s=sum_("a")),
)
STRUCTURES = len(BEGINNINGS) * len(ENDINGS)
AT_ONCE, IN_ORDER = (0,), (3, 4)
"""The endings that answer every tuple that the benchmark sends: at once; when the next one says that its place in the stream is known."""


def small_query(structure: int, variant: int) -> Query:
    """Query number `variant` of a structure; its stream is `<name>.in`, its answers are `<name>.out`."""
    name = f"small-{structure}-{variant}"
    source = stream(f"{name}.in", k=str, a=int, b=float, ts="timestamp[us]", event_time="ts", disorder="0s")
    begin, end = BEGINNINGS[structure // len(ENDINGS)], ENDINGS[structure % len(ENDINGS)]
    return end(begin(Query(name).source(source), variant), variant).output(f"{name}.out").options(split="single", parallelism=1)


def answer_after(structure: int) -> int | None:
    """With which tuple the answer to a tuple comes: 0: with itself; 1: with the next; None: there is none for each tuple."""
    ending = structure % len(ENDINGS)
    return 0 if ending in AT_ONCE else 1 if ending in IN_ORDER else None
