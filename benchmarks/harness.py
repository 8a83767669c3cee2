"""Runs a row: a warm-up of both sides, then alternating pairs. The answers of both are compared after every run."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.data import DataOnDisk, dataset
from benchmarks.lines import digest
from benchmarks.memory import ASKED, at_hand, bytes_at_hand
from benchmarks.pairs import Bar, Measured, measured, middles, ratios
from benchmarks.programs import compile_here, named
from benchmarks.row import LINES, Command, Row
from benchmarks.sides import STANDING, ComparedSide, Run, RunFailed, side

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Verdict:
    """A bar, what was measured for it, and whether it is met. `ratio` is ours over the reference's, or ours itself."""

    bar: Bar
    ours: Measured
    reference: Measured | None
    ratio: Measured

    @property
    def met(self) -> bool:
        return self.bar.met(self.ratio)


@dataclass
class RowOutcome:
    """What came of a row. `problem` says why there are no verdicts; `unequal` how answers differ."""

    row: Row
    data: str = ""
    problem: str = ""
    unequal: str = ""
    verdicts: list[Verdict] = field(default_factory=list)
    ours: list[Run] = field(default_factory=list)
    reference: list[Run] = field(default_factory=list)
    beside: dict[str, Run] = field(default_factory=dict)
    load: tuple[float, float] = (0.0, 0.0)  # of the machine, over a minute: before and after


class Harness:
    """Where rows are run: `work` holds datasets, compiled programs and answers; `records` makes datasets smaller."""

    def __init__(self, work: Path, pairs: int, records: int | None = None, say: Callable[[str], None] = print) -> None:
        self.work, self.pairs, self.records, self.say = work, pairs, records, say

    def run(self, row: Row) -> RowOutcome:
        """What came of it; a command that fails is told of in `problem`."""
        outcome = RowOutcome(row, load=(os.getloadavg()[0], 0.0))
        if missing := _missing(row):
            outcome.problem = f"{missing} is not there yet"
        else:
            try:
                self._measure(row, outcome)
            except RunFailed as failure:
                outcome.problem = str(failure)
        outcome.load = (outcome.load[0], os.getloadavg()[0])
        return outcome

    def _measure(self, row: Row, outcome: RowOutcome) -> None:
        self._compile((*row.ours, *(row.reference or ())))
        data = dataset(row.data, self.work / "data", self.records) if row.data else None
        outcome.data = data.describe() if data else ""
        with ExitStack() as stack:
            ours = stack.enter_context(self._side(row.cores, row.ours, data))
            reference = None
            if row.reference is not None:
                reference = stack.enter_context(self._side(row.reference_cores or row.cores, row.reference, data))
            outcome.unequal = self._warm(row, ours, reference)
            for i in range(self.pairs):
                self._pair(row, ours, reference, outcome)
                self.say(f"{row.name}: pair {i + 1} of {self.pairs}: {_figures(row, outcome)}")
        outcome.verdicts = [verdict(bar, outcome.ours, outcome.reference, row.turns) for bar in row.bars]
        for name, command in row.beside.items():
            outcome.beside[name] = self._beside(row, command, data)

    def _pair(self, row: Row, ours: ComparedSide, reference: ComparedSide | None, outcome: RowOutcome) -> None:
        """The sides run in turn, as often as the row says."""
        for _ in range(row.turns):
            if reference is not None:
                outcome.reference.append(self._answered(row, reference))
            outcome.ours.append(self._answered(row, ours))
            if reference is not None:
                outcome.unequal = outcome.unequal or _unequal(row, outcome.ours[-1], outcome.reference[-1])

    def _warm(self, row: Row, ours: ComparedSide, reference: ComparedSide | None) -> str:
        """Runs both once; how their answers differ, empty if they do not."""
        mine = self._answered(row, ours)
        return "" if reference is None else _unequal(row, mine, self._answered(row, reference))

    def _answered(self, row: Row, command: ComparedSide) -> Run:
        """A run; where lines are compared, with their digest."""
        run = self._run(command)
        return run | {LINES: digest(self.out)} if row.equal == LINES else run

    def _beside(self, row: Row, command: Command, data: DataOnDisk | None) -> Run:
        try:
            self._compile(command)
            with self._side(row.cores, command, data) as beside:
                return self._run(beside)
        except RunFailed as failure:
            return {"problem": str(failure)}

    def _side(self, cores: str, command: Command, data: DataOnDisk | None) -> AbstractContextManager[ComparedSide]:
        words = [part.format(**self._names(data)) for part in command]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))}
        if self.records is not None or STANDING in command:
            environment[ASKED] = "0"
        return side(["taskset", "-c", _available(cores), *words], environment)

    def _compile(self, command: Command) -> None:
        for name in named(command):
            compile_here(name, self.programs)

    def _run(self, command: ComparedSide) -> Run:
        shutil.rmtree(self.out, ignore_errors=True)
        self.out.mkdir(parents=True)
        if self.records is None:
            at_hand(bytes_at_hand())
        return command()

    @property
    def out(self) -> Path:
        """The folder for answers, emptied before every run."""
        return self.work / "out"

    @property
    def programs(self) -> Path:
        return self.work / "programs"

    def _names(self, data: DataOnDisk | None) -> dict[str, object]:
        here: dict[str, object] = {"programs": self.programs, "out": self.out, "python": sys.executable}
        return here if data is None else here | data.names()


