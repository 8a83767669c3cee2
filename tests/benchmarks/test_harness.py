"""The harness of the benchmarks: rows, their sides, verdicts; and one row from start to end, so that it cannot rot.
Nothing here asserts a speed.

Tests `harness.py`, `pattern_rows.py`, `row.py`, `rows.py`, `sides.py`.
"""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from statistics import median

import psutil
import pytest

from benchmarks import report
from benchmarks.data import NAMED
from benchmarks.harness import Harness, figure_of, verdict
from benchmarks.memory import ASKED
from benchmarks.pairs import Bar, Measured
from benchmarks.programs import NO_COMPILER, NO_RE2
from benchmarks.row import Row
from benchmarks.rows import TABLE, chosen
from benchmarks.sides import STANDING, RunFailed, side


@pytest.fixture(autouse=True)
def no_memory_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds for each run, and nothing here is timed."""
    monkeypatch.setenv(ASKED, "0")


def test_a_verdict_compares_the_same_figure_of_both() -> None:
    bar = Bar("rate", ">=", 0.5)
    found = verdict(bar, [{"rate": 3.0}, {"rate": 4.0}], [{"rate": 4.0}, {"rate": 4.0}])
    assert found.met
    assert found.ratio == Measured(0.875, 0.75, 1.0)
    assert verdict(bar, [{"rate": 3.0}], []).ratio.median == 3.0


def test_figures_may_lie_deeper_and_be_divided() -> None:
    run = {"p": {"q": 3}, "bound": 2}
    assert figure_of(run, "p.q/bound") == 1.5
    with pytest.raises(RunFailed, match=r"did not state 'p\.r'; it stated bound, p"):
        figure_of(run, "p.r")


def test_rows_are_chosen_by_name() -> None:
    assert chosen(()) == list(TABLE)
    assert [row.name for row in chosen(["identity", "window"])] == ["window", "identity"]
    with pytest.raises(ValueError, match="no row 'widow'; there are window, "):
        chosen(["widow"])
    assert len({row.name for row in TABLE}) == len(TABLE)
    assert {row.data for row in TABLE} <= {*NAMED, ""}


def said(text: str) -> tuple[str, ...]:
    return ("{python}", "-c", f"print({text!r})")


def test_answers_are_compared_after_every_run(tmp_path: Path) -> None:
    """Ours differ from the third run on, which is not the warm-up."""
    command = ("{python}", "-c", COUNTS.replace("{", "{{").replace("}", "}}"), STANDING)
    row = Row("r", "what", command, (Bar("rate", ">=", 1),), reference=command, equal="rate")
    other = ("{python}", "-c", COUNTS.replace("[1, 9, 4, 2]", "[1, 9, 5, 2]").replace("{", "{{").replace("}", "}}"), STANDING)
    assert Harness(tmp_path, pairs=3, say=lambda line: None).run(row).unequal == ""
    found = Harness(tmp_path, pairs=3, say=lambda line: None).run(replace(row, ours=other))
    assert found.unequal == "answers differ: ours 5, the reference's 4"


def test_pairs_alternate_and_answers_are_compared(tmp_path: Path) -> None:
    row = Row("r", "what", said('{{"x": 3, "sum": 1}}'), (Bar("x", ">=", 1.0),), reference=said('{{"x": 4, "sum": 2}}'), equal="sum")
    outcome = Harness(tmp_path, pairs=2, say=lambda line: None).run(row)
    assert (outcome.problem, outcome.unequal) == ("", "answers differ: ours 1, the reference's 2")
    assert (len(outcome.ours), len(outcome.reference)) == (2, 2)
    assert outcome.verdicts[0].ratio.median == 0.75
    assert not outcome.verdicts[0].met


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (said("no figures"), "expected a line of JSON last, got 'no figures'"),
        (("{python}", "-c", "raise SystemExit('gone wrong')"), "exit status 1: gone wrong"),
        (said('{{"y": 3}}'), "a run did not state 'x'; it stated y"),
        (("{python}", "-m", "benchmarks.not_yet"), "benchmarks.not_yet is not there yet"),
    ],
)
def test_a_row_that_cannot_be_measured_says_why(command: tuple[str, ...], problem: str, tmp_path: Path) -> None:
    outcome = Harness(tmp_path, pairs=1, say=lambda line: None).run(Row("r", "what", command, (Bar("x", ">=", 1.0),)))
    assert problem in outcome.problem
    assert f"not measured: {outcome.problem}" in report.markdown(report.to_json([outcome], 1))


COUNTS = """
import json, os, sys
for i, line in enumerate(sys.stdin):
    print(json.dumps({"rate": [1, 9, 4, 2][i], "pid": os.getpid()}), flush=True)
    if i == 3:
        sys.exit("no more")
