"""What every clock keeps to, and the one that stands still until it is moved."""

from __future__ import annotations

import pytest

from cep.world.clock import Clock, ManualClock, SystemClock
from simulation.clock import ProcessClock
from simulation.schedule import SeededSchedule

CLOCKS: list[Clock] = [SystemClock(), ManualClock(5, 7), ProcessClock(SeededSchedule(0))]


@pytest.mark.parametrize("clock", CLOCKS, ids=lambda clock: type(clock).__name__)
def test_a_steady_clock_never_goes_back(clock: Clock) -> None:
    shown = [clock.steady_ns() for _ in range(100)]
    assert shown == sorted(shown)
    assert isinstance(clock.wall_ns(), int)


def test_a_manual_clock_moves_when_it_is_moved() -> None:
    clock = ManualClock(5, 7)
    assert (clock.steady_ns(), clock.wall_ns()) == (5, 7)
    clock.advance(10)
    assert (clock.steady_ns(), clock.wall_ns()) == (15, 17)
    clock.set_wall(3)
    assert (clock.steady_ns(), clock.wall_ns()) == (15, 3)
    with pytest.raises(ValueError, match="expected ns of at least 0, got -1"):
        clock.advance(-1)
