"""`cep trace`: what holds an instance manager up is named, on a real cluster in which it is planted; and tables, without one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from driver import LocalCluster, Publisher, Query, Subscription, col, stream, udf
from driver.cli import app
from driver.trace import trace_between, trace_table
from tests.support import functions_that_stall as functions
from tests.support.waiting import HANG_S, until

PLANTED = {"asleep": functions.sleeps, "computing": functions.works, "garbage": functions.collects, "kernel": functions.compiles}


def planted(name: str, function: Callable[[int], int]) -> Query:
    """A query whose operator `slow` calls the function for each tuple."""
    numbers = stream(f"{name}.numbers", n=int)
    return Query(name).source(numbers).map("slow", n=udf(function)(col("n"))).output(f"{name}.out")


def slow(cluster: LocalCluster, query: str) -> list[dict[str, Any]]:
    """The stalls of its operator."""
    (manager,) = cluster.trace()["managers"] or [{"slowest": []}]
    return [each for each in manager["slowest"] if (each["query"], each["name"], each["step"]) == (query, "slow", "operator")]


def named(cluster: LocalCluster, cause: str, out: Publisher, answers: Subscription, query: str = "") -> dict[str, Any] | None:
    """One more tuple; the stall that is put down to the cause, once there is one: on a busy machine others may take more of its time."""
    out.send([{"n": 1}])
    assert answers.next_batch(HANG_S) is not None
    return next((each for each in slow(cluster, query or cause) if each["cause"] == cause and not _is_shared(each)), None)


def _is_shared(stall: dict[str, Any]) -> bool:
    """Garbage was the most of it, and less than the half: this core had others to serve."""
    return stall["cause"] == "garbage" and bool(stall["garbage_ns"] * 2 <= stall["took_ns"])


@pytest.mark.parametrize("cause", PLANTED)
def test_what_was_planted_is_named(cluster: LocalCluster, cause: str) -> None:
    with cluster.deploy(planted(cause, PLANTED[cause])).subscribe(f"{cause}.out") as answers, cluster.publisher(f"{cause}.numbers") as out:
        stall = until(lambda: named(cluster, cause, out, answers))
    assert stall["took_ns"] >= 1_000_000 and (stall["subquery"], stall["instance"]) == ("SQ1", 0)
    if cause == "asleep":
        assert stall["took_ns"] >= functions.SLEPT_S * 1e9 and stall["cpu_ns"] + stall["delay_ns"] < stall["took_ns"] / 2
    if cause == "computing":
        assert stall["cpu_ns"] >= functions.WORKED_S * 1e9
    if cause == "garbage":
        assert stall["garbage_ns"] * 2 > stall["took_ns"]


def test_the_command_names_it(cluster: LocalCluster) -> None:
    with cluster.deploy(planted("told", functions.sleeps)).subscribe("told.out") as answers, cluster.publisher("told.numbers") as out:
        until(lambda: named(cluster, "asleep", out, answers, "told"))
        options = ["trace", "told", "--url", cluster.rest.url]
        shown = CliRunner().invoke(app, options)
        assert shown.exit_code == 0, shown.output
        assert re.search(r"im-0 +told SQ1/0 slow \(operator\) +asleep +\d+ +\d+\.\d\d", shown.output), shown.output
        assert "asleep: it slept, and nothing says for what" in shown.output
        found = json.loads(CliRunner().invoke(app, [*options, "--json"]).output)
        assert ("told SQ1/0 slow (operator)", "asleep") in [(row["where"], row["cause"]) for row in found["causes"]]
        lately = json.loads(CliRunner().invoke(app, [*options, "--json", "--seconds", "0"]).output)
        assert [row for row in lately["causes"] if row["where"].startswith("told")] == []
    missing = CliRunner().invoke(app, ["trace", "nobody", "--url", cluster.rest.url])
    assert missing.exit_code == 1 and "nobody" in str(missing.exception)
    assert re.search(r'cep_stalls_total\{im="im-0",cause="asleep"\} [1-9]', cluster.metrics())


# --- tables, without a cluster ---------------------------------------------------------------------------------------

PLACE: dict[str, Any] = {"step": "operator", "name": "pick", "query": "q", "subquery": "SQ1", "instance": 0}
HAD = {"cpu_ns": 2_000_000, "delay_ns": 5_000_000, "asleep": 1, "preempted": 2, "faults": 3, "reads": 0, "garbage_ns": 0}


def answer(time: float, counts: dict[str, int], slowest: list[tuple[float, str, int]], began: float = 1.0) -> dict[str, Any]:
    """What `GET /trace` answers: one instance manager, a place, 10 ms each time."""
    totals = [{**PLACE, "cause": c, "count": n, "total_ns": n * 10_000_000, "worst_ns": 90_000_000} for c, n in counts.items()]
    stalls = [{**PLACE, **HAD, "at": at, "cause": cause, "by": "", "took_ns": took_ns} for at, cause, took_ns in slowest]
    return {"time": time, "managers": [{"im": "im-0", "began": began, "reported": time, "totals": totals, "slowest": stalls}]}


def test_what_happened_between_two_answers() -> None:
    old = (9.0, "core", 90_000_000)
    before = answer(10.0, {"core": 3, "lock": 1}, [old])
    after = answer(20.0, {"core": 5, "lock": 1, "host": 1}, [old, (11.0, "core", 8_000_000), (12.0, "core", 12_000_000)])
    found = trace_between(before, after)
    assert [(row.cause, row.count, row.total_ns, row.worst_ns) for row in found.causes] == [
        ("core", 2, 20_000_000, 12_000_000),
        ("host", 1, 10_000_000, 90_000_000),
    ]
    assert [each["took_ns"] for each in found.slowest] == [12_000_000, 8_000_000]
    assert [row.count for row in trace_between(None, after).causes] == [5, 1, 1]
    assert trace_between(before, answer(20.0, {"core": 1}, [], began=15.0)).causes[0].count == 1  # it was started anew
    assert trace_between(None, after, ["im-1"]).causes == ()


def test_tables() -> None:
    with (console := Console(width=160, no_color=True)).capture() as captured:
        console.print(trace_table(trace_between(None, answer(20.0, {"core": 5}, [(9.0, "core", 8_000_000)]))))
    words = re.sub(" +", " ", captured.get())
    assert "im-0 q SQ1/0 pick (operator) core 5 90.00 50.00" in words
    assert "core: it was ready, and others had its core" in words and "lock:" not in words
    assert "im-0 q SQ1/0 pick (operator) core 8.00 2.00 5.00 1.00 0.00 1 2 3" in words
    assert trace_table(trace_between(None, answer(1.0, {}, []))) == "nothing took more than a millisecond"
