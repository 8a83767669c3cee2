"""A workload's query on Spark Structured Streaming under a fixed rate of arrivals, to measure latency."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from driver import deploy
from hibench.engines.spark_engine import BatchProgress, SparkEngine, last_answers, spark_settings
from hibench.runs.answers import Expected, RowsAgain, summed
from hibench.runs.latency import Latencies
from hibench.runs.meter import Use
from hibench.runs.outcome import RunOutcome, timeline_table
from hibench.runs.result import RunResult
from hibench.searching.open_loop import LatencyRule, OpenLoop, Sender
from hibench.searching.schedule import Schedule
from hibench.workloads.workload import ANSWERS, VISITS

_WARM_SECONDS = 5


def run_at_rate_on_spark(
    loop: OpenLoop,
    engine: SparkEngine,
    scratch: Path,
    progress: BatchProgress = lambda stage, done: None,
) -> tuple[RunOutcome, Expected]:
    """Feeds its records to Spark at its pace; what came out, and what was expected to.

    Spark's source is a folder, into which a file falls for every burst. Warm: a few seconds at the same pace come first. Spark reads its
    clock once for a micro-batch, at its beginning; so an answer is reported when it comes here.
    """
    few = replace(loop.dataset, events=min(loop.dataset.events, loop.pace.rate * _WARM_SECONDS))
    _fed(engine, OpenLoop(loop.workload, few, loop.terms, loop.pace), scratch, partial(progress, "warm-up"))
    found = _fed(engine, loop, scratch, partial(progress, "run"))
    warmed = {"warm": f"after {_WARM_SECONDS} s at the same pace", "trigger": "at once"}
    facts = {**spark_settings(loop.workload, engine), **found.facts, **warmed}
    rows, shape = last_answers(loop.shape, found.rows)
    total = summed(shape, rows(), loop.terms.window_ms)
    result = RunResult.measured("spark", None, loop.dataset.events, found.use, total.result(), facts, found.samples.brief())
    tables = {"timeline": timeline_table(found.use), "latency": found.samples.table()}
    outcome = RunOutcome(result, rows, total.windows, tables, explanation=found.explanation)
    return outcome, loop.expected(found.schedule, bool(loop.shape.key))


@dataclass(frozen=True)
class _Fed:
    """What a run at a pace has left."""

    use: Use
    rows: RowsAgain
    samples: Latencies
    schedule: Schedule
    facts: dict[str, object]
    explanation: str


def _fed(engine: SparkEngine, loop: OpenLoop, scratch: Path, progress: Callable[[int], None]) -> _Fed:
    with deploy(loop.query.output(ANSWERS), engine="spark", master=engine.master, start=False) as running:
        subscription = running.subscribe(ANSWERS)
        running.start()
        schedule = loop.schedule()
        sender = Sender(schedule, loop.pool, lambda: running.publisher(VISITS), flush=lambda publisher: publisher.flush())
        rule = LatencyRule(loop.workload, loop.shape, loop.terms, schedule, loop.pace.reports, delivered=True)
        use, rows = loop.run(subscription, sender, engine.processes(), rule, scratch, progress)
        return _Fed(use, rows, rule.samples, schedule, loop.facts(sender), running.explain())
