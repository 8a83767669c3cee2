"""The commands of `hibench`. What a command needs is imported when it runs, so that `--help` answers at once."""

from __future__ import annotations

import shlex
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from hibench import search_commands
from hibench.options import ENGINES, MODES, NUMA_MODES, Comparison, Mode, Pace, duration_ms
from hibench.options import events as events_asked
from hibench.record_options import Cache, Disorder, EventRate, RecordBytes, Seed
from hibench.report import commands as report_commands
from hibench.workloads import WORKLOADS

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

WorkloadName = StrEnum("WorkloadName", [(name, name) for name in WORKLOADS])  # type: ignore[misc]
ModeName = StrEnum("ModeName", [(name, name) for name in MODES])  # type: ignore[misc]
_PAPER = ModeName("paper")


class Engine(StrEnum):
    cep = "cep"
    spark = "spark"
    all = "all"


class Numa(StrEnum):
    on = "on"
    off = "off"
    both = "both"


def _by_mode(field: str) -> str:
    return "; ".join(f"{mode.name}: {getattr(mode, field)}" for mode in MODES.values())


_EVENTS = ", ".join(f"{name} {workload.events:,}" for name, workload in WORKLOADS.items())


@app.command("run", help=_RUN, no_args_is_help=True)
def run(
    context: typer.Context,
    workload: Annotated[
        WorkloadName | None, typer.Argument(help="Which workload; with --config its testCase if left out.", show_default=False)
    ] = None,
    mode: Annotated[
        ModeName,
        typer.Option(
            help="Whose numbers: the paper's (Figure 12, 30 s windows), or HiBench's own: 10 s windows, a latency for every record."
        ),
    ] = _PAPER,
    events: Annotated[
        int | None, typer.Option(help="Number of records.", show_default=f"{_EVENTS}; in an open loop 20 seconds' worth, faithful 30")
    ] = None,
    engine: Annotated[Engine, typer.Option(help="Which engine to run.")] = Engine.all,
    numa: Annotated[
        Numa,
        typer.Option(help="cep only. on: NUMA-aware; off: no affinity, no memory policy, round-robin placement."),
    ] = Numa.both,
    instances: Annotated[int | None, typer.Option(help="Instance managers (cep).", show_default="usable cores, at most 4")] = None,
    master: Annotated[
        str | None,
        typer.Option(
            help="Spark only: local[N], spark://host:port, or standalone:N for a cluster of N workers that is started here.",
            show_default="local[usable cores]",
        ),
    ] = None,
    keys: Annotated[
        str | None,
        typer.Option(
            help="Source addresses: 'uniform' (HiBench's own, nearly unique) or 'zipf:N' (s = 1.0 over N).", show_default=_by_mode("keys")
        ),
    ] = None,
    seed: Seed = 7,
    window: Annotated[
        str | None, typer.Option(help="Length of the event-time window, e.g. 30s, 500ms, 2m.", show_default=_by_mode("window"))
    ] = None,
    slide: Annotated[
        str | None, typer.Option(help="fixed-window only: windows overlap, one opens this often.", show_default="the window: they do not")
    ] = None,
    record_bytes: RecordBytes = 200,
    event_rate: EventRate = 16_667,
    disorder: Disorder = "0s",
    rate: Annotated[
        int | None,
        typer.Option(
            help="Open loop: records are created on schedule, this many a second, and latency is measured from creation to delivery. "
            "In the mode 'paper' cep only; take a short window, e.g. --window 1s.",
            show_default="paper: off, as fast as the files can be read; faithful: 100",
        ),
    ] = None,
    burst: Annotated[
        int | None, typer.Option(help="Open loop: so many records are created together.", show_default=_by_mode("burst"))
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            help="A configuration file with HiBench's keys; options given here come before it.", metavar="FILE", show_default=False
        ),
    ] = None,
    cache: Cache = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            envvar="HIBENCH_CLUSTER",
            metavar="URL",
            show_default="one is started for each run",
            help="cep only: a cluster that runs already, and sees the cache; --instances and --numa are then what it has.",
        ),
    ] = None,
    json: Annotated[
        Path | None, typer.Option(help="Also write the report here, as JSON; '-': to standard output.", metavar="FILE", show_default=False)
    ] = None,
) -> None:
    from hibench.bench import compare
    from hibench.report import expect_equal, show
    from hibench.screen import Screen

    screen = Screen(Console(stderr=True))
    given = _with_settings(context, config, mode, screen)
    options = _comparison(mode=MODES[mode], cache=cache, json=json, **given)
    report = compare(options, screen)
    console = Console(stderr=str(json) == "-")
    show(report, console)
    where = shlex.join(["--cache", str(cache)]) if cache else ""
    report_them = f"report    hibench report {report.series} --html report.html {where}" if report.records else ""
    for line in (*(f"record    {folder}" for folder in report.records), report_them):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    if json is not None:
        report.write_json(json)
    expect_equal(report)


