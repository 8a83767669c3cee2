"""What the metric server remembers, by the steady clock."""

from __future__ import annotations

from typing import Any

from orchestrator.metrics.server import SILENT_S_MAX, Metrics
from orchestrator.records import Now


def report(im: str) -> dict[str, Any]:
    figures = {"query": "q", "subquery": "SQ1", "instance": 0, "epoch": 1, "cpu_ns": 0, "waits_for": "last row 3 s ago"}
    return {"im": im, "instances": [figures], "process": {}}


def test_a_wall_clock_that_somebody_sets_forgets_nobody() -> None:
    metrics = Metrics()
    metrics.take(report("im-0"), Now(100.0, 1_000.0))
    metrics.take({"im": "im-1", "instances": []}, Now(101.0, 1_000.0 + 2 * SILENT_S_MAX))
    [told] = metrics.answer({"get": "query", "query": "q"}, Now(107.0, 5.0))["instances"]
    assert (told["reported"], told["waits_for"]) == (1_000.0, "last row 10 s ago")
    assert metrics.managers.keys() == {"im-0", "im-1"}


def test_one_that_is_silent_for_long_is_forgotten() -> None:
    metrics = Metrics()
    metrics.take(report("im-0"), Now(0.0, 1_000.0))
    metrics.take({"im": "im-1", "instances": []}, Now(SILENT_S_MAX + 1, 1_000.0))
    assert metrics.answer({"get": "query", "query": "q"}, Now(SILENT_S_MAX + 1, 1_000.0)) == {"instances": []}
    assert metrics.managers.keys() == {"im-1"}
