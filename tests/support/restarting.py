"""A run that pauses at a Barrier, and goes on from its snapshot with another plan."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

from cep.dataflow.local import BARRIER, LocalRun
from cep.dataflow.local_wires import Script
from cep.dataflow.sources.publishers import Closing
from cep.elements import MIN_TIME
from tests.strategies import Case, Execution
from tests.support.relocating import run_until_barrier
from tests.support.running import NOW_US, Ran, limits, plan_of, ran_of, readers_of, scripts_of


def run_with_restart(case: Case, before: Execution, after: Execution, turns: int) -> Ran:
    """`turns` turns as `before` says, then the rest, from the state of all instances, as `after` says."""
    choose = random.Random(before.seed)
    first_plan, second_plan = plan_of(case.query, before), plan_of(case.query, after)
    first = LocalRun(first_plan, scripts_of(case, first_plan, before, choose), before.credit_bytes, lambda: NOW_US, **limits(before))
    part = ran_of(run_until_barrier(first, turns, before.seed))
    rest = {name: _dealt(first, name, readers_of(second_plan, name), choose) for name in second_plan.streams}
    second = LocalRun(second_plan, rest, after.credit_bytes, lambda: NOW_US, **limits(after))
    second.restore(first)
    return _both(part, ran_of(second.run(after.seed)))


def run_with_pause(case: Case, execution: Execution, turns: int) -> Ran:
    """It stands still behind a Barrier, and then goes on."""
    choose, plan = random.Random(execution.seed), plan_of(case.query, execution)
    run = LocalRun(plan, scripts_of(case, plan, execution, choose), execution.credit_bytes, lambda: NOW_US, **limits(execution))
    run_until_barrier(run, turns, execution.seed)
    for instance in run.instances:
        run.movement(instance).checkpoint.go_on(BARRIER)
    return ran_of(run.run(execution.seed))


def _dealt(run: LocalRun, stream: str, readers: int, choose: random.Random) -> dict[str, Script]:
    """What was not read, dealt to other readers."""
    dealt: dict[str, Script] = {}
    left = run.unread(stream)
    last = max(left)
    for name, batches in left.items():
        script: dict[int, list[tuple[object, int, int]]] = {reader: [] for reader in range(readers)}
        for each in batches:
            script[choose.randrange(readers)].append(each)
        for reader in range(readers):
            script[reader].append((Closing(name, name == last), 0, MIN_TIME))
        dealt[name] = script
    return dealt


def _both(first: Ran, second: Ran) -> Ran:
    outputs = {name: [*first.outputs.get(name, ()), *rows] for name, rows in second.outputs.items()}
    return replace(second, outputs=outputs, late=first.late + second.late, dead=Counter(first.dead) + Counter(second.dead))
