"""Runs in which buckets move from instance to instance."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hypothesis import reject
from hypothesis import strategies as st

from cep.dataflow.local import LocalRun
from cep.dataflow.local_wires import Script
from cep.errors import QueryError
from cep.plan.moving import heads
from cep.plan.physical import PhysicalPlan
from tests.strategies import Case, Execution
from tests.support import relocating
from tests.support.running import NOW_US, Ran, limits, plan_of, ran_of, scripts_of


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


@st.composite
def moves(draw: st.DrawFn, execution: Execution) -> tuple[Execution, list[Move]]:
    """A way of running a query in which much moves: several instances, small batches and, half of the time, one of them outstanding
    on a channel; several moves, some of them back to where the buckets came from. Made from a seed, since what Hypothesis draws
    is mostly small and much the same, and then nothing moves."""
    return moves_of(random.Random(draw(st.integers(0, 2**32))), execution, 6)


def moves_of(choose: random.Random, execution: Execution, moves_max: int) -> tuple[Execution, list[Move]]:
    n, buckets = choose.randint(2, 4), choose.choice((4, 16, 4096))
    options = replace(execution.options, parallelism=n, buckets=buckets)
    how = replace(
        execution,
        options=options,
        batch_rows=tuple(choose.randint(1, 3) for _ in range(3)),
        table=_table(choose, n, buckets),
        credit_bytes=choose.choice((1, 1, 1000, 1 << 20)),
        seed=choose.randrange(1 << 30),
    )
    periods = [tuple(choose.randrange(n) for _ in range(choose.randint(1, 8))) for _ in range(3)]
    return how, [Move(choose.randint(0, 6), choose.randrange(4), choose.choice(periods)) for _ in range(choose.randint(1, moves_max))]


def _table(choose: random.Random, instances: int, buckets: int) -> tuple[int, ...]:
    return tuple(choose.randrange(instances) for _ in range(buckets))


def run_moving(case: Case, execution: Execution, drawn: Sequence[Move]) -> tuple[Ran, LocalRun]:
    """One run of `case` with those moves, as many as its plan allows: none where no subquery has a table."""
    made = plan_of(case.query, execution)
    scripts = scripts_of(case, made, execution, random.Random(execution.seed))
    local = built(made, scripts, execution)
    outcome = relocating.run_moving(local, [move.of(made) for move in drawn] if heads(made) else [], execution.seed)
    return ran_of(outcome), local


def built(made: PhysicalPlan, scripts: Mapping[str, Mapping[str, Script]], execution: Execution) -> LocalRun:
    """Rejects the example where the compiler finds that text would be made of state, which the planner has not."""
    try:
        return LocalRun(made, scripts, execution.credit_bytes, lambda: NOW_US, **limits(execution))
    except QueryError as error:
        if "over the state" in error.message:
            reject()
        raise
