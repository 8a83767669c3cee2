"""A probe: a workload under a fixed rate of arrivals on a real cluster, judged and kept as a record of a run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from cep.config import SESSION_TIMEOUT_S
from cep.errors import QueryFailed
from driver import LocalCluster
from hibench.engines.clusters import GivenCluster, given_cluster
from hibench.errors import OptionError
from hibench.numa.machine import Machine
from hibench.options import Pace
from hibench.records.dataset import AddressKeys, Dataset
from hibench.runs.outcome import RunOutcome
from hibench.runs.record import RunRecord, now_text
from hibench.searching import open_loop
from hibench.searching.grid import Cell, confined
from hibench.searching.host_grid import HostCell
from hibench.searching.open_loop import OpenLoop
from hibench.searching.steady import SteadyVerdict, Stretch, judged
from hibench.workloads.workload import RunTerms, Workload

SESSION_TIMEOUT_S_MOST = 60.0

CLIENT_BUSY = 0.9
"""Share of a core: a client that uses more of it may itself be what could not keep up."""


@dataclass(frozen=True)
class ProbeOptions:
    """What all probes of a search have in common.

    Args:
        warm_up_ms, steady_ms: how long records are created before the stretch that is judged, and during it.
        latency_limit_ms: what the 99th percentile may be.
        patience_ms: how long a cluster may take to start.
        cluster: where one runs already, which is then searched; None: each cell has one of its own.
    """

    workload: Workload
    keys: AddressKeys
    seed: int
    window_ms: int
    warm_up_ms: int
    steady_ms: int
    latency_limit_ms: int
    patience_ms: int = 60_000
    cluster: str | None = None

    def __post_init__(self) -> None:
        if self.workload.by_window and self.steady_ms < 3 * self.window_ms:
            raise OptionError(f"--seconds: expected at least three windows, {3 * self.window_ms} ms, got {self.steady_ms} ms")

    def dataset(self, rate: int) -> Dataset:
        """The records of a probe."""
        events = max(1, rate * (self.warm_up_ms + self.steady_ms) // 1000)
        return Dataset(events=events, seed=self.seed, keys=self.keys, record_bytes=0)


@dataclass(frozen=True)
class Probe:
    """One try: its verdict, and the record that has everything else; None where the query failed."""

    rate: int
    verdict: SteadyVerdict
    record: RunRecord | None


@contextmanager
def cluster_of_cell(cell: Cell | HostCell, folder: Path, options: ProbeOptions) -> Iterator[LocalCluster | GivenCluster]:
    """The one that runs already; or one with an instance manager for each core of the cell, confined to these cores; its client is not."""
    if isinstance(cell, Cell):
        with _own_cluster(cell, folder, options.patience_ms / 1000) as own:
            yield own
    else:
        with given_cluster(str(options.cluster)) as given:
            yield given


@contextmanager
def _own_cluster(cell: Cell, folder: Path, patience_s: float) -> Iterator[LocalCluster]:
    session_s = min(SESSION_TIMEOUT_S_MOST, max(SESSION_TIMEOUT_S, patience_s / 10))
    with confined(cell.cores):
        cluster = LocalCluster(len(cell.cores), cell.numa, [folder], start_timeout_s=patience_s, session_timeout_s=session_s)
    with cluster:
        yield cluster


def probed(
    cluster: LocalCluster | GivenCluster,
    cell: Cell | HostCell,
    options: ProbeOptions,
    rate: int,
    folder: Path,
    series: str,
    progress: Callable[[int], None],
) -> Probe:
    """Runs the workload at `rate` and judges it. Raises what the engine raises, but for a query that fails: it sustains nothing."""
    try:
        return _probed(cluster, cell, options, rate, folder, series, progress)
    except QueryFailed as error:
        return Probe(rate, SteadyVerdict(f"the query failed: {error}"), None)


def _probed(
    cluster: LocalCluster | GivenCluster,
    cell: Cell | HostCell,
    options: ProbeOptions,
    rate: int,
    folder: Path,
    series: str,
    progress: Callable[[int], None],
) -> Probe:
    began, pace, dataset = now_text(), Pace(rate), options.dataset(rate)
    workload = replace(options.workload, query=lambda visits, terms: options.workload.query(visits, terms).options(**cell.options))
    terms = _terms(options, dataset, pace, folder)
    outcome, expected = open_loop.run_loop_on_cluster(cluster, OpenLoop(workload, dataset, terms, pace), cell.numa, folder, progress)
    outcome = outcome.checked(expected)
    verdict = _judged(outcome, options, rate)
    settings = {**outcome.result.settings, "search": cell.name, "verdict": verdict.why_not or "sustained"}
    record = RunRecord(
        workload=workload.name,
        mode="search",
        began=began,
        result=replace(outcome.result, settings=settings),
        machine=Machine.here(),
        dataset=dataset.options(),
        window_ms=options.window_ms if workload.by_window else None,
        rate=rate,
        series=series,
        command=_command(options, cell, rate),
        plan=outcome.plan,
        explanation=outcome.explanation,
        placed=outcome.placed,
        tables=outcome.tables,
    )
    return Probe(rate, verdict, record)


def _command(options: ProbeOptions, cell: Cell | HostCell, rate: int) -> str:
    """What to type to have this load again, on as many instance managers; on a cluster that is named by HIBENCH_CLUSTER, on all of it."""
    own = f"--numa {'on' if cell.numa else 'off'} --instances {len(cell.cores)} " if isinstance(cell, Cell) else ""
    window = f" --window {options.window_ms}ms" if options.workload.by_window else ""
    given = f"{own}--rate {rate}{window} --keys {options.keys} --seed {options.seed}"
    return f"hibench run {options.workload.name} --engine cep {given}"


def _terms(options: ProbeOptions, dataset: Dataset, pace: Pace, folder: Path) -> RunTerms:
    """The side stream of the workload, if it has one, is written for the event times of a run that begins now."""
    bare = RunTerms(options.window_ms, options.window_ms, dataset.disorder_ms, dataset.seed)
    if options.workload.side is None:
        return bare
    side = folder / "side.txt"
    terms = replace(bare, side=side)
    side.write_text(options.workload.side(terms, *open_loop.horizon_ms(dataset, pace)))
    return terms


def _judged(outcome: RunOutcome, options: ProbeOptions, rate: int) -> SteadyVerdict:
    """Wrong answers sustain nothing; where the client was as busy as a core can be, the reason says that it may be the one to blame."""
    latency = outcome.tables["latency"]
    verdict = judged(latency, _stretch(latency, options), rate, options.latency_limit_ms)
    if not outcome.result.equal:
        return replace(verdict, why_not=f"the answers are wrong: {outcome.result.difference}")
    client = sum(process.cpu_seconds for process in outcome.result.processes if process.pid == os.getpid()) / outcome.result.seconds
    if verdict.why_not and client > CLIENT_BUSY:
        return replace(verdict, why_not=f"{verdict.why_not} (the client that sends and reads used {client:.2f} cores: it may be the limit)")
    return verdict


def _stretch(latency: pa.Table, options: ProbeOptions) -> Stretch:
    """From behind the warm-up, which begins with the first record that an answer waited for, to the last such record."""
    created = latency["created_us"]
    first, last = (pc.min(created).as_py() or 0, pc.max(created).as_py() or 0)
    return Stretch(first + options.warm_up_ms * 1000, last + 1)
