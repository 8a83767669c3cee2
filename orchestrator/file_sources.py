"""The files of a query: only under the cluster's folders, what it writes too. Those of its sources are resolved and measured once,
when the plan is made; those of its static tables are read where they are needed.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from cep.dataflow.operators.static_table import check_columns, check_inline, csv_names
from cep.dataflow.sources.opening import check_file
from cep.errors import DataError, QueryError
from cep.model.operators import Lookup
from cep.model.query import Query
from cep.model.streams import SourceFiles, Stream
from cep.model.tables import StaticTable
from cep.plan.physical import FilesByStream
from cep.service.folders import inside
from cep.world.store import DiskStore, ReadableFile

PATH_BYTES_MAX = 4095
"""As Linux has it."""


def checked_files(query: Query, known: Mapping[str, Stream], folders: tuple[str, ...]) -> FilesByStream:
    """`files_of`, once all other paths of the query have been checked too."""
    check_tables(query, folders)
    check_folders(query, folders)
    return files_of(query, known, folders)


def files_of(query: Query, known: Mapping[str, Stream], folders: tuple[str, ...]) -> FilesByStream:
    """Stream -> (path, size in bytes) of its files, sorted by path, of every stream the query declares or reads.

    Raises:
        QueryError: a path matches nothing, is no readable file, or lies outside the folders; points at it.
    """
    own = {stream.name: f"/streams/{i}/files/paths" for i, stream in enumerate(query.streams)}
    read = {name for operator in query.operators for name in operator.inputs} | {o.input for o in query.outputs}
    streams = [*query.streams, *(known[name] for name in sorted(read - own.keys()) if name in known)]
    found = {s.name: resolve_paths(s.files, folders, own.get(s.name, "")) for s in streams if s.files is not None}
    for stream in streams:
        for path, _ in found.get(stream.name, ()):
            _check_format(stream, path, own.get(stream.name, ""))
    return found


def check_tables(query: Query, folders: tuple[str, ...]) -> None:
    """Raises QueryError, pointing at it: the table of a Lookup is no readable file under the folders, lacks columns, or has one twice."""
    check_inline(query)
    allowed = [Path(folder).resolve() for folder in folders]
    for i, operator in enumerate(query.operators):
        if isinstance(operator, Lookup) and operator.table.path is not None:
            _check_table(operator.table, operator.table.path, allowed, f"/operators/{i}/table/path")


def _check_table(table: StaticTable, path: str, allowed: list[Path], pointer: str) -> None:
    _check_path("table", path, pointer)
    _size(str(inside(path, allowed, pointer)), pointer)
    what = f"table {path!r}"
    try:
        with ReadableFile(DiskStore().open(path)) as open_:
            there = _column_names(open_, table.format)
    except (OSError, ValueError, pa.ArrowException) as error:  # ValueError: a column's name is no UTF-8
        raise QueryError(f"{what}: cannot be read as {table.format}: {error}", pointer) from None
    try:
        check_columns(what, table, there)
    except DataError as error:
        raise QueryError(str(error), pointer) from None


def _column_names(there: ReadableFile, format: str) -> list[str]:
    """The names of the columns that are there, whatever is declared."""
    match format:
        case "parquet":
            return list(pyarrow.parquet.read_schema(there).names)
        case "arrow":
            with pa.ipc.open_file(there) as file:
                return list(file.schema.names)
    return csv_names(there)


def check_folders(query: Query, folders: tuple[str, ...]) -> None:
    """Raises QueryError, pointing at the folder, where an output is to be written outside the cluster's folders."""
    allowed = [Path(folder).resolve() for folder in folders]
    for i, output in enumerate(query.outputs):
        if output.files is not None:
            where = f"/outputs/{i}/files/folder"
            _check_path("folder", output.files.folder, where)
            inside(output.files.folder, allowed, where)


def resolve_paths(files: SourceFiles, folders: tuple[str, ...], pointer: str = "") -> tuple[tuple[str, int], ...]:
    """The files that paths and globs name. Raises QueryError, pointing at `pointer` / index of the path."""
    allowed = [Path(folder).resolve() for folder in folders]
    found: dict[str, int] = {}
    for i, pattern in enumerate(files.paths):
        where = f"{pointer}/{i}" if pointer else ""
        for path in _matches(pattern, allowed, where):
            resolved = str(inside(path, allowed, where))  # before anything is said of a file that is outside
            found[resolved] = _size(path, where)
    return tuple(sorted(found.items()))


def _check_format(stream: Stream, path: str, pointer: str) -> None:
    try:
        check_file(stream, path, DiskStore())
    except (DataError, OSError) as error:
        raise QueryError(f"stream {stream.name!r}: {error}", pointer) from None


def _matches(pattern: str, allowed: list[Path], pointer: str) -> list[str]:
    _check_path("file", pattern, pointer)
    if not glob.has_magic(pattern) or os.path.exists(pattern):
        return [pattern]
    inside(_fixed_part(pattern), allowed, pointer)
    found = (path for path in glob.glob(pattern, recursive=True) if not os.path.isdir(path))
    paths = sorted(path for path in found if _is_inside(os.path.dirname(path), allowed))
    if not paths:  # a folder behind a link that leads outside has no files that a user may hear of
        raise QueryError(f"no file matches {pattern!r}", pointer)
    return paths


def _check_path(what: str, path: str, pointer: str) -> None:
    if not os.path.isabs(path):
        raise QueryError(f"{what} {path!r}: expected an absolute path", pointer)
    if "\0" in path or len(os.fsencode(path)) > PATH_BYTES_MAX:
        raise QueryError(f"{what} {path[:100]!r}: no path of a file has a NUL, or more than {PATH_BYTES_MAX:,} bytes", pointer)


def _is_inside(path: str, allowed: list[Path]) -> bool:
    resolved = Path(path).resolve()
    return any(resolved.is_relative_to(folder) for folder in allowed)


def _fixed_part(pattern: str) -> str:
    """The folder in which a glob begins to search."""
    return str(Path(*takewhile(lambda part: not glob.has_magic(part), Path(pattern).parts)))


def _size(path: str, pointer: str) -> int:
    if not os.path.exists(path):
        raise QueryError(f"file {path!r} does not exist", pointer)
    if not os.path.isfile(path) or not os.access(path, os.R_OK):
        raise QueryError(f"{path!r} is not a file that the cluster can read", pointer)
    return os.path.getsize(path)
