"""What latencies of a run come to."""

from __future__ import annotations

import numpy as np

from benchmarks.measured.relay import percentiles


def test_the_first_sixth_of_latencies_is_warm_up() -> None:
    found = percentiles([np.full(10, 9e9), np.full(50, 2e6)])
    assert found["samples"] == 50
    assert found["max_ms"] == found["p50_ms"] == 2.0
