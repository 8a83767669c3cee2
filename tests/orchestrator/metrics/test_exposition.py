"""What Prometheus reads: names, units and labels by its conventions, and a dashboard that asks for nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from cep.dataflow.meter import LATENCY_BOUNDS_US
from orchestrator.metrics.server import Metrics
from orchestrator.records import Now
from orchestrator.reports import read_report
from orchestrator.rest.cluster_metrics import cluster_exposition
from tests.support.paths import ROOT

DASHBOARD = json.loads((ROOT / "docker/grafana.json").read_text())
LABELS = {"query", "subquery", "instance", "im", "operator", "step", "output", "cause", "state", "process", "supervisor", "le"}

#: What the linter of Prometheus (`promtool check metrics`) takes for units that are not base units, or are cut short.
NOT_BASE = (
    r"ns|us|ms|s|sec|secs|nanoseconds|microseconds|milliseconds|minutes|hours|days|kb|mb|gb|kib|mib|gib|kilobytes|megabytes|bits|percent"
)
#: The endings of what a histogram is made of, and words for types.
RESERVED, TYPE_WORDS = ("_bucket", "_sum", "_count"), r"(^|_)(gauge|counter|histogram|summary|metric|untyped)(_|$)"


def full_report() -> dict[str, Any]:
    """Of one instance, with everything that an instance manager reports."""
    figures = dict.fromkeys(
        ("rows_in", "rows_out", "bytes_in", "bytes_out", "late", "odd_times", "dropped_rows", "incomplete", "outside"), 3
    )
    figures |= dict.fromkeys(("moves", "moved_rows", "moved_bytes", "move_ns", "queue_bytes", "state_bytes", "cpu_ns"), 5)
    steps = {"rows_in": 10, "rows_out": 9, "batches": 2, "cpu_ns": 7, "ns_per_row": 0.7, "bypassed": 1}
    counts = [1] * (len(LATENCY_BOUNDS_US) + 1)
    outputs = [{"name": "out", "blocked": True, "blocked_ns": 10**9, "latency_us": {"sum": 5_000_000, "counts": counts}}]
    own = {"query": 'a "query"\\\n', "subquery": "SQ1", "instance": 0, "epoch": 1, "watermark": 5_000_000, "outputs": outputs, **figures}
    own |= {"operators": [{"name": "pick", "step": "operator", **steps}], "dead_letters": {"count": [["pick", 2]], "letters": []}}
    place = {"step": "operator", "name": "pick", "query": "q", "subquery": "SQ1"}
    total = place | {"cause": "asleep", "count": 2, "total_ns": 10**9, "worst_ns": 10**9}
    process = dict.fromkeys(
        ("cpu_ns", "engine_cpu_ns", "loop_cpu_ns", "network_cpu_ns", "rss_bytes", "strays", "fast_path", "compilations"), 10**9
    )
    process |= {"memory_limit_bytes": 1 << 33}
    return {"im": "im-0", "instances": [own], "process": process, "stalls": {"began": 1.0, "totals": [total], "slowest": []}}


@cache
def exposed() -> str:
    metrics = Metrics()
    metrics.take(full_report(), Now(100.0, 100.0))
    child = {"name": "im-0", "state": "up", "deaths": 1}
    last = {"number": [1, 1, 7], "bytes": 1 << 20, "at": 98.5}
    taken = {"interval_s": 2.5, "asked_s": 1.0, "took_us": 75_000, "error": "", "last": last}
    recovery = {"recovering": True, "attempts": 2, "reason": "im-0 is gone", "checkpoints": taken}
    queries: list[dict[str, Any]] = [{"name": name, "state": "running", "recovery": None} for name in ("first", "second")]
    queries += [{"name": "third", "state": "recovering", "recovery": recovery}]
    return str(metrics.answer({"get": "metrics"}, Now(100.0, 100.0))["text"]) + "".join(
        cluster_exposition(queries, [{"supervisor": "supervisor", "children": [child]}])
    )


def families() -> Iterator[Any]:
    return iter(text_string_to_metric_families(exposed()))


def samples() -> dict[str, list[Sample]]:
    found: dict[str, list[Sample]] = {}
    for family in families():
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample)
    return found


@pytest.mark.parametrize("family", list(families()), ids=lambda family: family.name)
def test_a_metric_is_as_the_linter_wants_it(family: Any) -> None:
    """`promtool check metrics`, as assertions."""
    assert re.fullmatch(r"cep_[a-z]+(_[a-z]+)*", family.name)
    assert family.documentation.endswith(".") and family.documentation != "."
    assert family.type in ("counter", "gauge", "histogram")
    assert all(sample.name.endswith("_total") for sample in family.samples) == (
        family.type == "counter"
    )  # the parser takes it off the name
    assert not family.name.endswith(RESERVED) and not re.search(TYPE_WORDS, family.name)
    assert not re.search(rf"_({NOT_BASE})(_|$)", family.name), "a unit in full, and a base unit"
    units = [unit for unit in ("seconds", "bytes") if unit in family.name.split("_")]
    assert len(units) <= 1 and (not units or family.name.endswith(units[0])), "one unit, at the end"
    for sample in family.samples:
        assert set(sample.labels) <= LABELS and "" not in sample.labels.values()


def test_there_is_one_sample_for_each_set_of_labels_and_one_family_for_each_name() -> None:
    keys = [(sample.name, *sorted(sample.labels.items())) for each in samples().values() for sample in each]
    assert len(keys) == len(set(keys)) > 50
    names = re.findall(r"^# TYPE (\S+)", exposed(), re.MULTILINE)
    assert len(names) == len(set(names)) and re.findall(r"^# HELP (\S+)", exposed(), re.MULTILINE) == names


def test_values_are_in_base_units_and_labels_come_back_as_they_went() -> None:
    found = samples()
    assert found["cep_blocked_seconds_total"][0].value == 1.0
    assert found["cep_watermark_lag_seconds"][0].value == 95.0
    assert found["cep_rows_in_total"][0].labels == {"query": 'a "query"\\\n', "subquery": "SQ1", "instance": "0", "im": "im-0"}
    assert {each.labels["state"]: each.value for each in found["cep_queries"]} == {"running": 2, "recovering": 1}
    assert found["cep_process_restarts_total"][0].value == 1


def test_of_queries_that_recover_it_says_how() -> None:
    found = {name: each for name, each in samples().items() if name.startswith(("cep_recover", "cep_checkpoint"))}
    assert {sample.labels["query"] for each in found.values() for sample in each} == {"third"}
    assert {name: sample.value for name, [sample] in found.items()} == {
        "cep_recovering": 1,
        "cep_recoveries_total": 2,
        "cep_checkpoint_timestamp_seconds": 98.5,
        "cep_checkpoint_bytes": 1 << 20,
        "cep_checkpoint_interval_seconds": 2.5,
        "cep_checkpoint_pause_seconds": 0.075,
        "cep_checkpoint_failed": 0,
    }


def test_a_query_without_a_checkpoint_yet_says_nothing_of_the_last() -> None:
    taken = {"interval_s": 1.0, "asked_s": 1.0, "took_us": 0, "error": "no room", "last": None}
    query = {"name": "q", "state": "running", "recovery": {"recovering": False, "attempts": 0, "reason": "", "checkpoints": taken}}
    text = "".join(cluster_exposition([query], []))
    assert "timestamp" not in text and "checkpoint_bytes" not in text and 'cep_checkpoint_failed{query="q"} 1' in text


def test_a_histogram_is_one() -> None:
    [family] = [each for each in families() if each.type == "histogram"]
    buckets = [sample for sample in family.samples if sample.name.endswith("_bucket")]
    bounds = [float(sample.labels["le"]) for sample in buckets]
    assert bounds == sorted(bounds) and bounds[-1] == float("inf") and len(bounds) == len(LATENCY_BOUNDS_US) + 1
    values = [sample.value for sample in buckets]
    assert values == list(range(1, len(bounds) + 1))  # one tuple in each class
    rest = {sample.name: sample.value for sample in family.samples if not sample.name.endswith("_bucket")}
    assert rest == {f"{family.name}_sum": 5.0, f"{family.name}_count": values[-1]}


def test_what_is_reported_in_full_is_believed() -> None:
    assert read_report(json.dumps(full_report()).encode())["im"] == "im-0"


# --- the dashboard ---------------------------------------------------------------------------------------------------

#: Words of PromQL that stand where metrics and labels do.
_CALL = r"\b(?:sum|max|min|avg|rate|increase|histogram_quantile|by|label_values|time)\b"


def expressions() -> list[tuple[str, str, str]]:
    """(panel, expression, legend)."""
    return [(panel["title"], target["expr"], target["legendFormat"]) for panel in DASHBOARD["panels"] for target in panel["targets"]]


@pytest.mark.parametrize(("panel", "expression", "legend"), expressions(), ids=[panel for panel, *_ in expressions()])
def test_a_panel_asks_for_what_there_is(panel: str, expression: str, legend: str) -> None:
    known = samples()
    asked = re.findall(r"\bcep_\w+", expression)
    assert asked and [name for name in asked if name not in known] == []
    labels = set.intersection(*(set(known[name][0].labels) for name in asked))
    inside = re.findall(r"[{,]\s*(\w+)\s*=~?", expression)
    grouped = [label.strip() for group in re.findall(r"by \(([^)]*)\)", expression) for label in group.split(",")]
    assert [label for label in inside + grouped if label not in labels] == []
    shown = set(re.findall(r"\{\{(\w+)\}\}", legend))
    assert shown <= (set(grouped) if grouped else labels), "a legend names what is left"
    rest = re.sub(rf"by \([^)]*\)|{_CALL}|\bcep_\w+|\{{[^}}]*\}}|\[[^]]*\]|[\d\s().,/>-]", "", expression)
    assert rest == "", "nothing else stands in it"
    # A counter is asked for its rate, a gauge is not.
    for name in asked:
        assert bool(re.search(rf"(rate|increase)\({name}\b", expression)) == name.endswith(("_total", "_bucket")), name


def test_the_dashboard_shows_what_one_looks_for() -> None:
    titles = {panel["title"] for panel in DASHBOARD["panels"]}
    wanted = {"Rows per second", "Latency", "Watermark lag", "Queued bytes", "Backpressure", "CPU per operator", "Late rows per second"}
    assert (
        wanted
        | {"Dead letters per second", "State", "Memory", "Restarts", "Recoveries", "Age of the last checkpoint", "Cost of checkpoints"}
        <= titles
    )
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids)) and all(panel["fieldConfig"]["defaults"]["unit"] for panel in DASHBOARD["panels"])
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in DASHBOARD["panels"]]
    assert len(places) == len(set(places))
