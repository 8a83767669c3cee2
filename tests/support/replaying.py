"""A run that takes a checkpoint while it runs, goes on, and is killed; another, of another plan, goes on from the checkpoint.

killed run     rows ── Barrier ── given out behind it ── killed
restored run          └─ everything behind the Barrier, again
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

from cep.dataflow.local import BARRIER, LocalRun, Outcome
from cep.dataflow.local_wires import Script
from cep.dataflow.sources.published import PublishedSource
from cep.dataflow.sources.publishers import Closing, Published
from cep.elements import MIN_TIME, Barrier, Batch, CheckpointBarrier
from tests.reference.equal import _identity as identity
from tests.strategies import Case, Execution
from tests.support.running import NOW_US, limits, plan_of, readers_of, rows, scripts_of

Rows = dict[str, Counter[tuple[Any, ...]]]  # by stream
TURNS_MAX = 100_000


def killed_and_restored(case: Case, before: Execution, after: Execution, choose: random.Random) -> tuple[Rows, Rows, Rows]:
    """What the killed run gave out before the Barrier and behind it, and what the restored one gives out."""
    before, after = _small(before, choose), _small(after, choose)
    first_plan, second_plan = plan_of(case.query, before), plan_of(case.query, after)
    scripts = scripts_of(case, first_plan, before, choose)
    first = LocalRun(first_plan, scripts, before.credit_bytes, lambda: NOW_US, **limits(before))
    _turns(first, choose, choose.randint(0, 6))
    unread = _checkpoint(first, choose)
    snapshots = first.snapshots(BARRIER)
    _turns(first, choose, choose.choice((2, 5, 20, TURNS_MAX)))  # and now it is killed
    given, behind = _around_barrier(first)
    rest = {
        stream: _dealt(unread.get(stream, {}), first, stream, readers_of(second_plan, stream), choose) for stream in second_plan.streams
    }
    second = LocalRun(second_plan, rest, after.credit_bytes, lambda: NOW_US, **limits(after))
    second.take_snapshots(snapshots)
    second.run(after.seed)
    return given, behind, _around_barrier(second)[0]


def _small(execution: Execution, choose: random.Random) -> Execution:
    """Small batches and little credit, so that instances are far apart."""
    n = choose.randint(1, 4)
    return replace(
        execution,
        batch_rows=tuple(choose.randint(1, 3) for _ in range(3)),
        credit_bytes=choose.choice((1, 1, 1000, 1 << 20)),
        options=replace(execution.options, parallelism=n),
        table=tuple(choose.randrange(n) for _ in execution.table),
    )


def _turns(run: LocalRun, choose: random.Random, most: int) -> None:
    for _ in range(most):
        if all(i.done and not any(o.blocked for o in i.outputs) for i in run.instances):
            return
        run.turn(choose)


def _checkpoint(run: LocalRun, choose: random.Random) -> dict[str, dict[str, list[tuple[Published, int, int]]]]:
    """Each source hears of the Barrier at a turn of its own. By stream and publisher, what none has read by then."""
    untold = [i for i in run.instances if i.sources]
    unread: dict[str, dict[str, list[tuple[Published, int, int]]]] = {}
    for _ in range(TURNS_MAX):
        for i in [i for i in untold if i.done or choose.random() < 0.4]:
            untold.remove(i)
            for source, _ in i.sources:
                assert isinstance(source, PublishedSource)
                for name, publisher in source.publishers.items():
                    queue = [(_again(e), size, w) for e, size, w in publisher.inbox.queue if isinstance(e, Published)]
                    unread.setdefault(source.stream, {}).setdefault(name, []).extend(queue)
            if not i.done:
                run.movement(i).begin(CheckpointBarrier(BARRIER))
        if not untold and run.is_past(BARRIER):
            return unread
        run.turn(choose)
    raise RuntimeError("the Barrier does not get through")


def _again(element: Published) -> Published:
    """As it was sent: its readers stamp its rows."""
    batch = element.batch
    copy = Batch(dict(batch.columns), batch.time.copy(), batch.origin, batch.created, batch.source)
    return Published(copy, element.max_time, element.record)


def _dealt(
    unread: dict[str, list[tuple[Published, int, int]]], run: LocalRun, stream: str, readers: int, choose: random.Random
) -> dict[str, Script]:
    """To other readers."""
    names = sorted(run.wires.published.get(stream, {}))
    last = choose.choice(names)
    dealt: dict[str, Script] = {}
    for name in names:
        script: dict[int, list[tuple[object, int, int]]] = {reader: [] for reader in range(readers)}
        for each in sorted(unread.get(name, ()), key=lambda each: each[0].record):
            script[choose.randrange(readers)].append(each)
        for reader in range(readers):
            script[reader].append((Closing(name, name == last), 0, MIN_TIME))
        dealt[name] = script
    return dealt


def _around_barrier(run: LocalRun) -> tuple[Rows, Rows]:
    """Rows given out before the Barrier and behind it."""
    schemas = run.collect(Outcome()).schemas
    given: Rows = {stream: Counter() for stream in schemas}
    behind: Rows = {stream: Counter() for stream in schemas}
    for (stream, _), sink in run.wires.sinks.items():
        cut = next((k for k, e in enumerate(sink.elements) if isinstance(e, Barrier)), len(sink.elements))
        for part, elements in ((given, sink.elements[:cut]), (behind, sink.elements[cut:])):
            batches = [e for e in elements if isinstance(e, Batch)]
            part[stream].update((t, *map(identity, values)) for t, values in rows(batches, schemas[stream]))
    return given, behind
