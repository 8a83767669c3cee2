"""Rolled files, exactly once.

A file is written under a hidden name, one for each folder that rows go to. The commit is the renaming of the manifest, which has the token
and names those files; then the files get their names. Whoever opens the folder next does what was left to do.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from connectors.contract import AnswerWriter, ConnectorError, Fenced, ValueFormat

OPEN_MAX = 100
NAME_BYTES, FOLDER_BYTES = 170, 230  # of a connector, or of a column and its value, in a name; a file system lets 255 be
_SAFE, _NULL = " +,-.@_", "__HIVE_DEFAULT_PARTITION__"


class _Part:
    """A file that is being written, under its hidden name."""

    def __init__(self, path: Path, folder: str, format: ValueFormat, schema: pa.Schema) -> None:
        self.path, self.folder = path, folder
        self.file = path.open("wb")
        self.rows = format.rows_file(self.file, schema)

    def finish(self) -> None:
        """Its bytes are on the disk."""
        if not self.file.closed:
            with self.file:
                self.rows.finish()
                self.file.flush()
                os.fsync(self.file.fileno())

    def drop(self) -> None:
        if not self.file.closed:
            with suppress(OSError), self.file:
                self.rows.finish()  # or what writes would find it closed when it goes
        self.path.unlink(missing_ok=True)


class FilesWriter(AnswerWriter):
    """One file at a time in each folder."""

    def __init__(self, folder: Path, format: ValueFormat, name: str, epoch: int, partition: Sequence[str] = ()) -> None:
        name = _cut(name, NAME_BYTES)
        self.folder, self.format, self.name, self.epoch, self.partition = folder, format, name, epoch, partition
        self.open: dict[str, _Part] = {}  # by the folder that each goes to, that which was written last at the end
        self.full: list[_Part] = []  # closed already
        self.begun = 0
        self.manifest_path = folder / f".{name}.manifest"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.lock = (folder / f".{name}.lock").open("ab")
            with _Locked(self):
                manifest = self._manifest()
                self._check(manifest)
                self._finish(manifest)
                self._write_manifest(manifest | {"epoch": epoch, "files": {}})
                own = re.compile(rf"\.{re.escape(name)}\.\d+\.\d+\.part")
                for part in filter(own.fullmatch, os.listdir(folder)):  # of writers that were killed
                    (folder / part).unlink()
        except OSError as error:
            raise ConnectorError(f"{folder}: {error.strerror}") from None
        self.kept: str | None = manifest["token"]

    def token(self) -> str | None:
        return self.kept

    def write(self, rows: pa.RecordBatch, origin: str) -> None:
        try:
            for folder, part in self._apart(rows):
                self._part(folder, part.schema).rows.write(part)
        except OSError as error:
            raise ConnectorError(f"{self.folder}: {error.strerror}") from None

    def commit(self, token: str) -> None:
        try:
            parts = [*self.full, *self.open.values()]
            for part in parts:
                part.finish()
            with _Locked(self):
                manifest = self._manifest()
                self._check(manifest)
                files = {part.path.name: self._named(part, number) for number, part in enumerate(parts, manifest["next"])}
                said = {"token": token, "epoch": self.epoch, "next": manifest["next"] + len(files), "files": files}
                self._write_manifest(said)  # the commit
                self._finish(said)
        except OSError as error:
            raise ConnectorError(f"{self.folder}: {error.strerror}") from None
        self.kept, self.full, self.open = token, [], {}

    def abort(self) -> None:
        for part in (*self.full, *self.open.values()):
            part.drop()
        self.full, self.open = [], {}

    def close(self) -> None:
        self.abort()
        self.lock.close()

    def _part(self, folder: str, schema: pa.Schema) -> _Part:
        part = self.open.pop(folder, None)
        if part is None:
            if len(self.open) == OPEN_MAX:
                oldest = self.open.pop(next(iter(self.open)))
                oldest.finish()
                self.full.append(oldest)
            self.begun += 1  # a name that was committed is never written again
            part = _Part(self.folder / f".{self.name}.{self.epoch}.{self.begun}.part", folder, self.format, schema)
        self.open[folder] = part
        return part

    def _apart(self, rows: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The folder, and what goes there, without the columns that name it. Raises ConnectorError."""
        if not self.partition:
            yield "", rows
            return
        if missing := [name for name in self.partition if name not in rows.schema.names]:
            raise ConnectorError(f"partition: the stream has no column {missing[0]!r}; it has {', '.join(rows.schema.names)}")
        places: dict[tuple[Any, ...], list[int]] = {}
        for at, values in enumerate(zip(*(rows.column(name).to_pylist() for name in self.partition), strict=True)):
            places.setdefault(values, []).append(at)
        left = rows.select([name for name in rows.schema.names if name not in self.partition])
        if not left.num_columns:
            raise ConnectorError("partition: no column is left for the files")
        for values, indexes in places.items():
            yield "/".join(map(_folder_name, self.partition, values)), left.take(pa.array(indexes))

    def _named(self, part: _Part, number: int) -> str:
        return f"{part.folder}{'/' if part.folder else ''}{self.name}-{number:08d}{self.format.suffix}"

    def _manifest(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(self.manifest_path.read_bytes())
        except FileNotFoundError:
            return {"token": None, "epoch": 0, "next": 0, "files": {}}
        except ValueError as error:
            raise ConnectorError(f"{self.manifest_path} makes no sense, so it is not known what was written: {error}") from None
        return found

    def _write_manifest(self, said: dict[str, Any]) -> None:
        new = self.manifest_path.with_suffix(".new")
        with new.open("wb") as file:
            file.write(json.dumps(said).encode())
            file.flush()
            os.fsync(file.fileno())
        new.replace(self.manifest_path)
        _sync(self.folder)

    def _check(self, manifest: dict[str, Any]) -> None:
        if manifest["epoch"] > self.epoch:
            raise Fenced(f"{self.folder}: a later writer of {self.name!r} has come: epoch {manifest['epoch']}, ours is {self.epoch}")

    def _finish(self, manifest: dict[str, Any]) -> None:
        """The files that the manifest names get their names, if that was not done."""
        synced = set()
        for hidden, name in manifest["files"].items():
            part, named = self.folder / hidden, self.folder / name
            if part.exists():
                named.parent.mkdir(parents=True, exist_ok=True)
                part.replace(named)
                synced |= {each for each in (named.parent, *named.parent.parents) if each.is_relative_to(self.folder)}
        for folder in synced:
            _sync(folder)


def _folder_name(column: str, value: Any) -> str:
    """As Hive has it, and so what reads such folders."""
    shown = value.isoformat() if isinstance(value, datetime) else "" if value is None else str(value)
    return _cut(f"{quote(column, safe=_SAFE)}={quote(shown, safe=_SAFE) or _NULL}", FOLDER_BYTES)


def _cut(name: str, most: int) -> str:
    """`name`, of `most` bytes: where it is longer, so much of it and a hash, which tells it apart from all others. As
    `cep.model.limits.name_in_files`, which a connector may not import."""
    whole = name.encode()
    return name if len(whole) <= most else f"{whole[:most].decode(errors='ignore')}~{hashlib.sha256(whole).hexdigest()[:16]}"


class _Locked:
    """No other writer of the name looks at the manifest meanwhile."""

    def __init__(self, writer: FilesWriter) -> None:
        self.writer = writer

    def __enter__(self) -> None:
        fcntl.flock(self.writer.lock, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        fcntl.flock(self.writer.lock, fcntl.LOCK_UN)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
