"""Rows, queries and the answers they should have, for the tests of whole clusters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from cep.model.streams import Stream
from driver import TIME, Query, Subscription, col, count, first, last, stream

BASE_MS = 1_699_999_980_000  # a window of 30 s begins here
WINDOW_MS = 30_000

Row = dict[str, Any]
Answer = tuple[str, int, int, int]  # ip, visits, start, end


def visits(name: str, **declared: Any) -> Stream:
    """The published stream of query `name`."""
    return stream(f"{name}.visits", ip=str, ts="timestamp[ms]", **{"event_time": "ts", "disorder": "2s", **declared})


def windows(name: str, source: Stream | None = None, **options: Any) -> Query:
    """The query of the README over a stream of its own; its answers leave as `<name>.per_ip`."""
    return (
        Query(name)
        .source(source or visits(name))
        .map("pick", ip=col("ip"), ts=col("ts"))
        .aggregate("window", TIME("30s"), by="ip", visits=count(), start=first("ts"), end=last("ts"))
        .output(f"{name}.per_ip")
        .options(**options)
    )


def copies(name: str) -> Query:
    """A query without state: every row as it came, as `<name>.all`."""
    return Query(name).source(visits(name)).map("pick", ip=col("ip"), ts=col("ts")).output(f"{name}.all")


def rows(n: int, start: int = 0, step_ms: int = 10, groups: int = 7) -> list[Row]:
    """`n` rows in order of event time, `step_ms` apart."""
    return [{"ip": f"10.0.0.{i % groups}", "ts": BASE_MS + i * step_ms} for i in range(start, start + n)]


def expected(given: Iterable[Row]) -> Counter[Answer]:
    """What `windows` answers."""
    groups: dict[tuple[int, str], list[int]] = {}
    for row in given:
        groups.setdefault((row["ts"] // WINDOW_MS, row["ip"]), []).append(row["ts"])
    return Counter((ip, len(times), min(times), max(times)) for (_, ip), times in groups.items())


def answers(subscription: Subscription) -> Counter[Answer]:
    """Everything that comes until the end of the stream."""
    return Counter(answer for batch in subscription for answer in answers_of(batch))


def answers_of(batch: Any) -> Iterator[Answer]:
    for row in batch.to_pylist():
        yield row["ip"], row["visits"], millis(row["start"]), millis(row["end"])


def millis(when: Any) -> int:
    return round(when.timestamp() * 1000)
