"""The commands of `hibench`. What a command needs is imported when it runs, so that `--help` answers at once."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from hibench import search_commands
from hibench.options import ENGINES, NUMA_MODES, Comparison, duration_ms
from hibench.options import events as events_asked
from hibench.record_options import Cache, Disorder, EventRate, Keys, RecordBytes, Seed

app = typer.Typer(
    name="hibench",
    help="HiBench's streaming workloads on our engine and on Spark Structured Streaming, side by side.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
run_app = typer.Typer(help="Prepare the records of a workload, run it on the engines, compare.", no_args_is_help=True)
app.add_typer(run_app, name="run")
search_commands.register(app)


_FIXED_WINDOW = (
    "How often did each address visit in each window, and when first and last? (The paper's Figure 12.)\n\n"
    "Prepares the records once (PySpark), runs the same records through the same query on our engine (NUMA-aware, and "
    "not) and on Spark Structured Streaming, and checks all answers against a reference computed apart from both. "
    "Exit code 1 if any differ."
)


class Engine(StrEnum):
    cep = "cep"
    spark = "spark"
    all = "all"


class Numa(StrEnum):
    on = "on"
    off = "off"
    both = "both"


@run_app.callback()
def run() -> None:
    """Prepare the records of a workload, run it on the engines, compare."""


@run_app.command("fixed-window", help=_FIXED_WINDOW)
def fixed_window(
    events: Annotated[int | None, typer.Option(help="Number of records.", show_default="10,000,000; with --rate 20 seconds' worth")] = None,
    engine: Annotated[Engine, typer.Option(help="Which engine to run.")] = Engine.all,
    numa: Annotated[
        Numa,
        typer.Option(help="cep only. on: NUMA-aware; off: no affinity, no memory policy, round-robin placement."),
    ] = Numa.both,
    instances: Annotated[int | None, typer.Option(help="Instance managers (cep).", show_default="usable cores, at most 4")] = None,
    keys: Keys = "zipf:100000",
    seed: Seed = 7,
    window: Annotated[str, typer.Option(help="Length of the event-time window, e.g. 30s, 500ms, 2m.")] = "30s",
    record_bytes: RecordBytes = 200,
    event_rate: EventRate = 16_667,
    disorder: Disorder = "0s",
    rate: Annotated[
        int | None,
        typer.Option(
            help="Open loop (cep only): records are created on schedule, this many a second, and latency is measured "
            "from creation to delivery. Take a short window, e.g. --window 1s.",
            show_default="off: as fast as the files can be read",
        ),
    ] = None,
    cache: Cache = None,
    json: Annotated[Path | None, typer.Option(help="Also write the report here, as JSON.", metavar="FILE", show_default=False)] = None,
) -> None:
    from hibench.bench import compare
    from hibench.dataset import Dataset
    from hibench.dataset import Keys as KeyDistribution
    from hibench.machine import cores_usable
    from hibench.report import expect_equal, show
    from hibench.screen import Screen

    options = Comparison(
        dataset=Dataset(
            events=events_asked(events, rate),
            seed=seed,
            keys=KeyDistribution.parse(keys),
            record_bytes=record_bytes,
            event_rate=event_rate,
            disorder_ms=duration_ms("--disorder", disorder, 0),
        ),
        engines=_chosen(engine, ENGINES),
        numa_modes=_chosen(numa, NUMA_MODES),
        instances=min(4, cores_usable()) if instances is None else instances,
        cores=cores_usable(),
        window_ms=duration_ms("--window", window, 1),
        rate=rate,
        cache=cache,
        json_file=json,
    )
    report = compare(options, Screen(Console(stderr=True)))
    show(report, Console())
    if json is not None:
        report.write_json(json)
    expect_equal(report)


@app.command("list")
def list_datasets(cache: Cache = None) -> None:
    """Which records the cache has."""
    from hibench.cache import cache_folder, datasets

    folder = cache_folder(cache)
    table = Table("dataset", "events", "bytes", "keys", "disorder", title=str(folder))
    for found in datasets(folder):
        options = found.dataset
        table.add_row(found.folder.name, f"{options.events:,}", f"{found.bytes:,}", str(options.keys), f"{options.disorder_ms} ms")
    Console().print(table if table.row_count else f"no datasets in {folder}")


def _chosen(choice: StrEnum, single: tuple[str, ...]) -> tuple[str, ...]:
    """'all' and 'both' mean every single one."""
    return (choice.value,) if choice.value in single else single