def _with_settings(context: typer.Context, config: Path | None, mode: str, screen: object) -> dict[str, object]:
    """The parameters of `run` but for those that say where and how it is told; what a configuration file says stands behind what was
    typed, and before the defaults."""
    given = {name: value for name, value in context.params.items() if name not in ("mode", "config", "cache", "json")}
    if config is None:
        return given
    from hibench.settings import read

    settings = read(config, faithful=mode == "faithful")
    for line in (*(f"applied  {each}" for each in settings.applied), *(f"ignored  {each}" for each in settings.ignored)):
        screen.say(f"{config}: {line}")
    for option, text in settings.options.items():
        name = option.replace("-", "_")
        if str(getattr(context.get_parameter_source(name), "name", "")) != "COMMANDLINE":
            given[name] = int(text) if text.isdecimal() else text
    return given


def _comparison(
    *,
    mode: Mode,
    workload: str | None,
    events: int | None,
    engine: str,
    numa: str,
    instances: int | None,
    master: str | None,
    keys: str | None,
    seed: int,
    window: str | None,
    slide: str | None,
    record_bytes: int,
    event_rate: int,
    disorder: str,
    rate: int | None,
    burst: int | None,
    cache: Path | None,
    cluster: str | None,
    json: Path | None,
) -> Comparison:
    """What was asked for, with what the mode says where nothing was. Raises OptionError."""
    from hibench.dataset import Dataset
    from hibench.dataset import Keys as KeyDistribution
    from hibench.errors import OptionError
    from hibench.machine import cores_usable

    if workload is None:
        raise OptionError(f"expected a workload: {', '.join(WORKLOADS)}; or --config with a testCase")
    chosen, cores, rate = WORKLOADS[workload], cores_usable(), mode.rate if rate is None else rate
    window_ms = duration_ms("--window", window or mode.window, 1)
    return Comparison(
        workload=chosen,
        mode=mode.name,
        dataset=Dataset(
            events=events_asked(events, rate, mode, chosen),
            seed=seed,
            keys=KeyDistribution.parse(keys or mode.keys),
            record_bytes=record_bytes,
            event_rate=event_rate,
            disorder_ms=duration_ms("--disorder", disorder, 0),
        ),
        engines=_chosen(engine, ENGINES),
        numa_modes=_chosen(numa, NUMA_MODES),
        instances=min(4, cores) if instances is None else instances,
        cores=cores,
        master=master or f"local[{cores}]",
        window_ms=window_ms,
        slide_ms=window_ms if slide is None else duration_ms("--slide", slide, 1),
        pace=None if rate is None else Pace(rate, mode.burst if burst is None else burst, mode.reports),
        cache=cache,
        json_file=json,
        command=shlex.join(["hibench", *sys.argv[1:]]),
        cluster=cluster,
    )


@app.command("list")
def list_all(cache: Cache = None) -> None:
    """The workloads, and which records the cache has."""
    from hibench.cache import cache_folder, datasets

    workloads = Table("workload", "balancer", "what it answers", title="hibench run WORKLOAD")
    for workload in WORKLOADS.values():
        workloads.add_row(workload.name, workload.balancer, workload.line)
    folder = cache_folder(cache)
    table = Table("dataset", "events", "bytes", "keys", "disorder", title=str(folder))
    for found in datasets(folder):
        options = found.dataset
        table.add_row(found.folder.name, f"{options.events:,}", f"{found.bytes:,}", str(options.keys), f"{options.disorder_ms} ms")
    Console().print(workloads)
    Console().print(table if table.row_count else f"no datasets in {folder}")


def _chosen(choice: str, single: tuple[str, ...]) -> tuple[str, ...]:
    """'all' and 'both' mean every single one."""
    return (str(choice),) if choice in single else single
