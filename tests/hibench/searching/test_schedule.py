"""Which record is created when in an open loop."""

import numpy as np
import pyarrow as pa

from hibench.records.dataset import Dataset
from hibench.searching.schedule import Pool, Schedule, created_records
from hibench.workloads import WORKLOADS


def test_a_schedule_creates_records_at_their_times():
    schedule = Schedule(1000.0, rate=10, events=25)
    assert [schedule.due(moment) for moment in (999.9, 1000.0, 1000.15, 1001.05, 1100.0)] == [0, 1, 2, 11, 25]
    assert schedule.created_us(np.arange(3)).tolist() == [1_000_000_000, 1_000_100_000, 1_000_200_000]


def test_a_schedule_of_bursts():
    schedule = Schedule(1000.0, rate=100, events=12, burst=5)
    assert [schedule.due(moment) for moment in (999.9, 1000.0, 1000.04, 1000.06, 1100.0)] == [0, 5, 5, 10, 12]
    assert schedule.created_us(np.array([0, 4, 5, 11])).tolist() == [1_000_000_000, 1_000_000_000, 1_000_050_000, 1_000_100_000]
    assert schedule.first_from(np.array([999.0, 1000.0, 1000.01, 1000.1])).tolist() == [0, 0, 5, 10]


def test_records_are_cycled_with_new_creations(monkeypatch):
    monkeypatch.setattr("hibench.searching.schedule.POOL_EVENTS", 4)
    dataset = Dataset(10, record_bytes=0)
    pool = Pool(dataset, WORKLOADS["wordcount"].columns)
    found = pa.concat_tables(created_records(pool, Schedule(5.0, rate=10, events=10)))
    assert found["creation_ms"].to_pylist() == [5_000 + 100 * i for i in range(10)]
    ips = found["source_ip"].to_pylist()
    assert ips == (ips[:4] * 3)[:10]
    assert len(set(ips)) == 4
