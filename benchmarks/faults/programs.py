"""Programs that publish the rows of `python -m benchmarks faults --published`, and may be killed at any moment.

`python -m benchmarks.faults.programs URL STREAM PART ROWS RATE` publishes every PROGRAMS-th row as publisher `part-PART`, from the row on
that counts already, and closes. It says in a line that it is open, and begins when it is told so in a line: a partition that opens when
another has begun is behind the watermark, and its first rows are late.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa

from cep.errors import ClusterError
from cep.model.streams import Stream
from driver import Cluster, stream

GROUPS, WINDOW_MS, PROGRAMS, BATCH_ROWS = 500, 20_000, 2, 2_000
LATE_EVERY, LATE_MS, BAD_EVERY = 1009, 5_000, 2003
NONSENSE = -(1 << 62)
"""No event time, as milliseconds in text."""


def is_late(i: np.ndarray) -> np.ndarray:
    """bool[n]: is row number i so far behind? Where every row before it is there, whichever part of them its publisher or file has."""
    found: np.ndarray = (i % LATE_EVERY == 17) & (i >= 2 * WINDOW_MS) & ~is_bad(i)
    return found


def is_bad(i: np.ndarray) -> np.ndarray:
    """bool[n]: has it no event time?"""
    found: np.ndarray = i % BAD_EVERY == 5
    return found


def records_of(i: np.ndarray) -> pa.Table:
    """Rows of these numbers."""
    t = pa.array(i - LATE_MS * is_late(i), pa.int64(), mask=is_bad(i))
    return pa.table({"t": t, "key": i * 7919 % GROUPS, "value": i % 1000})


def declared(name: str) -> Stream:
    return stream(name, t="timestamp[ms]?", key=int, value=int, event_time="t", disorder="1s")


def publish(url: str, name: str, part: int, rows: int, rate: int) -> None:
    own = np.arange(part, rows, PROGRAMS, dtype=np.int64)
    with Cluster(url).publisher(name, name=f"part-{part}") as out:
        first = at = out.accepted()
        print("open", flush=True)
        sys.stdin.readline()
        began = time.monotonic()
        while at < len(own):
            batch = records_of(own[at : at + BATCH_ROWS])
            out.send(batch.set_column(0, "t", batch["t"].cast(pa.timestamp("ms"))))
            at += len(batch)
            time.sleep(max(0.0, began + (at - first) * PROGRAMS / rate - time.monotonic()))


class Programs:
    """Keeps them up until each has ended by itself; with a `rate` of 0 there are none. None begins before all are open."""

    def __init__(self, url: str, name: str, rows: int, rate: int) -> None:
        self._given = url, name, rows, rate
        self._running = {part: self._start(part) for part in range(PROGRAMS if rate else 0)}
        for part, process in self._running.items():
            assert process.stdout is not None
            if not process.stdout.readline():
                self.close()
                raise ClusterError(f"program {part} ended with status {process.returncode} before its publisher was open")
        for process in self._running.values():
            self._let_begin(process)

    def _start(self, part: int) -> subprocess.Popen[bytes]:
        url, name, rows, rate = self._given
        command = [sys.executable, "-m", "benchmarks.faults.programs", url, name, str(part), str(rows), str(rate)]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    @staticmethod
    def _let_begin(process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        process.stdin.write(b"begin\n")
        process.stdin.flush()

    def keep_up(self) -> None:
        for part, process in list(self._running.items()):
            if (code := process.poll()) == 0:
                self._leave(self._running.pop(part))
            elif code is not None:
                self._leave(process)
                self._running[part] = self._start(part)
                self._let_begin(self._running[part])

    @staticmethod
    def _leave(process: subprocess.Popen[bytes]) -> None:
        """Ends it, if it has not ended, and closes its pipes."""
        process.kill()
        process.communicate()

    def victim(self, choose: random.Random) -> int | None:
        alive = [process.pid for process in self._running.values() if process.poll() is None]
        return choose.choice(alive) if alive else None

    def close(self) -> None:
        for process in self._running.values():
            self._leave(process)


if __name__ == "__main__":
    url_, name_, *numbers = sys.argv[1:]
    publish(url_, name_, *map(int, numbers))
