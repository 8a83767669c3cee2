"""A workload's query on our own engine, through its driver, on a cluster of its own."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv

from cep.errors import ClusterError
from cep.model.operators import Map
from cep.numa import process_pages_by_node
from driver import LocalCluster, Query, Running
from hibench.engines.clusters import GivenCluster, cluster_for, totals, used_since
from hibench.records.dataset import Prepared
from hibench.runs.answers import RowsAgain, Shape, summed
from hibench.runs.meter import Use, metered
from hibench.runs.outcome import RunOutcome, operators_table, pages_table, timeline_table
from hibench.runs.record import Placed, reduced_plan
from hibench.runs.result import RunResult
from hibench.workloads.workload import ANSWERS, RunTerms, Workload, visits_of_files

_REPORT_S, _LOOK_S = 10.0, 0.02
Progress = Callable[[int], None]
"""Told how many records the answers so far count."""


@dataclass(frozen=True)
class Evidence:
    """What is known of a query besides its answers: see `hibench.runs.outcome.RunOutcome`."""

    tables: dict[str, pa.Table]
    plan: dict[str, Any]
    explanation: str
    placed: tuple[Placed, ...]


def run_on_cep(
    workload: Workload,
    prepared: Prepared,
    terms: RunTerms,
    instances: int,
    numa: bool,
    scratch: Path,
    progress: Progress = lambda done: None,
    url: str | None = None,
) -> RunOutcome:
    """Runs the records of `prepared` through the query on `instances` instance managers, or those of the cluster at `url`. Answers that
    go to files go to `scratch`, where they have to stay as long as they may be asked for.

    No warm-up: kernels are compiled before the query is ready, and the clock starts after that. What the driver raises
    passes through.
    """
    with cluster_for(url, instances, numa, [prepared.folder, scratch]) as cluster:
        return run_on_cluster(cluster, workload, prepared, terms, numa, scratch, progress)


def run_on_cluster(
    cluster: LocalCluster | GivenCluster,
    workload: Workload,
    prepared: Prepared,
    terms: RunTerms,
    numa: bool,
    scratch: Path,
    progress: Progress = lambda done: None,
) -> RunOutcome:
    """`run_on_cep` in a cluster that runs already, with the folders of both; the query is forgotten afterwards."""
    shape, events = workload.shape(terms), prepared.dataset.events
    query = workload.query(visits_of_files(workload.columns, prepared.paths, terms.disorder_ms), terms)
    run = _into_files if workload.in_files else _to_subscriber
    with deployed(cluster, query, answers_folder(scratch) if workload.in_files else None) as running:
        before = totals(cluster)
        rows, use = run(cluster, running, query, shape, events, progress, scratch)
        use.processes += used_since(cluster, before)
        found = evidence(cluster, running, use)
    total = summed(shape, rows(), terms.window_ms)
    instances = len(cluster.instance_managers())
    result = RunResult.measured("cep", "on" if numa else "off", events, use, total.result(), cep_settings(workload, instances, numa))
    return RunOutcome(result, rows, total.windows, found.tables, found.plan, found.explanation, found.placed)


@contextlib.contextmanager
def deployed(cluster: LocalCluster | GivenCluster, query: Query, folder: Path | None = None, start: bool = False) -> Iterator[Running]:
    """The query with its output, which goes to files in `folder` where there is one. It and its streams are forgotten behind the block."""
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
    running = cluster.deploy(query.output(ANSWERS, folder=folder), start)
    try:
        yield running
    finally:
        running.delete()
        for stream in query.streams:
            cluster.undeclare(stream.name)


def answers_folder(scratch: Path) -> Path:
    return scratch / ANSWERS


def _to_subscriber(
    cluster: LocalCluster | GivenCluster, running: Running, query: Query, shape: Shape, events: int, progress: Progress, scratch: Path
) -> tuple[RowsAgain, Use]:
    return answers_and_use(running, cluster.processes(), shape, progress)


def answers_and_use(running: Any, processes: list[tuple[str, int]], shape: Shape, progress: Progress) -> tuple[RowsAgain, Use]:
    """Starts a query of either engine. The answers come to this process and stay in memory; a table of those with times in ms is made
    after the clock has stopped."""
    subscription, batches = running.subscribe(ANSWERS), []
    with metered(processes) as use:
        use.done = 0
        running.start()
        for batch in subscription:
            batches.append(batch)
            use.done += counted(shape, batch)
            progress(use.done)
    return (lambda: map(shape.of, batches)), use


def counted(shape: Shape, batch: pa.RecordBatch) -> int:
    """How many records the answers of a batch count; those that do not say it, of which there are fewer than records, one each."""
    return batch.num_rows if shape.events is None else int(pc.sum(batch[shape.events]).as_py() or 0)


def _into_files(
    cluster: LocalCluster | GivenCluster, running: Running, query: Query, shape: Shape, events: int, progress: Progress, scratch: Path
) -> tuple[RowsAgain, Use]:
    """The instances write the answers; how many there are so far is judged by the bytes written."""
    folder = answers_folder(scratch)

    def written() -> int:
        size = sum(path.stat().st_size for path in folder.glob("*"))
        progress(min(events, size // _ANSWER_BYTES))
        return size

    with metered(cluster.processes(), written) as use:
        running.start()
        running.wait()
    whole = max(1, written())
    use.samples = [replace(sample, events=None if sample.events is None else sample.events * events // whole) for sample in use.samples]
    return (lambda: written_rows(folder, shape, columns_of_answers(query))), use


_ANSWER_BYTES = 150
"""About; for the progress bar alone."""


def columns_of_answers(query: Query) -> list[str]:
    """The columns of its answers: those of its last operator, a Map."""
    last = query.operators[-1]
    assert isinstance(last, Map)
    return [name for name, _ in last.fields]


def written_rows(folder: Path, shape: Shape, names: list[str]) -> Iterator[pa.Table]:
    """The answers in the files of an output with the columns `names`, a piece at a time."""
    types = {field.name: field.type for field in shape.schema}
    for path in sorted(folder.glob("*.csv")):
        if not path.stat().st_size:
            continue
        with csv.open_csv(
            path,
            read_options=csv.ReadOptions(column_names=names, block_size=1 << 25),
            parse_options=csv.ParseOptions(quote_char=False),
            convert_options=csv.ConvertOptions(include_columns=list(types), column_types=types, strings_can_be_null=False),
        ) as reader:
            yield from (pa.Table.from_batches([batch]) for batch in reader)


def evidence(cluster: LocalCluster | GivenCluster, running: Running, use: Use) -> Evidence:
    """What the record of a run has of the cluster; to be asked when the query is over and the cluster still there."""
    running.wait()
    instances = _last_figures(cluster, running)
    managers = {each["id"]: each for each in cluster.instance_managers()}
    pages = [
        (name, managers[name]["node"], found)
        for name, pid in cluster.processes()
        if name in managers and (found := process_pages_by_node(Path(f"/proc/{pid}/numa_maps"))) is not None
    ]
    tables = {"timeline": timeline_table(use), "operators": operators_table(instances), "pages": pages_table(pages)}
    placed = tuple(Placed(im, each["node"], each["core"], each["binding"]["note"]) for im, each in sorted(managers.items()))
    return Evidence(tables, reduced_plan(running.plan()), running.explain(), placed)


def _last_figures(cluster: LocalCluster | GivenCluster, running: Running) -> list[dict[str, Any]]:
    """What each instance of a query that is over reported last. That comes to the metric server on another way than its state comes to
    the orchestrator, so it may come after it."""
    deadline = time.monotonic() + _REPORT_S
    while True:
        found = [each for each in cluster.figures()["instances"] if each["query"] == running.name]
        if found and all(each["state"] in ("ended", "stopped", "failed") for each in found):
            return found
        if time.monotonic() > deadline:
            raise ClusterError(
                f"query {running.name!r} is over, and after {_REPORT_S:g} s its instances have not reported so: {_states(found)}"
            )
        time.sleep(_LOOK_S)


def _states(figures: list[dict[str, Any]]) -> str:
    return ", ".join(f"{each['subquery']} instance {each['instance']} says {each['state']!r}" for each in figures) or "none has reported"


def cep_settings(workload: Workload, instances: int, numa: bool) -> dict[str, object]:
    bound = "each instance manager bound to a core and its node" if numa else "no affinity, no memory policy, round-robin"
    leaves = "text files, one for each instance" if workload.in_files else "this process, which has subscribed to them"
    return {"instance managers": instances, "placement": bound, "warm-up": "none", "answers go to": leaves}
