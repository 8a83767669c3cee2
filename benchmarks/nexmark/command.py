"""`python -m benchmarks nexmark`: Nexmark's queries, measured and compared with DuckDB."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer

from benchmarks.nexmark.asked import ANSWERS, ROWS_OF, Nexmark
from benchmarks.nexmark.flink.texts import NOT_THERE
from benchmarks.nexmark.generator import DrawnEvents
from benchmarks.nexmark.made import event_files, read
from benchmarks.nexmark.measuring import AS_TEXT, CHECK, FROM_FILES, RECOVERS
from benchmarks.nexmark.page import FLINK, INSTANCES, VERSION, Circumstances, QueryRun, Run, line, page
from benchmarks.nexmark.peers import PEERS, SHOWN
from benchmarks.nexmark.queries import QUERIES, chosen
from benchmarks.nexmark.witness import Witness
from benchmarks.sides import STANDING, ComparedSide, RunFailed, side

ROOT = Path(__file__).resolve().parents[2]
PAGE, PEERS_PAGE = (Path(__file__).with_name(name) for name in ("RESULTS.md", "PEERS.md"))
EVENTS = 1_000_000


@dataclass(frozen=True)
class Beside:
    """What runs in turn with us: peers by name, or the engine of another checkout."""

    peers: tuple[str, ...] = ()
    tree: Path | None = None

    @classmethod
    def of(cls, text: str) -> Beside:
        """`flink,duckdb`, or a path; a folder of a peer's name is `./flink`."""
        names = tuple(text.split(",")) if text else ()
        return cls(names) if set(names) <= set(PEERS) else cls(tree=Path(text).resolve())


class Trial:
    """Our version and others, on one set of events, and the witness."""

    def __init__(
        self,
        events: DrawnEvents,
        folder: Path,
        answers: Path,
        ours: ComparedSide,
        others: Mapping[str, ComparedSide],
        how: str = "",
    ) -> None:
        self.events, self.answers, self.ours, self.others, self.how = events, answers, ours, others, how
        self.told = f"{FROM_FILES} " if FROM_FILES in how.split() else ""  # to others: that, too
        tables = {name: pa.Table.from_batches(list(read(folder, name))) for name in ("person", "auction", "bid")}
        self.rows = {name: table.num_rows for name, table in tables.items()}
        self.witness = Witness(tables)

    def run(self, query: Nexmark, runs: int) -> QueryRun:
        """One run of each side that is compared with the witness, then so many in turn. Raises RunFailed."""
        outcome = QueryRun(query, sum(self.rows[ROWS_OF.get(name, name)] for name in query.reads))
        self.ours(f"{CHECK} {self.how}{query.name}")
        outcome.unequal = self._difference(query, "ours")
        others = {name: run for name, run in self.others.items() if not (name == SHOWN[FLINK] and query.name in NOT_THERE)}
        for name, run in others.items():
            checked = run(f"{CHECK} {self.told}{query.name}")
            outcome.unequal = outcome.unequal or self._unlike(query, name, checked)
            outcome.beside[name] = []
        for _ in range(runs):
            for name, run in others.items():
                outcome.beside[name].append(run(f"{self.told}{query.name}"))
            outcome.runs.append(self.ours(f"{self.how}{query.name}"))
        return outcome

    def _unlike(self, query: Nexmark, name: str, run: Run) -> str:
        """How another's answers differ: those of a version in all, those of a peer in their number, but for q12's, of the time of day."""
        if name == VERSION:
            return self._difference(query, VERSION)
        expected = self.witness.count(query.sql) if query.name != "q12" else run["answers"]
        return "" if run["answers"] == expected else f"{name}: expected {expected} answers, got {run['answers']}"

    def _difference(self, query: Nexmark, whose: str) -> str:
        answers = self._take(ANSWERS)
        if answers is None:
            return f"{whose}: no answers"
        if (stamped := self._take("stamped")) is not None:
            self.witness.add("stamped", stamped)
        found = self.witness.difference(query.sql, answers)
        return found and f"{whose}: {found}"

    def _take(self, output: str) -> pa.Table | None:
        """What came out, once."""
        path = self.answers / f"{output}.arrow"
        if not path.exists():
            return None
        with pa.ipc.open_stream(path) as stream:
            table = stream.read_all()
        path.unlink()
        return table


