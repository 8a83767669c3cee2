"""Latencies under a fixed rate: between which two moments they run."""

import numpy as np
import pyarrow as pa
import pytest

from hibench.searching.open_loop import LatencyRule
from hibench.searching.schedule import Schedule
from hibench.workloads import WORKLOADS
from hibench.workloads.workload import RunTerms


def rule(schedule, disorder_ms=0, reports=False, delivered=False):
    terms = RunTerms(1_000, 1_000, disorder_ms, 0)
    workload = WORKLOADS["fixed-window"]
    return LatencyRule(workload, workload.shape(terms), terms, schedule, reports, delivered)


def latency(schedule, first_ms, delivered_us, disorder_ms=0):
    found = rule(schedule, disorder_ms)
    found.add(answers(first_ms), delivered_us)
    return found.samples.brief()


def test_latency_runs_from_the_record_that_closes_the_window():
    """
    Windows of 1 s, a record every 100 ms from 1000.05 s on, disorder 0:

        |--- window [1000, 1001) ---|--- window [1001, 1002) ---|
          ^ record 0                  ^ record 10 (1001.05) closes the first
    """
    schedule = Schedule(1000.05, rate=10, events=15)
    first = latency(schedule, [1_000_050, 1_000_150], 1_001_060_000)
    assert first.samples == 2
    assert np.allclose([first.p50, first.p99], 10.0, atol=1e-3)
    assert latency(schedule, [1_001_050], 1_003_000_000) is None, "no record closes the last window"
    assert latency(schedule, [1_000_050], 1_001_270_000, disorder_ms=200).p50 == pytest.approx(20.0, abs=1e-3)


def test_faithful_latency_is_reported_for_every_record():
    """Of a group with 3 records from the earliest of them to the clock of the last operator, three times."""
    schedule = Schedule(1000.05, rate=10, events=15)
    found = rule(schedule, reports=True)
    found.add(answers([1_000_050, 1_000_150], visits=[3, 1], reported_ms=[1_001_000, 1_001_001]), 0)
    assert found.samples.table().to_pydict() == {
        "created_us": [1_000_050_000, 1_000_150_000],
        "delivered_us": [1_001_000_000, 1_001_001_000],
        "answers": [3, 1],
    }
    assert (found.samples.brief().p50, found.samples.brief().samples) == (950.0, 4)
    here = rule(schedule, reports=True, delivered=True)
    here.add(answers([1_000_050], visits=[2]), 1_000_090_000)
    assert here.samples.table().to_pydict() == {"created_us": [1_000_050_000], "delivered_us": [1_000_090_000], "answers": [2]}


def answers(first_ms, visits=None, reported_ms=None):
    times, reported = (
        pa.array([value * 1000 for value in each]).cast(pa.timestamp("us", "UTC")) for each in (first_ms, reported_ms or first_ms)
    )
    ips = pa.array([f"10.0.0.{row}" for row in range(len(first_ms))])
    counts = pa.array(visits or [1] * len(first_ms), pa.int64())
    return pa.record_batch([ips, counts, times, times, reported], names=["ip", "visits", "start", "end", "reported"])
