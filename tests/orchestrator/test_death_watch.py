"""Processes of this machine that end: the kernel says so, of those that are meant and of no others."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cep.world.births import born, machine
from orchestrator.death_watch import DeathWatch
from orchestrator.records import InstanceManager, Process
from tests.support.waiting import HANG_S, until


@pytest.fixture
def process() -> Iterator[subprocess.Popen[str]]:
    """It waits until it is told to go on, and ends."""
    made = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE, text=True)
    yield made
    made.kill()
    made.communicate()


def manager(pid: int, **changes: Any) -> InstanceManager:
    said = {"id": "im-0", "endpoint": "ipc:///im-0", "pid": pid, "started": 7, "machine": machine(), "born": born(pid)}
    return InstanceManager.from_json({**said, **changes})


def watching(
    live: Callable[[frozenset[tuple[str, Process]]], None] = lambda processes: None,
) -> tuple[DeathWatch, list[tuple[str, Process]]]:
    died: list[tuple[str, Process]] = []
    made = DeathWatch(lambda im, process: died.append((im, process)), live)
    made.start()
    return made, died


def test_a_process_that_ends_is_told_of_and_again_whenever_it_is_named(process: subprocess.Popen[str]) -> None:
    watch, died = watching()
    for _ in range(3):  # it is named whenever the instance managers are seen
        watch.watch({"im-0": manager(process.pid), "im-1": manager(os.getpid(), id="im-1")})
    assert died == []
    process.communicate("\n", HANG_S)
    until(lambda: died)
    assert died == [("im-0", Process(process.pid, 7))]
    watch.watch({"im-0": manager(process.pid), "im-1": manager(os.getpid(), id="im-1")})
    assert died == [("im-0", Process(process.pid, 7))] * 2, "it may be a new leader that asks"
    watch.watch({"im-1": manager(os.getpid(), id="im-1")})
    assert len(died) == 2


def test_those_that_live_are_told_of_behind_the_others(process: subprocess.Popen[str]) -> None:
    told: list[frozenset[tuple[str, Process]]] = []
    watch, died = watching(lambda processes: told.append(processes) if died else None)
    watch.watch({"im-0": manager(process.pid, born="1"), "im-1": manager(os.getpid(), id="im-1")})
    watch.watch({"im-1": manager(os.getpid(), id="im-1"), "im-2": manager(os.getpid(), id="im-2", machine="another/pid:[1]")})
    assert told == [frozenset({("im-1", Process(os.getpid(), 7))})] * 2


def test_one_that_is_gone_already_is_told_of_at_once(process: subprocess.Popen[str]) -> None:
    watch, died = watching()
    gone = manager(process.pid)
    process.communicate("\n", HANG_S)
    watch.watch({"im-0": gone})
    assert died == [("im-0", Process(process.pid, 7))]


def test_its_number_may_be_another_processs_by_now(process: subprocess.Popen[str]) -> None:
    watch, died = watching()
    watch.watch({"im-0": manager(process.pid, born="1")})
    assert died == [("im-0", Process(process.pid, 7))]


def test_those_of_other_machines_are_not_seen_from_here(process: subprocess.Popen[str]) -> None:
    watch, died = watching()
    watch.watch({"im-0": manager(process.pid, machine="another/pid:[1]"), "im-1": manager(process.pid, id="im-1", started=8)})
    process.communicate("\n", HANG_S)
    until(lambda: died)
    assert died == [("im-1", Process(process.pid, 8))]
