"""The benchmarks themselves: what pairs say, datasets, digests, reports, placement, the model; and one row from start to end, so that
the harness cannot rot. Nothing here asserts a speed."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
import psutil
import pytest

from benchmarks import report
from benchmarks.calibrate import Calibration
from benchmarks.data import NAMED, Data, as_numbers, as_texts, dataset
from benchmarks.harness import Harness, RowOutcome, figure_of, verdict
from benchmarks.lines import digest
from benchmarks.measured import placement
from benchmarks.measured.relay import percentiles
from benchmarks.memory import ASKED
from benchmarks.model import FIGURE_13, ReplicaModel, aware, curve, markdown, not_aware
from benchmarks.pairs import Bar, Measured, change, measured, ratios
from benchmarks.programs import NO_COMPILER, NO_RE2
from benchmarks.rows import TABLE, Row, chosen
from benchmarks.sides import STANDING, RunFailed, side
from cep.model.topology import Topology
from tests.support.paths import ROOT


@pytest.fixture(autouse=True)
def no_memory_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds for each run, and nothing here is timed."""
    monkeypatch.setenv(ASKED, "0")


# --- pairs -----------------------------------------------------------------------------------------------------------


def test_the_interval_leaves_out_one_value_at_each_end() -> None:
    assert measured([5, 1, 9, 3, 7, 2, 8, 4]) == Measured(median=4.5, lower=2, upper=8)
    assert measured([2, 1, 3]) == Measured(median=2, lower=1, upper=3)
    with pytest.raises(ValueError, match="nothing to take the median of"):
        measured([])


def test_a_ratio_is_taken_within_its_pair() -> None:
    assert ratios([2, 9], [4, 3]) == [0.5, 3]
    with pytest.raises(ValueError):
        ratios([1, 2], [1])


@pytest.mark.parametrize(
    ("bar", "lower", "upper", "met"),
    [
        (Bar("rate", ">=", 0.8), 0.76, 9, True),
        (Bar("rate", ">=", 0.8), 0.759, 9, False),
        (Bar("p50_ms", "<=", 2.0), 0, 2.1, True),
        (Bar("p50_ms", "<=", 2.0), 0, 2.11, False),
    ],
)
def test_a_bar_is_met_by_the_unfavourable_end_with_five_percent(bar: Bar, lower: float, upper: float, met: bool) -> None:
    assert bar.met(Measured((lower + upper) / 2, lower, upper)) is met


def test_a_bar_has_a_direction() -> None:
    with pytest.raises(ValueError, match="sign: expected '>=' or '<=', got '>'"):
        Bar("rate", ">", 1)


def test_what_is_within_the_noise_is_no_change() -> None:
    narrow, wide = Measured(1.0, 0.99, 1.01), Measured(1.0, 0.8, 1.2)
    assert change(narrow, Measured(1.02, 1.01, 1.03)) == (pytest.approx(0.02), False)
    assert change(narrow, Measured(1.1, 1.09, 1.11)) == (pytest.approx(0.1), True)
    assert change(wide, Measured(1.1, 1.09, 1.11)) == (pytest.approx(0.1), False)


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


def test_the_first_sixth_of_latencies_is_warm_up() -> None:
    found = percentiles([np.full(10, 9e9), np.full(50, 2e6)])
    assert found["samples"] == 50
    assert found["max_ms"] == found["p50_ms"] == 2.0


# --- datasets and digests --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMED)
def test_a_dataset_is_the_same_wherever_it_is_made(name: str, tmp_path: Path) -> None:
    one, other = (dataset(name, tmp_path / folder, records=3000) for folder in ("a", "b"))
    contents = [{path.name: path.read_bytes() for path in each.folder.iterdir()} for each in (one, other)]
    assert len(contents[0]) >= 2 and contents[0] == contents[1]
    assert one.names()["records"] == 3000 and "3,000 " in one.describe() and "seed 7" in one.describe()


