"""The commands of `hibench`. What a command needs is imported when it runs, so that `--help` answers at once."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from driver.terminal import plain_console
from hibench.options import ENGINES, MODES, NUMA_MODES, Comparison, Mode, Numa, Pace, WorkloadName, duration_ms
from hibench.options import events as events_asked
from hibench.records.options import CacheOption, Disorder, EventRate, RecordBytes, Seed
from hibench.report import commands as report_commands
from hibench.searching import commands as search_commands
from hibench.workloads import WORKLOADS

if TYPE_CHECKING:
    from hibench.records.dataset import Dataset
    from hibench.screen import Screen

app = typer.Typer(
    name="hibench",
    help="HiBench's streaming workloads on our engine and on Spark Structured Streaming, side by side.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
search_commands.register(app)
report_commands.register(app)

_RUN = (
    "Runs a workload on our engine (NUMA-aware, and not) and on Spark Structured Streaming, and compares.\n\n"
    "Prepares the records once (PySpark), runs the same records through the same query on each, checks all answers against what was "
    "computed apart from both, and keeps a record of every run. `hibench list` shows the workloads.\n\n"
    "Exit codes: 0 all answers are the expected ones; 1 some differ; 2 an option or the configuration makes no sense; 3 an engine failed, "
    "or the cache cannot be used; 130 Ctrl-C; 143 SIGTERM."
)

ModeName = StrEnum("ModeName", [(name, name) for name in MODES])  # type: ignore[misc]  # its names are data
_PAPER = ModeName("paper")


class EngineName(StrEnum):
    cep = "cep"
    spark = "spark"
    all = "all"


def _by_mode(field: str) -> str:
    return "; ".join(f"{mode.name}: {getattr(mode, field)}" for mode in MODES.values())


_EVENTS = ", ".join(f"{name} {workload.events:,}" for name, workload in WORKLOADS.items())


WorkloadAsked = Annotated[
    WorkloadName | None, typer.Argument(help="Which workload; with --config its testCase if left out.", show_default=False)
]
ModeAsked = Annotated[
    ModeName,
    typer.Option(help="Whose numbers: the paper's (Figure 12, 30 s windows), or HiBench's own: 10 s windows, a latency for every record."),
]
Events = Annotated[
    int | None, typer.Option(help="Number of records.", show_default=f"{_EVENTS}; in an open loop 20 seconds' worth, faithful 30")
]
EngineAsked = Annotated[EngineName, typer.Option(help="Which engine to run.")]
NumaAsked = Annotated[Numa, typer.Option(help="cep only. on: NUMA-aware; off: no affinity, no memory policy, round-robin placement.")]
Instances = Annotated[int | None, typer.Option(help="Instance managers (cep).", show_default="usable cores, at most 4")]
Master = Annotated[
    str | None,
    typer.Option(
        help="Spark only: local[N], spark://host:port, or standalone:N for a cluster of N workers that is started here.",
        show_default="local[usable cores]",
    ),
]
Keys = Annotated[
    str | None,
    typer.Option(
        help="Source addresses: 'uniform' (HiBench's own, nearly unique) or 'zipf:N' (s = 1.0 over N).", show_default=_by_mode("keys")
    ),
]
Window = Annotated[str | None, typer.Option(help="Length of the event-time window, e.g. 30s, 500ms, 2m.", show_default=_by_mode("window"))]
Slide = Annotated[
    str | None, typer.Option(help="fixed-window only: windows overlap, one opens this often.", show_default="the window: they do not")
]
Rate = Annotated[
    int | None,
    typer.Option(
        help="Open loop: records are created on schedule, this many a second, and latency is measured from creation to delivery. "
        "In the mode 'paper' cep only; take a short window, e.g. --window 1s.",
        show_default="paper: off, as fast as the files can be read; faithful: 100",
    ),
]
Burst = Annotated[int | None, typer.Option(help="Open loop: so many records are created together.", show_default=_by_mode("burst"))]
Config = Annotated[
    Path | None,
    typer.Option(help="A configuration file with HiBench's keys; options given here come before it.", metavar="FILE", show_default=False),
]
ClusterAsked = Annotated[
    str | None,
    typer.Option(
        envvar="HIBENCH_CLUSTER",
        metavar="URL",
        show_default="one is started for each run",
        help="cep only: a cluster that runs already, and sees the cache; --instances and --numa are then what it has.",
    ),
]
Json = Annotated[
    Path | None, typer.Option(help="Also write the report here, as JSON; '-': to standard output.", metavar="FILE", show_default=False)
]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the options of `run` say but for those that say where and how it is told. None: what the mode or the machine says."""

    workload: str | None
    events: int | None
    engine: str
    numa: str
    instances: int | None
    master: str | None
    keys: str | None
    seed: int
    window: str | None
    slide: str | None
    record_bytes: int
    event_rate: int
    disorder: str
    rate: int | None
    burst: int | None
    cluster: str | None


