"""The commands around the runs: `prepare` makes the records that they read."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from hibench.options import duration_ms
from hibench.record_options import Cache, Disorder, EventRate, Keys, RecordBytes, Seed


def register(app: typer.Typer) -> None:
    """Adds the commands of this file to `hibench`."""
    app.command("prepare")(prepare_records)


def prepare_records(
    events: Annotated[int, typer.Option(help="Number of records.")] = 10_000_000,
    keys: Keys = "zipf:100000",
    seed: Seed = 7,
    record_bytes: RecordBytes = 200,
    event_rate: EventRate = 16_667,
    disorder: Disorder = "0s",
    cache: Cache = None,
) -> None:
    """Make the records of a workload with PySpark, unless the cache has them, and print where they are."""
    from hibench.bench import prepared_on_screen, waiting
    from hibench.cache import cache_folder, locked
    from hibench.dataset import Dataset
    from hibench.dataset import Keys as KeyDistribution
    from hibench.machine import cores_usable
    from hibench.screen import Screen

    dataset = Dataset(events, seed, KeyDistribution.parse(keys), record_bytes, event_rate, duration_ms("--disorder", disorder, 0))
    folder, screen = cache_folder(cache), Screen(Console(stderr=True))
    with locked(folder, lambda holder: screen.say(waiting(folder, holder))):
        print(prepared_on_screen(folder, dataset, cores_usable(), screen).folder)
