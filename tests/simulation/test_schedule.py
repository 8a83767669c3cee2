"""Tasks have turns in the order that times and the seed give them, and may pause, or be frozen, in the middle of one.

Tests `schedule.py`, `clock.py`.
"""

from __future__ import annotations

import pytest

from simulation.clock import ProcessClock
from simulation.schedule import ScheduleTrace, SeededSchedule, Stuck, Task


def test_tasks_have_their_turns_when_they_want_them() -> None:
    schedule, said = SeededSchedule(0), list[tuple[str, int]]()

    def every(name: str, ns: int) -> Task:
        def turn() -> int:
            said.append((name, schedule.now_ns))
            return schedule.now_ns + ns

        return Task(schedule, turn)

    for task in (every("a", 10), every("b", 15)):
        task.wake()
    schedule.run(lambda: schedule.now_ns >= 30, 100)
    assert said == [("a", 0), ("b", 0), ("a", 10), ("b", 15), ("a", 20), ("b", 30)]


def test_one_that_pauses_lets_others_go_on_and_is_called_again_when_it_was_woken_meanwhile() -> None:
    schedule, said = SeededSchedule(0), list[str]()

    def slow() -> None:
        said.append("begins")
        schedule.pause_until(100)
        said.append("goes on")

    task = Task(schedule, slow)
    task.wake()
    schedule.at(50, lambda: said.append("meanwhile"))
    schedule.at(60, task.wake)
    schedule.run(lambda: len(said) == 4, 1000)
    assert (said, schedule.now_ns) == (["begins", "meanwhile", "goes on", "begins"], 100)


def test_one_that_ends_while_it_pauses_never_goes_on() -> None:
    schedule, said = SeededSchedule(0), list[str]()

    def slow() -> None:
        schedule.pause_until(100)
        said.append("goes on")

    task = Task(schedule, slow)
    task.wake()
    schedule.at(50, task.end)
    schedule.at(200, lambda: None)
    with pytest.raises(Stuck, match="of virtual time"):
        schedule.run(lambda: bool(said), 1000)


def frozen_in_its_turn(said: list[object]) -> tuple[SeededSchedule, ProcessClock, Task]:
    """Behind its second look at its clock, until 100."""
    schedule = SeededSchedule(0)
    clock = ProcessClock(schedule, (0,))

    def turn() -> None:
        for step in range(3):
            try:
                clock.steady_ns()
            except BaseException as error:  # as the loop of an instance manager does
                said.append(type(error).__name__)
                continue
            said.append((step, schedule.now_ns))

    task = Task(schedule, turn, clock)
    clock.freeze_behind(1, 100)
    task.wake()
    schedule.at(50, lambda: said.append("meanwhile"))
    return schedule, clock, task


def test_one_that_is_frozen_in_its_turn_goes_on_where_it_was() -> None:
    said: list[object] = []
    schedule, _, _ = frozen_in_its_turn(said)
    schedule.run(lambda: len(said) == 4, 1000)
    assert said == [(0, 0), "meanwhile", (1, 100), (2, 100)]


def test_one_that_dies_meanwhile_gets_no_further() -> None:
    said: list[object] = []
    schedule, clock, task = frozen_in_its_turn(said)

    def die() -> None:
        clock.is_dead = True
        task.end()

    schedule.at(60, die)
    schedule.at(200, lambda: said.append("behind"))
    schedule.run(lambda: "behind" in said, 1000)
    assert said == [(0, 0), "meanwhile", "GreenletExit", "GreenletExit", "behind"]


def test_what_goes_wrong_in_a_turn_ends_the_run() -> None:
    schedule = SeededSchedule(0)
    Task(schedule, lambda: 1 // 0).wake()
    with pytest.raises(ZeroDivisionError):
        schedule.run(lambda: False, 1000)


def test_traces_of_different_runs_have_different_hashes() -> None:
    traces = [ScheduleTrace(), ScheduleTrace(keep=True), ScheduleTrace()]
    for trace, word in zip(traces, ("a", "a", "b"), strict=True):
        trace.note(1, "im-0", word)
    assert traces[0].digest == traces[1].digest != traces[2].digest
    assert traces[1].lines == ["      0.000001 im-0           a"]
