"""Simulated runs of queries that recover, with what is killed in them (`tests/simulation/`)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from simulation.faults import EVERYTHING, FILL, Fault
from simulation.schedule import MS, ScheduleTrace
from simulation.seeds import SeedRun, run_seed
from simulation.workload import CHANGED_FROM, GROUPS_FROM, PUBLISHED_FROM, SEEDS_OF_A_QUERY, has_groups, is_changed

#: So that most instance managers die while the query is at work, some of them while it recovers.
KILLS = [Fault("kill instance manager", after_ms * MS) for after_ms in (700, 400, 50, 900, 1500)]
#: So seldom that several checkpoints lie between two, and what is restored is in several pieces.
SELDOM = [Fault("kill instance manager", after_ms * MS) for after_ms in (4_000, 3_000, 3_000)]
#: The program that publishes is killed right behind an instance manager, so that what it has sent since is in its ring alone.
PROGRAMS = [Fault(("kill instance manager", "kill writer")[i % 2], ms * MS) for i, ms in enumerate((500, 10, 1200, 5, 900, 20, 700, 2))]
#: One recovery behind the other, and processes that sleep through some of them.
OFTEN = [
    Fault(("kill instance manager", "kill instance manager", "freeze briefly")[i % 3], after_ms * MS)
    for i, after_ms in enumerate((300, 250, 30, 300, 200, 50, 400, 300, 20, 500, 250, 60, 300, 300, 40, 600, 300, 30))
]
#: Twice the whole cluster, ZooKeeper too, the second time perhaps before it has come back.
COLD = [Fault(EVERYTHING, after_ms * MS) for after_ms in (800, 5_000)]
#: The disk is full while instance managers die, and their query recovers.
FULL = [
    Fault(kind, after_ms * MS)
    for kind, after_ms in (
        (FILL, 1_200),
        ("kill instance manager", 300),
        (FILL, 2_500),
        ("kill orchestrator", 100),
        ("kill instance manager", 400),
        (FILL, 3_000),
        ("kill instance manager", 50),
    )
]
#: Seeds of queries that recover (`simulation.workload`).
SEEDS = tuple(seed for seed in range(1_200) if seed // 4 % 3 == 2)
#: Likewise over published streams.
PUBLISHED = tuple(seed for seed in range(SEEDS_OF_A_QUERY * PUBLISHED_FROM, 800) if seed // SEEDS_OF_A_QUERY % 3 == 1)


def killed(seed: int, resumes: bool | None = False) -> SeedRun:
    """`resumes`: its readers die too, and others go on from their tokens."""
    return run_seed(seed, ScheduleTrace(), KILLS, resumes)


def told_at_once(seed: int, faults: Sequence[Fault] | None = KILLS, resumes: bool = False) -> SeedRun:
    """The same of a query that tells its answers as they are made."""
    return run_seed(seed, ScheduleTrace(), faults, resumes, at_once=True)


class Search:
    """For runs in which something is wrong. `seconds`: how long among seeds of which none is known to find it; None: from that one on."""

    def __init__(self) -> None:
        self.seconds: float | None = None
        self.runs, self.found = 0, ""

    def first_wrong(self, first: int, others: Iterable[int], run: Callable[[int], SeedRun]) -> str:
        began, self.found = time.monotonic(), ""
        seeds = [first, *others] if self.seconds is None else [seed for seed in others if seed != first]
        for self.runs, seed in enumerate(seeds, 1):
            if self.seconds is not None and time.monotonic() - began > self.seconds:
                return ""
            if wrong := run(seed).wrong:
                self.found = f"seed {seed}: {wrong[0]}"
                return wrong[0]
        return ""


SEARCH = Search()


def first_wrong(
    first: int,
    others: Iterable[int] = SEEDS,
    faults: Sequence[Fault] = KILLS,
    resumes: bool | None = False,
    at_once: bool | None = None,
) -> str:
    """What is wrong with the first run that something is wrong with; empty: with none. `first` finds it as long as strategies and turns
    stay."""
    return SEARCH.first_wrong(first, others, lambda seed: run_seed(seed, ScheduleTrace(), faults, resumes, at_once))


#: Seeds of queries with many groups, whose checkpoints write what has changed.
GROUPS = tuple(seed for seed in range(SEEDS_OF_A_QUERY * GROUPS_FROM, SEEDS_OF_A_QUERY * GROUPS_FROM + 1_000) if has_groups(seed))

#: Seeds of queries that are scaled and upgraded while they run.
CHANGED = tuple(seed for seed in range(SEEDS_OF_A_QUERY * CHANGED_FROM, SEEDS_OF_A_QUERY * CHANGED_FROM + 1_000) if is_changed(seed))


def changed_wrong(first: int, faults: Sequence[Fault] = ()) -> str:
    """What is wrong with the first run, of a query that is changed, that something is wrong with."""
    return first_wrong(first, CHANGED, faults, resumes=None)
