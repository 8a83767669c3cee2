"""What supervisors say of the processes they keep up: a file each, in a folder that any process can read.

A report is written whole or not at all, and needs no process to answer. The folder is in memory where there is such a place, so that a full
disk does not hide what it has done.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any


def write_report(folder: Path, name: str, report: Mapping[str, Any]) -> None:
    """Where there is no room the one before stays, until the next one."""
    unnamed = folder / f"{name}.new"
    with suppress(OSError):
        unnamed.write_text(json.dumps(report))
        unnamed.rename(folder / f"{name}.json")


def remove_report(folder: Path, name: str) -> None:
    with suppress(OSError):
        (folder / f"{name}.json").unlink(missing_ok=True)


def read_reports(folder: Path) -> list[dict[str, Any]]:
    """All that are there, by name; of a supervisor that was killed, the last that it wrote."""
    return [report for file in sorted(folder.glob("*.json")) if (report := _read(file)) is not None]


def _read(file: Path) -> dict[str, Any] | None:
    try:
        report = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return None  # it has just gone
    return report if isinstance(report, dict) else None
