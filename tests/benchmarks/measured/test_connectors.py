"""Each way in and out of the latencies: all rows come, and a time of each."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from benchmarks.measured.connectors import AT_ONCE, EVERY_S, WAYS, Way
from driver import LocalCluster
from tests.support.kafka_broker import broker


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.skipif(not shutil.which("mvn"), reason="needs Maven")
def test_all_ways(tmp_path: Path) -> None:
    with broker(tmp_path) as kafka, LocalCluster(1, data=[tmp_path]) as cluster:
        for way in WAYS:
            flow = Way(cluster, kafka, tmp_path, way)
            p50, p99 = flow.measure(2.0)
            assert 0 < p50 <= p99 and len(flow.latencies) == 2 / EVERY_S * AT_ONCE
