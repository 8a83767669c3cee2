"""What the runs of a table found: as JSON for programs, as Markdown for people, and two of them compared."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.harness import RowOutcome, Verdict
from benchmarks.pairs import Measured, change
from hibench.numa.machine import Machine

Document = dict[str, Any]

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


def to_json(outcomes: Iterable[RowOutcome], pairs: int) -> Document:
    """Everything that was measured, every run of it."""
    return {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "pairs": pairs,
        "machine": {**asdict(Machine.here()), "caches": caches(), "compiler": compiler(), "load": os.getloadavg()},
        "rows": [_row(outcome) for outcome in outcomes],
    }


def caches() -> list[str]:
    """The first core's, such as `L2 Unified 1024K`."""
    return [
        " ".join(("L" + _read(cache / "level"), _read(cache / "type"), _read(cache / "size"))) for cache in sorted(_CACHES.glob("index*"))
    ]


def compiler() -> str:
    """The first line of what cc says of itself."""
    try:
        return subprocess.run(["cc", "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError):
        return "none"


def _row(outcome: RowOutcome) -> Document:
    row = outcome.row
    return {
        "name": row.name,
        "what": row.what,
        "data": outcome.data,
        "ours": shlex.join(row.ours),
        "reference": shlex.join(row.reference or ()),
        "cores": row.cores,
        "turns": row.turns,
        "notes": row.notes,
        "problem": outcome.problem,
        "unequal": outcome.unequal,
        "load": outcome.load,
        "bars": [_bar(verdict) for verdict in outcome.verdicts],
        "runs": {"ours": outcome.ours, "reference": outcome.reference, "beside": outcome.beside},
    }


def _bar(verdict: Verdict) -> Document:
    reference = None if verdict.reference is None else asdict(verdict.reference)
    measured = {"ours": asdict(verdict.ours), "reference": reference, "ratio": asdict(verdict.ratio)}
    return {**asdict(verdict.bar), **measured, "met": verdict.met}


def markdown(document: Document) -> str:
    """The report that a person reads."""
    return "\n".join([*_head(document), *_table(document["rows"]), *_details(document["rows"])]) + "\n"


def _head(document: Document) -> Iterator[str]:
    machine = document["machine"]
    libraries = ", ".join(f"{name} {version}" for name, version in machine["libraries"].items())
    yield f"# The table of bars, {document['made']}"
    yield ""
    yield f"Medians of {document['pairs']} alternating pairs; in brackets the interval from the second smallest to the second largest."
    yield "A `>=` bar is met when the lower end is at least 0.95 times the bar, a `<=` bar when the upper end is at most 1.05 times it."
    yield ""
    yield f"- machine: {machine['cpu']}, {machine['cores_usable']} of {machine['cores_online']} cores, {', '.join(machine['caches'])}"
    yield f"- memory: {machine['memory_bytes'] / 2**30:.1f} GiB, {len(machine['numa_nodes'])} NUMA node(s); kernel {machine['kernel']}"
    yield f"- software: Python {machine['python']}, {libraries}; {machine['compiler']}"
    yield f"- load average at the end: {', '.join(f'{load:.2f}' for load in machine['load'])}"
    yield ""


def _table(rows: list[Document]) -> Iterator[str]:
    yield "| row | figure | reference | ours | ours / reference | bar | met |"
    yield "|---|---|---|---|---|---|---|"
    for row in rows:
        for bar in row["bars"]:
            met = "ANSWERS DIFFER" if row["unequal"] else "yes" if bar["met"] else "**no**"
            reference = _short(bar["reference"]["median"]) if bar["reference"] else ""
            ratio = _interval(bar["ratio"])
            goal = ("≥ " if bar["sign"] == ">=" else "≤ ") + _short(bar["value"])
            yield f"| {row['name']} | {bar['figure']} | {reference} | {_short(bar['ours']['median'])} | {ratio} | {goal} | {met} |"
        if not row["bars"]:
            yield f"| {row['name']} | | | | | | not measured: {row['problem']} |"
    yield ""


def _details(rows: list[Document]) -> Iterator[str]:
    for row in rows:
        yield f"## {row['name']}"
        yield ""
        yield f"{row['what'][:1].upper()}{row['what'][1:]}." + (f" File: {row['data']}." if row["data"] else "")
        yield from (f"Bar: {bar['figure']} {bar['sign']} {_short(bar['value'])}, per {bar['per']}." for bar in row["bars"])
        yield from filter(None, (row["notes"], row["unequal"], row["problem"]))
        yield ""
        yield f"- ours: `{row['ours']}` on cores {row['cores']}"
        if row["reference"]:
            yield f"- reference: `{row['reference']}`"
        if row["turns"] > 1:
            yield f"- {row['turns']} turns a pair, of which the figure in the middle counts"
        yield f"- load average before and after: {row['load'][0]:.2f}, {row['load'][1]:.2f}"
        yield from (f"- last run, {side}: {_said(runs[-1])}" for side, runs in row["runs"].items() if isinstance(runs, list) and runs)
        yield from (f"- beside: {name}: {_said(run)}" for name, run in row["runs"]["beside"].items())
        yield ""


def _said(run: Document) -> str:
    return ", ".join(f"{name} {_short(value) if isinstance(value, float) else value}" for name, value in run.items())


def _interval(measured: Document) -> str:
    return f"{_short(measured['median'])} [{_short(measured['lower'])}, {_short(measured['upper'])}]"


def _short(value: float) -> str:
    """Three digits, with a unit prefix where that is shorter."""
    for size, prefix in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{prefix}"
    return f"{value:.3g}"


def compared(before: Document, after: Document) -> str:
    """A line for each bar that both reports have: how the ratio changed, and whether that is more than noise."""
    old = {(row["name"], bar["figure"]): bar for row in before["rows"] for bar in row["bars"]}
    lines = ["| row | figure | before | after | change | more than noise |", "|---|---|---|---|---|---|"]
    for row in after["rows"]:
        lines += [_change(row["name"], old[key], bar) for bar in row["bars"] if (key := (row["name"], bar["figure"])) in old]
    return "\n".join(lines) + "\n"


def _change(name: str, before: Document, after: Document) -> str:
    relative, real = change(Measured(**before["ratio"]), Measured(**after["ratio"]))
    better = (relative > 0) == (after["sign"] == ">=")
    word = ("better" if better else "WORSE") if real else "no"
    return f"| {name} | {after['figure']} | {_interval(before['ratio'])} | {_interval(after['ratio'])} | {relative:+.1%} | {word} |"


def write(document: Document, folder: Path) -> tuple[Path, Path]:
    """`report.md` and `report.json` in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    text, data = folder / "report.md", folder / "report.json"
    text.write_text(markdown(document))
    data.write_text(json.dumps(document, indent=1) + "\n")
    return text, data


def read(path: Path) -> Document:
    """Raises ValueError for a file that is no report."""
    document = json.loads(path.read_text())
    if not isinstance(document, dict) or "rows" not in document:
        raise ValueError(f"{path}: expected a report as `run` writes it, got {str(document)[:80]!r}")
    return document


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return "?"
