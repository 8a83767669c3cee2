"""What happens next: one thread, one virtual time, one seed.

All that a simulated cluster does is done by tasks. A task has turns: it is called when it is due, and says when it wants to be called
again; it may be woken before that. Where it has to wait in the middle of a turn, as for an answer of ZooKeeper, it pauses, and others go on
meanwhile. Whatever else is left to chance (how long a message travels, how quick a process is) is drawn from the same source, so that the
seed decides everything, and the trace shows it.
"""

from __future__ import annotations

import hashlib
import heapq
import random
from collections.abc import Callable
from typing import Protocol

from greenlet import GreenletExit, getcurrent, greenlet

MS = 1_000_000
S = 1_000 * MS


class ScheduleTrace:
    """What happened, as lines of text and as a hash of them; the lines are kept only where they are to be read."""

    def __init__(self, keep: bool = False) -> None:
        self.lines: list[str] | None = [] if keep else None
        self.count = 0
        self._hash = hashlib.blake2b(digest_size=8)

    def note(self, time_ns: int, name: str, what: str) -> None:
        line = f"{time_ns / MS:14.6f} {name:<14} {what}"
        self.count += 1
        self._hash.update(line.encode() + b"\n")
        if self.lines is not None:
            self.lines.append(line)

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()


class Stuck(Exception):
    """Something has not come about that should have."""


class SeededSchedule:
    """The order of all that happens. `now_ns` is the virtual time, which only `run` moves."""

    def __init__(self, seed: int, trace: ScheduleTrace | None = None) -> None:
        self.choose = random.Random(seed)
        self.trace = trace or ScheduleTrace()
        self.now_ns = 0
        self.frozen_until_ns = 0  # what has no clock is never frozen
        self.current: Task | None = None  # whose turn it is
        self._events: list[tuple[int, int, Callable[[], object]]] = []
        self._count = 0

    def at(self, time_ns: int, act: Callable[[], object]) -> None:
        """`act` is called then; of two at the same time the one first that was asked for first."""
        self._count += 1
        heapq.heappush(self._events, (max(time_ns, self.now_ns), self._count, act))

    def note(self, name: str, what: str) -> None:
        self.trace.note(self.now_ns, name, what)

    def run(self, until: Callable[[], bool], patience_ns: int) -> None:
        """Goes on until that holds. Raises Stuck: it does not within `patience_ns`, or nothing is left that could happen."""
        end_ns = self.now_ns + patience_ns
        while not until():
            if not self._events or self._events[0][0] > end_ns:
                raise Stuck(f"after {self.now_ns / S:.3f} s of virtual time")
            self.now_ns, _, act = heapq.heappop(self._events)
            act()

    def pause_until(self, time_ns: int) -> None:
        """The task whose turn it is goes on then, and others have their turns meanwhile. What is no task makes time pass."""
        if self.current is not None:
            self.current.pause_until(time_ns)
            return
        self.at(time_ns, lambda: None)
        self.run(lambda: self.now_ns >= time_ns, time_ns - self.now_ns)


class Busy(Protocol):
    """What a turn takes time of."""

    frozen_until_ns: int  # before that no turn begins or goes on

    @property
    def now_ns(self) -> int:
        """Until when it is busy."""


class Task:
    """Something that has turns. `turn` answers when it wants the next one; None: when it is woken. With a clock a turn takes the time that
    the clock says, and no other begins before that is over."""

    def __init__(self, schedule: SeededSchedule, turn: Callable[[], int | None], clock: Busy | None = None) -> None:
        self.schedule, self.turn, self.clock = schedule, turn, clock or schedule
        self._due_ns: int | None = None
        self._pausing = self._waiting = self._woken = self.ended = False
        self._fiber = greenlet(self._live)
        self._back = getcurrent()  # to where its turn was called

    def wake(self, time_ns: int = 0) -> None:
        """It has its next turn then, or sooner if it is due sooner."""
        time_ns = max(time_ns, self.clock.now_ns)
        if not self.ended and (self._due_ns is None or time_ns < self._due_ns):
            self._due_ns = time_ns
            self.schedule.at(time_ns, lambda: self._call(time_ns))

    def _call(self, time_ns: int) -> None:
        if self._due_ns != time_ns or self.ended:
            return  # it was called sooner
        if self.clock.frozen_until_ns > self.schedule.now_ns:
            self.schedule.at(self.clock.frozen_until_ns, lambda: self._call(time_ns))
            return
        self._due_ns = None
        if self._waiting:
            self._waiting = False
            self._go_on()
        elif self._pausing:
            self._woken = True
        else:
            self._go_on()

    def _go_on(self) -> None:
        if not self.ended:
            before, self.schedule.current = self.schedule.current, self
            self._fiber.parent = self._back = getcurrent()
            try:
                self._fiber.switch()
            finally:
                self.schedule.current = before

    def _live(self) -> None:
        """One turn after the other. A fiber that has come to its end is free; one that never goes on would stay, with all that it knows."""
        while not self.ended:
            again_ns = self.turn()
            if self._woken:
                self._woken, again_ns = False, self.clock.now_ns
            if again_ns is not None:
                self.wake(again_ns)
            if not self.ended:
                self._back.switch()

    def pause_until(self, time_ns: int) -> None:
        """In its turn: goes on then."""
        assert getcurrent() is self._fiber
        self._pausing = True
        self.schedule.at(time_ns, self._thaw)
        self._back.switch()
        self._pausing = False

    def _thaw(self) -> None:
        """A pause is over; of what is frozen, later."""
        if self.clock.frozen_until_ns > self.schedule.now_ns:
            self.schedule.at(self.clock.frozen_until_ns, self._thaw)
        else:
            self._go_on()

    def wait(self, condition: Callable[[], bool], longest_ns: int | None = None) -> bool:
        """In its turn: goes on when that holds, which is looked at whenever it is woken; or after so long, and then it may not hold."""
        assert getcurrent() is self._fiber
        due_ns = None if longest_ns is None else self.clock.now_ns + longest_ns
        while not condition() and (due_ns is None or self.clock.now_ns < due_ns):
            if due_ns is not None:
                self.wake(due_ns)
            self._waiting = True
            self._back.switch()
        return condition()

    def end(self) -> None:
        """It has no more turns, and does not go on with the one that it may be in."""
        self.ended = True
        if self._fiber is not getcurrent() and not self._fiber.dead:
            self._fiber.parent = getcurrent()
            self._fiber.throw(GreenletExit)
