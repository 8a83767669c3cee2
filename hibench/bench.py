"""One comparison from start to end: prepare the records, compute the expected answers, run the engines, keep a record of every run."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hibench import open_loop
from hibench.answers import Expected
from hibench.cache import cache_folder, locked, waiting
from hibench.cep_engine import run_on_cep
from hibench.clusters import given_cluster
from hibench.dataset import FIRST_EVENT_MS, Dataset, Prepared
from hibench.machine import Machine
from hibench.options import Comparison, Pace
from hibench.outcome import Outcome
from hibench.prepare import prepare
from hibench.reference import reference
from hibench.report import Report
from hibench.run_record import RunRecord, now, run_folder
from hibench.screen import Screen
from hibench.spark_engine import run_on_spark, spark_at
from hibench.spark_loop import run_at_rate_on_spark
from hibench.workloads.workload import Terms

_SCRATCH = ".run-"


def compare(options: Comparison, screen: Screen) -> Report:
    """Runs all that `options` ask for. One at a time per cache folder: a second hibench waits its turn and says so.

    Raises what the parts raise: HibenchError, or CepError of our engine.
    """
    cache = cache_folder(options.cache)
    with (
        locked(cache, lambda holder: screen.say(waiting(cache, holder))),
        tempfile.TemporaryDirectory(prefix=_SCRATCH, dir=cache, ignore_cleanup_errors=True) as scratch,
    ):
        comparing = _Comparing(options, screen, cache, Path(scratch))
        records = tuple(record.write(run_folder(cache)) for record in comparing.records())
    return Report(
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
    with screen.step("prepare", dataset.events) as progress:
        return prepare(cache, dataset, cores, progress=progress)


@dataclass
class _Comparing:
    """The runs of one comparison, one after the other; `facts` are those of the records."""

    options: Comparison
    screen: Screen
    cache: Path
    scratch: Path

    def __post_init__(self) -> None:
        self.facts: dict[str, object] = dict(self.options.dataset.options())
        self.series = f"{now()}-{self.options.workload.name}"

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
        began = now()
        for outcome in runs:
            yield self._record(began, outcome)
            began = now()

    def _over_files(self) -> Iterator[Outcome]:
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

    def _expected(self, prepared: Prepared, terms: Terms, last_only: bool = False) -> Expected:
        with self.screen.step(f"expected answers{', the last of each key' if last_only else ''}", prepared.dataset.events) as progress:
            return reference(self.options.workload, prepared, terms, last_only, progress)

    def _at_pace(self, pace: Pace) -> Iterator[Outcome]:
        options = self.options
        for numa in self.numa_modes if "cep" in options.engines else ():
            terms = self._terms(*open_loop.horizon_ms(options.dataset, pace))
            with self.screen.step(f"run cep at {pace.rate:,}/s, numa {numa}", options.dataset.events) as progress:
                how = (options.instances, numa == "on", self.scratch, progress, options.cluster)
                outcome, expected = open_loop.run_at_rate(options.workload, options.dataset, terms, pace, *how)
                yield outcome.checked(expected)

        if "spark" in options.engines and pace.reports:
            terms = self._terms(*open_loop.horizon_ms(options.dataset, pace))
            step = self.screen.step(f"run spark at {pace.rate:,}/s", options.dataset.events)
            with step as progress, spark_at(options.master, options.cores) as engine:
                outcome, expected = run_at_rate_on_spark(
                    options.workload, options.dataset, terms, pace, engine, self.scratch, lambda stage, done: progress(done)
                )
                yield outcome.checked(expected)

    def _terms(self, first_ms: int, last_ms: int) -> Terms:
        """Those of the options; the side stream of the workload, if it has one, is written for these event times."""
        side = self.options.workload.side
        if side is None:
            return self.options.terms(None)
        file = self.scratch / "side.txt"
        file.write_text(side(self.options.terms(file), first_ms, last_ms))
        return self.options.terms(file)

    def _record(self, began: str, outcome: Outcome) -> RunRecord:
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
