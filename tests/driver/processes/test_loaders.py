"""Processes that are made as copies of a loader: real ones, of a loader that loads nothing.

Tests `loaders.py`, `instance_manager/copying.py`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from cep.world.parents import adopt_orphans
from driver.commands import environment
from driver.processes.children import Children
from driver.processes.events import Events
from driver.processes.loaders import Adopted, Copy, Loader
from tests.support.waiting import HANG_S, until

#: A copy says what it was told, and is there until it is ended; or what numbers it draws.
LOADER = """
import random, signal, sys
import numpy.random
from instance_manager.copying import copy_on_request
request = copy_on_request(int(sys.argv[1]))
if request is not None:
    if request["config"]["of"] == "numbers":
        print(random.random(), numpy.random.random(), flush=True)
    else:
        print(request["name"], request["config"]["of"], flush=True)
        signal.pause()
"""
#: What ends with its standard input, and has a copy that says its number.
ASKER = f"""
import os, sys
from pathlib import Path
from driver.commands import environment
from driver.processes.events import Events
from driver.processes.loaders import Loader
events = Events()
loader = Loader([sys.executable, "-c", {LOADER!r}], Path(os.devnull), environment({{}}), events)
made = []
loader.ask("one", {{"of": 1}}, Path(os.devnull), made.append)
while not made:
    events.step()
print(made[0].pid, loader.process.pid, flush=True)
sys.stdin.read()
"""
COMMAND = (sys.executable, "-c", LOADER)


@pytest.fixture
def events() -> Iterator[Events]:
    """Behind it orphans of other tests do not come to this process."""
    made = Events()
    yield made
    made.close()
    adopt_orphans(False)


@pytest.fixture
def loader(events: Events, tmp_path: Path) -> Iterator[Loader]:
    made = Loader(COMMAND, tmp_path / "loader.log", environment({}), events)
    yield made
    left = made.stop()
    for each in left:
        each.kill()
        each.wait()
    assert not psutil.pid_exists(made.process.pid)


def made_by(loader: Loader, events: Events, *names: str, log: Path | None = None) -> list[Adopted | None]:
    """The copies of these names, in the order in which they came."""
    made: list[Adopted | None] = []
    for name in names:
        loader.ask(name, {"of": 7}, log, made.append)
    steps_until(events, lambda: len(made) == len(names))
    return made


def steps_until(events: Events, holds: object) -> None:
    def looked() -> bool:
        events.step(0.01)
        return bool(holds())  # type: ignore[operator]

    until(looked)


def test_copies_are_our_children_and_say_what_they_say_in_their_own_log(loader: Loader, events: Events, tmp_path: Path) -> None:
    log = tmp_path / "own.log"
    one, two = made_by(loader, events, "one", "two", log=log)
    assert one is not None and two is not None and one.pid != two.pid
    until(lambda: log.read_text().count("\n") == 2)
    assert sorted(log.read_text().split("\n")) == ["", "one 7", "two 7"]
    for each, name in ((one, "one"), (two, "two")):
        process = psutil.Process(each.pid)
        assert process.ppid() == os.getpid() and os.getpgid(each.pid) == each.pid and process.name() == name
        assert each.poll() is None and each.returncode is None
    with pytest.raises(subprocess.TimeoutExpired):
        one.wait(0.01)
    one.terminate()
    two.kill()
    assert (one.wait(HANG_S), two.wait(HANG_S)) == (one.returncode, two.returncode) == (-signal.SIGTERM, -signal.SIGKILL)
    one.kill()  # its number may be another's
    assert loader.process.poll() is None and not loader.is_asked


def test_copies_draw_other_numbers(loader: Loader, events: Events, tmp_path: Path) -> None:
    made: list[Adopted | None] = []
    for number in range(2):
        loader.ask(f"im-{number}", {"of": "numbers"}, tmp_path / "numbers", made.append)
    steps_until(events, lambda: len(made) == 2)
    assert [each and each.wait(HANG_S) for each in made] == [0, 0]
    first, second = (line.split() for line in (tmp_path / "numbers").read_text().splitlines())
    assert len({*first, *second}) == 4


def test_a_loader_that_ends_makes_none(loader: Loader, events: Events) -> None:
    os.kill(loader.process.pid, signal.SIGSTOP)
    made: list[Adopted | None] = []
    loader.ask("one", {"of": 7}, None, made.append)
    assert loader.is_asked
    loader.process.kill()
    steps_until(events, lambda: made)
    assert made == [None] and not loader.is_up and not loader.is_asked


def test_a_loader_that_does_not_answer_is_ended(loader: Loader, events: Events, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("driver.processes.loaders.LOAD_S", 0.05)
    os.kill(loader.process.pid, signal.SIGSTOP)
    assert made_by(loader, events, "one") == [None] and not loader.is_up


def test_the_death_of_who_asked_is_that_of_copies_and_loader() -> None:
    asker = subprocess.Popen([sys.executable, "-c", ASKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment({}))
    with asker:
        assert asker.stdout is not None
        processes = [psutil.Process(int(pid)) for pid in asker.stdout.readline().split()]
        asker.kill()
        _, alive = psutil.wait_procs(processes, timeout=HANG_S)
    assert len(processes) == 2 and not alive


def test_a_child_is_a_copy_again_after_its_death_and_starts_by_itself_without_a_loader(events: Events, tmp_path: Path) -> None:
    children = Children("those", events, tmp_path, tmp_path, environment({}))
    children.start(
        "im", [sys.executable, "-c", "import signal; print('by itself', flush=True); signal.pause()"], copy=Copy(COMMAND, {"of": 3})
    )
    children.started()
    log = tmp_path / "im.log"
    pids: list[int] = []

    def comes(how: str) -> None:
        steps_until(events, lambda: log.exists() and log.read_text().count("\n") == len(pids) + 1 and "im" in dict(children.listing()))
        assert log.read_text().split("\n")[-2] == how
        pids.append(dict(children.listing())["im"])

    try:
        comes("im 3")
        first = dict(children.listing())["loader-0"]
        os.kill(pids[-1], signal.SIGKILL)
        comes("im 3")
        os.kill(first, signal.SIGKILL)
        steps_until(events, lambda: "loader-0" not in dict(children.listing()))
        os.kill(pids[-1], signal.SIGKILL)
        comes("by itself")  # while another loader is made
        os.kill(pids[-1], signal.SIGKILL)
        comes("im 3")
        assert len(set(pids)) == 4 and dict(children.listing())["loader-0"] != first
    finally:
        children.stop()
    assert not any(map(psutil.pid_exists, (*pids, first)))