"""


def test_of_several_turns_the_one_in_the_middle_counts(tmp_path: Path) -> None:
    """The warm-up had the first."""
    command = ("{python}", "-c", COUNTS.replace("{", "{{").replace("}", "}}"), STANDING)
    outcome = Harness(tmp_path, pairs=1, say=lambda line: None).run(Row("r", "what", command, (Bar("rate", ">=", 3),), turns=3))
    assert (outcome.problem, [run["rate"] for run in outcome.ours]) == ("", [9, 4, 2])
    assert [found.ours.median for found in outcome.verdicts] == [4]


def test_a_command_that_stands_is_one_process_and_is_gone_after_it() -> None:
    with side([sys.executable, "-c", COUNTS, STANDING], os.environ) as run:
        pids = {run()["pid"] for _ in range(4)}
        with pytest.raises(RunFailed, match="exit status 1: no more"):
            run()
    assert len(pids) == 1
    assert not psutil.pid_exists(pids.pop())


def test_without_a_compiler_rows_against_c_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for row in chosen(["window", "regex"]):
        assert Harness(tmp_path, pairs=1, say=lambda line: None).run(row).problem == NO_COMPILER


@pytest.mark.skipif(shutil.which("c++") is None, reason="no c++ here")
def test_without_re2_the_row_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "c++"
    compiler.write_text(f'#!/bin/sh\nexec {shutil.which("c++")} -nostdinc "$@"\n')  # finds no header at all
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    (regex,) = chosen(["regex"])
    outcome = Harness(tmp_path, pairs=1, say=lambda line: None).run(regex)
    assert outcome.problem == NO_RE2 and "libre2-dev" in outcome.problem


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_row_from_start_to_end(tmp_path: Path) -> None:
    """The fixed window over few records: real cluster, real C program where there is a compiler, equal answers, both reports."""
    (window,) = chosen(["window"])
    row = window if shutil.which("cc") else replace(window, reference=None)
    outcome = Harness(tmp_path, pairs=1, records=100_000, say=lambda line: None).run(row)
    assert (outcome.problem, outcome.unequal) == ("", "")
    assert outcome.ours[0]["records"] == 100_000
    assert outcome.ours[0]["cpu_by_process"]["im-0"] > 0
    text, data = report.write(report.to_json([outcome], 1), tmp_path / "report")
    assert "100,000 records of 132" in text.read_text()
    (bar,) = report.read(data)["rows"][0]["bars"]
    assert len(outcome.ours) == row.turns
    assert bar["ours"]["median"] == median(run["records_per_cpu_s"] for run in outcome.ours)


@pytest.fixture(scope="module")
def shared_work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Datasets are made once."""
    return tmp_path_factory.mktemp("work")


ALWAYS = ("regex",)  # C++
#: A row with a window needs a minute of bids and some of a second, so that one closes while bids come.
WITH_WINDOWS, WITHOUT = 700_000, {"regex": 100_000}
OVER_BIDS = [pytest.param(row.name, marks=() if row.name in ALWAYS else pytest.mark.long) for row in TABLE if row.data == "bids"]


@pytest.mark.timeout(300)
@pytest.mark.skipif(shutil.which("cc") is None, reason="no cc here")
@pytest.mark.parametrize("name", OVER_BIDS)
def test_each_kind_of_operator_answers_as_its_reference_does(name: str, shared_work: Path) -> None:
    (row,) = chosen([name])
    records = WITHOUT.get(name, WITH_WINDOWS)
    outcome = Harness(shared_work, pairs=1, records=records, say=lambda line: None).run(replace(row, turns=1))
    if outcome.problem == NO_RE2:
        pytest.skip(NO_RE2)
    assert (outcome.problem, outcome.unequal) == ("", "")
    assert outcome.ours[0]["answers"] == outcome.reference[0]["answers"] > 10_000
