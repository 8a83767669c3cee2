"""One comparison from start to end: prepare the records, compute the expected answers, run the engines, keep a record of every run."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hibench.engines.cep_engine import run_on_cep
from hibench.engines.clusters import given_cluster
from hibench.engines.spark_engine import run_on_spark, spark_at
from hibench.engines.spark_loop import run_at_rate_on_spark
from hibench.numa.machine import Machine
from hibench.options import Comparison, Pace
from hibench.records.cache import locked, records_cache, waiting
from hibench.records.dataset import FIRST_EVENT_MS, Dataset, Prepared
from hibench.records.prepare import prepare_dataset
from hibench.report import ComparisonReport
from hibench.runs.answers import Expected
from hibench.runs.outcome import RunOutcome
from hibench.runs.record import RunRecord, now_text, records_folder
from hibench.runs.reference import reference_answers
from hibench.screen import Screen
from hibench.searching import open_loop
from hibench.searching.open_loop import OpenLoop
from hibench.workloads.workload import RunTerms

_SCRATCH = ".run-"


def run_comparison(options: Comparison, screen: Screen) -> ComparisonReport:
    """Runs all that `options` ask for. One at a time per cache folder: a second hibench waits its turn and says so.

    Raises what the parts raise: HibenchError, or CepError of our engine.
    """
    cache = records_cache(options.cache)
    with (
        locked(cache, lambda holder: screen.say(waiting(cache, holder))),
        tempfile.TemporaryDirectory(prefix=_SCRATCH, dir=cache, ignore_cleanup_errors=True) as scratch,
    ):
        comparing = _Comparing(options, screen, cache, Path(scratch))
        records = tuple(record.write(records_folder(cache)) for record in comparing.records())
    return ComparisonReport(
        workload=options.workload.name,
        mode=options.mode,
        events=options.dataset.events,
        window_ms=options.window_ms,
        dataset=comparing.facts,
        runs=tuple(record.result for record in records),
        steps=tuple(screen.steps),
        machine=Machine.here(),
        rate=options.pace.rate if options.pace else None,
        records=tuple(str(record.folder) for record in records),
        series=comparing.series,
    )


def prepared_on_screen(cache: Path, dataset: Dataset, cores: int, screen: Screen) -> Prepared:
    """Every byte is read once: so they are those that were made, and the first run does not find them on a disk and the next in memory."""
    with screen.step("prepare", dataset.events) as progress:
        prepared = prepare_dataset(cache, dataset, cores, progress=progress)
    with screen.step("read once", dataset.events) as progress:
        prepared.verify(progress)
    return prepared


@dataclass
class _Comparing:
    """The runs of one comparison, one after the other; `facts` are those of the records."""

    options: Comparison
    screen: Screen
    cache: Path
    scratch: Path

    def __post_init__(self) -> None:
        self.facts: dict[str, object] = dict(self.options.dataset.options())
        self.series = f"{now_text()}-{self.options.workload.name}"

    @property
    def numa_modes(self) -> tuple[str, ...]:
        """Those that were asked for; a cluster that runs already has one, whichever that is."""
        if self.options.cluster is None:
            return self.options.numa_modes
        with given_cluster(self.options.cluster) as given:
            return ("on" if given.numa else "off",)

    def records(self) -> Iterator[RunRecord]:
        """A record of every run, as soon as it is over."""
        runs = self._over_files() if self.options.pace is None else self._at_pace(self.options.pace)
        began = now_text()
        for outcome in runs:
            yield self._record(began, outcome)
            began = now_text()

    def _over_files(self) -> Iterator[RunOutcome]:
        options = self.options
        prepared = prepared_on_screen(self.cache, options.dataset, options.cores, self.screen)
        self.facts.update(bytes=prepared.bytes, sha256=prepared.sha256)
        terms = self._terms(*_times_ms(options.dataset))
        if "cep" in options.engines:
            expected = self._expected(prepared, terms)
            for numa in self.numa_modes:
                with self.screen.step(f"run cep, numa {numa}", options.dataset.events) as progress:
                    how = (options.instances, numa == "on", self.scratch, progress, options.cluster)
                    outcome = run_on_cep(options.workload, prepared, terms, *how)
                    yield outcome.checked(expected)
        if "spark" in options.engines:
            events, running = prepared.dataset.events, bool(options.workload.shape(terms).key)
            expected = self._expected(prepared, terms, running) if running or "cep" not in options.engines else expected
            with self.screen.step("run spark, twice", 2 * events) as progress, spark_at(options.master, options.cores) as engine:
                outcome = run_on_spark(
                    options.workload,
                    prepared,
                    terms,
                    engine,
                    self.scratch,
                    lambda stage, done: progress(done + events * (stage == "run")),
                )
                yield outcome.checked(expected)

    def _expected(self, prepared: Prepared, terms: RunTerms, last_only: bool = False) -> Expected:
        with self.screen.step(f"expected answers{', the last of each key' if last_only else ''}", prepared.dataset.events) as progress:
            return reference_answers(self.options.workload, prepared, terms, last_only, progress)

    def _at_pace(self, pace: Pace) -> Iterator[RunOutcome]:
        options = self.options
        for numa in self.numa_modes if "cep" in options.engines else ():
            terms = self._terms(*open_loop.horizon_ms(options.dataset, pace))
            with self.screen.step(f"run cep at {pace.rate:,}/s, numa {numa}", options.dataset.events) as progress:
                loop = OpenLoop(options.workload, options.dataset, terms, pace)
                how = (options.instances, numa == "on", self.scratch, progress, options.cluster)
                outcome, expected = open_loop.run_at_rate(loop, *how)
                yield outcome.checked(expected)

        if "spark" in options.engines and pace.reports:
            terms = self._terms(*open_loop.horizon_ms(options.dataset, pace))
            step = self.screen.step(f"run spark at {pace.rate:,}/s", options.dataset.events)
            with step as progress, spark_at(options.master, options.cores) as engine:
                loop = OpenLoop(options.workload, options.dataset, terms, pace)
                outcome, expected = run_at_rate_on_spark(loop, engine, self.scratch, lambda stage, done: progress(done))
                yield outcome.checked(expected)

    def _terms(self, first_ms: int, last_ms: int) -> RunTerms:
        """Those of the options; the side stream of the workload, if it has one, is written for these event times."""
        side = self.options.workload.side
        if side is None:
            return self.options.terms(None)
        file = self.scratch / "side.txt"
        file.write_text(side(self.options.terms(file), first_ms, last_ms))
        return self.options.terms(file)

    def _record(self, began: str, outcome: RunOutcome) -> RunRecord:
        options = self.options
        return RunRecord(
            workload=options.workload.name,
            mode=options.mode,
            began=began,
            result=outcome.result,
            machine=Machine.here(),
            dataset=self.facts,
            window_ms=options.window_ms if options.workload.by_window else None,
            rate=options.pace.rate if options.pace else None,
            series=self.series,
            command=options.command,
            plan=outcome.plan,
            explanation=outcome.explanation,
            placed=outcome.placed,
            tables=outcome.tables,
        )


def _times_ms(dataset: Dataset) -> tuple[int, int]:
    """No record of the dataset is earlier than the first or later than the second."""
    return FIRST_EVENT_MS, FIRST_EVENT_MS + dataset.events * 1000 // dataset.event_rate + 1000
