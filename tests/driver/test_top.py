"""`cep top`, the figures it shows and their way to Prometheus and into the record of a query, on a real cluster.

Tests `top.py`, `looking.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console
from typer.testing import CliRunner

from cep.errors import Conflict, NotFound
from driver import LocalCluster, Publisher, Running
from driver.cli import app
from driver.top import SortBy, duration, size, view_between, view_table
from tests.support.visits import answers, expected, rows, windows
from tests.support.waiting import until

GIVEN = rows(30_000, groups=50)
LINE = re.compile(r'cep_\w+(\{\w+="(\\.|[^"\\])*"(,\w+="(\\.|[^"\\])*")*\})? -?[0-9.e+-]+(inf|nan)?')


@pytest.fixture(scope="module")
def busy(cluster: LocalCluster) -> Iterator[tuple[Running, Publisher, Any]]:
    """The query `top`, two instances of each subquery, with GIVEN published and counted, and its publisher still open."""
    running = cluster.deploy(windows("top", parallelism=2))
    found = running.subscribe("top.per_ip")
    with cluster.publisher("top.visits") as out:
        for start in range(0, len(GIVEN), 1000):
            out.send(GIVEN[start : start + 1000])
        until(lambda: sum(step["rows_in"] for step in steps(cluster, "pick")) == len(GIVEN))
        yield running, out, found


def steps(cluster: LocalCluster, name: str, query: str = "top") -> list[dict[str, Any]]:
    """The figures of a step of all instances, as last reported."""
    instances = [each for each in cluster.figures()["instances"] if each["query"] == query]
    return [step for each in instances for step in each["operators"] if step["name"] == name]


def instances(cluster: LocalCluster, query: str) -> list[dict[str, Any]]:
    return [each for each in cluster.figures()["instances"] if each["query"] == query]


def test_figures_add_up(cluster: LocalCluster, busy: tuple[Running, Publisher, Any]) -> None:
    figures = cluster.figures()
    own = [each for each in figures["instances"] if each["query"] == "top"]
    assert len(own) == 4
    for instance in own:
        assert sum(step["cpu_ns"] for step in instance["operators"]) == instance["cpu_ns"] > 0
        assert {step["step"] for step in instance["operators"]} >= {"operator", "output", "instance"}
    for manager in figures["managers"]:
        mine = sum(each["cpu_ns"] for each in figures["instances"] if each["im"] == manager["im"])
        assert mine < mine + manager["loop_cpu_ns"] + manager["network_cpu_ns"] <= manager["engine_cpu_ns"] <= manager["cpu_ns"]
        assert manager["rss_bytes"] > 1 << 20
    for name in ("top.visits", "pick"):  # read and received; mapped
        for step in {step["step"] for step in steps(cluster, name)}:
            of = [each for each in steps(cluster, name) if each["step"] == step]
            assert sum(each["rows_in"] for each in of) == len(GIVEN)
            assert all(each["batches"] > 0 and each["ns_per_row"] == round(each["cpu_ns"] / each["rows_in"], 2) for each in of)


def test_top_once_shows_what_runs(cluster: LocalCluster, busy: tuple[Running, Publisher, Any]) -> None:
    options = ["top", "--once", "--url", cluster.rest.url]
    shown = CliRunner().invoke(app, options)
    assert shown.exit_code == 0, shown.output
    for word in ("instance manager", "im-0", "im-1", "top SQ1/0", "top SQ2/1", "top.visits (receive)", "pick", "window", "ns/row"):
        assert word in shown.output
    found = json.loads(CliRunner().invoke(app, [*options, "--json", "--sort", "rows", "top"]).output)
    assert [each["im"] for each in found["managers"]] == ["im-0", "im-1"]
    assert [each["query"] for each in found["instances"]] == ["top"] * 4
    unknown = CliRunner().invoke(app, [*options, "nobody"])
    assert isinstance(unknown.exception, NotFound) and unknown.output == ""


def test_prometheus_can_read_every_line(cluster: LocalCluster, busy: tuple[Running, Publisher, Any]) -> None:
    text = cluster.rest.text("/metrics")
    assert {family.type for family in text_string_to_metric_families(text)} == {"counter", "gauge", "histogram"}
    samples = [line for line in text.splitlines() if not line.startswith("#")]
    assert [line for line in samples if not LINE.fullmatch(line)] == []
    types = dict(line.split()[2:4] for line in text.splitlines() if line.startswith("# TYPE"))
    assert {re.sub(r"_(bucket|sum|count)$", "", line.split("{")[0]) for line in samples} <= types.keys() | {
        line.split("{")[0] for line in samples if line.split("{")[0] in types
    }
    for metric in ("cep_operator_cpu_seconds_total", "cep_blocked_seconds_total", "cep_watermark_lag_seconds", "cep_process_memory_bytes"):
        assert metric in types
    answered = sum(step["rows_out"] for step in steps(cluster, "window"))
    buckets = [re.fullmatch(r'cep_latency_seconds_bucket\{(.*),le="(.*)"\} (\d+)', line) for line in samples]
    by_output: dict[str, list[int]] = {}
    for bucket in (each for each in buckets if each is not None and 'query="top"' in each[1]):
        by_output.setdefault(bucket[1], []).append(int(bucket[3]))
    assert all(a <= b for counts in by_output.values() for a, b in pairwise(counts))
    assert sum(counts[-1] for counts in by_output.values()) == answered > 0


def test_what_is_stopped_is_not_behind(cluster: LocalCluster, tmp_path: Path) -> None:
    """Nor is there anything of it to draw."""
    running = cluster.deploy(windows("cut", parallelism=2))
    with cluster.publisher("cut.visits", keep_open=True) as out:
        out.send(GIVEN)
        until(lambda: {each["watermark"] is not None for each in instances(cluster, "cut")} == {True})
    assert 'cep_watermark_lag_seconds{query="cut"' in cluster.metrics()
    running.stop()
    until(lambda: {each["watermark"] for each in instances(cluster, "cut")} == {None})
    until(lambda: 'cep_watermark_lag_seconds{query="cut"' not in cluster.metrics())
    drawn = CliRunner().invoke(app, ["flame", "cut", "-o", str(tmp_path / "cut.svg"), "--url", cluster.rest.url])
    assert isinstance(drawn.exception, Conflict) and "query 'cut' is stopped" in str(drawn.exception)


def test_the_record_keeps_what_everything_took_and_cost(cluster: LocalCluster) -> None:
    running = cluster.deploy(windows("over", parallelism=2))
    found = running.subscribe("over.per_ip")
    with cluster.publisher("over.visits") as out:
        out.send(GIVEN)
    got = answers(found)
    assert got == expected(GIVEN)
    status = until(lambda: (told := running.status())["state"] == "ended" and told)
    kept = {(step["step"], step["name"]): step for figures in status["operators"].values() for step in figures}
    assert kept["operator", "pick"]["rows_in"] == kept["read", "over.visits"]["rows_out"] == len(GIVEN)
    assert kept["output", "over.per_ip"]["rows_in"] == len(got)
    assert kept["operator", "pick"]["cpu_ns"] > 0 and kept["operator", "pick"]["ns_per_row"] > 0


# --- frames, without a cluster ---------------------------------------------------------------------------------------


def answer(time: float, rows_in: int, cpu_ns: int, blocked_ns: int, query: str = "q", reported: float | None = None) -> dict[str, Any]:
    """What `GET /figures` answers: one instance of one operator, and its manager."""
    operator = {"name": "pick", "step": "operator", "rows_in": rows_in, "cpu_ns": cpu_ns // 2}
    instance = {
        "query": query,
        "subquery": "SQ1",
        "instance": 0,
        "epoch": 1,
        "im": "im-0",
        "reported": time if reported is None else reported,
        "rows_in": rows_in,
        "cpu_ns": cpu_ns,
        "queue_bytes": 2048,
        "watermark": 7_500_000,
        "waits_for": "a publisher",
        "operators": [operator],
        "outputs": [{"name": "out", "blocked_ns": blocked_ns}],
    }
    return {"time": time, "instances": [instance], "managers": [{"im": "im-0", "reported": time, "cpu_ns": cpu_ns, "rss_bytes": 3 << 20}]}


REGISTERED = [{"id": "im-0", "core": 3, "node": None}]


def test_rates_are_differences_over_the_time_between_two_reports() -> None:
    made = view_between(answer(10.0, 1000, 10**9, 0), answer(12.0, 5000, 2 * 10**9, 10**9), REGISTERED)
    (instance,), (manager,) = made.instances, made.managers
    assert (instance.rows_s, instance.cpu, instance.ns_per_row, instance.lag_s, instance.blocked) == (2000, 0.5, 250_000, 4.5, 0.5)
    (line,) = instance.steps
    assert (line.name, line.rows_s, line.cpu) == ("pick", 2000, 0.25)
    assert (manager.core, manager.node, manager.cpu, manager.memory_bytes) == (3, None, 0.5, 3 << 20)
    console = Console(width=120, no_color=True)
    with console.capture() as captured:
        console.print(view_table(made))
    words = re.sub(" +", " ", captured.get())
    assert "im-0 3 - 50.0 3.0 MiB" in words
    assert "q SQ1/0 im-0 2,000 50.0 250,000.0 2.0 KiB 4.50 s 50" in words
    assert "pick 2,000 25.0 125,000.0" in words


def test_what_reported_once_or_long_ago_has_no_rates() -> None:
    once = view_between(answer(10.0, 1000, 10**9, 0, query="other"), answer(11.0, 5000, 2 * 10**9, 0), REGISTERED)
    assert [(each.query, each.rows_s, each.cpu, each.ns_per_row) for each in once.instances] == [("q", 0, 0, None)]
    assert view_between(answer(10.0, 0, 0, 0), answer(20.0, 0, 0, 0, reported=10.0), REGISTERED).instances == ()


def test_the_greatest_comes_first() -> None:
    small, great = answer(1.0, 10, 100, 0, query="small"), answer(1.0, 10, 100, 0, query="great")
    before = small | {"instances": small["instances"] + great["instances"]}
    small, great = answer(2.0, 30, 200, 0, query="small"), answer(2.0, 20, 900, 0, query="great")
    after = small | {"instances": small["instances"] + great["instances"]}
    for sort, first in [(SortBy.CPU, "great"), (SortBy.ROWS, "small")]:
        assert view_between(before, after, REGISTERED, sort=sort).instances[0].query == first
    with (console := Console(width=120)).capture() as captured:
        console.print(view_table(view_between(before, after, REGISTERED), 1))
    assert "and 1 instance more" in captured.get()


def test_words_for_sizes_and_durations() -> None:
    assert [size(count) for count in (17, 2048, 3 << 20, 5 << 30)] == ["17 B", "2.0 KiB", "3.0 MiB", "5.0 GiB"]
    assert [duration(s) for s in (0.35, 240, 7560, 1e8)] == ["0.35 s", "4.0 min", "2.1 h", "1,157 d"]
