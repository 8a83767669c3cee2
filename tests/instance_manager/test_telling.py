"""Ends are told of together; everything else at once."""

from __future__ import annotations

from typing import Any

import pytest

from cep.elements import MAX_TIME, MIN_TIME, End, Fail, Stop
from instance_manager.hosting import InstanceHost
from instance_manager.telling import Telling
from tests.cep.dataflow.test_instance import Pass
from tests.instance_manager.test_ready import Line, at_home, settle


class Bench:
    """Three instances of a query in a row, at work, and what is told of them: a dot for figures, a word for a state."""

    def __init__(self, loop: Any) -> None:
        self.told: list[str] = []
        self.telling = Telling(lambda: self.told.append("."), self._report)
        self.hosted = Line(loop, "l", [Pass, Pass, Pass], 1 << 20).hosted
        for hosted in self.hosted:
            self.telling.add(hosted)
            hosted.instance.run()
            self.telling.tell(hosted)
        assert self.take() == ["0 running", "1 running", "2 running"]

    def _report(self, hosted: InstanceHost) -> None:
        self.told.append(f"{self.hosted.index(hosted)} {hosted.instance.state}")

    def close(self, i: int, element: End | Stop | Fail) -> None:
        self.hosted[i].instance.close(element)
        for _ in range(2):  # it may be looked at again
            self.telling.tell(self.hosted[i])

    def take(self) -> list[str]:
        told, self.told = self.told, []
        return told


@pytest.fixture
def bench() -> Any:
    with at_home() as loop:
        yield Bench(loop)


def test_the_last_one_that_ends_takes_the_others_along(bench: Bench) -> None:
    bench.close(0, End())
    bench.close(2, End())
    assert bench.take() == []
    bench.close(1, End())
    assert bench.take() == [".", "0 ended", "2 ended", "1 ended"]


def test_none_waits_longer_than_to_the_next_tick(bench: Bench) -> None:
    bench.close(0, End())
    bench.telling.tick()
    assert bench.take() == [".", "0 ended"]
    bench.telling.tick()
    assert bench.take() == []


@pytest.mark.parametrize("last, state", [(Stop(), "stopped"), (Fail("SQ1", 1, "it broke"), "failed")])
def test_no_other_end_waits(bench: Bench, last: Stop | Fail, state: str) -> None:
    bench.close(0, End())
    bench.close(1, last)
    assert bench.take() == [".", "0 ended", f"1 {state}"]


def test_what_clients_see_is_told_at_once(bench: Bench) -> None:
    bench.hosted[1].outlets = {7: object()}  # type: ignore[dict-item]
    bench.close(0, End())
    bench.close(1, End())
    assert bench.take() == [".", "0 ended", "1 ended"]


def test_who_has_left_is_not_waited_for_and_not_told_of(bench: Bench) -> None:
    bench.close(0, End())
    bench.close(1, End())
    for i in (0, 2):
        bench.telling.forget(bench.hosted[i])
    assert bench.take() == []
    bench.telling.tick()
    assert bench.take() == [".", "1 ended"]


def test_a_loop_tells_together_what_ends_together() -> None:
    with at_home() as loop:
        told: list[str] = []
        loop.telling = Telling(lambda: told.append("."), lambda hosted: told.append(f"{hosted.instance.state}"))
        line = Line(loop, "l", [Pass, Pass, Pass], 1 << 20)
        for i in range(6):  # each comes home, then each runs
            line.add(i)
            settle(loop)
        told.clear()
        line.channels[0].send(End(), 0, MAX_TIME, MIN_TIME)
        settle(loop)
        assert told == [".", "ended", "ended", "ended"]
