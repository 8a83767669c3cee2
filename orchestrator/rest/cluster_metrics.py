"""What Prometheus reads of the cluster itself: its queries by state, and the processes that its supervisors keep up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from orchestrator.metrics.exposition import family

_QUERIES = ("cep_queries", "gauge", "Queries by state")
_UP = ("cep_process_up", "gauge", "1: a process of the cluster is up")
_RESTARTS = ("cep_process_restarts_total", "counter", "How often a process of the cluster has died, and was started again")


def cluster_exposition(states: Sequence[str], supervisors: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """`states`: of all queries; `supervisors`: their reports (`cep.service.reports`)."""
    children = [
        ({"process": child["name"], "supervisor": report["supervisor"]}, child) for report in supervisors for child in report["children"]
    ]
    yield from family(_QUERIES, (({"state": state}, count) for state, count in sorted(Counter(states).items())))
    yield from family(_UP, ((labels, int(child["state"] == "up")) for labels, child in children))
    yield from family(_RESTARTS, ((labels, child["deaths"]) for labels, child in children))