@pytest.mark.parametrize("name", [name for name, data in NAMED.items() if isinstance(data, Data)])
def test_columns_of_visits_are_those_of_the_lines(name: str, tmp_path: Path) -> None:
    data = NAMED[name].smaller(3000)
    assert isinstance(data, Data)
    files = dataset(name, tmp_path, records=3000).names()
    rows = [line.split(",") for line in files["csv"].read_text().splitlines()]
    assert [int(row[0]) for row in rows] == np.fromfile(files["times"], np.int64).tolist()
    assert [row[1] for row in rows] == as_texts(np.fromfile(files["addresses"], np.uint32)).to_pylist()
    assert max(Counter(int(row[0]) // 30_000 for row in rows).values()) <= data.dataset.event_rate * 30


def test_bids_are_in_order_of_their_times_and_have_all_that_the_references_count_on(tmp_path: Path) -> None:
    files = dataset("bids", tmp_path, records=3000).names()
    bids, updates = ([line.split(",") for line in files[name].read_text().splitlines()] for name in ("bids", "updates"))
    assert {len(bid) for bid in bids} == {6} and {len(update) for update in updates} == {4}
    assert (len(bids), len(updates), files["both"]) == (3000, 1500, 4500)
    for rows in (bids, updates):
        times = [int(row[0]) for row in rows]
        assert times == sorted(times)
    assert max(len(text) for bid in bids for text in (bid[2], bid[4])) <= 15
    ((_, often),) = Counter(bid[1] for bid in bids).most_common(1)
    assert often == pytest.approx(3000 / 12.1, rel=0.3)  # the sum of 1 / k up to 100,000 is 12.1


def test_addresses_there_and_back() -> None:
    texts = as_texts(np.array([0, 1, 0xFFFFFFFF, 0x0A000102], np.uint32))
    assert texts.to_pylist() == ["0.0.0.0", "0.0.0.1", "255.255.255.255", "10.0.1.2"]
    assert as_numbers(texts).tolist() == [0, 1, 0xFFFFFFFF, 0x0A000102]


def test_a_digest_knows_lines_but_not_their_order(tmp_path: Path) -> None:
    for name, files in {"a": ["x\ny\n", "y\n"], "b": ["y\ny\nx"], "c": ["x\ny\nz\n"], "d": ["x\ny\n"], "e": ["xy\n", "\n", "y\n"]}.items():
        (tmp_path / name).mkdir()
        for i, text in enumerate(files):
            (tmp_path / name / str(i)).write_text(text)
    one, same, *others = (digest(tmp_path / name) for name in "abcde")
    assert one == same
    assert one.startswith("3 lines")
    assert len({one, *others}) == 4


# --- the table and its harness ---------------------------------------------------------------------------------------


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
OVER_BIDS = [pytest.param(row.name, marks=() if row.name in ALWAYS else pytest.mark.long) for row in TABLE if row.data == "bids"]


@pytest.mark.timeout(300)
@pytest.mark.skipif(shutil.which("cc") is None, reason="no cc here")
@pytest.mark.parametrize("name", OVER_BIDS)
def test_each_kind_of_operator_answers_as_its_reference_does(name: str, shared_work: Path) -> None:
    """A window of a minute and some of a second, so that one closes while bids come."""
    (row,) = chosen([name])
    outcome = Harness(shared_work, pairs=1, records=700_000, say=lambda line: None).run(replace(row, turns=1))
    if outcome.problem == NO_RE2:
        pytest.skip(NO_RE2)
    assert (outcome.problem, outcome.unequal) == ("", "")
    assert outcome.ours[0]["answers"] == outcome.reference[0]["answers"] > 10_000


# --- reports ---------------------------------------------------------------------------------------------------------


def document(rate: float) -> report.Document:
    bar = Bar("rate", ">=", 0.8)
    outcome = RowOutcome(Row("r", "what", ("us",), (bar,), reference=("them",)))
    outcome.ours, outcome.reference = [{"rate": rate}] * 8, [{"rate": 10.0}] * 8
    outcome.verdicts = [verdict(bar, outcome.ours, outcome.reference)]
    return dict(json.loads(json.dumps(report.to_json([outcome], 8))))


def test_a_report_says_what_is_met() -> None:
    assert "| r | rate | 10 | 9 | 0.9 [0.9, 0.9] | ≥ 0.8 | yes |" in report.markdown(document(9.0))
    assert "| 0.7 [0.7, 0.7] | ≥ 0.8 | **no** |" in report.markdown(document(7.0))


def test_two_reports_are_compared() -> None:
    assert "| r | rate | 0.9 [0.9, 0.9] | 0.7 [0.7, 0.7] | -22.2% | WORSE |" in report.compared(document(9.0), document(7.0))
    assert "| +22.2% | better |" in report.compared(document(9.0), document(11.0))
    assert "| +1.1% | no |" in report.compared(document(9.0), document(9.1))


def test_what_is_no_report(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text("[1]")
    with pytest.raises(ValueError, match=r"x\.json: expected a report"):
        report.read(file)


# --- placement and the model -----------------------------------------------------------------------------------------


def test_our_placement_costs_least_and_replicas_the_same_over_any_nodes() -> None:
    found = placement.table((1, 2), draws=2)
    assert len(found) == 2 * 2 * len(placement.QUERIES)
    assert all(cost.ours <= min(cost.in_turn, cost.random) for cost in found)
    assert {cost.ours for cost in found if cost.query == "identity"} == {0.0}
    mesh = 10 * 17 / 18  # to 18 instances of a node, of which one shares the core
    assert [cost.ours for cost in found if cost.query == "fixed-window" and cost.shape == "replicas"] == pytest.approx([mesh, mesh])
    assert placement.markdown(found).count("\n") == len(found) + 1


COSTS = Calibration(read_ns=200, window_ns=100, tuple_bytes=25, message_rows=1000, message_ns=3000, byte_ns=0.1, memory_byte_ns=0.2)


def test_the_model_over_one_node_is_what_its_cores_can_do() -> None:
    """Each core reads and counts, and pays for 17 of 18 messages at both ends; what is beyond is waiting."""
    machine = Topology.bullion_s16()
    tuple_ns = 200 + 100 + 17 / 18 * 2 * (3 + 25 * 0.1)
    most = 18 / tuple_ns * 1e9
    assert 0.97 * most < ReplicaModel(aware(1, machine), machine, COSTS).throughput() < 1.03 * most


def test_the_model_grows_with_nodes_and_gains_by_awareness() -> None:
    one, two = curve(COSTS, (1, 2), messages=100)
    assert two.aware == pytest.approx(2 * one.aware, rel=0.05)
    assert one.gain > 0 and two.gain > 0
    near = replace(COSTS, memory_byte_ns=0.0)
    assert curve(near, (1,), messages=100)[0].gain == pytest.approx(0, abs=0.01)
    assert curve(COSTS, (1, 2), messages=100) == [one, two]


def test_not_aware_takes_as_many_cores_from_anywhere() -> None:
    machine = Topology.bullion_s16()
    drawn = not_aware(2, machine)
    assert [len(nodes) for nodes in drawn] == [18, 18]
    assert len({node for nodes in drawn for node in nodes}) > 2


def test_the_model_states_its_assumptions_and_its_error() -> None:
    text = markdown(curve(COSTS, FIGURE_13, messages=20), COSTS)
    assert "a model and no measurement" in text
    assert text.count("\n| 8 |") == 2 and "error in points" in text


def test_a_calibration_there_and_back(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    COSTS.write(file)
    assert Calibration.read(file) == COSTS
    file.write_text('{"read_ns": 1}')
    with pytest.raises(ValueError, match="expected the fields of a calibration"):
        Calibration.read(file)


def test_nothing_that_is_shipped_imports_the_benchmarks() -> None:
    root = ROOT
    packages = ("cep", "instance_manager", "orchestrator", "driver", "numa_cep", "hibench")
    texts = [path.read_text() for package in packages for path in (root / package).rglob("*.py")]
    assert not any("import benchmarks" in text or "from benchmarks" in text for text in texts)
