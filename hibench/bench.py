"""One comparison from start to end: prepare the records, compute the expected answers, run the engines, report."""

from __future__ import annotations

from collections.abc import Iterator

from hibench.answers import summarise
from hibench.cache import cache_folder, locked
from hibench.cep_engine import run_on_cep
from hibench.dataset import Dataset, Prepared
from hibench.machine import Machine
from hibench.open_loop import run_at_rate
from hibench.options import Comparison
from hibench.prepare import prepare
from hibench.reference import reference
from hibench.report import Report
from hibench.run_result import RunResult
from hibench.screen import Screen
from hibench.spark_engine import run_on_spark

WORKLOAD = "fixed-window"


def compare(options: Comparison, screen: Screen) -> Report:
    """Runs all that `options` ask for. One at a time per cache folder: a second hibench waits its turn and says so.

    Raises what the parts raise: HibenchError, or CepError of our engine.
    """
    cache = cache_folder(options.cache)
    with locked(cache, lambda holder: screen.say(waiting(cache, holder))):
        facts: dict[str, object] = dict(options.dataset.options())
        if options.rate is None:
            prepared = prepared_on_screen(cache, options.dataset, options.cores, screen)
            facts.update(bytes=prepared.bytes, sha256=prepared.sha256)
            runs = tuple(_runs_over_files(options, prepared, screen))
        else:
            runs = tuple(_runs_at_rate(options, options.rate, screen))
    return Report(
        workload=WORKLOAD,
        events=options.dataset.events,
        window_ms=options.window_ms,
        dataset=facts,
        runs=runs,
        steps=tuple(screen.steps),
        machine=Machine.here(),
        rate=options.rate,
    )


def waiting(cache: object, holder: str) -> str:
    return f"waiting: {holder}, is using the cache {cache}; Ctrl-C to give up, or --cache DIR for another"


def prepared_on_screen(cache, dataset: Dataset, cores: int, screen: Screen) -> Prepared:
    with screen.step("prepare", dataset.events) as progress:
        return prepare(cache, dataset, cores, progress=progress)


def _runs_over_files(options: Comparison, prepared: Prepared, screen: Screen) -> Iterator[RunResult]:
    events, window_ms = prepared.dataset.events, options.window_ms
    with screen.step("expected answers", events) as progress:
        expected = reference(prepared, window_ms, progress)
    if "cep" in options.engines:
        for numa in options.numa_modes:
            with screen.step(f"run cep, numa {numa}", events) as progress:
                run, answers = run_on_cep(prepared, window_ms, options.instances, numa == "on", progress)
                yield run.checked(expected.answers, expected.rows, answers)
    if "spark" in options.engines:
        with screen.step("run spark, twice", 2 * events) as progress:
            run, answers = run_on_spark(prepared, window_ms, options.cores, lambda stage, done: progress(done + events * (stage == "run")))
            yield run.checked(expected.answers, expected.rows, answers)


def _runs_at_rate(options: Comparison, rate: int, screen: Screen) -> Iterator[RunResult]:
    for numa in options.numa_modes:
        with screen.step(f"run cep at {rate:,}/s, numa {numa}", options.dataset.events) as progress:
            run, answers, expected = run_at_rate(options.dataset, options.window_ms, rate, options.instances, numa == "on", progress)
            yield run.checked(summarise(expected), lambda expected=expected: expected, answers)
