"""What the person at the terminal sees while the work goes on: a bar for every step, and its time when it is done."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from hibench.report import TimedStep


class Screen:
    """Steps one after the other; `steps` has those that are done. Bars go to `console`, which is not the report's."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self.steps: list[TimedStep] = []

    def say(self, message: str) -> None:
        self._console.print(message)

    @contextlib.contextmanager
    def step(self, name: str, total: int) -> Iterator[Callable[[int], None]]:
        """Shows a bar of `total` records while the block runs; call what it yields with the number done so far."""
        start = time.perf_counter()
        with self._bars() as bars:
            task = bars.add_task(name, total=total)
            yield lambda done: bars.update(task, completed=done)
        self.steps.append(TimedStep(name, time.perf_counter() - start))
        self.say(f"✓ {name}: {self.steps[-1].seconds:.1f} s")

    def _bars(self) -> Progress:
        columns = TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
        return Progress(SpinnerColumn(), *columns, console=self._console, transient=True, disable=not self._console.is_terminal)
