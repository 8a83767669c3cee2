"""The options of a comparison: their defaults, what is refused before any work, durations."""

import pytest

from hibench import bench, options
from hibench.errors import OptionError
from hibench.options import Pace
from tests.hibench.test_cli import empty_report
from tests.support.hibench_command import hibench

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


@pytest.mark.parametrize(("text", "value"), [("30s", 30_000), ("500ms", 500), ("2m", 120_000), ("1h", 3_600_000)])
def test_durations(text, value):
    assert options.duration_ms("--window", text, 1) == value


@pytest.mark.parametrize("text", ["", "s", "3", "-3s", "3 s", "1.5s", "3d"])
def test_durations_that_are_none(text):
    with pytest.raises(OptionError, match="--window: expected a duration"):
        options.duration_ms("--window", text, 1)
