"""One simulated run: what a seed draws happens, and what has come of it."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from simulation.cluster import MovesMade, simulated
from simulation.faults import Fault
from simulation.schedule import ScheduleTrace


@dataclass
class SeedRun:
    """What came of one seed."""

    seed: int
    digest: str
    events: int
    moved: MovesMade
    faults: Counter[str]
    recoveries: int
    wrong: list[str]
    cuts: int = 0  # of the network between hosts
    left: int = 0  # hosts

    def __str__(self) -> str:
        moves = f"{self.moved.buckets} moves of buckets, {self.moved.instances} of instances, {self.cuts} cuts, {self.left} hosts left"
        faults = ", ".join(f"{count} x {kind}" for kind, count in sorted(self.faults.items())) or "no faults"
        wrong = "".join(f"\n  WRONG {each}" for each in self.wrong)
        return f"seed {self.seed}: {self.events} events, {moves}, {faults}, {self.recoveries} recoveries, trace {self.digest}{wrong}"


def run_seed(
    seed: int,
    trace: ScheduleTrace,
    faults: Sequence[Fault] | None = None,
    resumes: bool | None = None,
    at_once: bool | None = None,
    moves: int | None = None,
) -> SeedRun:
    """`faults`: those that happen; `resumes`: do readers go on from tokens? `at_once`: are answers told as they are made? `moves`: so
    many are asked for. None: as the seed says."""
    with simulated(seed, trace, faults, resumes, at_once, moves) as cluster:
        try:
            wrong = cluster.run()
        except Exception as error:
            wrong = [f"{error!r}\n{cluster.described()}\n{''.join(traceback.format_exception(error))}"]
    done = cluster.faults.done, cluster.recoveries, wrong, cluster.network.hosts.cuts, cluster.leaving.done
    return SeedRun(seed, trace.digest, trace.count, cluster.moved, *done)
