"""`python -m simulation --seeds 100`: whole clusters in one thread, a random query each, against the reference engine."""

from __future__ import annotations

import gc
import logging
import os
import sys
import time
from typing import Annotated

import typer

from simulation.planted import plant
from simulation.schedule import ScheduleTrace
from simulation.seeds import SeedRun, run_seed

TWICE_EVERY = 50  # seeds, one is run twice
COLLECT_EVERY = 25  # seeds after which what is garbage is looked for


def main(
    seeds: Annotated[int, typer.Option(help="How many.")] = 100,
    first: Annotated[int, typer.Option("--from", help="The first of them.")] = 0,
    minutes: Annotated[float | None, typer.Option(help="Seeds one after the other for so long, however many.")] = None,
    seed: Annotated[int | None, typer.Option(help="This one alone.")] = None,
    trace: Annotated[bool, typer.Option(help="With `--seed`: what happened, line by line.")] = False,
    planted: Annotated[bool, typer.Option("--planted", help="Bugs are planted; with `--minutes` each is searched for so long.")] = False,
    only: Annotated[str, typer.Option(help="With `--planted`: bugs with these words in their names.")] = "",
) -> None:
    """Runs seeds; ends with 1 if one has found something wrong, or a planted bug is not found."""
    if planted:
        raise typer.Exit(bool(plant(minutes, only)))
    if seed is not None:
        found = run_seed(seed, kept := ScheduleTrace(keep=trace))
        print("\n".join([*(kept.lines or ()), str(found)]))
        raise typer.Exit(bool(found.wrong))
    failed, faults, began, number, cuts = list[int](), 0, time.monotonic(), first, 0
    cpu_before_s = time.process_time()
    while time.monotonic() - began < 60 * minutes if minutes is not None else number < first + seeds:
        found = _report(number)
        failed += [number] * bool(found.wrong)
        faults += found.faults.total()
        cuts += found.cuts
        number += 1
        if number % COLLECT_EVERY == 0:
            gc.unfreeze()  # a loop freezes what there is whenever an instance comes, and of that most is garbage by now
            gc.collect()
            gc.freeze()
    took_s, cpu_s = time.monotonic() - began, time.process_time() - cpu_before_s
    done, a_minute = number - first, 60 / took_s
    often = f"{a_minute * faults:.0f} a minute, {60 / cpu_s * faults:.0f} a minute of CPU"
    rates = f"{a_minute * done:.0f} a minute; {faults} faults, {often}, {cuts} cuts"
    print(f"{done} seeds in {took_s:.0f} s, {rates}; wrong: {failed or 'none'}")
    raise typer.Exit(bool(failed))


def _report(seed: int) -> SeedRun:
    """Runs one, and says so."""
    found = run_seed(seed, ScheduleTrace())
    if seed % TWICE_EVERY == 0 and (again := run_seed(seed, ScheduleTrace())).digest != found.digest:
        found.wrong.append(f"its trace is not the same twice: {found.digest}, then {again.digest}")
    print(found, flush=True)
    return found


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of a set of texts is part of what happens
        os.execve(sys.executable, [sys.executable, "-m", "simulation", *sys.argv[1:]], os.environ | {"PYTHONHASHSEED": "0"})
    logging.basicConfig(level=logging.CRITICAL)
    typer.run(main)
