"""The command: what it explains, what it refuses, how it ends. The engines themselves are tested elsewhere."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from hibench import bench, cli, commands, options, settings
from hibench.errors import AnswersDiffer, OptionError
from hibench.numa.machine import Machine, cores_usable
from hibench.options import Pace
from hibench.records.dataset import Dataset
from hibench.report import ComparisonReport
from hibench.searching.open_loop import LatencyRule
from hibench.searching.schedule import Pool, Schedule, created_records
from hibench.workloads import WORKLOADS
from hibench.workloads.workload import RunTerms
from tests.support.hibench_command import hibench
from tests.support.paths import ROOT

OPTIONS = (
    "events",
    "engine",
    "numa",
    "instances",
    "keys",
    "seed",
    "window",
    "record-bytes",
    "rate",
    "burst",
    "mode",
    "slide",
    "master",
    "config",
    "disorder",
    "json",
)


def empty_report(asked, screen):
    return ComparisonReport("fixed-window", asked.dataset.events, asked.window_ms, {}, (), (), Machine.here())


def test_help_explains_every_option(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    code, text = hibench(capsys, "run", "fixed-window", "--help")
    assert code == 0
    assert not [option for option in OPTIONS if f"--{option}" not in text]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "no-such-workload"], "no-such-workload"),
        (["run", "fixed-window", "--engine", "flink"], "flink"),
        (["run", "fixed-window", "--numa", "maybe"], "maybe"),
        (["run", "fixed-window", "--keys", "zipf:0"], "--keys: expected 'uniform'"),
        (["run", "fixed-window", "--window", "30"], "--window: expected a duration"),
        (["run", "fixed-window", "--window", "0s"], "--window: expected a duration"),
        (["run", "fixed-window", "--events", "0"], "--events: expected"),
        (["run", "fixed-window", "--instances", "0"], "--instances: expected at least 1, got 0"),
        (["run", "fixed-window", "--record-bytes", "100"], "--record-bytes: expected 0 (unpadded) or 160"),
        (["run", "fixed-window", "--rate", "10", "--engine", "spark"], "only the engine 'cep' can be run at a rate"),
        (["run", "fixed-window", "--master", "yarn"], "--master: expected local[N], spark://host:port or standalone:N, got 'yarn'"),
        (["run", "fixed-window", "--slide", "31s"], "--slide: expected at most the window"),
        (["run", "identity", "--slide", "10s"], "--slide: windows of 'identity' do not overlap"),
        (["run", "fixed-window", "--mode", "fast"], "fast"),
        (["run", "--numa", "on"], "expected a workload: identity, repartition"),
        (["run", "fixed-window", "--rate", "10", "--burst", "0"], "--burst: expected at least 1"),
        (["run", "fixed-window", "--config", "/no/such.conf"], "--config: cannot read '/no/such.conf'"),
        (["run", "fixed-window", "--json", "/no/such/folder/report.json"], "--json: expected a file"),
    ],
)
def test_what_makes_no_sense_is_refused_before_any_work(capsys, monkeypatch, arguments, message):
    monkeypatch.setattr(bench, "run_comparison", None)
    code, text = hibench(capsys, *arguments)
    assert code == 2
    assert message in text


def test_a_cache_that_cannot_be_written_is_an_error(capsys):
    code, text = hibench(capsys, "run", "fixed-window", "--events", "10", "--cache", "/proc/hibench")
    assert code == 3
    assert "cannot write in '/proc/hibench'" in text
    assert "--cache DIR" in text


def test_unequal_answers_give_a_failing_exit_code(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(bench, "run_comparison", empty_report)
    file = tmp_path / "report.json"
    code, text = hibench(capsys, "run", "fixed-window", "--json", str(file))
    assert code == AnswersDiffer.exit_code == 1
    assert "ANSWERS DIFFER" in text
    assert '"answers_equal": false' in file.read_text()


def asked_of(capsys, monkeypatch, *arguments):
    """What `hibench ARGUMENTS` would run."""
    seen = []
    monkeypatch.setattr(bench, "run_comparison", lambda asked, screen: seen.append(asked) or empty_report(asked, screen))
    hibench(capsys, *arguments)
    return seen


def test_the_defaults(capsys, monkeypatch):
    (asked,) = asked_of(capsys, monkeypatch, "run", "fixed-window")
    assert asked.dataset.events == 10_000_000
    assert str(asked.dataset.keys) == "zipf:100000"
    assert asked.dataset.record_bytes == 200
    assert (asked.engines, asked.numa_modes, asked.window_ms) == (("cep", "spark"), ("on", "off"), 30_000)
    assert 1 <= asked.instances <= 4


def test_faithful_numbers_are_the_originals(capsys, monkeypatch):
    (asked,) = asked_of(capsys, monkeypatch, "run", "wordcount", "--mode", "faithful")
    assert (asked.pace, asked.window_ms) == (Pace(100, burst=5, reports=True), 10_000)
    assert (str(asked.dataset.keys), asked.dataset.record_bytes, asked.dataset.events) == ("uniform", 200, 3_000)


def test_the_report_goes_to_standard_output(capsys, monkeypatch):
    monkeypatch.setattr(bench, "run_comparison", empty_report)
    monkeypatch.setattr(sys, "argv", ["hibench", "run", "identity", "--json", "-"])
    with pytest.raises(AnswersDiffer):
        commands.app(standalone_mode=False)
    assert json.loads(capsys.readouterr().out)["workload"] == "fixed-window"


CONFIG = """
# the original's
hibench.streambench.testCase              fixwindow
hibench.streambench.fixWindowDuration     4000
hibench.streambench.fixWindowSlideStep=2000
hibench.streambench.datagen.intervalSpan  20
hibench.streambench.datagen.recordsPerInterval 10
hibench.streambench.datagen.totalRecords  -1
hibench.streambench.datagen.totalRounds   -1
hibench.streambench.datagen.producerNumber
hibench.streambench.zkHost
hibench.streambench.kafka.brokerList      a:9092,b:9092
hibench.streambench.storm.ackon           true
hibench.streambench.spark.batchInterval   100
"""


def test_a_configuration_file_stands_behind_what_was_typed(capsys, monkeypatch, tmp_path):
    file = tmp_path / "hibench.conf"
    file.write_text(CONFIG)
    (asked,) = asked_of(capsys, monkeypatch, "run", "--config", str(file), "--mode", "faithful", "--slide", "1s")
    assert (asked.workload.name, asked.window_ms, asked.slide_ms) == ("fixed-window", 4_000, 1_000)
    assert asked.pace == Pace(500, burst=10, reports=True)
    (paper,) = asked_of(capsys, monkeypatch, "run", "fixed-window", "--config", str(file))
    assert (paper.pace, paper.slide_ms) == (None, 2_000)


def test_what_a_configuration_file_says_is_told(tmp_path):
    file = tmp_path / "hibench.conf"
    file.write_text(CONFIG)
    found = settings.read_settings(file, faithful=True)
    assert "hibench.streambench.fixWindowDuration 4000 (--window 4000ms)" in found.applied
    assert "the keys of the sender together (--rate 500 --burst 10)" in found.applied
    told = {line.partition(": ")[0].removeprefix("hibench.streambench."): line for line in found.ignored}
    assert "no Kafka" in told["kafka.brokerList"]
    assert "not run here" in told["storm.ackon"]
    assert "--events" in told["datagen.totalRecords"]
    assert {"zkHost", "spark.batchInterval", "datagen.totalRounds", "datagen.producerNumber"} <= told.keys()
    assert "--mode faithful" in "".join(settings.read_settings(file, faithful=False).ignored)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "hibench.streambench.fixWindowDurations 10",
            "line 2: unknown key 'hibench.streambench.fixWindowDurations'; "
            "the nearest that is known is 'hibench.streambench.fixWindowDuration'",
        ),
        (
            "hibench.streambench.fixWindowDuration ten",
            "line 2: hibench.streambench.fixWindowDuration: expected a whole number of at least 1, got 'ten'",
        ),
        ("hibench.streambench.testCase grep", "line 2: hibench.streambench.testCase: expected one of identity"),
        ("hibench.engines.spark.master yarn-client", "expected local[N] or spark://host:port"),
        ("no-key-at-all", "unknown key 'no-key-at-all'"),
    ],
)
def test_a_wrong_line_is_named(capsys, tmp_path, line, message):
    file = tmp_path / "hibench.conf"
    file.write_text(f"# a comment\n{line}\n")
    code, text = hibench(capsys, "run", "identity", "--config", str(file))
    assert code == 2
    assert message in text
    assert "hibench.conf" in text


def test_list_shows_the_workloads_and_an_empty_cache(capsys, tmp_path):
    code, text = hibench(capsys, "list", "--cache", str(tmp_path))
    assert code == 0
    assert text.endswith(f"no datasets in {tmp_path}")
    assert all(name in text for name in WORKLOADS)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_takes_everything_down(tmp_path, number, code):
    """The signal is sent when Spark's scratch folder has appeared, so there is something to take down."""
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join([*sys.path, str(ROOT)])}
    command = [sys.executable, "-m", "hibench.cli", "prepare", "--events", "100000000", "--cache", str(tmp_path / "c")]
    with subprocess.Popen(command, env=environment, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None and not list(tmp_path.glob("hibench-spark-*/log")):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=0.05)
        process.send_signal(number)
        try:
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == code
    assert "Traceback" not in errors
    assert [path.name for path in tmp_path.iterdir()] == ["c"]
    assert [path.name for path in (tmp_path / "c").iterdir()] == ["lock"]


