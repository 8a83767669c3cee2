"""The command: what it explains, what it refuses, how it ends. The engines themselves are tested elsewhere.

Tests `cli.py`, `commands.py`.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from hibench import bench, cli, commands
from hibench.errors import AnswersDiffer
from hibench.numa.machine import Machine, cores_usable
from hibench.report import ComparisonReport
from hibench.workloads import WORKLOADS
from tests.support.hibench_command import hibench
from tests.support.paths import ROOT


def empty_report(asked, screen):
    return ComparisonReport("fixed-window", asked.dataset.events, asked.window_ms, {}, (), (), Machine.here())


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


def test_the_report_goes_to_standard_output(capsys, monkeypatch):
    monkeypatch.setattr(bench, "run_comparison", empty_report)
    monkeypatch.setattr(sys, "argv", ["hibench", "run", "identity", "--json", "-"])
    with pytest.raises(AnswersDiffer):
        commands.app(standalone_mode=False)
    assert json.loads(capsys.readouterr().out)["workload"] == "fixed-window"


def test_list_shows_the_workloads_and_an_empty_cache(capsys, tmp_path):
    code, text = hibench(capsys, "list", "--cache", str(tmp_path))
    assert code == 0
    assert text.endswith(f"no datasets in {tmp_path}")
    assert all(name in text for name in WORKLOADS)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_takes_everything_down(tmp_path, number, code):
    """The signal is sent when Spark's scratch folder has appeared, so there is something to take down."""
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join([*sys.path, str(ROOT)])}
    command = [sys.executable, "-m", "hibench.cli", "prepare", "--events", "20000000", "--cache", str(tmp_path / "c")]
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


def test_at_least_one_core_is_usable():
    assert 1 <= cores_usable() <= (os.cpu_count() or 1)
