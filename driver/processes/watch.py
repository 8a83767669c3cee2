"""What holds the loop of an instance manager: its mark (`cep.service.mark`), looked at twice a second by the process that keeps it up.

A loop comes round many times a second, whatever it has to do. One that has not for a second is held: by the operator in its mark; or, where
its thread has not even run meanwhile, by what is prepared in the other thread and keeps Python's lock. While a process is stopped, or we
are, nothing holds it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cep.service.mark import Page, Work

LOOK_S = 0.5
SHOWN_S = 1.0
HOLD_S = 30.0
"""How long a loop may be held before its process is ended."""

#: The state of a thread, as `ps` calls it: R runs, S sleeps, T stopped.
StateOf = Callable[[int], str]
STOPPED = frozenset("Tt")


@dataclass(frozen=True, slots=True)
class LoopHold:
    """`work` None: the loop itself, for no query. `prepared`: not run yet."""

    work: Work | None
    held_s: float
    prepared: bool = False

    def __str__(self) -> str:
        what = "its own loop" if self.work is None else str(self.work)
        return f"the preparation of {what}" if self.prepared else what


class OperatorWatch:
    """Watches one process: is an operator holding it? `look` is asked every `LOOK_S`."""

    def __init__(self) -> None:
        self._since = self._excused = self._last = 0
        self._ran = False

    def look(self, page: Page, now_ns: int, state_of: StateOf) -> LoopHold | None:
        """What holds it for more than `SHOWN_S`, if anything does."""
        loop, gap = page.loop, now_ns - (self._last or now_ns)
        self._last = now_ns
        if not loop.since_ns:
            return None
        if loop.since_ns != self._since:
            self._since, self._excused, self._ran = loop.since_ns, 0, False
        state = state_of(loop.thread)
        self._ran |= state == "R"
        if state in STOPPED:
            self._excused += gap
        elif gap > 3 * LOOK_S * 1e9:  # it was this process that did not run; perhaps none did
            self._excused += gap - int(LOOK_S * 1e9)
        held_s = (now_ns - self._since - self._excused) / 1e9
        return self._hold(page, held_s) if held_s > SHOWN_S else None

    def _hold(self, page: Page, held_s: float) -> LoopHold:
        if page.control.work is not None and not self._ran:
            return LoopHold(page.control.work, held_s, prepared=True)
        return LoopHold(page.loop.work, held_s)


def at_death(page: Page) -> LoopHold | None:
    """What a process was at that has just died; None: nothing of a query. A query that is being prepared is blamed before one that has run
    for long."""
    if page.control.work is not None:
        return LoopHold(page.control.work, 0.0, prepared=True)
    return None if page.loop.work is None else LoopHold(page.loop.work, 0.0)


def state_of(process: int, thread: int) -> str:
    """As `StateOf`; empty where it is gone."""
    try:
        return Path(f"/proc/{process}/task/{thread}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""