def test_a_stop_that_python_swallowed_is_raised_again():
    """As happens to an exception raised in a hook around a fork: Python only reports it."""
    before = signal.getsignal(signal.SIGALRM)
    try:
        with pytest.raises(SystemExit) as stopped:
            cli._swallowed(SimpleNamespace(exc_value=SystemExit(130)))
            signal.pause()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert stopped.value.code == 130


@pytest.mark.parametrize(("text", "value"), [("30s", 30_000), ("500ms", 500), ("2m", 120_000), ("1h", 3_600_000)])
def test_durations(text, value):
    assert options.duration_ms("--window", text, 1) == value


@pytest.mark.parametrize("text", ["", "s", "3", "-3s", "3 s", "1.5s", "3d"])
def test_durations_that_are_none(text):
    with pytest.raises(OptionError, match="--window: expected a duration"):
        options.duration_ms("--window", text, 1)


def test_at_least_one_core_is_usable():
    assert 1 <= cores_usable() <= (os.cpu_count() or 1)


def test_a_schedule_creates_records_at_their_times():
    schedule = Schedule(1000.0, rate=10, events=25)
    assert [schedule.due(moment) for moment in (999.9, 1000.0, 1000.15, 1001.05, 1100.0)] == [0, 1, 2, 11, 25]
    assert schedule.created_us(np.arange(3)).tolist() == [1_000_000_000, 1_000_100_000, 1_000_200_000]


