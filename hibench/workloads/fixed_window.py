"""How often did each address visit in each window, and when first and last? (The paper's Figure 12.)"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import gcd

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cep.model.streams import Stream
from driver import TIME, Query, col, count, first, last, now, window_start
from hibench.runs.answers import Shape
from hibench.workloads.workload import ADDRESS, CREATION, REPORTED, RunTerms, Workload

_FIELDS = [("ip", pa.string()), ("start", pa.int64()), ("end", pa.int64()), ("visits", pa.int64())]
_GROUP = ["ip", "opens"]
_PARTIAL = [*_GROUP, "start", "end", "visits"]


def fixed_window_query(visits: Stream, terms: RunTerms) -> Query:
    """Map (address, time) → window aggregate → map (adds the time of emission). Of windows that overlap an answer also says which
    one it is for; otherwise its first record does."""
    functions = {"visits": count(), "start": first("ts"), "end": last("ts"), **({"opens": window_start()} if overlap(terms) else {})}
    window = TIME(f"{terms.window_ms}ms", f"{terms.slide_ms}ms")
    return (
        Query("fixed-window")
        .source(visits)
        .map("pick", ip=col(ADDRESS), ts=col(CREATION))
        .aggregate("window", window, functions, by="ip")
        .map("stamp", {name: col(name) for name in ("ip", *functions)}, **{REPORTED: now()})
    )


def overlap(terms: RunTerms) -> bool:
    return terms.slide_ms != terms.window_ms


def shape(terms: RunTerms) -> Shape:
    opens = [("opens", pa.int64())] if overlap(terms) else []
    return Shape(pa.schema([*_FIELDS, *opens]), time="opens" if opens else "start", events="visits")


def window_answers(tables: Iterable[pa.Table], terms: RunTerms) -> Iterator[pa.Table]:
    """The answers, those of windows that are done after every table.

    Windows are whole panes, gcd(size, advance) long; a window is done when the greatest event time so far, less the
    disorder, has reached its end. So memory holds a table and the open panes, whatever the size of the dataset.
    """
    names, width = shape(terms).schema.names, gcd(terms.window_ms, terms.slide_ms)
    pending, newest, done = _no_panes(), None, None
    for table in tables:
        greatest = pc.max(table[CREATION]).as_py()
        newest = greatest if newest is None else max(newest, greatest)
        pending = _grouped(pa.concat_tables([pending, _panes(table, width)]), "sum")
        until = newest - terms.disorder_ms
        yield _windows(pending, terms, done, until).select(names)
        done = until
        pending = pending.filter(pc.greater(pending["opens"], until - terms.window_ms))
    yield _windows(pending, terms, done, None).select(names)


def _no_panes() -> pa.Table:
    return pa.schema([(name, pa.string() if name == "ip" else pa.int64()) for name in _PARTIAL]).empty_table()


def _panes(table: pa.Table, width: int) -> pa.Table:
    """One row per (address, pane)."""
    times = table[CREATION]
    opens = np.asarray(times) // width * width
    return _grouped(pa.table([table[ADDRESS], opens, times, times, times], names=_PARTIAL), "count")


def _windows(panes: pa.Table, terms: RunTerms, after: int | None, until: int | None) -> pa.Table:
    """The windows made of `panes` that end after `after` and not after `until`; None: no such bound."""
    size, advance = terms.window_ms, terms.slide_ms
    opens = np.asarray(panes["opens"])
    last_window = opens // advance
    shares = []
    for back in range(-(-size // advance)):
        start = (last_window - back) * advance
        inside = opens < start + size
        inside &= True if after is None else start + size > after
        inside &= True if until is None else start + size <= until
        share = panes.set_column(1, "opens", pa.array(start)).filter(pa.array(inside))
        shares.append(share)
    return _grouped(pa.concat_tables(shares), "sum")


def _grouped(table: pa.Table, visits: str) -> pa.Table:
    groups = table.group_by(_GROUP).aggregate([("start", "min"), ("end", "max"), ("visits", visits)])
    return groups.select([*_GROUP, "start_min", "end_max", f"visits_{visits}"]).rename_columns(_PARTIAL)


FIXED_WINDOW = Workload(
    name="fixed-window",
    balancer="route-key",
    line="how often each address visited in each window, and when first and last (the paper's Figure 12)",
    behind="window",
    query=fixed_window_query,
    shape=shape,
    expected=window_answers,
    columns={CREATION: "timestamp[ms]", ADDRESS: str},
    created="start",
    by_window=True,
    slides=True,
)
