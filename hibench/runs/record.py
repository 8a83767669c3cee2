"""What one run leaves behind: a folder that everything that is ever reported about it is made from.

<runs>/2026-11-22T011203-fixed-window-cep-1/     appears by one rename, when it is complete
    run.json               what ran on what, and what came out (`RunRecord`)
    latency.parquet, windows.parquet, timeline.parquet, operators.parquet, pages.parquet     (`TABLES`)

A run has a table only where it has something to say: a run over files that lie ready has no latencies. A record holds no path of
the machine it was made on, so it may be sent anywhere: of every path only the last name is written.
"""

from __future__ import annotations

import errno
import json
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet

from hibench.errors import RecordError
from hibench.numa.machine import Machine
from hibench.records.cache import disk_error
from hibench.runs.result import RunResult

FACTS = "run.json"
VERSION = 1
"""Raised when a record says something else than before; readers refuse other versions."""

_INT, _FLOAT, _TEXT = pa.int64(), pa.float64(), pa.string()
TABLES: Mapping[str, pa.Schema] = {
    # when the tuple that an answer waited for was created, when the answer was delivered, and how many answers that stands for
    "latency": pa.schema({"created_us": _INT, "delivered_us": _INT, "answers": _INT}),
    # records that the window's answers should count and do count, and rows that it should have and has
    "windows": pa.schema({"start_us": _INT, "events_expected": _INT, "events": _INT, "rows_expected": _INT, "rows": _INT}),
    # since the run began: CPU used so far, memory now, records that the answers so far count (NULL where it is not known)
    "timeline": pa.schema({"seconds": _FLOAT, "process": _TEXT, "cpu_seconds": _FLOAT, "anonymous_bytes": _INT, "events": _INT}),
    # in all: rows taken in and CPU time, step by step (docs/measuring.md has the steps); `instance` is its index
    "operators": pa.schema(
        {"subquery": _TEXT, "instance": _INT, "im": _TEXT, "operator": _TEXT, "step": _TEXT, "rows": _INT, "cpu_ns": _INT}
    ),
    # where a process has its memory; `node_bound` NULL: not bound
    "pages": pa.schema({"process": _TEXT, "node_bound": _INT, "node": _INT, "pages": _INT}),
}
"""Table → its columns. Times are µs since 1970, sizes bytes."""

PLAN_KEYS = ("subqueries", "edges", "instances", "workers", "buckets", "numa", "cost", "notes")
"""What of a physical plan (`cep.plan.physical.to_json`, GET /queries/{name}/plan) a record keeps."""

_MAKING = ".making-"
_PATH = re.compile(r"(?<![\w/:.])(?:file:/*)?/?(?<=/)(?:[^\s/'\",:;\]\[()]+/)+")


@dataclass(frozen=True)
class Placed:
    """An instance manager and where the kernel has bound it; None: not bound. `note`: why it is not as asked."""

    im: str
    node: int | None
    core: int | None
    note: str = ""


@dataclass(frozen=True)
class RunRecord:
    """One run.

    Args:
        workload, mode: which, and with whose numbers: 'paper' or 'faithful'.
        began: UTC, ISO 8601, to the second.
        result: what was measured, and whether the answers are right.
        machine: where.
        dataset: the records' options and facts.
        window_ms, rate: the length of its windows; records a second of an open loop. None: it has none.
        series: the same for all runs of one command.
        command: what to type to do it again.
        plan: PLAN_KEYS of the physical plan; None for an engine without one.
        explanation: the plan in words, as the engine explains it.
        placed: the instance managers.
        tables: by the names of TABLES, with their columns.
        folder: where it lies, None before it is written.
    """

    workload: str
    mode: str
    began: str
    result: RunResult
    machine: Machine
    dataset: Mapping[str, object] = field(default_factory=dict)
    window_ms: int | None = None
    rate: int | None = None
    series: str = ""
    command: str = ""
    plan: Mapping[str, Any] | None = None
    explanation: str = ""
    placed: tuple[Placed, ...] = ()
    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    folder: Path | None = None

    @property
    def id(self) -> str:
        """The folder's name; '' before it is written."""
        return self.folder.name if self.folder else ""

    @property
    def nodes(self) -> int:
        """How many NUMA nodes it ran on: those that its instance managers are bound to, else all of the machine."""
        return len({placed.node for placed in self.placed if placed.node is not None}) or len(self.machine.numa_nodes)

    def write(self, runs: Path) -> RunRecord:
        """This record as it lies under `runs`, in a folder of its own that appears complete. Raises RecordError; CacheError: no room."""
        self._expect_columns()
        try:
            runs.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=_MAKING, dir=runs, ignore_cleanup_errors=True) as scratch:
                making = Path(scratch) / "record"
                making.mkdir()
                self._fill(making)
                return RunRecord.read(_placed(making, runs, f"{_stamp(self.began)}-{self.workload}-{self.result.engine}"))
        except OSError as error:
            raise disk_error(runs, error) from error

    @classmethod
    def read(cls, folder: Path) -> RunRecord:
        """The record in `folder`; its tables are read when they are asked for. Raises RecordError: it is none, or damaged."""
        document = _document(folder)
        try:
            found: dict[str, Any] = {name: _READ[name](document[name]) if name in _READ else document[name] for name in _FACTS}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise _damaged(folder, f"{FACTS}: {type(error).__name__} {error}") from error
        return cls(**found, tables=_Stored(folder), folder=folder)

    def _expect_columns(self) -> None:
        for name, table in self.tables.items():
            if name not in TABLES or not table.schema.equals(TABLES[name]):
                expected = _columns(TABLES[name]) if name in TABLES else f"one of {', '.join(TABLES)}"
                raise RecordError(f"table {name!r} of a record: expected {expected}; got {_columns(table.schema)}")

    def _fill(self, folder: Path) -> None:
        for name, table in self.tables.items():
            parquet.write_table(table, folder / f"{name}.parquet")
        document = {"version": VERSION} | {name: _json(getattr(self, name)) for name in _FACTS}
        (folder / FACTS).write_text(json.dumps(without_paths(document), indent=1) + "\n")


