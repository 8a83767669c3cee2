"""Rates of two answers of `GET /figures`, and how figures are written.

Tests `rates.py`, `words.py`.
"""

from __future__ import annotations

from typing import Any

import pytest

from cep.dataflow.meter import LATENCY_BOUNDS_US
from console import words
from console.rates import (
    BOUNDS_US,
    CLASSES,
    ClusterRates,
    FlowRates,
    LastReports,
    latencies_between,
    placed_figures,
    quantile_s,
    rates_between,
    summed,
)

MANAGERS = [{"id": "im-0", "core": 0, "node": 0}]


def instance(subquery: str = "SQ1", number: int = 0, at: float = 100.0, epoch: int = 1, **figures: Any) -> dict[str, Any]:
    known = {"rows_in": 0, "cpu_ns": 0, "queue_bytes": 0, "watermark": None, "waits_for": "", "operators": [], "outputs": []}
    return known | {"query": "q", "subquery": subquery, "instance": number, "epoch": epoch, "im": "im-0", "reported": at} | figures


def step(kind: str, name: str, rows: int) -> dict[str, Any]:
    return {"step": kind, "name": name, "rows_in": rows, "cpu_ns": rows * 10}


def figures(at: float, *instances: dict[str, Any]) -> dict[str, Any]:
    return {"time": at, "instances": list(instances), "managers": [{"im": "im-0", "reported": at, "cpu_ns": int(at * 1e8), "rss_bytes": 7}]}


def rated(before: dict[str, Any], after: dict[str, Any]) -> ClusterRates:
    return rates_between(figures(100.0, before), figures(102.0, after), MANAGERS)


def test_the_classes_of_latency_are_the_engines() -> None:
    assert BOUNDS_US == LATENCY_BOUNDS_US


def test_rows_of_a_query_are_those_that_it_reads_and_those_of_its_output_streams() -> None:
    steps = [
        step("receive", "visits", 0),
        step("read", "visits", 0),
        step("operator", "pick", 0),
        step("output", "out", 0),
        step("output", "a>b", 0),
    ]
    then = [
        step("receive", "visits", 200),
        step("read", "visits", 200),
        step("operator", "pick", 150),
        step("output", "out", 40),
        step("output", "a>b", 60),
    ]
    outputs = [{"name": "out", "blocked_ns": 0, "latency_us": {"counts": [0] * CLASSES}}, {"name": "a>b", "blocked_ns": 0}]
    later = [
        {"name": "out", "blocked_ns": 0, "latency_us": {"counts": [0, 40, *[0] * (CLASSES - 2)]}},
        {"name": "a>b", "blocked_ns": 10**9},
    ]
    before = instance(operators=steps, outputs=outputs, bytes_in=0, bytes_out=0)
    after = instance(
        at=102.0, operators=then, outputs=later, bytes_in=4_000, bytes_out=1_000, late=3, dead=2, watermark=100_500_000, cpu_ns=10**9
    )
    found = rated(before, after).queries["q"]
    assert (found.rows_in_s, found.rows_out_s, found.cpu, found.lag_s) == (100.0, 20.0, 0.5, 1.5)
    assert (found.late, found.dead, found.latencies[1]) == (3, 2, 40)
    assert found.arrivals == (FlowRates("q", "visits", "SQ1", 100.0, 2_000.0, 0.0),)
    assert found.flows == (FlowRates("q", "out", "SQ1", 20.0, 200.0, 0.0), FlowRates("q", "a>b", "SQ1", 30.0, 300.0, 0.5))


def test_what_was_deployed_anew_has_done_nothing_yet() -> None:
    before = instance(epoch=1, operators=[step("read", "visits", 0)])
    found = rated(before, instance(at=102.0, epoch=2, operators=[step("read", "visits", 500)])).queries["q"]
    assert (found.rows_in_s, found.cpu) == (0.0, 0.0)


def test_what_was_not_reported_anew_goes_on_as_it_was() -> None:
    """And latencies are counted once."""
    reports = LastReports()
    read = [
        instance(at=at, operators=[step("read", "visits", rows)]) for at, rows in ((100.0, 0), (102.0, 200), (102.0, 200), (104.0, 200))
    ]
    found = []
    for second, each in enumerate(read):
        found.append(rates_between(*reports.take(figures(100.0 + second, each)), MANAGERS).queries["q"].rows_in_s)
    assert found == [0.0, 100.0, 100.0, 0.0]
    counts = [[0] * CLASSES, [5, *[0] * (CLASSES - 1)]]
    answers = [
        instance(at=at, outputs=[{"name": "out", "blocked_ns": 0, "latency_us": {"counts": each}}])
        for at, each in zip((1.0, 2.0), counts, strict=True)
    ]
    assert latencies_between(figures(1.0, answers[0]), figures(2.0, answers[1]))["q"][0] == 5
    assert latencies_between(figures(2.0, answers[1]), figures(3.0, answers[1]))["q"] == (0,) * CLASSES


def test_the_cluster_is_the_sum() -> None:
    found = rated(instance(), instance(at=102.0))
    assert (found.cpu, found.memory_bytes, found.rows_in_s, found.lag_s) == (pytest.approx(0.1), 7, 0, None)


def test_quantiles() -> None:
    counts = [0] * CLASSES
    assert quantile_s(counts, 0.5) is None
    counts[3], counts[6], counts[-1] = 98, 1, 1
    assert (quantile_s(counts, 0.5), quantile_s(counts, 0.99), quantile_s(counts, 1.0)) == (0.001, 0.01, 50.0)
    assert summed([[1] * CLASSES, [2] * CLASSES]) == (3,) * CLASSES
    assert summed([]) == (0,) * CLASSES


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (words.rate(0.01), "0"),
        (words.rate(12.34), "12.3"),
        (words.rate(845.2), "845"),
        (words.rate(999.7), "1.0 k"),
        (words.rate(3_140_000), "3.1 M"),
        (words.rate(5e12), "5000.0 G"),
        (words.span(None), "-"),
        (words.span(0.00032), "320 µs"),
        (words.span(0.0015), "1.5 ms"),
        (words.span(0.25), "250 ms"),
        (words.span(90), "90.0 s"),
        (words.span(86_400 * 3), "3 d"),
        (words.nanoseconds(None), "-"),
        (words.nanoseconds(14.2), "14 ns"),
        (words.nanoseconds(9_102), "9.1 µs"),
        (words.ago(-3), "0 s ago"),
        (words.ago(300), "5 min ago"),
        (words.ago(86_400 * 4), "4 d ago"),
        (words.clock(0), "00:00:00"),
        (words.moment(0), "1970-01-01 00:00:00"),
    ],
)
def test_words(shown: str, expected: str) -> None:
    assert shown == expected


def test_what_was_scaled_away_is_not_shown() -> None:
    """Figures of a query whose plan is not known yet are."""
    told = [{"query": query, "subquery": "SQ2", "instance": index} for query in ("q", "new") for index in (0, 1)]
    plans = {"q": {"instances": [{"subquery": "SQ1", "index": 1}, {"subquery": "SQ2", "index": 0}]}}
    found = placed_figures({"time": 1.0, "managers": [], "instances": told}, plans)
    assert found == {"time": 1.0, "managers": [], "instances": [told[0], *told[2:]]}
