"""Which runs are meant: by the folder, the id, the beginning of ids, a pattern of ids, or the series (all runs of one command)."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from hibench.errors import OptionError
from hibench.runs.record import FACTS, RunRecord, run_folders

LATEST = "latest"
_SHOWN = 5


def chosen(names: Sequence[str], runs: Path) -> list[RunRecord]:
    """The records that `names` mean, each once, in the order of the names and within one by time; of no names, the latest series.

    Raises OptionError: a name means none. RecordError: one is damaged.
    """
    folders = [folder for name in names or [LATEST] for folder in _folders(name, runs)]
    return [RunRecord.read(folder) for folder in dict.fromkeys(folders)]


def _folders(name: str, runs: Path) -> list[Path]:
    if (Path(name) / FACTS).exists():
        return [Path(name).absolute()]
    there = run_folders(runs)
    if name == LATEST:
        name = RunRecord.read(there[-1]).series or there[-1].name if there else name
    found = [folder for folder in there if folder.name.startswith(name) or fnmatchcase(folder.name, name)]
    found = found or [folder for folder in there if RunRecord.read(folder).series == name]
    if not found:
        raise OptionError(f"run {name!r}: expected a folder with {FACTS!r}, or what means {_known(there)}; records lie in {str(runs)!r}")
    return found


def _known(there: Sequence[Path]) -> str:
    latest = ", ".join(folder.name for folder in there[-_SHOWN:])
    return f"one of {len(there)} runs, the latest of which are {latest}" if there else "a run (there is none yet: `hibench run`)"
