"""Figures of the last hours: what a sample says, and that they are bounded."""

from __future__ import annotations

from typing import Any

import pytest

from cep.dataflow.meter import LATENCY_BOUNDS_US
from orchestrator.metrics import history
from orchestrator.metrics.history import STEP_S, FigureHistory
from orchestrator.metrics.server import Metrics
from orchestrator.records import Now

CLASSES = len(LATENCY_BOUNDS_US) + 1


def report(query: str, rows: int, cpu_s: float = 0.0, slow: int = 0, epoch: int = 1, watermark: int | None = None) -> dict[str, Any]:
    """So many rows read, half of them put out, `slow` of these in more than a second and the others in a millisecond."""
    counts = [0] * CLASSES
    counts[LATENCY_BOUNDS_US.index(1000)], counts[LATENCY_BOUNDS_US.index(2_000_000)] = rows // 2 - slow, slow
    steps = [{"step": "read", "name": "visits", "rows_in": rows}, {"step": "output", "name": "out", "rows_in": rows // 2}]
    outputs = [{"name": "out", "latency_us": {"sum": 0, "counts": counts}}, {"name": "a>b"}]
    figures = {"query": query, "subquery": "SQ1", "instance": 0, "epoch": epoch, "cpu_ns": int(cpu_s * 1e9), "watermark": watermark}
    return {"im": "im-0", "instances": [figures | {"operators": steps, "outputs": outputs}], "process": {}}


def at(seconds: float) -> Now:
    return Now(seconds, 1_000.0 + seconds)


def test_a_sample_is_what_happened_since_the_last() -> None:
    metrics = Metrics()
    metrics.take(report("q", 0, watermark=990_000_000), at(0))
    metrics.take(report("q", 1_000, cpu_s=4.0, slow=100, watermark=1_005_000_000), at(STEP_S))
    told = metrics.answer({"get": "history", "query": "q"}, at(STEP_S))
    assert told["times"] == [1_000.0, 1_000.0 + STEP_S]
    assert told["rows_in_s"] == [0.0, 1_000 / STEP_S] or told["rows_in_s"] == [None, 1_000 / STEP_S]
    assert (told["rows_out_s"][1], told["cores"][1]) == (500 / STEP_S, pytest.approx(4.0 / STEP_S))
    assert told["lag_s"] == [10.0, 5.0]
    assert told["latency_p99_s"] == [None, 2.0]  # a fifth of the rows was slow


def test_between_two_samples_nothing_is_noted() -> None:
    metrics = Metrics()
    for second in range(int(STEP_S) * 3):
        metrics.take(report("q", 0), at(second))
    assert len(metrics.answer({"get": "history", "query": None}, at(0))["times"]) == 3


def test_all_queries_together() -> None:
    metrics = Metrics()
    for rows, seconds in ((0, 0.0), (100, STEP_S)):
        metrics.take({"im": "im-0", "instances": [report(name, rows)["instances"][0] for name in "ab"]}, at(seconds))
    assert metrics.answer({"get": "history", "query": None}, at(0))["rows_in_s"][-1] == 200 / STEP_S
    assert metrics.answer({"get": "history", "query": "nobody"}, at(0))["times"] == []


def test_another_deployment_begins_at_nothing() -> None:
    metrics = Metrics()
    metrics.take(report("q", 1_000), at(0))
    metrics.take(report("q", 10, epoch=2), at(STEP_S))
    metrics.take(report("q", 110, epoch=2), at(2 * STEP_S))
    told = metrics.answer({"get": "history", "query": "q"}, at(0))
    assert told["rows_in_s"] == [None, None, 100 / STEP_S]


def test_it_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "KEPT", 5)
    monkeypatch.setattr(history, "QUERIES_MAX", 2)
    metrics = Metrics()
    for i in range(9):
        metrics.take({"im": "im-0", "instances": [report(name, i)["instances"][0] for name in "abc"]}, at(i * STEP_S))
    assert [len(metrics.history.answer(name)["times"]) for name in ("a", "b", "c", "")] == [5, 5, 0, 5]


def test_figures_go_with_their_query() -> None:
    kept = FigureHistory()
    metrics = Metrics()
    metrics.history = kept
    metrics.take(report("q", 0), at(0))
    metrics.take({"im": "im-0", "instances": [], "withdrawn": []}, at(STEP_S))
    assert kept.answer("q")["times"] != []
    metrics.instances.clear()
    kept.note(metrics.instances, metrics.managers, at(2 * STEP_S))
    assert kept.answer("q")["times"] == []