def test_a_schedule_of_bursts():
    schedule = Schedule(1000.0, rate=100, events=12, burst=5)
    assert [schedule.due(moment) for moment in (999.9, 1000.0, 1000.04, 1000.06, 1100.0)] == [0, 5, 5, 10, 12]
    assert schedule.created_us(np.array([0, 4, 5, 11])).tolist() == [1_000_000_000, 1_000_000_000, 1_000_050_000, 1_000_100_000]
    assert schedule.first_from(np.array([999.0, 1000.0, 1000.01, 1000.1])).tolist() == [0, 0, 5, 10]


def test_records_are_cycled_with_new_creations(monkeypatch):
    monkeypatch.setattr("hibench.searching.schedule.POOL_EVENTS", 4)
    dataset = Dataset(10, record_bytes=0)
    pool = Pool(dataset, WORKLOADS["wordcount"].columns)
    found = pa.concat_tables(created_records(pool, Schedule(5.0, rate=10, events=10)))
    assert found["creation_ms"].to_pylist() == [5_000 + 100 * i for i in range(10)]
    ips = found["source_ip"].to_pylist()
    assert ips == (ips[:4] * 3)[:10]
    assert len(set(ips)) == 4


def rule(schedule, disorder_ms=0, reports=False, delivered=False):
    terms = RunTerms(1_000, 1_000, disorder_ms, 0)
    workload = WORKLOADS["fixed-window"]
    return LatencyRule(workload, workload.shape(terms), terms, schedule, reports, delivered)


def latency(schedule, first_ms, delivered_us, disorder_ms=0):
    found = rule(schedule, disorder_ms)
    found.add(answers(first_ms), delivered_us)
    return found.samples.brief()


def test_latency_runs_from_the_record_that_closes_the_window():
    """
    Windows of 1 s, a record every 100 ms from 1000.05 s on, disorder 0:

        |--- window [1000, 1001) ---|--- window [1001, 1002) ---|
          ^ record 0                  ^ record 10 (1001.05) closes the first
    """
    schedule = Schedule(1000.05, rate=10, events=15)
    first = latency(schedule, [1_000_050, 1_000_150], 1_001_060_000)
    assert first.samples == 2
    assert np.allclose([first.p50, first.p99], 10.0, atol=1e-3)
    assert latency(schedule, [1_001_050], 1_003_000_000) is None, "no record closes the last window"
    assert latency(schedule, [1_000_050], 1_001_270_000, disorder_ms=200).p50 == pytest.approx(20.0, abs=1e-3)


def test_faithful_latency_is_reported_for_every_record():
    """Of a group with 3 records from the earliest of them to the clock of the last operator, three times."""
    schedule = Schedule(1000.05, rate=10, events=15)
    found = rule(schedule, reports=True)
    found.add(answers([1_000_050, 1_000_150], visits=[3, 1], reported_ms=[1_001_000, 1_001_001]), 0)
    assert found.samples.table().to_pydict() == {
        "created_us": [1_000_050_000, 1_000_150_000],
        "delivered_us": [1_001_000_000, 1_001_001_000],
        "answers": [3, 1],
    }
    assert (found.samples.brief().p50, found.samples.brief().samples) == (950.0, 4)
    here = rule(schedule, reports=True, delivered=True)
    here.add(answers([1_000_050], visits=[2]), 1_000_090_000)
    assert here.samples.table().to_pydict() == {"created_us": [1_000_050_000], "delivered_us": [1_000_090_000], "answers": [2]}


def answers(first_ms, visits=None, reported_ms=None):
    times, reported = (
        pa.array([value * 1000 for value in each]).cast(pa.timestamp("us", "UTC")) for each in (first_ms, reported_ms or first_ms)
    )
    ips = pa.array([f"10.0.0.{row}" for row in range(len(first_ms))])
    counts = pa.array(visits or [1] * len(first_ms), pa.int64())
    return pa.record_batch([ips, counts, times, times, reported], names=["ip", "visits", "start", "end", "reported"])
