"""Frames, the latest of each key, `async for` and what notebooks show, of batches from a list. The examples of docs/clients.md are run on
a cluster by `tests/driver/test_gateway.py`.

Tests `frames.py`, `driver/builder/html.py`.
"""

from __future__ import annotations

import asyncio
import threading

import pyarrow as pa
import pytest

from cep.errors import ClusterError, QueryError
from driver import TIME, Query, col, count, stream
from driver.cluster import running_html
from driver.streams.frames import ReadableBatches
from tests.support.waiting import HANG_S

EVIL = "<script>alert('x')</script>&"


class Batches(ReadableBatches):
    """Those of a list, then the end; None in it is a time without any, an error breaks it."""

    def __init__(self, *found: pa.RecordBatch | Exception | None) -> None:
        self.stream, self.left, self.given = EVIL, list(found), 0

    @property
    def rows(self) -> int:
        return self.given

    def next_batch(self, timeout: float | None = None) -> pa.RecordBatch | None:
        if not self.left:
            return None
        found = self.left.pop(0)
        if found is None:
            raise TimeoutError
        if isinstance(found, Exception):
            raise found
        self.given += found.num_rows
        self._shown = found
        return found


def batch(*rows: tuple[str | None, int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"k": k, "n": n} for k, n in rows], pa.schema([("k", pa.string()), ("n", pa.int64())]))


def test_frames_until_the_end_or_for_a_time() -> None:
    first, second = batch(("a", 1), ("b", 2)), batch(("a", 3))
    rows = first.to_pylist() + second.to_pylist()
    assert Batches(first, second).to_pandas().to_dict("records") == rows
    assert Batches(first, second).to_polars().to_dicts() == rows
    cut = Batches(first, None, second)
    assert cut.to_arrow(0.0).to_pylist() == first.to_pylist() and cut.to_arrow().to_pylist() == second.to_pylist()
    assert cut.to_arrow().schema == first.schema and cut.to_arrow().num_rows == 0
    with pytest.raises(ClusterError, match="gone"):
        Batches(first, ClusterError("gone")).to_pandas()


def test_the_latest_of_each_key_goes_on() -> None:
    found = Batches(batch(("a", 1), (None, 2), ("b", 3), ("a", 4)), None, batch((None, 5), ("c", 6)), None, batch(("a", 7)))
    assert [(row["k"], row["n"]) for row in found.latest("k").to_pylist()] == [(None, 2), ("b", 3), ("a", 4)]
    assert [(row["k"], row["n"]) for row in found.latest("k").to_pylist()] == [("b", 3), ("a", 4), (None, 5), ("c", 6)]
    assert found.latest(["n", "k"], timeout=None).to_pylist() == [{"k": "a", "n": 7}]  # by other keys, of what came since
    assert Batches().latest("k").num_rows == 0
    with pytest.raises(QueryError, match=r"latest: no column 'kk' \(did you mean 'k'\?\); there is k, n"):
        Batches(batch(("a", 1))).latest("kk")
    with pytest.raises(QueryError, match="l is no key"):
        Batches(pa.record_batch({"l": [[1]]})).latest("l")


def test_an_async_loop_that_is_cancelled_loses_no_batch() -> None:
    reading, go_on = threading.Event(), threading.Event()

    class Slow(Batches):
        def next_batch(self, timeout: float | None = None) -> pa.RecordBatch | None:
            reading.set()
            assert go_on.wait(HANG_S)
            return super().next_batch(timeout)

    found = Slow(None, batch(("a", 1)), batch(("b", 2)))

    async def rows() -> list[int]:
        return [n async for each in found for n in each.column("n").to_pylist()]

    async def cancelled() -> None:
        task = asyncio.create_task(rows())
        await asyncio.to_thread(reading.wait, HANG_S)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go_on.set()

    async def broken() -> None:
        async for _ in Batches(ClusterError("gone")):
            pass

    asyncio.run(cancelled())
    assert asyncio.run(rows()) == [1, 2]
    with pytest.raises(ClusterError, match="gone"):
        asyncio.run(broken())


def test_notebooks_show_text() -> None:
    """Names and rows that look like markup are none."""
    shown = Batches(pa.record_batch({EVIL: [EVIL, *map(str, range(20))]}))
    assert "0 rows read" in shown._repr_html_() and shown.to_arrow().num_rows == 21
    assert shown._repr_html_().count("<tr>") == 11 and ">19<" in shown._repr_html_() and ">9<" not in shown._repr_html_()
    query = Query(EVIL).source(stream("s", {EVIL: "string", "n": "int64"})).filter("f", col(EVIL) == EVIL).output("o")
    instance = {"subquery": "SQ1", "instance": 0, "im": EVIL, "metrics": {"rows_in": 5, "rows_out": 3}, "waits_for": EVIL}
    status = {"name": EVIL, "state": "failed", "cause": {"subquery": "SQ1", "cause": EVIL}, "placed": [instance]}
    rows, half = Batches(pa.record_batch({"k": [EVIL]})), Query(EVIL).source("unknown").filter(EVIL, col("n") > 1)
    assert rows.to_arrow().num_rows == 1
    for html in (shown._repr_html_(), rows._repr_html_(), query._repr_html_(), running_html(status), half._repr_html_()):
        assert "<script" not in html and "&lt;script" in html, html


def test_a_query_shows_its_plan() -> None:
    query = Query("q").source(stream("s", k=str)).aggregate("w", TIME("1m"), by="k", n=count())
    assert "<td>w</td><td>Aggregate</td><td>s</td>" in query._repr_html_()
    shown = query.output("o")._repr_html_()
    assert shown.startswith("<pre>query q") and "pre-aggregation" in shown and "im-1" in shown
