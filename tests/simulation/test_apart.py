"""Queries over files that have keys of their own, whose replicas read them apart and recover.

Tests `simulation/apart.py`.
"""

from __future__ import annotations

from itertools import islice

from simulation.apart import dealt
from simulation.schedule import ScheduleTrace
from simulation.seeds import run_seed
from simulation.workload import APART_FROM, SEEDS_OF_A_QUERY, reads_apart, workload
from tests.support.recovering import OFTEN

FIRST = SEEDS_OF_A_QUERY * APART_FROM
APART = (seed for seed in range(FIRST, FIRST + 1_000) if reads_apart(seed) and workload(seed).query.options.replicas > 1)


def test_answers_are_the_references_though_processes_die() -> None:
    recoveries = 0
    for seed in islice(APART, 6):
        found = run_seed(seed, ScheduleTrace(), OFTEN)
        assert found.wrong == []
        recoveries += found.recoveries
    assert recoveries > 3


def test_rows_of_a_key_are_in_one_file_and_none_is_gone() -> None:
    several = next(work for work in map(workload, APART) if len(work.files) > 1 and all(work.files.values()))
    (stream,) = several.query.streams
    mixed = dict(zip(several.files, reversed(several.files.values()), strict=True))
    again = dealt(stream, stream.partitioned_by, mixed)
    assert sorted(b"".join(again.values()).splitlines()) == sorted(b"".join(mixed.values()).splitlines())
