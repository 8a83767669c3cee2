"""The clock of a simulated process: the virtual time, and on top of it the time that its own work takes."""

from __future__ import annotations

from collections.abc import Sequence

from greenlet import GreenletExit

from cep.kernels.jit import others_go_on
from simulation.schedule import SeededSchedule

EPOCH_NS = 1_700_000_000 * 1_000_000_000
#: How far a process comes, in ns, between two looks at the clock, at most: some machines are quick, and some are under load.
SLOW_PACES_NS = (200_000, 2_000_000, 20_000_000)
PACES_NS = (100, 20_000, 20_000, 2_000_000)


class ProcessClock:
    """A `cep.world.clock.Clock`. Every look at it costs a moment of the process's time: it is busy until `now_ns`.

    `steady_from_ns` and `ahead_ns` are what its two clocks began with; no two machines agree. The wall clock may jump: `ahead_ns` changes.
    """

    def __init__(self, schedule: SeededSchedule, paces_ns: Sequence[int] = PACES_NS) -> None:
        self.schedule = schedule
        self._pace_ns = schedule.choose.choice(paces_ns)
        self._steady_from_ns = schedule.choose.randrange(1 << 40)
        self.ahead_ns = schedule.choose.randrange(-1_000_000_000, 1_000_000_000)
        self.frozen_until_ns = 0  # in virtual time
        self.is_dead = False  # what is in the middle of a turn does not get on with it
        self._freeze: tuple[int, int] | None = None  # so many looks from now, until then
        self._busy_until_ns = 0

    @property
    def now_ns(self) -> int:
        """In virtual time."""
        return max(self._busy_until_ns, self.schedule.now_ns)

    def spend(self, ns: int) -> None:
        self._busy_until_ns = self.now_ns + ns

    def virtual_ns(self, steady_ns: int) -> int:
        """When the steady clock shows that."""
        return steady_ns - self._steady_from_ns

    def freeze_behind(self, looks: int, until_ns: int) -> None:
        """In the middle of a turn: behind so many looks, until then in virtual time."""
        self._freeze = looks, until_ns

    def _look(self) -> None:
        if self.is_dead:
            raise GreenletExit
        task = self.schedule.current
        if self._freeze is None or task is None or task.clock is not self:
            return
        looks, until_ns = self._freeze
        self._freeze = (looks - 1, until_ns) if looks else None
        if not looks and until_ns > self.schedule.now_ns:
            self.frozen_until_ns = until_ns
            with others_go_on():
                task.pause_until(until_ns)
            if self.is_dead:
                raise GreenletExit

    def steady_ns(self) -> int:
        self._look()
        self.spend(int(self.schedule.choose.random() * self._pace_ns))
        return self._busy_until_ns + self._steady_from_ns

    def wall_ns(self) -> int:
        self.spend(int(self.schedule.choose.random() * self._pace_ns))
        return EPOCH_NS + self._busy_until_ns + self.ahead_ns
