"""A system with a known capacity, instead of a cluster: the small double that the search is tested with, and explained by.

One server works records off in order of their creation, `capacity` a second, after a fixed delay. While it stalls it does nothing. A probe
of it is arithmetic and takes no time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from hibench.searching.steady import SteadyVerdict, Stretch, judged

_TICK_S = 0.01


@dataclass
class Simulated:
    """Args:
    capacity: records a second.
    delay_ms: of every answer, where nothing waits.
    window_s: answers come when a window closes; 0: for every record.
    stalls: for each probe in turn, the (start, length) of a pause in seconds, or None; none left: none.
    """

    capacity: float
    delay_ms: float = 2.0
    window_s: float = 0.0
    stalls: list[tuple[float, float] | None] = field(default_factory=list)
    rates: list[int] = field(default_factory=list)

    def probe(self, rate: int, warm_up_s: float, seconds: float, limit_ms: float) -> SteadyVerdict:
        """The verdict over a probe at `rate`; the rates that were asked for stay in `rates`."""
        self.rates.append(rate)
        stall = self.stalls.pop(0) if self.stalls else None
        latency = self.latency(rate, warm_up_s + seconds, stall)
        return judged(latency, Stretch(int(warm_up_s * 1e6), int((warm_up_s + seconds) * 1e6)), rate, limit_ms)

    def latency(self, rate: int, seconds: float, stall: tuple[float, float] | None = None) -> pa.Table:
        """As a probe's record has it; records that are created together in a hundredth of a second are one row."""
        created = np.arange(0.0, seconds, _TICK_S)
        done = self._after(stall, created, np.full(len(created), rate * _TICK_S))
        if self.window_s:
            closing = np.arange(self.window_s, seconds, self.window_s)
            created, done = closing, done[np.minimum(len(done) - 1, np.ceil(closing / _TICK_S - 1e-6).astype(int))]
        micros = np.rint(created * 1e6).astype(np.int64), np.rint(done * 1e6 + self.delay_ms * 1e3).astype(np.int64)
        return pa.table({"created_us": micros[0], "delivered_us": micros[1], "answers": np.full(len(created), 10)})

    def _after(self, stall: tuple[float, float] | None, created: np.ndarray, records: np.ndarray) -> np.ndarray:
        """When each group of records is worked off: one after the other, none before it is there, none while the server stalls."""
        free, done = 0.0, np.empty(len(created))
        for i, (moment, count) in enumerate(zip(created.tolist(), records.tolist(), strict=True)):
            start = max(free, moment)
            if stall is not None and stall[0] <= start < sum(stall):
                start = sum(stall)
            free = done[i] = start + count / self.capacity
        return done
