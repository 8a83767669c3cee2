"""What Prometheus reads of the cluster itself: its queries by state, how they recover, and the processes that its supervisors keep up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from orchestrator.metrics.exposition import Metric, family

_QUERIES = ("cep_queries", "gauge", "Queries by state")
_UP = ("cep_process_up", "gauge", "1: a process of the cluster is up")
_RESTARTS = ("cep_process_restarts_total", "counter", "How often a process of the cluster has died, and was started again")

#: What is told of a query that recovers: metric, and the value in what `views.summary` has of it; none where there is none yet.
_RECOVERY: tuple[tuple[Metric, Callable[[Mapping[str, Any]], float | None]], ...] = (
    (("cep_recovering", "gauge", "1: a query is recovering"), lambda found: int(found["recovering"])),
    (("cep_recoveries_total", "counter", "How often a query has recovered"), lambda found: found["attempts"]),
    (
        ("cep_checkpoint_timestamp_seconds", "gauge", "When the last checkpoint of a query was committed, since 1970"),
        lambda found: _of_last(found, "at"),
    ),
    (("cep_checkpoint_bytes", "gauge", "Size of the last checkpoint of a query"), lambda found: _of_last(found, "bytes")),
    (
        ("cep_checkpoint_interval_seconds", "gauge", "Time between two checkpoints of a query, as their budget allows it"),
        lambda found: found["checkpoints"]["interval_s"],
    ),
    (
        ("cep_checkpoint_pause_seconds", "gauge", "How long an instance of a query stood still at most for the last checkpoint"),
        lambda found: found["checkpoints"]["took_us"] / 1e6,
    ),
    (
        ("cep_checkpoint_failed", "gauge", "1: the last checkpoint of a query could not be taken"),
        lambda found: int(bool(found["checkpoints"]["error"])),
    ),
)


#: Field of what is told of a connector -> metric.
_CONNECTORS: dict[str, Metric] = {
    "rows": ("cep_connector_rows_total", "counter", "Rows that a connector has brought or taken since it was started"),
    "dead_letters": ("cep_connector_dead_letters_total", "counter", "Records that a connector could make no rows of"),
    "failures": ("cep_connector_failures_total", "counter", "How often a connector has failed, and was tried again"),
    "behind": ("cep_connector_behind", "gauge", "Records that are known to wait for a connector"),
}
_CONNECTOR_UP = ("cep_connector_up", "gauge", "1: a connector runs")


def cluster_exposition(
    queries: Sequence[Mapping[str, Any]], supervisors: Sequence[Mapping[str, Any]], connectors: Sequence[Mapping[str, Any]] = ()
) -> Iterator[str]:
    """`queries`: as `orchestrator.rest.views.summary` has them; `supervisors`: their reports (`cep.service.reports`); `connectors`: as
    `GET /connectors` has them."""
    children = [
        ({"process": child["name"], "supervisor": report["supervisor"]}, child) for report in supervisors for child in report["children"]
    ]
    states = Counter(each["state"] for each in queries)
    yield from family(_QUERIES, (({"state": state}, count) for state, count in sorted(states.items())))
    found = [({"query": each["name"]}, each["recovery"]) for each in queries if each["recovery"] is not None]
    for metric, value in _RECOVERY:
        yield from family(metric, ((labels, value(each)) for labels, each in found))
    ends = [({"connector": each["name"]}, each) for each in connectors]
    yield from family(_CONNECTOR_UP, ((labels, int(each["state"] in ("running", "ended"))) for labels, each in ends))
    for field, metric in _CONNECTORS.items():
        yield from family(metric, ((labels, each.get(field)) for labels, each in ends))
    yield from family(_UP, ((labels, int(child["state"] == "up")) for labels, child in children))
    yield from family(_RESTARTS, ((labels, child["deaths"]) for labels, child in children))


def _of_last(found: Mapping[str, Any], field: str) -> float | None:
    last = found["checkpoints"]["last"]
    return None if last is None else last[field]
