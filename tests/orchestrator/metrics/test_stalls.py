"""Stalls as instance managers report them: kept, answered, and added up for Prometheus."""

from __future__ import annotations

from typing import Any

from orchestrator.metrics.stalls import SLOWEST_MAX, ReportedStalls


def report(began: float, slowest: list[int], *totals: tuple[str, str, int, int]) -> dict[str, Any]:
    made = [{"cause": cause, "place": place, "count": count, "ns": ns} for cause, place, count, ns in totals]
    return {"began": began, "totals": made, "slowest": [{"ns": ns} for ns in slowest]}


def test_the_last_report_counts_and_the_slowest_of_all_stay() -> None:
    stalls = ReportedStalls()
    stalls.take("im-1", report(1.0, [5], ("work", "a", 1, 5)), 10.0)
    stalls.take("im-0", report(2.0, []), 10.5)
    stalls.take("im-1", report(1.0, [9], ("work", "a", 2, 14)), 11.0)
    stalls.take("im-1", None, 12.0)
    first, second = stalls.answer()
    assert (first["im"], first["slowest"]) == ("im-0", [])
    assert (second["im"], second["began"], second["reported"]) == ("im-1", 1.0, 11.0)
    assert second["totals"] == report(1.0, [], ("work", "a", 2, 14))["totals"]
    assert [each["ns"] for each in second["slowest"]] == [5, 9]


def test_another_process_counts_anew() -> None:
    stalls = ReportedStalls()
    stalls.take("im-0", report(1.0, [5], ("work", "a", 1, 5)), 10.0)
    stalls.take("im-0", report(2.0, [7], ("work", "a", 1, 7)), 11.0)
    (found,) = stalls.answer()
    assert (found["began"], [each["ns"] for each in found["slowest"]]) == (2.0, [7])


def test_what_is_kept_is_bounded_and_can_be_forgotten() -> None:
    stalls = ReportedStalls()
    stalls.take("im-0", report(1.0, list(range(SLOWEST_MAX + 3))), 10.0)
    (found,) = stalls.answer()
    assert [each["ns"] for each in found["slowest"]] == list(range(3, SLOWEST_MAX + 3))
    stalls.forget("im-0")
    stalls.forget("im-9")
    assert stalls.answer() == []


def test_for_prometheus_places_of_one_cause_are_one() -> None:
    stalls = ReportedStalls()
    stalls.take("im-0", report(1.0, [], ("work", "a", 1, 5_000_000), ("garbage", "", 1, 1_000_000), ("work", "b", 2, 7_000_000)), 10.0)
    assert list(stalls.samples("count")) == [({"im": "im-0", "cause": "work"}, 3), ({"im": "im-0", "cause": "garbage"}, 1)]
    assert [value for _, value in stalls.samples("ns", 1e9)] == [0.012, 0.001]
