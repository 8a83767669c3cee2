"""Runs in which buckets move from instance to instance."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from cep.dataflow.local import LocalRun
from cep.plan.moving import heads
from cep.plan.physical import PhysicalPlan
from tests.running import NOW_US, Ran, plan_of, ran_of, scripts_of
from tests.strategies import Case, Execution


@dataclass(frozen=True)
class Move:
    """`turns` after the one before it a table is named, bucket b -> instance `period[b % len]`, of the subquery that `head` chooses
    among those that have one."""

    turns: int
    head: int
    period: tuple[int, ...]

    def of(self, plan: PhysicalPlan) -> tuple[int, str, list[int]]:
        names = heads(plan)
        head = names[self.head % len(names)]
        n = plan.subquery(head).parallelism
        return self.turns, head, [self.period[b % len(self.period)] % n for b in range(plan.buckets)]


def moves() -> st.SearchStrategy[list[Move]]:
    """Several in a run, some of them back to where the buckets came from."""
    periods = st.lists(st.integers(0, 3), min_size=1, max_size=8).map(tuple)
    return st.lists(st.builds(Move, st.integers(0, 12), st.integers(0, 3), periods), min_size=1, max_size=5)


def run_moving(case: Case, execution: Execution, drawn: Sequence[Move]) -> tuple[Ran, LocalRun]:
    """One run of `case` with those moves, as many as its plan allows: none where no subquery has a table."""
    made = plan_of(case.query, execution)
    scripts = scripts_of(case, made, execution, random.Random(execution.seed))
    local = LocalRun(made, scripts, execution.credit_bytes, lambda: NOW_US, probe_rows=1 + execution.seed % 8)
    outcome = local.run_moving([move.of(made) for move in drawn] if heads(made) else [], execution.seed)
    return ran_of(outcome), local