def records_folder(cache: Path) -> Path:
    """Where the records of `cache` lie."""
    return cache / "runs"


def run_folders(runs: Path) -> list[Path]:
    """The records under `runs`, the oldest first."""
    return sorted(path.parent for path in runs.glob(f"*/{FACTS}") if not path.parent.name.startswith("."))


def now_text() -> str:
    """`began` of a run that begins now."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def reduced_plan(plan: Mapping[str, Any]) -> dict[str, Any]:
    """What a record keeps of a physical plan as JSON."""
    workers = [{name: worker[name] for name in ("im", "node", "core")} for worker in plan["workers"]]
    return {**{key: plan[key] for key in PLAN_KEYS}, "workers": workers}


def without_paths(value: Any) -> Any:
    """A JSON value whose texts have only the last name of every absolute path."""
    match value:
        case str():
            return _PATH.sub("", value)
        case Mapping():
            return {key: without_paths(each) for key, each in value.items()}
        case list() | tuple():
            return [without_paths(each) for each in value]
    return value


class _Stored(Mapping[str, pa.Table]):
    """The tables of a record on disk. Their columns are checked at once, their rows are read when they are asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names = [name for name in TABLES if self._path(name).exists()]
        for name in self.names:
            got = self._tried(parquet.read_schema, name)
            if not got.equals(TABLES[name]):
                raise _damaged(folder, f"{name}.parquet: expected {_columns(TABLES[name])}; got {_columns(got)}")

    def __getitem__(self, name: str) -> pa.Table:
        if name not in self.names:
            raise KeyError(name)
        return self._tried(parquet.read_table, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.parquet"

    def _tried(self, read: Any, name: str) -> Any:
        try:
            return read(self._path(name))
        except (OSError, pa.ArrowException) as error:
            raise _damaged(self.folder, f"{name}.parquet: {error}") from error


def _document(folder: Path) -> Any:
    try:
        document = json.loads((folder / FACTS).read_text())
    except FileNotFoundError:
        raise RecordError(f"{str(folder)!r} is no record of a run: expected a folder with {FACTS!r} in it") from None
    except (OSError, ValueError) as error:
        raise _damaged(folder, f"{FACTS}: {error}") from error
    version = document.get("version") if isinstance(document, dict) else None
    if version != VERSION:
        raise _damaged(folder, f"{FACTS}: expected version {VERSION}, got {version!r}")
    return document


def _placed(making: Path, runs: Path, name: str) -> Path:
    """Renames `making` to `name` and the first number that is free."""
    number = 1
    while True:
        try:
            return making.rename(runs / f"{name}-{number}")
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            number += 1


def _stamp(began: str) -> str:
    """To begin a folder's name with: they sort by time."""
    return f"{datetime.fromisoformat(began).astimezone(UTC):%Y-%m-%dT%H%M%S}"


def _json(value: object) -> object:
    match value:
        case RunResult() | Machine():
            return asdict(value)
        case tuple():
            return [asdict(each) for each in value]
    return value


def _columns(schema: pa.Schema) -> str:
    return "columns " + ", ".join(f"{name} {type}" for name, type in zip(schema.names, schema.types, strict=True))


def _damaged(folder: Path, what: str) -> RecordError:
    return RecordError(f"record {str(folder)!r} is damaged or of another version ({what}); delete that folder or name another run")


_FACTS = tuple(each.name for each in fields(RunRecord) if each.name not in ("tables", "folder"))
_READ: dict[str, Callable[[Any], object]] = {
    "result": RunResult.from_json,
    "machine": Machine.from_json,
    "placed": lambda documents: tuple(Placed(**each) for each in documents),
}
"""Field → how it is read; the others are JSON values."""
