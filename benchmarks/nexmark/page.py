"""The page of results. Pure: figures in, Markdown out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import geometric_mean, median
from typing import Any

from benchmarks.nexmark.asked import Nexmark
from benchmarks.nexmark.generator import DrawnEvents
from benchmarks.nexmark.made import BATCH_EVENTS
from cep.errors import counted

VERSION = "the other version"
"""The name of another checkout's engine."""

COMPILERS = "compilers"
"""The name of what a peer uses to make machine code as it goes, which is not counted."""

INSTANCES = 2
"""Instance managers, where nothing else is said."""

FLINK, DUCKDB = PEERS = "flink", "duckdb"
"""Of a peer's process."""

Run = dict[str, Any]
"""The JSON line of one run (`benchmarks.nexmark.measuring`)."""


@dataclass
class QueryRun:
    """What came of a query.

    Args:
        events: of the streams that it reads.
        unequal: how answers differ from the witness's; empty if they do not.
        runs: ours.
        beside: by name those of others, in turn with ours; one that cannot run it is left out.
    """

    query: Nexmark
    events: int
    unequal: str = ""
    runs: list[Run] = field(default_factory=list)
    beside: dict[str, list[Run]] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Events a second, of the run in the middle."""
        return self.events / median(map(_seconds, self.runs))

    @property
    def cpu_rate(self) -> float:
        """Events a CPU second of the instance managers, of the run in the middle."""
        return self.events / median(map(_cpu_seconds, self.runs))

    def ratio(self, other: str) -> float:
        """Our rate over the other's, the median of the pairs."""
        return self._ratio(other, _seconds)

    def cpu_ratio(self, other: str) -> float:
        """The same of the events a CPU second of the engine: with us of the instance managers alone."""
        return self._ratio(other, _cpu_seconds)

    def all_cpu_ratio(self, other: str) -> float:
        """The same of all that is at work: with us also what publishes and what asks, and what else a cluster has."""
        return self._ratio(other, _all_cpu_seconds)

    def ratios(self, other: str) -> list[float]:
        """As the page has them, in columns."""
        engines = [self.ratio(other), self.cpu_ratio(other)]
        return engines if other == VERSION else [*engines, self.all_cpu_ratio(other)]

    def _ratio(self, other: str, of: Callable[[Run], float]) -> float:
        return median(of(theirs) / of(ours) for ours, theirs in zip(self.runs, self.beside[other], strict=True))


def _seconds(run: Run) -> float:
    return float(run["seconds"])


def _cpu_seconds(run: Run) -> float:
    """Of the instance managers; a peer is one process."""
    return float(sum(used for name, used in run["cpu"].items() if name.startswith("im-") or name in PEERS))


def _all_cpu_seconds(run: Run) -> float:
    return float(sum(used for name, used in run["cpu"].items() if name != COMPILERS))


@dataclass(frozen=True)
class Circumstances:
    """On what it was measured. `load`: of the machine over a minute, before and after; `instances`: instance managers; `is_read`: events
    are read from files."""

    events: DrawnEvents
    instances: int
    runs: int
    machine: str
    date: str
    version: str
    beside: str
    load: tuple[float, float]
    is_read: bool = False


_PUBLISHED = """\
- One process publishes, from memory, in batches of {batch:,} events of all kinds, each kind to its stream, as fast as it is let. The
  program that asks reads all answers and counts them; of q10 the cluster writes them to files. Both are processes of their own.
- A query is deployed on a cluster that stands, its publishers are opened, and the clock starts. It stops when the last answer has been
  read, or the last file is there: publishing, the whole way through the cluster, the end of the streams and reading are in it.
"""

_READ = """\
- Instance managers read the events from files of text, columns apart by tabs, one for each kind, cut into blocks of 64 MiB. The program
  that asks reads all answers and counts them; of q10 the cluster writes them to files.
- A query is deployed on a cluster that stands, and the clock starts with it. It stops when the last answer has been read, or the last
  file is there.
"""

_HOW = """\
## How it is measured

{fed}- *Events* are all those of the streams that the query reads. q3 and q8 read persons and auctions, 8 % of the events: what a run costs
  however long it is weighs most in them.
- The first run is not counted, and its answers are compared with DuckDB's. Of the {runs} that follow the one in the middle counts.
- *Per CPU s*: of the instance managers alone, with all their threads. It depends less than wall time on what else the machine does.
- The queries stand in `benchmarks/nexmark/plain.py`, `windowed.py` and `joined.py`, each with its SQL. Where the suite's answers are
  updated again and again, these come out once, when the streams end. The watermark is 4 s behind, as in the suite.
- Machine: {machine}.
  Its load over a minute was {before:.1f} before and {after:.1f} after. Where that is much more than the {busy} processes at work here, wall
  time is that of a busy machine.
"""


_HEADS = ("by CPU", "by all CPU")

