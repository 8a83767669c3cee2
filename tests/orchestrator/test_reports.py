"""What is no report of an instance manager is refused when it comes; before, it was found by the next question for metrics."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest

from cep.model.packed import packed
from orchestrator.metrics.server import Metrics, _answer, _take
from orchestrator.reports import read_report

INSTANCE: dict[str, Any] = {
    "query": "q",
    "subquery": "SQ1",
    "instance": 0,
    "epoch": 1,
    "rows_in": 5,
    "rows_out": 3,
    "watermark": None,
    "waits_for": "",
    "cpu_ns": 1000,
    "buckets": {"SQ2": packed(np.array([1, 2]))},
    "operators": [{"name": "m", "step": "map", "rows_in": 5, "ns_per_row": 1.5, "cpu_ns": 7}],
    "outputs": [{"name": "out", "blocked": False, "blocked_ns": 0, "latency_us": {"sum": 10, "counts": [1] * 19}}],
    "dead_letters": {"count": [["m", 1], [["m", "why"], 2]], "letters": [{"operator": "m", "reason": "why"}]},
}
PLACE: dict[str, Any] = {"step": "operator", "name": "m", "query": "q", "subquery": "SQ1", "instance": 0, "cause": "core"}
STALL = {**PLACE, "at": 1.5, "by": "", "took_ns": 5, "cpu_ns": 1, "delay_ns": 4}
REPORT: dict[str, Any] = {
    "im": "im-0",
    "time": 1.0,
    "complete": True,
    "withdrawn": [["q", "SQ2", "0"]],
    "stalls": {"began": 0.5, "totals": [{**PLACE, "count": 1, "total_ns": 5, "worst_ns": 5}], "slowest": [STALL]},
    "process": {"pid": 1, "cpu_ns": 10, "rss_bytes": 100},
    "instances": [INSTANCE],
}
QUESTIONS = [{"get": "metrics"}, {"get": "query", "query": "q"}, {"get": "figures"}, {"get": "load", "query": "q"}, {"get": "cpu"}]
QUESTIONS += [{"get": "trace"}, {"get": "dead_letters", "query": "q"}]
ODD: list[Any] = [None, True, "x", "\ud800", [], {}, [[]], -1, 1.5, 10**400, float("nan"), float("inf"), [None], {"a": {}}]


def answered(metrics: Metrics) -> list[Any]:
    return [json.loads(_answer(metrics, json.dumps(question).encode())) for question in QUESTIONS]


def test_a_report_is_one() -> None:
    assert read_report(json.dumps(REPORT).encode()) == REPORT


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"1", b"null", b'{"im": 1}', b"[" * 100_000, b"\xff", b'{"im": "a", "instances": {}}'])
def test_what_is_none(body: bytes) -> None:
    with pytest.raises(ValueError):
        read_report(body)


@pytest.mark.parametrize("reports", [1_000, pytest.param(10_000, marks=pytest.mark.long)])
def test_mutated_reports_leave_all_answers_as_they_are(reports: int) -> None:
    """Whatever is taken of them, what is asked next is answered, and can be written."""
    metrics, choose = Metrics(), random.Random(1)
    _take(metrics, json.dumps(REPORT).encode())
    for _ in range(reports):
        report = json.loads(json.dumps(REPORT))
        for _ in range(choose.choice((1, 1, 2))):
            _spoil(report, choose)
        _take(metrics, json.dumps(report).encode())
        assert [each["error"] for each in answered(metrics) if "error" in each] == [], report
    _take(metrics, json.dumps(REPORT).encode())
    assert any(each["query"] == "q" for each in answered(metrics)[2]["instances"])
    json.dumps(answered(metrics), allow_nan=False, ensure_ascii=False).encode()


def _spoil(found: Any, choose: random.Random) -> None:
    """One value anywhere in it is another, or gone."""
    while isinstance(found, dict | list) and found:
        key = choose.choice(list(found)) if isinstance(found, dict) else choose.randrange(len(found))
        if not isinstance(found[key], dict | list) or not found[key] or choose.random() < 0.2:
            if choose.random() < 0.1:
                del found[key]
            else:
                found[key] = choose.choice(ODD)
            return
        found = found[key]


@pytest.mark.parametrize("question", [b"", b"[]", b'{"get": "query", "query": []}', b'{"get": {}}', b"[" * 100_000, b"\xff"])
def test_odd_questions_are_answered(question: bytes) -> None:
    """Before, one ended the thread that answers all of them."""
    assert "error" in json.loads(_answer(Metrics(), question)) or question == b'{"get": "query", "query": []}'
