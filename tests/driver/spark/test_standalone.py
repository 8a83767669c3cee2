"""A query on a Spark cluster of a master and two workers, on this machine; nothing of it is left."""

from __future__ import annotations

import psutil
import pyarrow as pa
import pytest

from driver import TIME, Query, col, count, deploy, stream
from driver.spark.standalone import StandaloneSpark

EVENTS = stream("s", t="timestamp[us]", k=int, event_time="t", disorder="0us")


@pytest.mark.long  # six JVMs
@pytest.mark.timeout(900)
def test_two_workers_answer_as_one_does() -> None:
    before = set(psutil.Process().children(recursive=True))
    made = Query("q").source(EVENTS).filter("f", col("k") != 3).aggregate("w", TIME("100us"), by="k", n=count()).output("out")
    with StandaloneSpark(workers=2) as cluster:
        assert cluster.master.startswith("spark://127.0.0.1:")
        with deploy(made, master=cluster.master) as running:
            answers = running.subscribe("out")
            with running.publisher("s") as out:
                out.send([{"t": i, "k": i % 7} for i in range(700)])
            found = pa.Table.from_batches(answers).to_pylist()
            hosts = running._spark.session.sparkContext._jsc.sc().getExecutorMemoryStatus().size()
    assert hosts == 3  # both executors, and the driver
    assert len(found) == 7 * 6 and sum(row["n"] for row in found) == 600
    assert set(psutil.Process().children(recursive=True)) <= before