_BESIDE = """\
- Beside Flink and DuckDB, *by CPU* is of the engines: all threads of the instance managers, and all of theirs but what Java's compilers
  use to make machine code. *By all CPU* counts all our processes besides: what publishes, what asks, ZooKeeper and the others. Flink and
  DuckDB have no such.
- Flink: {rows}; answers go to its blackhole, and where they are
  checked they are counted, less what is taken back, beside DuckDB's. Parallelism {cores}, object reuse, mini-batches of 50,000 rows or 2 s,
  split distinct aggregates, heap state, no checkpoints; the suite's SQL (`benchmarks/nexmark/flink`), q13's side input and q14's count of
  letters as functions. q6 has no text for Flink, q10's rows go nowhere in place of to files, and the last window of q12, of
  processing time, never comes out.
- DuckDB: each query's SQL over tables in its memory, {cores} threads, the answer as an Arrow table.
"""


_IN_MEMORY = "rows stand in memory as its own (`RowData`), so a source costs it next to nothing"
_FROM_FILES = "rows are read from the same files, by its filesystem connector and its CSV format"


def line(outcome: QueryRun) -> str:
    """For the screen."""
    said = f"{outcome.query.name}: {outcome.rate / 1e3:,.0f} thousand events/s, {outcome.cpu_rate / 1e3:,.0f} thousand a CPU second"
    beside = "".join(f", {outcome.ratio(other):.2f} x {other} ({outcome.cpu_ratio(other):.2f} x by CPU)" for other in outcome.beside)
    return f"{said}, {outcome.runs[0]['answers']:,} answers{beside}: {outcome.unequal or 'equal'}"


def page(outcomes: Sequence[QueryRun], around: Circumstances) -> str:
    """The whole page. There is one outcome at least, each with one run at least."""
    others = list(dict.fromkeys(other for outcome in outcomes for other in outcome.beside))
    head = ["query", "what it asks", "events", "answers", "thousand events/s", "of each run", "thousand per CPU s"]
    head += [word for other in others for word in (f"times {other}", *_HEADS[: 1 if other == VERSION else 2])]
    rows = [*(_row(outcome, others) for outcome in outcomes), _means(outcomes, others)]
    table = ["| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows]]
    return "\n".join(["# Nexmark", "", _introduction(around), "", *_verdict(outcomes), "", *table, "", _how(around, others)])


def _introduction(around: Circumstances) -> str:
    of, other = around.events, f" Beside it, in turn: version {around.beside}." if around.beside else ""
    options = f" --instances {around.instances}" * (around.instances != INSTANCES) + " --files" * around.is_read
    return (
        f"{of.count:,} events (2 % persons, 6 % auctions, 92 % bids; seed {of.seed}; {of.rate:,g} a second of event time) and "
        f"{counted(around.instances, 'instance manager')}.\nMeasured on {around.date}, version {around.version}.{other} "
        f"Made by `python -m benchmarks nexmark{options}`."
    )


def _verdict(outcomes: Sequence[QueryRun]) -> list[str]:
    unequal = [f"- **{outcome.query.name} is not equal to DuckDB**: {outcome.unequal}" for outcome in outcomes if outcome.unequal]
    return unequal or [f"The answers of all {len(outcomes)} queries are equal to DuckDB's: the same rows, each as often."]


def _row(outcome: QueryRun, others: Sequence[str]) -> list[str]:
    all_runs = " ".join(f"{outcome.events / _seconds(run) / 1e3:,.0f}" for run in outcome.runs)
    row = [outcome.query.name, outcome.query.what, f"{outcome.events:,}", f"{outcome.runs[0]['answers']:,}"]
    row += [f"{outcome.rate / 1e3:,.0f}", all_runs, f"{outcome.cpu_rate / 1e3:,.0f}"]
    for other in others:
        row += [f"{each:.2f}" for each in outcome.ratios(other)] if other in outcome.beside else [""] * (2 if other == VERSION else 3)
    return row


def _means(outcomes: Sequence[QueryRun], others: Sequence[str]) -> list[str]:
    rate, cpu = (geometric_mean(each) / 1e3 for each in zip(*((of.rate, of.cpu_rate) for of in outcomes), strict=True))
    row = ["**all**", "geometric mean", "", "", f"**{rate:,.0f}**", "", f"{cpu:,.0f}"]
    for other in others:
        ratios = [of.ratios(other) for of in outcomes if other in of.beside]
        row += [f"{geometric_mean(each):.2f}" for each in zip(*ratios, strict=True)]
    return row


def _how(around: Circumstances, others: Sequence[str]) -> str:
    before, after = around.load
    fed, busy = (_READ, around.instances + 1) if around.is_read else (_PUBLISHED.format(batch=BATCH_EVENTS), around.instances + 2)
    text = _HOW.format(fed=fed, runs=around.runs, machine=around.machine, before=before, after=after, busy=busy)
    rows = _FROM_FILES if around.is_read else _IN_MEMORY
    return text + (_BESIDE.format(cores=around.instances, rows=rows) if set(others) - {VERSION} else "")
