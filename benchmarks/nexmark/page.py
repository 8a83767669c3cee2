"""The page of results. Pure: figures in, Markdown out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import geometric_mean, median
from typing import Any

from benchmarks.nexmark.asked import Nexmark
from benchmarks.nexmark.generator import DrawnEvents
from benchmarks.nexmark.made import BATCH_EVENTS

Run = dict[str, Any]
"""The JSON line of one run (`benchmarks.nexmark.measuring`)."""


@dataclass
class QueryRun:
    """What came of a query.

    Args:
        events: of the streams that it reads.
        unequal: how answers differ from the witness's; empty if they do not.
        runs: ours.
        beside: those of the other version, in turn with ours; none: nothing was run beside.
    """

    query: Nexmark
    events: int
    unequal: str = ""
    runs: list[Run] = field(default_factory=list)
    beside: list[Run] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Events a second, of the run in the middle."""
        return self.events / median(map(_seconds, self.runs))

    @property
    def cpu_rate(self) -> float:
        """Events a CPU second of the instance managers, of the run in the middle."""
        return self.events / median(map(_cpu_seconds, self.runs))

    @property
    def ratio(self) -> float:
        """Our rate over the other version's, the median of the pairs."""
        return self._ratio(_seconds)

    @property
    def cpu_ratio(self) -> float:
        """The same of the events a CPU second."""
        return self._ratio(_cpu_seconds)

    def _ratio(self, of: Callable[[Run], float]) -> float:
        return median(of(theirs) / of(ours) for ours, theirs in zip(self.runs, self.beside, strict=True))


def _seconds(run: Run) -> float:
    return float(run["seconds"])


def _cpu_seconds(run: Run) -> float:
    """Of the instance managers."""
    return float(sum(used for name, used in run["cpu"].items() if name.startswith("im-")))


@dataclass(frozen=True)
class Circumstances:
    """On what it was measured. `load`: of the machine over a minute, before and after; `instances`: instance managers."""

    events: DrawnEvents
    instances: int
    runs: int
    machine: str
    date: str
    version: str
    beside: str
    load: tuple[float, float]


_HOW = """\
## How it is measured

- One process publishes, from memory, in batches of {batch:,} events of all kinds, each kind to its stream, as fast as it is let. The
  program that asks reads all answers and counts them; of q10 the cluster writes them to files. Both are processes of their own.
- A query is deployed on a cluster that stands, its publishers are opened, and the clock starts. It stops when the last answer has been
  read, or the last file is there: publishing, the whole way through the cluster, the end of the streams and reading are in it.
- *Events* are all those of the streams that the query reads. q3 and q8 read persons and auctions, 8 % of the events: what a run costs
  however long it is weighs most in them.
- The first run is not counted, and its answers are compared with DuckDB's. Of the {runs} that follow the one in the middle counts.
- *Per CPU s*: of the instance managers alone, with all their threads. It depends less than wall time on what else the machine does.
- The queries stand in `benchmarks/nexmark/plain.py`, `windowed.py` and `joined.py`, each with its SQL. Where the suite's answers are
  updated again and again, these come out once, when the streams end. The watermark is 4 s behind, as in the suite.
- Machine: {machine}.
  Its load over a minute was {before:.1f} before and {after:.1f} after. Where that is much more than the {busy} processes at work here, wall
  time is that of a busy machine.
"""


def line(outcome: QueryRun) -> str:
    """For the screen."""
    said = f"{outcome.query.name}: {outcome.rate / 1e3:,.0f} thousand events/s, {outcome.cpu_rate / 1e3:,.0f} thousand a CPU second"
    beside = f", {outcome.ratio:.2f} x the other version ({outcome.cpu_ratio:.2f} x by CPU)" if outcome.beside else ""
    return f"{said}, {outcome.runs[0]['answers']:,} answers{beside}: {outcome.unequal or 'equal'}"


def page(outcomes: Sequence[QueryRun], around: Circumstances) -> str:
    """The whole page. There is one outcome at least, each with one run at least."""
    beside = any(outcome.beside for outcome in outcomes)
    head = ["query", "what it asks", "events", "answers", "thousand events/s", "of each run", "thousand per CPU s"]
    head += ["times the other version", "by CPU"] if beside else []
    rows = [*(_row(outcome) for outcome in outcomes), _means(outcomes, beside)]
    table = ["| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows]]
    return "\n".join(["# Nexmark", "", _introduction(around), "", *_verdict(outcomes), "", *table, "", _how(around)])


def _introduction(around: Circumstances) -> str:
    of, other = around.events, f" Beside it, in turn: version {around.beside}." if around.beside else ""
    return (
        f"{of.count:,} events (2 % persons, 6 % auctions, 92 % bids; seed {of.seed}; {of.rate:,g} a second of event time) and "
        f"{around.instances} instance managers.\nMeasured on {around.date}, version {around.version}.{other} "
        "Made by `python -m benchmarks nexmark`."
    )


def _verdict(outcomes: Sequence[QueryRun]) -> list[str]:
    unequal = [f"- **{outcome.query.name} is not equal to DuckDB**: {outcome.unequal}" for outcome in outcomes if outcome.unequal]
    return unequal or [f"The answers of all {len(outcomes)} queries are equal to DuckDB's: the same rows, each as often."]


def _row(outcome: QueryRun) -> list[str]:
    all_runs = " ".join(f"{outcome.events / _seconds(run) / 1e3:,.0f}" for run in outcome.runs)
    row = [outcome.query.name, outcome.query.what, f"{outcome.events:,}", f"{outcome.runs[0]['answers']:,}"]
    row += [f"{outcome.rate / 1e3:,.0f}", all_runs, f"{outcome.cpu_rate / 1e3:,.0f}"]
    return row + ([f"{outcome.ratio:.2f}", f"{outcome.cpu_ratio:.2f}"] if outcome.beside else [])


def _means(outcomes: Sequence[QueryRun], beside: bool) -> list[str]:
    rate, cpu = (geometric_mean(each) / 1e3 for each in zip(*((of.rate, of.cpu_rate) for of in outcomes), strict=True))
    row = ["**all**", "geometric mean", "", "", f"**{rate:,.0f}**", "", f"{cpu:,.0f}"]
    if beside:
        row += [f"{geometric_mean(each):.2f}" for each in zip(*((of.ratio, of.cpu_ratio) for of in outcomes), strict=True)]
    return row


def _how(around: Circumstances) -> str:
    before, after = around.load
    return _HOW.format(batch=BATCH_EVENTS, runs=around.runs, machine=around.machine, before=before, after=after, busy=around.instances + 2)
