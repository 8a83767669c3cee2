"""The command from start to end, on few events: a cluster, a publishing process, a subscriber, the witness, the page.

Tests `command.py`, `made.py`, `measuring.py`, `page.py`, `peers.py`, `benchmarks/__main__.py`.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from benchmarks.__main__ import app
from benchmarks.nexmark.command import Beside
from benchmarks.nexmark.generator import NUMBER, DrawnEvents
from benchmarks.nexmark.made import BATCH_EVENTS, event_files, read
from benchmarks.nexmark.page import VERSION, Circumstances, QueryRun, line, page
from benchmarks.nexmark.peers import told
from benchmarks.nexmark.queries import chosen
from tests.support.paths import ROOT

AROUND = Circumstances(DrawnEvents(1_000), 2, 3, "2 cores", "2026-01-02", "abc", "", (0.5, 1.0))


@pytest.mark.long
@pytest.mark.timeout(300)
def test_queries_on_a_cluster_with_files_and_stamps(tmp_path: Path) -> None:
    names, out = ["q3", "q10", "q12"], tmp_path / "page.md"
    options = ["--events", "5000", "--runs", "1", "--work", str(tmp_path), "--out", str(out)]
    done = CliRunner().invoke(app, ["nexmark", *names, *options])
    assert done.exit_code == 0, done.output
    text = out.read_text()
    assert "The answers of all 3 queries are equal to DuckDB's" in text
    assert "| q10 | bids to CSV files, with their day and minute | 4,600 | 4,600 |" in text
    assert str(tmp_path) not in text


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.skipif(not (shutil.which("mvn") and shutil.which("javac")), reason="Flink needs Maven and a JDK")
def test_peers_have_as_many_answers(tmp_path: Path) -> None:
    options = ["--events", "5000", "--runs", "1", "--work", str(tmp_path), "--beside", "flink,duckdb"]
    done = CliRunner().invoke(app, ["nexmark", "q3", "q6", "q15", *options])
    assert done.exit_code == 0, done.output
    assert "The answers of all 3 queries are equal to DuckDB's" in done.output
    assert re.search(r"\| q6 .* \|  \|  \| [\d.]+ \| [\d.]+ \|", done.output), done.output


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.skipif(not (shutil.which("mvn") and shutil.which("javac")), reason="Flink needs Maven and a JDK")
def test_events_are_read_from_files_by_all(tmp_path: Path) -> None:
    options = ["--events", "5000", "--runs", "1", "--work", str(tmp_path), "--files", "--beside", "flink,duckdb"]
    done = CliRunner().invoke(app, ["nexmark", "q3", "q10", "q12", "q15", *options])
    assert done.exit_code == 0, done.output
    assert "The answers of all 4 queries are equal to DuckDB's" in done.output and "from the same files" in done.output


@pytest.mark.long
@pytest.mark.timeout(300)
def test_queries_that_recover(tmp_path: Path) -> None:
    options = ["--events", "5000", "--runs", "1", "--work", str(tmp_path), "--recover", "at-once", "--beside", str(ROOT)]
    done = CliRunner().invoke(app, ["nexmark", "q3", "q10", *options])
    assert done.exit_code == 0, done.output
    assert "The answers of all 2 queries are equal to DuckDB's" in done.output


def test_what_recovers_does_so_in_a_way_that_there_is() -> None:
    refused = CliRunner().invoke(app, ["nexmark", "q3", "--recover", "soon"])
    assert refused.exit_code == 2 and "expected off, at-once or on-commit, got 'soon'" in " ".join(refused.output.split())


def test_what_runs_beside_is_peers_or_a_checkout() -> None:
    assert Beside.of("") == Beside() and Beside.of("duckdb,flink") == Beside(("duckdb", "flink"))
    assert Beside.of("./flink") == Beside(tree=Path.cwd() / "flink")


def test_flink_is_told_what_is_flinks_and_the_streams() -> None:
    assert told("check q0") == "check bid SELECT auction, bidder, price, `dateTime`, extra FROM bid"
    assert told("check file q0").startswith("check file bid SELECT")
    assert told("q3").startswith("person,auction SELECT P.name") and "state_ttl" not in told("q3")
    assert "AS `day`" in told("q15") and "EMIT" not in told("q15")


def test_beside_a_peer_cpu_is_that_of_the_engines_and_of_all() -> None:
    run = outcome("q0", [1.0])
    run.beside["Flink"] = [{"seconds": 4.0, "answers": 7, "cpu": {"flink": 22.0, "compilers": 9.0}}]
    assert run.ratios("Flink") == [4.0, 11.0, 2.0]
    text = page([run, outcome("q6", [1.0])], AROUND)
    assert "| times Flink | by CPU | by all CPU |" in text and "| 4.00 | 11.00 | 2.00 |\n| q6 " in text and "|  |  |  |\n| **all**" in text


def test_a_query_that_there_is_not_is_named() -> None:
    done = CliRunner().invoke(app, ["nexmark", "q24"])
    assert done.exit_code == 2 and "no query 'q24'" in done.output


def test_files_are_cut_where_all_kinds_have_20_000_events(tmp_path: Path) -> None:
    events = DrawnEvents(50_001)
    folder = event_files(events, tmp_path)
    for kind, table in events.tables().items():
        batches = list(read(folder, kind))
        assert pa.Table.from_batches(batches) == table
        assert len(batches) == 3
        assert all(pa.compute.unique(pa.compute.divide(batch[NUMBER], BATCH_EVENTS)).to_pylist() == [i] for i, batch in enumerate(batches))


def outcome(name: str, seconds: list[float], beside: list[float] | None = None, unequal: str = "") -> QueryRun:
    def runs(each: list[float]) -> list[dict[str, object]]:
        return [{"seconds": s, "answers": 7, "cpu": {"im-0": s, "im-1": s, "subscriber": 9.0}} for s in each]

    return QueryRun(chosen([name])[0], 1_000_000, unequal, runs(seconds), {VERSION: runs(beside)} if beside else {})


def test_the_run_in_the_middle_counts() -> None:
    text = page([outcome("q0", [1.0, 4.0, 2.0]), outcome("q2", [8.0, 8.0, 8.0])], AROUND)
    assert "| q0 | bids as they are | 1,000,000 | 7 | 500 | 1,000 250 500 | 250 |" in text
    assert "| **all** | geometric mean |  |  | **250** |  | 125 |" in text
    assert line(outcome("q0", [2.0])) == "q0: 500 thousand events/s, 250 thousand a CPU second, 7 answers: equal"


def test_a_ratio_is_taken_within_its_pair() -> None:
    text = page([outcome("q0", [1.0, 4.0, 2.0], [2.0, 4.0, 3.0])], AROUND)
    assert "| 500 | 1,000 250 500 | 250 | 1.50 | 1.50 |" in text


def test_what_is_not_equal_stands_at_the_head() -> None:
    text = page([outcome("q0", [1.0], unequal="ours: no answers")], AROUND)
    assert "**q0 is not equal to DuckDB**: ours: no answers" in text and "are equal to" not in text


def test_where_events_are_read_the_page_says_so() -> None:
    run = outcome("q0", [1.0])
    run.beside["Flink"] = [{"seconds": 4.0, "answers": 7, "cpu": {"flink": 22.0, "compilers": 9.0}}]
    published, read_ = page([run], AROUND), page([run], replace(AROUND, instances=1, is_read=True))
    assert "One process publishes" in published and "rows stand in memory" in published and "`python -m benchmarks nexmark`" in published
    assert "`python -m benchmarks nexmark --instances 1 --files`" in read_ and "rows are read from the same files" in read_
    assert "publishes, from" not in read_ and "and 1 instance manager." in read_
