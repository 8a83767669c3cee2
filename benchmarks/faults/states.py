"""`python -m benchmarks state`: what a large state costs a query that recovers, and how soon it goes on when an instance manager is killed.

Rules:
1. The query is that of `elastic`: one subquery counts rows by key since the beginning, which is the state, and its answers are told at
   once. Rows come at a rate, so the load is what is printed.
2. What checkpoints cost is measured on the query that runs: so long with its interval, then so long with one that is longer than that, and
   with the first again. CPU time is that of the instance managers; a gap is the longest time without a new answer.
3. A recovery is from `kill -9` of the instance manager that has the state until the first answer that had not been given out.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
import typer

from benchmarks.faults.elastic import HANGS_S, KEY_BYTES, FlowingQuery, keys_of, query
from benchmarks.metering import metered, stopwatch
from cep.config import STATE_LIMIT_BYTES
from driver import LocalCluster

NEVER = "1h"
MEMORY_BYTES = 96  # of a key at most: 32 to 64 in the table, and 32 more in the one before while that grows
BAR_S = 2.0


@dataclass(frozen=True)
class StateCost:
    """Of a stretch of time. `load`: CPU seconds a second of the busiest instance manager; `cpu`: of all of them."""

    interval: str
    cpu: float
    load: float
    gap_s: float
    took_s: float
    interval_s: float

    def __str__(self) -> str:
        taken = f"asked for every {self.interval}, taken every {self.interval_s:.1f} s in {self.took_s:.3f} s"
        return f"checkpoints {taken}: {self.cpu:.3f} CPU s a second, load {self.load:.2f}, longest gap {self.gap_s:.2f} s"


@dataclass
class StateReport:
    state_bytes: int = 0
    costs: list[StateCost] = field(default_factory=list)
    recovered_s: list[float] = field(default_factory=list)
    windows: int = 0
    wrong: str = ""

    def lines(self) -> Iterator[str]:
        yield f"state of {self.state_bytes / 1e9:.2f} GB"
        yield from map(str, self.costs)
        if len(self.costs) > 2:
            with_, without = (self.costs[0].cpu + self.costs[2].cpu) / 2, self.costs[1].cpu
            yield f"overhead of checkpoints: {with_ / without - 1:.1%} of the instance managers' CPU time"
        if self.recovered_s:
            p50, worst = np.percentile(self.recovered_s, [50, 100])
            held = "below" if p50 < BAR_S else "NOT below"
            yield f"{len(self.recovered_s)} recoveries: p50 {p50:.2f} s ({held} {BAR_S:g} s), worst {worst:.2f} s"
        yield f"{self.windows:,} answers compared: " + (f"WRONG: {self.wrong}" if self.wrong else "equal")


class StateRun:
    """One query, from its start to its end."""

    def __init__(self, cluster: LocalCluster, parallelism: int, keys: int, rate: int, say: Callable[[str], None]) -> None:
        self.cluster, self.parallelism, self.say = cluster, parallelism, say
        self.flow = FlowingQuery(cluster, query("1s", parallelism), keys, rate)
        self.result = StateReport()

    def run(self, seconds: float, kills: int, seed: int) -> StateReport:
        choose = random.Random(seed)
        with self.flow.flowing() as rows:
            self.say(f"{rows.rows:,} rows, one of each key")
            self.flow.settle()
            self.result.state_bytes = self.flow.keys * KEY_BYTES
            for interval in ("1s", NEVER, "1s") if seconds else ():
                self._cost(interval, seconds)
            for _ in range(kills):
                self.flow.settle()
                time.sleep(choose.random() * self.flow.checkpoints["interval_s"])
                self._kill()
        self.result.windows, self.result.wrong = self.flow.wrong(rows)
        return self.result

    def _cost(self, interval: str, seconds: float) -> None:
        if self.result.costs:
            self.flow.running.upgrade(query(interval, self.parallelism))
        if interval != NEVER:
            self.flow.settle()
        time.sleep(3.0)  # what was made again is through
        began = time.monotonic()
        with metered(self.cluster) as used:
            time.sleep(seconds)
        gap, known = self.flow.gap(began, time.monotonic()), self.flow.checkpoints
        each = [used.cpu[name] / used.wall_s for name in used.cpu if name.startswith("im-")]
        cost = StateCost(interval, sum(each), max(each), gap, known["took_us"] / 1e6, known["interval_s"])
        self.result.costs.append(cost)
        self.say(str(cost))

    def _kill(self) -> None:
        placed = self.flow.running.status()["placed"]
        name = next(each["im"] for each in placed if each["subquery"] == "SQ2")
        before, pid = self._attempts(), dict(self.cluster.processes())[name]  # which waits for the supervisor
        began = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        while self._attempts() == before and time.monotonic() - began < HANGS_S:
            time.sleep(0.005)
        seen = time.monotonic()
        while (first := self.flow.reader.first_after(seen)) is None and time.monotonic() - began < HANGS_S:
            time.sleep(0.005)
        self.result.recovered_s.append((first or time.monotonic()) - began)
        self.say(f"{name} killed: the first new answer after {self.result.recovered_s[-1]:.2f} s")

    def _attempts(self) -> int:
        return int(self.flow.running.status()["recovery"]["attempts"])


def command(
    gb: Annotated[float, typer.Option(min=0.001, help="About what it takes in a checkpoint; 1.3 to 2.7 times that in memory.")] = 1.0,
    parallelism: Annotated[int, typer.Option(min=1, help="Of the subquery that has it.")] = 1,
    rate: Annotated[int, typer.Option(min=1000, help="Rows a second.")] = 20_000,
    seconds: Annotated[float, typer.Option(min=0, help="How long costs are looked at, each time; 0: not at all.")] = 60.0,
    kills: Annotated[int, typer.Option(min=0, help="How many.")] = 5,
    instances: Annotated[int, typer.Option(min=1, help="Instance managers.")] = 2,
    seed: Annotated[int, typer.Option(help="The same one kills at the same moments of an interval.")] = 7,
) -> None:
    """A large state: what its checkpoints cost, and how soon it is there again. Leaves status 1 if an answer is missing or another."""
    say = stopwatch()
    limit = max(STATE_LIMIT_BYTES, round(gb * MEMORY_BYTES / KEY_BYTES * 1e9))
    with LocalCluster(instances=instances, state_limit_bytes=limit) as cluster:
        result = StateRun(cluster, parallelism, keys_of(round(gb * 1000)), rate, say).run(seconds, kills, seed)
    print("\n".join(result.lines()))
    if result.wrong:
        raise typer.Exit(1)
