"""What a metered block used: figures of real processes, and what the last line of a command says of them."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks.memory import ASKED
from benchmarks.metering import Used, metered, pin, process_cpu_s, say, stopwatch, turns
from tests.support.waiting import until

#: Works for a fifth of a second of CPU, over 64 MiB, when a line comes.
WORKS = """
import sys, time
print(flush=True)
sys.stdin.readline()
filled, began = bytearray(64 << 20), time.process_time()
while time.process_time() - began < 0.2:
    filled[::4096] = b"x" * len(filled[::4096])
del filled
print(flush=True)
sys.stdin.readline()
"""


class OneManager:
    """A cluster of one process, which does as it is told."""

    def __init__(self) -> None:
        self.process = subprocess.Popen([sys.executable, "-c", WORKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.hear()

    def processes(self) -> list[tuple[str, int]]:
        return [("im-0", self.process.pid)]

    def hear(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "\n"

    def work(self) -> None:
        assert self.process.stdin is not None
        print(file=self.process.stdin, flush=True)
        self.hear()


@pytest.fixture
def cluster() -> Iterator[Any]:
    made = OneManager()
    yield made
    made.process.kill()
    made.process.communicate()


def test_a_block_is_charged_what_it_used_and_no_more(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ASKED, "0")
    began = time.perf_counter()
    with metered(cluster) as used:
        cluster.work()
    took = time.perf_counter() - began
    assert set(used.cpu) == {"im-0", "client"}
    assert 0.15 < used.cpu["im-0"] == used.of_instance_managers() < 1.0
    assert used.cpu["im-0"] <= used.cpu_s and used.cpu_s - used.cpu["im-0"] == pytest.approx(used.cpu["client"])
    assert 0 < used.wall_s <= took
    assert 60 << 20 < used.grown_bytes() < 100 << 20
    assert used.grown_bytes() == used.peak_bytes["im-0"] - used.begun_bytes["im-0"]


def test_figures_are_those_that_bars_name() -> None:
    used = Used(2.0, 0.126, {"im-0": 0.25, "im-1": 0.5, "client": 0.25}, {"im-0": 1 << 20}, {"im-0": 3 << 20, "client": 9 << 20})
    assert used.rates(1_000) == {
        "records": 1_000,
        "cpu_s": 1.0,
        "kernel_s": 0.13,
        "wall_s": 2.0,
        "records_per_cpu_s": 1_000,
        "records_per_s": 500,
        "cpu_by_process": {"im-0": 0.25, "im-1": 0.5, "client": 0.25},
        "memory_peak_mib": {"im-0": 3},
    }
    assert (used.of_instance_managers(), used.grown_bytes()) == (0.75, 2 << 20)


def test_the_clock_of_a_process_is_its_own() -> None:
    ours = process_cpu_s(os.getpid())
    assert time.process_time() == pytest.approx(ours, abs=0.05)
    until(lambda: process_cpu_s(os.getpid()) > ours)


def test_every_thread_of_a_process_is_put_on_a_core(cluster: Any) -> None:
    core = max(os.sched_getaffinity(0))
    pin(cluster.process.pid, core)
    assert os.sched_getaffinity(cluster.process.pid) == {core}


def test_one_run_or_one_for_every_line(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(list(turns(False))) == 1
    monkeypatch.setattr("sys.stdin", io.StringIO("\n\n\n"))
    assert len(list(turns(True))) == 3


def test_what_a_command_says(capsys: pytest.CaptureFixture[str]) -> None:
    stopwatch()("it begins")
    say(records=3, rate=0.5)
    out, error = capsys.readouterr()
    assert json.loads(out) == {"records": 3, "rate": 0.5} and out.endswith("\n")
    assert error.strip() == "0.0 s  it begins"
