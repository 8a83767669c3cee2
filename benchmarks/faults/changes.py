"""What else happens to the query of `python -m benchmarks faults`: it is scaled, its instances move, and instance managers freeze.

Rules:
1. A change is asked for in a thread, as a program does, and waited for there; processes are killed meanwhile. There is one at a time.
2. It comes about; or it is refused by name, since the query recovers or ends just then; or it has no answer, since the orchestrator was
   killed between question and answer: then it came about, or not. Anything else is wrong.
3. A frozen process goes on after a part of a session or after more than one, by which time another one may be in its place.
"""

from __future__ import annotations

import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from cep.errors import CepError, Conflict, QueryError, QueryFailed
from driver import Running
from driver.rest import Unreachable

MIDDLE = "SQ2"
SIZES = (1, 2, 3, 4)
SHORT, LONG = "freeze", "freeze for longer than a session"
FROZEN = {SHORT: (0.1, 0.7), LONG: (1.1, 1.6)}  # sessions


class Changes:
    """Of one query. `done` counts, `wrong` says what must not be."""

    def __init__(self, running: Running, choose: random.Random, done: Counter[str], wrong: list[str]) -> None:
        self.running, self.choose, self.done, self.wrong = running, choose, done, wrong
        self._thread: threading.Thread | None = None

    @property
    def under_way(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def begin(self, placed: Sequence[Mapping[str, Any]], managers: int) -> str:
        """Asks for one, unless one is under way; says which."""
        if self.under_way:
            return ""
        if self.choose.random() < 0.5:
            size = self.choose.choice(SIZES)
            return self._ask("scaled", f"{MIDDLE} is to have {size}", lambda: self.running.scale({MIDDLE: size}))
        place = self.choose.choice(placed)
        subquery, index = place["subquery"], place["instance"]
        im = self.choose.choice([name for i in range(managers) if (name := f"im-{i}") != place["im"]])
        return self._ask("moved", f"{subquery}/{index} is to be on {im}", lambda: self.running.move(subquery, index, im))

    def _ask(self, what: str, said: str, act: Callable[[], None]) -> str:
        self._thread = threading.Thread(target=self._await, args=(what, said, act), daemon=True)
        self._thread.start()
        return said

    def _await(self, what: str, said: str, act: Callable[[], None]) -> None:
        try:
            act()
        except (Conflict, QueryError):
            self.done[f"{what}: refused"] += 1
        except Unreachable:
            self.done[f"{what}: no answer"] += 1
        except QueryFailed:
            pass  # its reader says so
        except CepError as error:
            self.wrong.append(f"{said}: {error}")
        else:
            self.done[what] += 1

    def end(self, seconds: float) -> None:
        if self._thread is not None:
            self._thread.join(seconds)


class Freezes:
    """Of processes, each of which goes on by itself."""

    def __init__(self, choose: random.Random, session_s: float) -> None:
        self.choose, self.session_s = choose, session_s
        self._timers = list[threading.Timer]()

    @property
    def under_way(self) -> bool:
        return any(timer.is_alive() for timer in self._timers)

    def begin(self, pid: int) -> str | None:
        """Says for how long, in words; None: it is gone."""
        how = self.choose.choice(list(FROZEN))
        try:
            process = os.pidfd_open(pid)  # by its number another process could be meant when it is to go on
            signal.pidfd_send_signal(process, signal.SIGSTOP)
        except ProcessLookupError:
            return None
        timer = threading.Timer(self.choose.uniform(*FROZEN[how]) * self.session_s, _go_on, (process,))
        self._timers.append(timer)
        timer.start()
        return how

    def end(self) -> None:
        for timer in self._timers:
            timer.join()


def _go_on(process: int) -> None:
    with suppress(ProcessLookupError):  # it was killed meanwhile
        signal.pidfd_send_signal(process, signal.SIGCONT)
    os.close(process)
