"""The commands around the runs: `prepare_dataset` makes the records that they read, `search` and `numa-report` do many of them."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from driver.terminal import plain_console
from hibench.options import Numa, WorkloadName, duration_ms, expect_writable
from hibench.records.options import CacheOption, Disorder, EventRate, KeysOption, Seed
from hibench.workloads import WORKLOADS

if TYPE_CHECKING:
    from hibench.records.dataset import Dataset
    from hibench.searching.grid import Cell
    from hibench.searching.host_grid import HostCell
    from hibench.searching.probing import ProbeOptions
    from hibench.searching.search import Limits
    from hibench.searching.searching import SearchResult

_FIXED_WINDOW = WorkloadName("fixed-window")

Seconds = Annotated[float, typer.Option(min=0.1, help="How long the steady stretch of each probe is.")]
WarmUp = Annotated[str, typer.Option(help="How long each probe runs before it is judged.")]
LatencyLimit = Annotated[str, typer.Option(help="What the 99th percentile of latency may be.")]
WindowOption = Annotated[str, typer.Option(help="Length of the event-time window.")]
First = Annotated[int, typer.Option(help="The rate to begin with, records a second.")]
Most = Annotated[int, typer.Option(help="The highest rate to try.")]
Precision = Annotated[float, typer.Option(help="How near the rates that do and do not hold must come: 0.05 is 5 %.")]
Attempts = Annotated[int, typer.Option(help="How often in a row a rate must fail before it counts.")]
Probes = Annotated[int, typer.Option(help="How many probes a search may take.")]
PerNode = Annotated[
    int | None, typer.Option(help="Instance managers, with --grid on each node.", show_default="usable cores, at most 4; with --grid all")
]
Patience = Annotated[str, typer.Option(help="How long a cluster may take to start; an emulated machine needs minutes.")]
Nodes = Annotated[str | None, typer.Option(help="With --grid: how many nodes, e.g. 1,2,8.", show_default="1, 2, 4, … and all")]
Hosts = Annotated[str | None, typer.Option(help="With --grid and --cluster: how many hosts, e.g. 1,3.", show_default="1, 2, 4, … and all")]
ClusterSearched = Annotated[
    str | None,
    typer.Option(
        envvar="HIBENCH_CLUSTER",
        metavar="URL",
        show_default="one is started for each search",
        help="A cluster that runs already, and sees the cache; --instances and --numa are then what it has, and --grid is over its hosts.",
    ),
]


class RecordFormat(StrEnum):
    text = "text"
    parquet = "parquet"
    arrow = "arrow"


def register(app: typer.Typer) -> None:
    """Adds the commands of this file to `hibench`."""
    app.command("prepare")(prepare_records)
    app.command("search")(search)
    app.command("numa-report")(report_of_numa)


# typer makes an option of each parameter of a command.


def prepare_records(
    events: Annotated[int, typer.Option(help="Number of records.")] = 10_000_000,
    keys: KeysOption = "zipf:100000",
    seed: Seed = 7,
    record_bytes: Annotated[
        int | None,
        typer.Option(help="Bytes of every line of text, newline included; 0: unpadded.", show_default="200; 0 for Parquet and Arrow"),
    ] = None,
    event_rate: EventRate = 16_667,
    disorder: Disorder = "0s",
    format: Annotated[
        RecordFormat, typer.Option(help="What `hibench run` reads is text; Parquet and Arrow are for other uses.")
    ] = RecordFormat.text,
    file_events: Annotated[int, typer.Option(help="Records in each file; cutting into files changes no record.")] = 1_000_000,
    partitions: Annotated[
        int | None,
        typer.Option(min=1, help="How many Spark tasks make the files. It never changes a byte.", show_default="one for each file"),
    ] = None,
    node_local: Annotated[
        bool,
        typer.Option("--node-local", help="Each block is written by a process bound to the NUMA node that will read it."),
    ] = False,
    instances: Annotated[
        int | None,
        typer.Option(min=1, help="With --node-local: how many instance managers will read.", show_default="usable cores, at most 4"),
    ] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Read every byte again and hold it against its checksum.")] = False,
    cache: CacheOption = None,
) -> None:
    """Make the records of a workload with PySpark, unless the cache has them, and print where they are."""
    from hibench.records.dataset import AddressKeys as KeyDistribution
    from hibench.records.dataset import Dataset

    length = (200 if format == "text" else 0) if record_bytes is None else record_bytes
    disorder_ms = duration_ms("--disorder", disorder, 0)
    dataset = Dataset(events, seed, KeyDistribution.parse(keys), length, event_rate, disorder_ms, file_events, format.value)
    print(_prepare(dataset, cache, partitions, _readers(instances) if node_local else None, verify))


def _prepare(dataset: Dataset, cache: Path | None, partitions: int | None, readers: int | None, verify: bool) -> Path:
    """Makes them with a bar on the screen; the folder. `readers`: for how many instance managers, node by node."""
    from hibench.numa.machine import cores_usable
    from hibench.numa.node_local import here, homes_for, told
    from hibench.records.cache import locked, records_cache, waiting
    from hibench.records.prepare import prepare_dataset
    from hibench.screen import Screen

    homes = None if readers is None else homes_for(dataset, readers, here())
    folder, screen = records_cache(cache), Screen(plain_console(stderr=True))
    with locked(folder, lambda holder: screen.say(waiting(folder, holder))):
        with screen.step("prepare", dataset.events) as progress:
            prepared = prepare_dataset(folder, dataset, cores_usable(), progress, partitions, homes)
        if homes is not None:
            screen.say(told(prepared, homes))
        if verify:
            with screen.step("verify", dataset.events) as progress:
                prepared.verify(progress)
    return prepared.folder


def _readers(instances: int | None) -> int:
    from hibench.numa.machine import cores_usable

    return instances or min(4, cores_usable())


def search(
    workload: Annotated[WorkloadName, typer.Argument(help="Which workload.")],
    grid: Annotated[
        bool,
        typer.Option(
            "--grid",
            help="Repeat over 1, 2, … nodes, spread and as replicas, NUMA on and off (the paper's Figure 13); "
            "with --cluster over 1, 2, … hosts.",
        ),
    ] = False,
    nodes: Nodes = None,
    hosts: Hosts = None,
    numa: Annotated[Numa, typer.Option(help="Without --grid: bound to cores and nodes, not, or one after the other.")] = Numa.on,
    instances: PerNode = None,
    seconds: Seconds = 10.0,
    warm_up: WarmUp = "3s",
    latency_limit: LatencyLimit = "1s",
    window: WindowOption = "1s",
    keys: KeysOption = "zipf:100000",
    seed: Seed = 7,
    first: First = 100_000,
    most: Most = 100_000_000,
    precision: Precision = 0.05,
    attempts: Attempts = 2,
    probes: Probes = 40,
    patience: Patience = "60s",
    cache: CacheOption = None,
    cluster: ClusterSearched = None,
    json: Annotated[Path | None, typer.Option(help="Also write what was found here; '-': to standard output.", metavar="FILE")] = None,
) -> None:
    """Raise the rate of arrivals until latency or backpressure says no: the highest that our engine sustains on this machine.

    Each probe creates records on schedule, whether or not the engine keeps up, and leaves a record of a run. The rate doubles
    while it is sustained; then the gap is halved.
    """
    from hibench.searching.searching import show_search

    options = _probe_options(workload, keys, seed, window, warm_up, seconds, latency_limit, patience, cluster)
    limits = _limits(first, most, precision, attempts, probes)
    expect_writable("--json", json)
    if cluster is None:
        _expect_none("--hosts", hosts, "is for --grid with --cluster, a cluster that runs already")
    cells = _cells(grid, nodes, numa, instances) if cluster is None else _host_cells(cluster, grid, hosts, nodes, instances)
    result = _search(options, limits, cells, cache)
    show_search(result, plain_console(stderr=str(json) == "-"))
    if json is not None:
        result.write_json(Path("/dev/stdout") if str(json) == "-" else json)
    _expect_right_answers(result)


def report_of_numa(
    output: Annotated[Path, typer.Option(help="The file to write.", metavar="FILE")] = Path("numa-report.json"),
    workload: Annotated[WorkloadName, typer.Option(help="What to search with.")] = _FIXED_WINDOW,
    without_search: Annotated[bool, typer.Option("--without-search", help="Facts and memory only: under a minute.")] = False,
    nodes: Nodes = None,
    instances: PerNode = None,
    seconds: Seconds = 10.0,
    warm_up: WarmUp = "3s",
    latency_limit: LatencyLimit = "1s",
    window: WindowOption = "1s",
    keys: KeysOption = "zipf:100000",
    seed: Seed = 7,
    first: First = 100_000,
    most: Most = 100_000_000,
    precision: Precision = 0.05,
    attempts: Attempts = 2,
    probes: Probes = 40,
    patience: Patience = "60s",
    buffer_bytes: Annotated[
        int | None,
        typer.Option(min=1 << 16, help="What memory is measured with.", show_default="four times the last cache, at least 64 MiB"),
    ] = None,
    cache: CacheOption = None,
) -> None:
    """One file with all that is to be known of this machine's NUMA nodes and of what they do for the engine, to be sent to us.

    Topology, distances, kernel, measured bandwidth and latency between nodes, and the whole grid of `hibench search`, with where
    the kernel says processes and pages were. It names no host and no user.
    """
    from hibench.numa.node_local import here
    from hibench.numa.report import numa_report, write
    from hibench.searching.searching import show_search

    console, found = plain_console(stderr=True), None
    options = _probe_options(workload, keys, seed, window, warm_up, seconds, latency_limit, patience)
    limits, cells = _limits(first, most, precision, attempts, probes), _cells(True, nodes, Numa.both, instances)
    expect_writable("--output", output)
    if not without_search:
        result = _search(options, limits, cells, cache)
        show_search(result, console)
        found = result.evidence()
    report = numa_report(found, here(), console.print, buffer_bytes)
    write(report, output)
    console.print(f"{output}: read it, and attach it to an issue of this project. It names no host and no user.")


def _search(options: ProbeOptions, limits: Limits, cells: Sequence[Cell | HostCell], cache: Path | None) -> SearchResult:
    """Runs the searches with their bars on the screen, and keeps what they found in the cache."""
    import tempfile

    from hibench.numa.node_local import here
    from hibench.records.cache import locked, records_cache, waiting
    from hibench.runs.record import records_folder
    from hibench.screen import Screen
    from hibench.searching.searching import run_searches

    folder, screen = records_cache(cache), Screen(plain_console(stderr=True))
    screen.say(_announced(options, limits, cells))
    with (
        locked(folder, lambda holder: screen.say(waiting(folder, holder))),
        tempfile.TemporaryDirectory(prefix=".search-", dir=folder, ignore_cleanup_errors=True) as scratch,
    ):
        result = run_searches(cells, options, limits, here(), records_folder(folder), Path(scratch), screen)
        (folder / "searches").mkdir(exist_ok=True)
        result.write_json(folder / "searches" / f"{result.series.replace(':', '')}.json")
    return result


def _announced(options: ProbeOptions, limits: Limits, cells: Sequence[Cell | HostCell]) -> str:
    from hibench.searching.grid import Cell

    seconds = (options.warm_up_ms + options.steady_ms) / 1000
    nodes = {node for cell in cells if isinstance(cell, Cell) for node in cell.nodes}
    one = "; there is one NUMA node, so ON is pinned and OFF is not" if len(nodes) == 1 and len(cells) > 1 else ""
    return f"{len(cells)} searches, each of at most {limits.probes} probes of {seconds:g} s and what overload adds{one}"


def _cells(grid: bool, nodes: str | None, numa: str, instances: int | None) -> list[Cell]:
    from hibench.errors import OptionError
    from hibench.numa.machine import cores_usable
    from hibench.numa.node_local import here
    from hibench.searching.grid import cells, whole_machine

    if grid:
        return cells(here(), instances, _counts("--nodes", nodes), cores_usable())
    if nodes is not None:
        raise OptionError("--nodes: is for --grid; without it --instances says how much of the machine is used")
    return [whole_machine(here(), _readers(instances), on) for on in (True, False) if numa in ("both", "on" if on else "off")]


def _host_cells(url: str, grid: bool, hosts: str | None, nodes: str | None, instances: int | None) -> list[HostCell]:
    from hibench.engines.clusters import given_cluster
    from hibench.searching.host_grid import cells_of

    _expect_none("--nodes", nodes, "is for the nodes of this machine; with --cluster it is --hosts")
    _expect_none("--instances", instances, "is for a cluster that is started here; one that runs already has its own")
    if not grid:
        _expect_none("--hosts", hosts, "is for --grid; without it all hosts of the cluster are used")
    counts = _counts("--hosts", hosts)
    with given_cluster(url) as cluster:
        return cells_of(cluster, grid, counts)


def _expect_none(option: str, value: object, why: str) -> None:
    """Raises OptionError: it was given."""
    from hibench.errors import OptionError

    if value is not None:
        raise OptionError(f"{option}: {why}")


def _counts(option: str, text: str | None) -> list[int] | None:
    from hibench.errors import OptionError

    if text is not None and not all(part.strip().isdecimal() for part in text.split(",")):
        raise OptionError(f"{option}: expected numbers such as 1,2,8, got {text!r}")
    return None if text is None else [int(part) for part in text.split(",")]


def _probe_options(
    workload: str,
    keys: str,
    seed: int,
    window: str,
    warm_up: str,
    seconds: float,
    latency_limit: str,
    patience: str,
    cluster: str | None = None,
) -> ProbeOptions:
    from hibench.records.dataset import AddressKeys as KeyDistribution
    from hibench.searching.probing import ProbeOptions

    return ProbeOptions(
        workload=WORKLOADS[workload],
        keys=KeyDistribution.parse(keys),
        seed=seed,
        window_ms=duration_ms("--window", window, 1),
        warm_up_ms=duration_ms("--warm-up", warm_up, 0),
        steady_ms=int(seconds * 1000),
        latency_limit_ms=duration_ms("--latency-limit", latency_limit, 1),
        patience_ms=duration_ms("--patience", patience, 1),
        cluster=cluster,
    )


def _limits(first: int, most: int, precision: float, attempts: int, probes: int) -> Limits:
    from hibench.searching.search import Limits

    return Limits(first=min(first, most), most=most, precision=precision, attempts=attempts, probes=probes)


def _expect_right_answers(result: SearchResult) -> None:
    """Raises AnswersDiffer."""
    from hibench.errors import AnswersDiffer

    wrong = [
        (each.cell.name, probe.rate) for each in result.searched for probe in each.probes if "answers are wrong" in probe.verdict.why_not
    ]
    if wrong:
        raise AnswersDiffer(f"answers were wrong in {len(wrong)} probes, the first: {wrong[0][0]} at {wrong[0][1]:,}/s; see their records")