def _unequal(row: Row, mine: Run, theirs: Run) -> str:
    """How the answers differ, empty if they do not."""
    ours, others = (str(run.get(row.equal)) for run in (mine, theirs))
    return "" if not row.equal or ours == others else f"answers differ: ours {ours}, the reference's {others}"


def verdict(bar: Bar, ours: list[Run], reference: list[Run], turns: int = 1) -> Verdict:
    """Of so many runs a pair the one in the middle counts, on each side. Raises RunFailed where a run lacks the figure."""
    mine = middles([figure_of(run, bar.figure) for run in ours], turns)
    if not reference:
        return Verdict(bar, measured(mine), None, measured(mine))
    theirs = middles([figure_of(run, bar.figure) for run in reference], turns)
    return Verdict(bar, measured(mine), measured(theirs), measured(ratios(mine, theirs)))


def _available(cores: str) -> str:
    """Those of "0" or "0-1" by position among the cores that we may use, so that it works in a container too."""
    usable = sorted(os.sched_getaffinity(0))
    first, _, last = cores.partition("-")
    wanted = range(int(first), int(last or first) + 1)
    return ",".join(dict.fromkeys(str(usable[min(i, len(usable) - 1)]) for i in wanted))


def _missing(row: Row) -> str:
    """The module of the row's own command, if there is none."""
    name = row.ours[row.ours.index("-m") + 1] if "-m" in row.ours else ""
    return "" if not name or (ROOT / f"{name.replace('.', '/')}.py").is_file() else name


def figure_of(run: Run, figure: str) -> float:
    """The member of that name; `a.b` is a member of a member, `a/b` one divided by another. Raises RunFailed where there is none."""
    above, _, below = figure.partition("/")
    return figure_of(run, above) / figure_of(run, below) if below else _member(run, above)


def _member(run: Run, path: str) -> float:
    found: Any = run
    for name in path.split("."):
        if not isinstance(found, dict) or name not in found:
            raise RunFailed(f"a run did not state {path!r}; it stated {', '.join(sorted(run))}")
        found = found[name]
    return float(found)


def _figures(row: Row, outcome: RowOutcome) -> str:
    """The last pair's figures, for the screen."""
    sides = {"reference": outcome.reference[-row.turns :], "ours": outcome.ours[-row.turns :]}

    def middle(runs: list[Run], bar: Bar) -> float:
        return median(figure_of(run, bar.figure) for run in runs)

    return "; ".join(
        f"{bar.figure} " + ", ".join(f"{side} {middle(runs, bar):.4g}" for side, runs in sides.items() if runs) for bar in row.bars
    )
