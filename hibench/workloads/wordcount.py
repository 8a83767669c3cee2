"""How often has each address visited so far? An answer for every record, with the running count of its address."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cep.model.streams import Stream
from driver import UNBOUNDED, Query, col, count, last, now
from hibench.runs.answers import Shape
from hibench.workloads.workload import ADDRESS, CREATION, REPORTED, RunTerms, Workload

_ANSWER = pa.schema([("ip", pa.string()), ("at", pa.int64()), ("visits", pa.int64())])
COUNTED = Shape(_ANSWER, time="at", key=("ip",), running="visits")


def wordcount_query(visits: Stream, terms: RunTerms) -> Query:
    """Map (address, time) → running count for each address → map (adds the clock)."""
    return (
        Query("wordcount")
        .source(visits)
        .map("pick", ip=col(ADDRESS), ts=col(CREATION))
        .aggregate("count", UNBOUNDED(ttl=None), by="ip", visits=count(), at=last("ts"))
        .map("report", {REPORTED: now()}, ip=col("ip"), visits=col("visits"), at=col("at"))
    )


def running_counts(tables: Iterable[pa.Table], terms: RunTerms) -> Iterator[pa.Table]:
    """The answers: records in the order of their event times, those at one time in the order of the files, counted for each address.

    Memory holds a table and the addresses so far: no record lies more than the disorder behind the greatest time before it.
    """
    known, counts = pa.array([], pa.string()), np.empty(0, np.int64)
    for ready in _in_order(tables, terms.disorder_ms):
        ips = ready[ADDRESS].combine_chunks()
        unseen = pc.unique(ips.filter(pc.invert(pc.is_in(ips, known))))
        known = pa.concat_arrays([known, unseen])
        counts = np.concatenate([counts, np.zeros(len(unseen), np.int64)])
        keys = np.asarray(pc.index_in(ips, known))
        visits = counts[keys] + _place_in_group(keys) + 1
        counts += np.bincount(keys, minlength=len(counts))
        yield pa.table([ips, ready[CREATION], visits], schema=COUNTED.schema)


def _in_order(tables: Iterable[pa.Table], disorder_ms: int) -> Iterator[pa.Table]:
    """(address, time) sorted by time, stably; every table as far as no later record can come before it."""
    waiting, newest = None, None
    for table in tables:
        wanted = table.select([CREATION, ADDRESS])
        waiting = wanted if waiting is None else pa.concat_tables([waiting, wanted])
        greatest = pc.max(table[CREATION]).as_py()
        newest = greatest if newest is None else max(newest, greatest)
        waiting = waiting.take(np.argsort(np.asarray(waiting[CREATION]), kind="stable"))
        ready = int(np.searchsorted(np.asarray(waiting[CREATION]), newest - disorder_ms, side="right"))
        yield waiting.slice(0, ready)
        waiting = waiting.slice(ready)
    if waiting is not None:
        yield waiting


def _place_in_group(keys: np.ndarray) -> np.ndarray:
    """int64[n]: how many equal keys are before each."""
    order = np.argsort(keys, kind="stable")
    in_order = keys[order]
    first = np.flatnonzero(np.diff(in_order, prepend=-1))
    places = np.empty(len(keys), np.int64)
    places[order] = np.arange(len(keys)) - np.repeat(first, np.diff(first, append=len(keys)))
    return places


WORDCOUNT = Workload(
    name="wordcount",
    balancer="route-key",
    line="how often each address has visited so far, an answer for every record",
    behind="count",
    query=wordcount_query,
    shape=lambda terms: COUNTED,
    expected=running_counts,
    columns={CREATION: "timestamp[ms]", ADDRESS: str},
    created="at",
    in_files=True,
)
