"""One row, or one watermark, may mean very much work: an instance does it in pieces, between which others have their turn."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from cep.dataflow.channel import batch_bytes
from cep.dataflow.local import LocalRun
from cep.dataflow.local_wires import Script
from cep.dataflow.sources.publishers import Closing, Published
from cep.elements import MIN_TIME, Batch
from cep.kernels.columns import Column
from cep.kernels.states.lists import lists_of
from cep.model import streams
from cep.model.expr import ColumnRef, col
from cep.model.functions import collect, count, lag, sum_
from cep.model.operators import Aggregate, AsOfJoin, Deduplicate, FlatMap, IntervalJoin, Join, Operator, Over, Sort, TopN
from cep.model.query import Options, Output, Query
from cep.model.schema import INT64, TIMESTAMP, Schema
from cep.model.windows import SIZE, TIME, TRAILING, UNBOUNDED, TimeWindow
from tests.support.plans import one_node, planned

SCHEMA = Schema.of({"t": "timestamp[us]", "k": "int64", "n": "int64", "l": "list<int64>"})
S, R = (streams.Stream(name, SCHEMA, ColumnRef("t"), 0) for name in "sr")
YEARS = 3 * 365 * 86_400_000_000
#: CPU seconds of the longest piece; the aim is a fifth.
LONGEST_S = 0.5
#: Pieces of each case at least. Before operators paused it was a piece for each element that came: 5, 5, 10 and 8 of these, 1 for lists.
PIECES = {"periodic": 8, "top": 6, "as-of join": 16, "in order": 14, "lags": 60, "trailing windows": 55, "groups that are over": 32}
PIECES_MIN = 10
#: Some of these would go on for an hour.
STEPS = 1_000


def rows(times: np.ndarray, keys: int = 1, elements: int = 0) -> Batch:
    n = len(times)
    numbers = np.arange(n)
    each = Column(INT64, np.arange(n * elements))
    lists = lists_of(each, np.arange(n + 1) * elements)
    columns = {
        "t": Column(TIMESTAMP, times),
        "k": Column(INT64, numbers % keys),
        "n": Column(INT64, numbers * 7919 % 1_000_003),
        "l": lists,
    }
    return Batch(columns, times)


def run_of(operator: Operator, *batches: Batch) -> LocalRun:
    """A run of it over these rows, the same of each of its streams."""
    read = (S, R)[: len(operator.inputs)]
    query = Query("q", read, (operator,), (Output("out", operator.name),), options=Options(parallelism=1, pre_aggregation="off"))
    script: Script = {0: []}
    record, latest = 0, MIN_TIME
    for batch in batches:
        script[0] = [*script[0], (Published(batch, latest, record), batch_bytes(batch), int(batch.time.max()))]
        record, latest = record + len(batch), int(batch.time.max())
    script[0] = [*script[0], (Closing("p", True), 0, MIN_TIME)]
    return LocalRun(planned(query, one_node(1)), {stream.name: {"p": script} for stream in read}, 1 << 40)


def pieces_of(run: LocalRun, most: int) -> list[float]:
    """CPU seconds of each of the first steps in which something was done, of slices that are over at once."""
    found: list[float] = []
    while len(found) < most and not all(instance.state == "ended" for instance in run.instances):
        for instance in run.instances:
            began = time.thread_time()
            if instance.step(lambda: True):
                found.append(time.thread_time() - began)
        for channel in run.wires.channels:
            channel.settle()
    return found


def rising(n: int, step: int = 1) -> np.ndarray:
    return np.arange(n, dtype=np.int64) * step


def same(n: int) -> np.ndarray:
    return np.zeros(n, np.int64)


FAR = np.array([0, YEARS])
WIDE = TimeWindow(10**9, 10**3)  # a row lies in a million windows
#: Operator, and what makes the batches of each of its streams.
CASES: dict[str, tuple[Operator, list[Callable[[], Batch]]]] = {
    "windows of one row": (Aggregate("o", "s", WIDE, ("k",), (("n", count()),)), [partial(rows, FAR)]),
    "panes of one window": (Aggregate("o", "s", TimeWindow(10**8, 10**3), (), (("n", count()),)), [partial(rows, rising(30_000, 1_000))]),
    "periodic": (
        Aggregate("o", "s", UNBOUNDED("1ms", ttl=None), ("k",), (("n", count()),)),
        [partial(rows, FAR), partial(rows, YEARS + same(300_000), 300_000)],
    ),
    "size": (Aggregate("o", "s", SIZE(200_000, 1), (), (("n", sum_("n")),)), [partial(rows, rising(210_000))]),
    "collect": (Aggregate("o", "s", SIZE(4_000, 1), (), (("n", collect("n", 4_000)),)), [partial(rows, rising(8_000))]),
    "lists": (FlatMap("o", "s", (("e", col("l")),), "e"), [partial(rows, rising(20), elements=100_000)]),
    "join of windows": (Join("o", "s", "r", WIDE, WIDE, (("k", "k"),), "inner", None, "r_"), [partial(rows, FAR)]),
    "join of all with all": (
        Join("o", "s", "r", TIME("1s"), TIME("1s"), (), "inner", col("n") + col("r_n") < 0, "r_"),
        [partial(rows, rising(3_000))],
    ),
    "interval join": (
        IntervalJoin("o", "s", "r", 0, 10, (("k", "k"),), "inner", col("n") + col("r_n") < 0, "r_"),
        [partial(rows, same(50_000)), partial(rows, same(10))],
    ),
    "as-of join": (AsOfJoin("o", "s", "r", (("k", "k"),), "left", None, "r_"), [partial(rows, rising(300_000), 1_000)]),
    "in order": (Deduplicate("o", "s", ("n",), None), [partial(rows, rising(300_000)), partial(rows, 300_000 + same(300_000))]),
    "sort": (Sort("o", "s", TIME("1s"), (), (("n", False),), "rank"), [partial(rows, rising(500_000))]),
    "top of panes": (TopN("o", "s", TimeWindow(10**8, 10**3), ("k",), (("n", False),), 1, "rank"), [partial(rows, rising(5_000, 1_000))]),
    "join of panes": (
        Join("o", "s", "r", TimeWindow(10**8, 10**3), TimeWindow(10**8, 10**3), (("k", "k"),), "inner", col("n") + col("r_n") < 0, "r_"),
        [partial(rows, rising(5_000, 1_000))],
    ),
    "lags": (
        Over("o", "s", TRAILING(rows=1), ("n",), (("before", lag("k")),), None),
        [partial(rows, rising(300_000)), partial(rows, 300_000 + same(300_000)), partial(rows, YEARS + same(300_000))],
    ),
    "trailing windows": (
        Over("o", "s", TRAILING("1s"), ("n",), (("sum", sum_("k")),), None),
        [partial(rows, rising(300_000)), partial(rows, FAR)],
    ),
    "groups that are over": (
        Deduplicate("o", "s", ("n",), 10),
        [partial(rows, same(300_000)), partial(rows, 9 + same(300_000)), partial(rows, FAR)],
    ),
    "top": (TopN("o", "s", TIME("1s"), ("k",), (("n", False),), 1, "rank"), [partial(rows, rising(300_000), 100_000)]),
}


@pytest.mark.parametrize("name", CASES)
def test_much_work_is_many_pieces(name: str) -> None:
    operator, batches = CASES[name]
    run, wanted = run_of(operator, *(made() for made in batches)), PIECES.get(name, PIECES_MIN)
    assert len(pieces_of(run, wanted)) >= wanted
    assert all(instance.state in ("running", "ended") for instance in run.instances)


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_no_piece_is_long(name: str) -> None:
    """On an idle machine: it is the one thing here that is measured."""
    operator, batches = CASES[name]
    longest = max(pieces_of(run_of(operator, *(made() for made in batches)), STEPS))
    assert longest < LONGEST_S, f"{longest * 1e3:.0f} ms"
