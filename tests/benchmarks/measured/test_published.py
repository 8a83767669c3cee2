"""Rows that are published to a real cluster: all of them come, and are what the files hold.

Tests `published.py`, `delivery.py`.
"""

from __future__ import annotations

import io
import time
from pathlib import Path

import numpy as np
import pytest

from benchmarks.measured import delivery, published, window
from driver import LocalCluster, stream


def test_what_the_files_hold_is_published_when_it_is_told_to(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    times, addresses = np.arange(900, dtype=np.int64) * 100, np.arange(900, dtype=np.uint32) % 7 + 0x0A000000
    times.tofile(tmp_path / "times")
    addresses.tofile(tmp_path / "addresses")
    visits = stream("visits", ip=str, ts="timestamp[ms]", event_time="ts", disorder="0s")
    running = cluster.deploy(window.query(visits), start=False)
    answers = running.subscribe("answers")
    running.start()
    monkeypatch.setattr("sys.stdin", io.StringIO("go\n"))
    published.publish(cluster.rest.url, tmp_path / "times", tmp_path / "addresses")
    assert capsys.readouterr().out == "ready\n"
    found = [row for batch in answers for row in batch.to_pylist()]
    assert sum(row["visits"] for row in found) == 900
    assert len(found) == 3 * 7 and {row["ip"] for row in found} == {f"10.0.0.{i}" for i in range(7)}
    assert sorted({round(row["start"].timestamp()) // 30 for row in found}) == [0, 1, 2]


def test_moments_come_back_through_two_subqueries(cluster: LocalCluster) -> None:
    running = cluster.deploy(delivery.query(), start=False)
    answers = running.subscribe("answers")
    running.start()
    began = time.monotonic_ns()
    delivery.publish(cluster.rest.url, 1_000, 0.05)
    latencies = np.concatenate(delivery.delivered(answers))
    assert len(latencies) == 50 and latencies.min() > 0 and latencies.max() < time.monotonic_ns() - began
