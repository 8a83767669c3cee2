"""The command: what it explains, what it refuses, how it ends. The engines themselves are tested elsewhere."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from hibench import bench, cli, options
from hibench.errors import AnswersDiffer, OptionError
from hibench.machine import Machine, cores_usable
from hibench.open_loop import Schedule, latencies
from hibench.report import Report

ROOT = Path(__file__).parents[1]
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
    "disorder",
    "json",
)


def hibench(capsys, *arguments):
    """Exit code and output of `hibench ARGUMENTS` in this process."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before, hook, sys.argv = sys.argv, sys.unraisablehook, ["hibench", *arguments]
    try:
        with pytest.raises(SystemExit) as ended:
            cli.main()
    finally:
        sys.argv, sys.unraisablehook = before, hook
        for number, handler in handlers.items():
            signal.signal(number, handler)
    output = capsys.readouterr()
    return ended.value.code or 0, " ".join((output.out + output.err).split())


def empty_report(asked, screen):
    return Report("fixed-window", asked.dataset.events, asked.window_ms, {}, (), (), Machine.here(), asked.rate)


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
        (["run", "fixed-window", "--rate", "10", "--engine", "spark"], "--rate: only the engine 'cep'"),
        (["run", "fixed-window", "--json", "/no/such/folder/report.json"], "--json: expected a file"),
    ],
)
def test_what_makes_no_sense_is_refused_before_any_work(capsys, monkeypatch, arguments, message):
    monkeypatch.setattr(bench, "compare", None)
    code, text = hibench(capsys, *arguments)
    assert code == 2
    assert message in text


def test_a_cache_that_cannot_be_written_is_an_error(capsys):
    code, text = hibench(capsys, "run", "fixed-window", "--events", "10", "--cache", "/proc/hibench")
    assert code == 1
    assert "cannot write in '/proc/hibench'" in text
    assert "--cache DIR" in text


def test_unequal_answers_give_a_failing_exit_code(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(bench, "compare", empty_report)
    file = tmp_path / "report.json"
    code, text = hibench(capsys, "run", "fixed-window", "--json", str(file))
    assert code == AnswersDiffer.exit_code == 1
    assert "ANSWERS DIFFER" in text
    assert '"answers_equal": false' in file.read_text()


def test_the_defaults(capsys, monkeypatch):
    seen = []
    monkeypatch.setattr(bench, "compare", lambda asked, screen: seen.append(asked) or empty_report(asked, screen))
    hibench(capsys, "run", "fixed-window")
    (asked,) = seen
    assert asked.dataset.events == 10_000_000
    assert str(asked.dataset.keys) == "zipf:100000"
    assert asked.dataset.record_bytes == 200
    assert (asked.engines, asked.numa_modes, asked.window_ms) == (("cep", "spark"), ("on", "off"), 30_000)
    assert 1 <= asked.instances <= 4


def test_list_shows_an_empty_cache(capsys, tmp_path):
    assert hibench(capsys, "list", "--cache", str(tmp_path)) == (0, f"no datasets in {tmp_path}")


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
    assert schedule.times_ms(range(3)).tolist() == [1_000_000, 1_000_100, 1_000_200]


def test_latency_runs_from_the_record_that_closes_the_window():
    """
    Windows of 1 s, a record every 100 ms from 1000.05 s on, disorder 0:

        |--- window [1000, 1001) ---|--- window [1001, 1002) ---|
          ^ record 0                  ^ record 10 (1001.05) closes the first
    """
    schedule = Schedule(1000.05, rate=10, events=15)
    batch = answers([1_000_050, 1_000_150])
    latency = latencies(schedule, 1_000, 0, [batch], [1001.06])
    assert latency.samples == 2
    assert np.allclose([latency.p50, latency.p99], 10.0, atol=1e-3)
    assert latencies(schedule, 1_000, 0, [answers([1_001_050])], [1003.0]) is None, "no record closes the last window"
    assert latencies(schedule, 1_000, 200, [batch], [1001.27]).p50 == pytest.approx(20.0, abs=1e-3)


def answers(first_ms):
    times = pa.array([value * 1000 for value in first_ms]).cast(pa.timestamp("us", "UTC"))
    ips = pa.array([f"10.0.0.{row}" for row in range(len(first_ms))])
    visits = pa.array([1] * len(first_ms), pa.int64())
    return pa.record_batch([ips, visits, times, times], names=["ip", "visits", "start", "end"])
