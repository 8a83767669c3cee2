"""The folders below which a cluster's queries may read and write. All code that opens a file for a query asks here, not a document."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from cep.errors import ClusterError, QueryError


def check_folders(setting: str, folders: Iterable[str | Path]) -> None:
    """Raises ClusterError, which names the setting: one is not there, or is no folder."""
    for folder in folders:
        if not Path(folder).is_dir():
            what = "is no folder" if Path(folder).exists() else "does not exist"
            raise ClusterError(f"{setting}: the folder {str(folder)!r} {what}")


def inside(path: str, folders: Iterable[str | Path], pointer: str = "") -> Path:
    """The path behind all links. What is outside gets one answer, whether it exists or not. Raises QueryError: it is outside."""
    try:
        resolved, allowed = Path(path).resolve(), [Path(folder).resolve() for folder in folders]
    except (OSError, RuntimeError, ValueError) as error:  # links in a circle; a NUL
        raise QueryError(f"{path[:100]!r}: {error}", pointer) from None
    if not any(resolved.is_relative_to(folder) for folder in allowed):
        there = ", ".join(map(str, allowed)) or "it has none: start it with --data DIR"
        raise QueryError(f"{path!r} is not under a folder of this cluster ({there})", pointer)
    return resolved
