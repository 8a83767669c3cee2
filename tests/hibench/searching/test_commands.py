"""`hibench prepare`, `search` and `numa-report`: what they refuse before any work, and what a small one leaves."""

import json

import pytest
from typer.testing import CliRunner

from hibench.commands import app
from hibench.errors import OptionError
from hibench.searching import commands as search_commands


def hibench(*arguments):
    return CliRunner().invoke(app, arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["search", "fixed-window", "--nodes", "1"], "--nodes: is for --grid"),
        (["search", "fixed-window", "--grid", "--nodes", "one"], "--nodes: expected numbers such as 1,2,8, got 'one'"),
        (["search", "fixed-window", "--grid", "--nodes", "999"], "--nodes: expected numbers from 1 to"),
        (["search", "fixed-window", "--grid", "--hosts", "2"], "--hosts: is for --grid with --cluster"),
        (["search", "fixed-window", "--cluster", "http://127.0.0.1:1", "--hosts", "2"], "--hosts: is for --grid"),
        (["search", "fixed-window", "--cluster", "http://127.0.0.1:1", "--grid", "--hosts", "two"], "--hosts: expected numbers such as"),
        (
            ["search", "fixed-window", "--cluster", "http://127.0.0.1:1", "--grid", "--nodes", "2"],
            "--nodes: is for the nodes of this machine",
        ),
        (
            ["search", "fixed-window", "--cluster", "http://127.0.0.1:1", "--instances", "2"],
            "--instances: is for a cluster that is started",
        ),
        (["search", "fixed-window", "--instances", "9999"], "--instances: expected 1 to"),
        (["search", "fixed-window", "--seconds", "1"], "--seconds: expected at least three windows"),
        (["search", "fixed-window", "--latency-limit", "0s"], "--latency-limit: expected a duration"),
        (["search", "fixed-window", "--precision", "2"], "--precision: expected"),
        (["search", "fixed-window", "--keys", "zipf:0"], "--keys: expected 'uniform'"),
        (["search", "fixed-window", "--json", "/no/such/folder/found.json"], "--json: expected a file that can be written"),
        (["numa-report", "--output", "/proc"], "--output: expected a file that can be written"),
        (["numa-report", "--most", "0"], "--most: expected"),
        (["prepare", "--format", "arrow", "--record-bytes", "200"], "--record-bytes: expected 0"),
        (["prepare", "--format", "parquet", "--node-local"], "--node-local: expected records of text"),
        (["prepare", "--record-bytes", "0", "--node-local"], "--node-local: expected records of text padded to one length"),
        (["prepare", "--file-events", "0"], "--file-events: expected at least 1"),
    ],
)
def test_what_makes_no_sense_is_refused_before_any_work(monkeypatch, arguments, message):
    monkeypatch.setattr(search_commands, "_search", None)
    refused = hibench(*arguments).exception
    assert isinstance(refused, OptionError)
    assert message in str(refused)


@pytest.mark.parametrize("arguments", [["search", "no-such-workload"], ["prepare", "--format", "csv"], ["prepare", "--partitions", "0"]])
def test_what_is_no_choice_is_refused(arguments):
    assert hibench(*arguments).exit_code == 2


def test_a_report_without_searches(tmp_path):
    file = tmp_path / "report.json"
    ran = hibench("numa-report", "--without-search", "--output", str(file), "--buffer-bytes", "65536")
    assert ran.exit_code == 0, ran.output
    report = json.loads(file.read_text())
    assert report["searches"] is None
    assert report["memory"]
