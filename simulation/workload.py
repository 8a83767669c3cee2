"""What a seed asks of a cluster: a random query with its input, a way to run it, and what is moved meanwhile.

Four seeds in a row share a query, so that what was compiled for one serves the others.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from hypothesis import strategies as st

from cep.model.query import Query
from simulation.growth import Growth, as_known, drawn_growth
from tests.reference import Answer, Partition
from tests.strategies import executions, inputs_of, published_queries
from tests.strategies.seeded import OPERATORS_MAX, drawn
from tests.support.deployed import named, partition_number
from tests.support.moving import moves_of
from tests.support.running import expected_of

SEEDS_OF_A_QUERY = 4
QUERY = "q"
#: What the inbound channels of an instance manager may hold together: room for everything, for some, for a batch at a time.
BUDGETS_BYTES = (64 << 20, 1 << 12, 64, 1)
MOVES = (0, 2, 5, 12)
HOSTS = (1, 1, 2, 3)


@dataclass(frozen=True)
class DrawnWorkload:
    """`inputs`: by stream, its partitions; each is published by a publisher of its own (`publisher_name`). `growths`: what
    these declare."""

    query: Query
    inputs: Mapping[str, tuple[Partition, ...]]
    growths: Mapping[str, tuple[Growth, ...]]
    batch_rows: tuple[int, ...]
    orchestrators: int
    instance_managers: int
    budget_bytes: int
    moves: int
    hosts: int

    @property
    def expected(self) -> Answer:
        """The reference's answer. A partition is numbered as its publisher's name says."""
        parts = {name: [replace(part, index=partition_number(publisher_name(part))) for part in each] for name, each in self.inputs.items()}
        return expected_of(self.query, parts)


def publisher_name(partition: Partition) -> str:
    return f"p{partition.index}"


def workload(seed: int) -> DrawnWorkload:
    number, choose = seed // SEEDS_OF_A_QUERY, random.Random(f"workload {seed}")
    query, moves = _drawn_query(number), choose.choice(MOVES)
    inputs, execution = drawn(st.tuples(inputs_of(query), executions()), f"{number}-{seed}")
    if moves:  # small batches and several instances, for else hardly anything would move while it runs
        execution, _ = moves_of(choose, execution, 1)
    growing, streams = random.Random(f"growth {seed}"), {stream.name: stream for stream in query.streams}
    growths = {name: tuple(drawn_growth(growing, streams[name], len(part.rows)) for part in parts) for name, parts in inputs.items()}
    known = {
        name: tuple(as_known(growth, streams[name], part, execution.batch_rows) for growth, part in zip(growths[name], parts, strict=True))
        for name, parts in inputs.items()
    }
    return DrawnWorkload(
        named(query, execution, QUERY),
        known,
        growths,
        execution.batch_rows,
        choose.randint(1, 2),
        choose.randint(1, 4),
        choose.choice(BUDGETS_BYTES),
        moves,
        random.Random(f"hosts {seed}").choice(HOSTS),
    )


@lru_cache(maxsize=2)
def _drawn_query(number: int) -> Query:
    return drawn(published_queries(OPERATORS_MAX), str(number))


__all__ = ["QUERY", "DrawnWorkload", "publisher_name", "workload"]
