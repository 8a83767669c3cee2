"""A workload's query on Spark Structured Streaming under a fixed rate of arrivals, to measure latency."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from driver import deploy
from hibench.answers import Expected, Rows, summed
from hibench.dataset import Dataset
from hibench.latency import Latencies
from hibench.meter import Use
from hibench.open_loop import LatencyRule, Loop, Sender
from hibench.options import Pace
from hibench.outcome import Outcome, timeline_table
from hibench.run_result import RunResult
from hibench.schedule import Schedule
from hibench.spark_engine import Engine, Progress, last_of, settings
from hibench.workloads.workload import ANSWERS, VISITS, Terms, Workload

_WARM_SECONDS = 5


def run_at_rate_on_spark(
    workload: Workload,
    dataset: Dataset,
    terms: Terms,
    pace: Pace,
    engine: Engine,
    scratch: Path,
    progress: Progress = lambda stage, done: None,
) -> tuple[Outcome, Expected]:
    """Feeds the records of `dataset` to Spark at a pace; what came out, and what was expected to.

    Spark's source is a folder, into which a file falls for every burst. Warm: a few seconds at the same pace come first. Spark reads its
    clock once for a micro-batch, at its beginning; so an answer is reported when it comes here.
    """
    warm = replace(dataset, events=min(dataset.events, pace.rate * _WARM_SECONDS))
    for stage, part in (("warm-up", warm), ("run", dataset)):
        loop = Loop(workload, part, terms, pace)
        done = lambda count, stage=stage: progress(stage, count)  # noqa: E731
        found = _fed(engine, loop, scratch, done)
    warmed = {"warm": f"after {_WARM_SECONDS} s at the same pace", "trigger": "at once"}
    facts = {**settings(workload, engine), **found.facts, **warmed}
    rows, shape = last_of(loop.shape, found.rows)
    total = summed(shape, rows(), terms.window_ms)
    result = RunResult.measured("spark", None, dataset.events, found.use, total.result(), facts, found.samples.brief())
    tables = {"timeline": timeline_table(found.use), "latency": found.samples.table()}
    outcome = Outcome(result, rows, total.windows, tables, explanation=found.explanation)
    return outcome, loop.expected(found.schedule, bool(loop.shape.key))


@dataclass(frozen=True)
class _Fed:
    """What a run at a pace has left."""

    use: Use
    rows: Rows
    samples: Latencies
    schedule: Schedule
    facts: dict[str, object]
    explanation: str


def _fed(engine: Engine, loop: Loop, scratch: Path, progress: Callable[[int], None]) -> _Fed:
    with deploy(loop.query.output(ANSWERS), engine="spark", master=engine.master, start=False) as running:
        subscription = running.subscribe(ANSWERS)
        running.start()
        schedule = loop.schedule()
        sender = Sender(schedule, loop.pool, lambda: running.publisher(VISITS), flush=lambda publisher: publisher.flush())
        rule = LatencyRule(loop.workload, loop.shape, loop.terms, schedule, loop.pace.reports, delivered=True)
        use, rows = loop.run(subscription, sender, engine.processes(), rule, scratch, progress)
        return _Fed(use, rows, rule.samples, schedule, loop.facts(sender), running.explain())