@contextmanager
def version(tree: Path, events: DrawnEvents, folder: Path, answers: Path, instances: int) -> Iterator[ComparedSide]:
    """The engine of a checkout at work, measured by the benchmarks of this one."""
    with tempfile.TemporaryDirectory() as here:
        (Path(here) / "benchmarks").symlink_to(ROOT / "benchmarks")
        environment = os.environ | {"PYTHONPATH": os.pathsep.join((here, str(tree)))}
        words = [sys.executable, "-P", "-m", "benchmarks.nexmark.measuring", str(folder), str(instances)]
        with side([*words, str(events.open_ms_max), str(answers), STANDING], environment) as run:
            yield run


def _revision(tree: Path) -> str:
    """The commit of a checkout, `+` behind it where files differ; `unknown` outside of git."""
    git = ["git", "-C", str(tree)]
    try:
        commit = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
        changed = subprocess.run([*git, "status", "--porcelain", "-uno"], capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return commit + ("+" if changed else "")


def _machine() -> str:
    cores = len(os.sched_getaffinity(0))
    return f"{cores} cores ({platform.machine()}) shared with other work, {platform.system()}, Python {platform.python_version()}"


def command(
    names: Annotated[list[str] | None, typer.Argument(help="queries, such as q5; none: all")] = None,
    events: Annotated[int, typer.Option(min=1000, help="events of all kinds")] = EVENTS,
    runs: Annotated[int, typer.Option(min=1, help="of each query, after the one that is compared")] = 3,
    instances: Annotated[int, typer.Option(min=1, help="instance managers")] = INSTANCES,
    beside: Annotated[str, typer.Option(help="what runs the same in turn: flink, duckdb, or both, or the path of another checkout")] = "",
    as_text: Annotated[bool, typer.Option("--sql", help="ours of the queries' SQL; --beside . compares it with the builder's")] = False,
    from_files: Annotated[bool, typer.Option("--files", help="events are read from files of text, by ours and by Flink")] = False,
    recover: Annotated[str, typer.Option(help="off, at-once or on-commit, of ours; --beside . compares it with off")] = "off",
    out: Annotated[Path | None, typer.Option(help="where the page goes; RESULTS.md where all is run, else the screen alone")] = None,
    work: Annotated[Path | None, typer.Option(help="where events are kept and answers go, such as a folder in memory")] = None,
) -> None:
    """Nexmark's queries: events a second, published and read, answers equal to DuckDB's. Leaves status 1 if some are not."""
    try:
        queries = chosen(names or ())
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    if recover not in ("off", *RECOVERS):
        raise typer.BadParameter(f"--recover: expected off, {' or '.join(RECOVERS)}, got {recover!r}")
    others = Beside.of(beside)
    how = f"{AS_TEXT} " * as_text + f"{FROM_FILES} " * from_files + f"{recover} " * (recover in RECOVERS)
    if out is None and len(queries) == len(QUERIES) and events == EVENTS and not how:
        out = PEERS_PAGE if others.peers else PAGE
    outcomes, around = _measured(queries, DrawnEvents(events), runs, instances, others, work or _work_folder(), how)
    text = page(outcomes, around)
    print(text)
    if out is not None:
        out.write_text(text)
    if any(outcome.unequal for outcome in outcomes):
        raise typer.Exit(1)


def _measured(
    queries: list[Nexmark], events: DrawnEvents, runs: int, instances: int, beside: Beside, work: Path, how: str
) -> tuple[list[QueryRun], Circumstances]:
    folder, load, outcomes = event_files(events, work), os.getloadavg()[0], []
    with ExitStack() as stack:
        answers = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=work)))
        ours = stack.enter_context(version(ROOT, events, folder, answers, instances))
        others = {SHOWN[name]: stack.enter_context(PEERS[name](folder, instances, work)) for name in beside.peers}
        if beside.tree is not None:
            others[VERSION] = stack.enter_context(version(beside.tree, events, folder, answers, instances))
        trial = Trial(events, folder, answers, ours, others, how)
        for query in queries:
            try:
                outcomes.append(trial.run(query, runs))
            except RunFailed as failure:
                print(f"{query.name}: {failure}", file=sys.stderr)
                raise typer.Exit(1) from failure
            print(line(outcomes[-1]), file=sys.stderr, flush=True)
    versions = _revision(ROOT), _revision(beside.tree) if beside.tree else ""
    date = datetime.now(UTC).strftime("%Y-%m-%d")
    return outcomes, Circumstances(
        events, instances, runs, _machine(), date, *versions, (load, os.getloadavg()[0]), FROM_FILES in how.split()
    )


def _work_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cep-benchmarks"