# typer makes an option of each parameter; `_with_settings` finds them all in the context, so most are not named again.
@app.command("run", help=_RUN, no_args_is_help=True)
def run(
    context: typer.Context,
    workload: WorkloadAsked = None,
    mode: ModeAsked = _PAPER,
    events: Events = None,
    engine: EngineAsked = EngineName.all,
    numa: NumaAsked = Numa.both,
    instances: Instances = None,
    master: Master = None,
    keys: Keys = None,
    seed: Seed = 7,
    window: Window = None,
    slide: Slide = None,
    record_bytes: RecordBytes = 200,
    event_rate: EventRate = 16_667,
    disorder: Disorder = "0s",
    rate: Rate = None,
    burst: Burst = None,
    config: Config = None,
    cache: CacheOption = None,
    cluster: ClusterAsked = None,
    json: Json = None,
) -> None:
    from hibench.bench import run_comparison
    from hibench.report import expect_equal, show
    from hibench.screen import Screen

    screen = Screen(plain_console(stderr=True))
    report = run_comparison(_comparison(_with_settings(context, config, mode, screen), MODES[mode], cache, json), screen)
    console = plain_console(stderr=str(json) == "-")
    show(report, console)
    where = shlex.join(["--cache", str(cache)]) if cache else ""
    report_them = f"report    hibench report {report.series} --html report.html {where}" if report.records else ""
    for line in (*(f"record    {folder}" for folder in report.records), report_them):
        console.print(line, soft_wrap=True)
    if json is not None:
        report.write_json(json)
    expect_equal(report)


def _with_settings(context: typer.Context, config: Path | None, mode: str, screen: Screen) -> Asked:
    """What was typed, then what a configuration file says, then the defaults."""
    given = {field.name: context.params[field.name] for field in fields(Asked)}
    if config is None:
        return Asked(**given)
    from hibench.settings import read_settings

    settings = read_settings(config, faithful=mode == "faithful")
    for line in (*(f"applied  {each}" for each in settings.applied), *(f"ignored  {each}" for each in settings.ignored)):
        screen.say(f"{config}: {line}")
    for option, text in settings.options.items():
        name = option.replace("-", "_")
        if str(getattr(context.get_parameter_source(name), "name", "")) != "COMMANDLINE":
            given[name] = int(text) if text.isdecimal() else text
    return Asked(**given)


def _comparison(asked: Asked, mode: Mode, cache: Path | None, json: Path | None) -> Comparison:
    """What was asked for, with what the mode says where nothing was. Raises OptionError."""
    from hibench.errors import OptionError
    from hibench.numa.machine import cores_usable

    if asked.workload is None:
        raise OptionError(f"expected a workload: {', '.join(WORKLOADS)}; or --config with a testCase")
    cores, rate = cores_usable(), mode.rate if asked.rate is None else asked.rate
    window_ms = duration_ms("--window", asked.window or mode.window, 1)
    return Comparison(
        workload=WORKLOADS[asked.workload],
        mode=mode.name,
        dataset=_dataset(asked, mode, events_asked(asked.events, rate, mode, WORKLOADS[asked.workload])),
        engines=_chosen(asked.engine, ENGINES),
        numa_modes=_chosen(asked.numa, NUMA_MODES),
        instances=min(4, cores) if asked.instances is None else asked.instances,
        cores=cores,
        master=asked.master or f"local[{cores}]",
        window_ms=window_ms,
        slide_ms=window_ms if asked.slide is None else duration_ms("--slide", asked.slide, 1),
        pace=None if rate is None else Pace(rate, mode.burst if asked.burst is None else asked.burst, mode.reports),
        cache=cache,
        json_file=json,
        command=shlex.join(["hibench", *sys.argv[1:]]),
        cluster=asked.cluster,
    )


def _dataset(asked: Asked, mode: Mode, events: int) -> Dataset:
    from hibench.records.dataset import AddressKeys as KeyDistribution
    from hibench.records.dataset import Dataset

    return Dataset(
        events=events,
        seed=asked.seed,
        keys=KeyDistribution.parse(asked.keys or mode.keys),
        record_bytes=asked.record_bytes,
        event_rate=asked.event_rate,
        disorder_ms=duration_ms("--disorder", asked.disorder, 0),
    )


@app.command("list")
def list_all(cache: CacheOption = None) -> None:
    """The workloads, and which records the cache has."""
    from hibench.records.cache import datasets, records_cache

    workloads = Table("workload", "balancer", "what it answers", title="hibench run WORKLOAD")
    for workload in WORKLOADS.values():
        workloads.add_row(workload.name, workload.balancer, workload.line)
    folder = records_cache(cache)
    table = Table("dataset", "events", "bytes", "keys", "disorder", title=str(folder))
    for found in datasets(folder):
        options = found.dataset
        table.add_row(found.folder.name, f"{options.events:,}", f"{found.bytes:,}", str(options.keys), f"{options.disorder_ms} ms")
    plain_console().print(workloads)
    plain_console().print(table if table.row_count else f"no datasets in {folder}")


def _chosen(choice: str, single: tuple[str, ...]) -> tuple[str, ...]:
    """'all' and 'both' mean every single one."""
    return (str(choice),) if choice in single else single
