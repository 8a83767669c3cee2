"""What a comparison found, for people and for programs, and its verdict.

Tests `terminal.py`, `hibench/numa/machine.py`, `hibench/runs/result.py`.
"""

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from hibench.errors import AnswersDiffer
from hibench.numa.machine import Machine, MemoryNode
from hibench.report import ComparisonReport, TimedStep, expect_equal, show
from hibench.runs.answers import Expected
from hibench.runs.meter import Use
from hibench.runs.result import LatencyPercentiles, RunResult
from tests.hibench.runs.test_answers import ROWS, SHAPE, summarise, table


def result(rows=ROWS, numa="on", **changes):
    expected = table(ROWS)
    use = Use(seconds=2.0, peak_anonymous_bytes=3 << 20)
    run = RunResult.measured("cep", numa, 7, use, summarise(table(rows)), {"instance managers": 2})
    checked = run.checked(Expected(SHAPE, summarise(expected), {}, lambda: [expected]), lambda: [table(rows)])
    return replace(checked, **changes)


def report(*runs, nodes=1, rate=None):
    machine = replace(Machine.here(), numa_nodes=tuple(MemoryNode(node, str(node), (10,)) for node in range(nodes)))
    return ComparisonReport("fixed-window", 7, 30_000, {"seed": 7}, runs, (TimedStep("prepare", 1.0),), machine, rate)


def shown(the_report):
    console = Console(width=100, record=True, file=io.StringIO())
    show(the_report, console)
    return console.export_text()


def test_equal_answers_pass():
    expect_equal(report(result(), result(numa="off")))


def test_unequal_answers_fail_loudly():
    bad = report(result(), result([*ROWS[1:]], numa="off"))
    assert not bad.answers_equal
    with pytest.raises(AnswersDiffer, match=r"(?s)ANSWERS DIFFER.*cep unpinned: 3 answers.*missing.*'10\.0\.0\.1'") as failure:
        expect_equal(bad)
    assert failure.value.exit_code == 1


def test_nothing_run_is_not_equal():
    with pytest.raises(AnswersDiffer, match="no engine ran"):
        expect_equal(report())


def test_one_node_promises_no_numa_gain():
    text = shown(report(result(), result(numa="off")))
    assert "cep pinned" in text
    assert "cep unpinned" in text
    assert "no NUMA gain can be shown" in " ".join(text.split())
    assert "latency" not in text


def test_several_nodes_are_called_by_their_name():
    text = " ".join(shown(report(result(), nodes=2)).split())
    assert "NUMA-aware" in text
    assert "no NUMA gain" not in text


def test_latency_is_shown_with_a_rate():
    text = shown(report(result(latency_ms=LatencyPercentiles(1.25, 2.5, 3.75, 10)), rate=1000))
    assert "1.25 ms" in text
    assert "3.75 ms" in text
    assert "latency: from the scheduled creation" in text


def test_the_json_has_what_programs_look_for(tmp_path):
    file = tmp_path / "report.json"
    report(result()).write_json(file)
    document = json.loads(file.read_text())
    assert {"workload", "events", "answers_equal", "runs"} <= document.keys()
    wanted = {"engine", "numa", "seconds", "events_per_second", "cpu_seconds", "answers", "checksum", "latency_ms"}
    assert wanted <= document["runs"][0].keys()
    assert document["answers_equal"] is True
