"""The commands around the runs: `prepare` makes the records that they read."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from hibench.options import duration_ms
from hibench.record_options import Cache, Disorder, EventRate, Keys, Seed


class Format(StrEnum):
    text = "text"
    parquet = "parquet"
    arrow = "arrow"


def register(app: typer.Typer) -> None:
    """Adds the commands of this file to `hibench`."""
    app.command("prepare")(prepare_records)


def prepare_records(
    events: Annotated[int, typer.Option(help="Number of records.")] = 10_000_000,
    keys: Keys = "zipf:100000",
    seed: Seed = 7,
    record_bytes: Annotated[
        int | None,
        typer.Option(help="Bytes of every line of text, newline included; 0: unpadded.", show_default="200; 0 for Parquet and Arrow"),
    ] = None,
    event_rate: EventRate = 16_667,
    disorder: Disorder = "0s",
    format: Annotated[Format, typer.Option(help="What `hibench run` reads is text; Parquet and Arrow are for other uses.")] = Format.text,
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
    cache: Cache = None,
) -> None:
    """Make the records of a workload with PySpark, unless the cache has them, and print where they are."""
    from hibench.dataset import Dataset
    from hibench.dataset import Keys as KeyDistribution

    length = (200 if format == "text" else 0) if record_bytes is None else record_bytes
    disorder_ms = duration_ms("--disorder", disorder, 0)
    dataset = Dataset(events, seed, KeyDistribution.parse(keys), length, event_rate, disorder_ms, file_events, format.value)
    print(_prepare(dataset, cache, partitions, _readers(instances) if node_local else None, verify))


def _prepare(dataset: object, cache: Path | None, partitions: int | None, readers: int | None, verify: bool) -> Path:
    """Makes them with a bar on the screen; the folder. `readers`: for how many instance managers, node by node."""
    from hibench.bench import waiting
    from hibench.cache import cache_folder, locked
    from hibench.machine import cores_usable
    from hibench.node_local import here, homes_for, told
    from hibench.prepare import prepare
    from hibench.screen import Screen

    homes = None if readers is None else homes_for(dataset, readers, here())
    folder, screen = cache_folder(cache), Screen(Console(stderr=True))
    with locked(folder, lambda holder: screen.say(waiting(folder, holder))):
        with screen.step("prepare", dataset.events) as progress:
            prepared = prepare(folder, dataset, cores_usable(), progress, partitions, homes)
        if homes is not None:
            screen.say(told(prepared, homes))
        if verify:
            with screen.step("verify", dataset.events) as progress:
                prepared.verify(progress)
    return prepared.folder


def _readers(instances: int | None) -> int:
    from hibench.machine import cores_usable

    return instances or min(4, cores_usable())
