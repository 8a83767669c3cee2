"""A subquery that gets other numbers of instances: what is expected is what the query answers, and pauses are said as they were."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.faults import elastic
from benchmarks.faults.elastic import ElasticReport, StepPause, expected, query
from driver import LocalCluster
from numa_cep import testing


@pytest.mark.parametrize(("rows", "keys", "rate"), [(600, 7, 1_000), (90, 100, 300), (1, 1, 1_000)])
def test_the_query_answers_what_is_counted_apart(rows: int, keys: int, rate: int) -> None:
    i = np.arange(rows)
    published = pa.table({"t": pa.array(i * 1000 // rate, pa.timestamp("ms")), "key": i % keys})
    found = testing.answers(query("1s", 2), {f"{elastic.NAME}.in": published})[f"{elastic.NAME}.out"]
    shown = [[round(row["start"].timestamp() * 1000), row["rows"], row["total"]] for row in found]
    assert sorted(shown) == expected(rows, keys, rate).tolist()
    assert sum(n for _, n, _ in shown) == rows


def test_a_report_says_what_each_step_took_and_whether_that_is_short() -> None:
    report = ElasticReport([StepPause(1, 2, 3_000_000, 0.25, 1.5), StepPause(2, 4, 0, 0.75, 2.0)], 0.1, 12)
    assert list(report.lines()) == [
        "1 → 2 instances, checkpoints of 3.0 MB: nothing new for 0.25 s, running again after 1.50 s",
        "2 → 4 instances, checkpoints of 0.0 MB: nothing new for 0.75 s, running again after 2.00 s",
        "2 steps: pause p50 0.50 s (NOT below 0.5 s), worst 0.75 s; undisturbed 0.10 s",
        "12 answers compared: equal",
    ]
    report.wrong.append("one more")
    assert list(report.lines())[-2:] == ["12 answers compared", "WRONG: one more"]
    assert next(ElasticReport().lines()) == "0 steps: pause p50 0.00 s (below 0.5 s), worst 0.00 s; undisturbed 0.00 s"


@pytest.mark.long
def test_a_query_is_scaled_while_rows_flow() -> None:
    with LocalCluster(instances=2) as cluster:
        flow = elastic.FlowingQuery(cluster, query("1s", 1), 100, 2_000)
        found = elastic.ElasticRun(flow, [1, 2], print).run(2, 0.5)
    assert found.wrong == [] and found.windows > 10
    assert [(step.before, step.after) for step in found.steps] == [(1, 2), (2, 1), (1, 2)]
    assert all(0 < step.pause_s < elastic.HANGS_S for step in found.steps)
