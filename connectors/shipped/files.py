"""Files in a folder: what is renamed into it is taken, in the order of names; answers go out as files that are there whole or not at all.

Out: a file is written under a hidden name. The commit is the renaming of the manifest, which has the token and names that file; then the
file gets its name. Whoever opens the folder next does what was left to do, so rows are there exactly once.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatch
from io import BufferedReader, BufferedWriter
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
from pydantic import Field

from connectors.contract import (
    AnswerSink,
    AnswerWriter,
    Connector,
    ConnectorError,
    ConnectorOptions,
    Fenced,
    Place,
    Polled,
    RecordReader,
    RecordSource,
    ValueFormat,
)
from connectors.formats.files import OpenFile, opened

LOOK_S = 0.2
_HIDDEN = (".", "_")
Folder = Annotated[str, Field(min_length=1, pattern="^/", description="The folder, from the root on.")]


class FilesIn(ConnectorOptions):
    """`from`: {"connector": "files", "path": "/data/in", "format": "json"}"""

    path: Folder
    pattern: Annotated[str, Field(description="Which names are taken; never those that begin with `.` or `_`.")] = "*"
    follow: Annotated[bool, Field(description="What is renamed into the folder later is taken too; else the stream ends.")] = True

    def folders(self) -> Sequence[tuple[str, str]]:
        return (("path", self.path),)


class FilesOut(ConnectorOptions):
    """`to`: {"connector": "files", "path": "/data/out", "format": "json"}"""

    path: Folder
    roll_s: Annotated[float, Field(gt=0, le=3600, description="A file is finished after so many seconds.")] = 10.0
    roll_bytes: Annotated[int, Field(ge=1, le=32 << 20, description="Or when so many bytes of answers, as Arrow has them, are in it.")] = (
        16 << 20
    )

    def folders(self) -> Sequence[tuple[str, str]]:
        return (("path", self.path),)


class FilesSource(RecordSource):
    """One partition: the folder."""

    replayable, numbered = True, False

    def __init__(self, options: FilesIn, format: ValueFormat) -> None:
        self.options, self.format = options, format

    def partitions(self) -> Sequence[str]:
        return (self.options.path,)

    def open(self, partition: str, place: Place | None) -> RecordReader:
        return FilesReader(self.options, self.format, place)


class FilesReader(RecordReader):
    """A place is a file's name and the place in it. A file whose name comes before that of one that was taken is not looked at."""

    def __init__(self, options: FilesIn, format: ValueFormat, place: Place | None) -> None:
        self.options, self.format = options, format
        self.folder, self.waiting = Path(options.path), threading.Event()
        begins: tuple[str, int, int] = ("", 0, 1) if place is None else tuple(place)
        self.name, self.inside = begins[0], begins[1:]
        self.file: BufferedReader | None = None
        self.reading: OpenFile | None = None
        if self.name:
            self._open()

    def poll(self, rows_max: int, timeout_s: float) -> Polled:
        found = self._take(rows_max)
        if found is None and self.options.follow:
            self.waiting.wait(min(timeout_s, LOOK_S))
            found = self._take(rows_max)
        if found is None:
            return Polled([self.name, *self.inside], ended=not self.options.follow)
        self.inside = tuple(found.place)
        return replace(found, place=[self.name, *self.inside])

    def committed(self, place: Place) -> None:
        """What is done with files that were taken is not ours."""

    def close(self) -> None:
        if self.file is not None:
            self.file.close()
            self.file = self.reading = None

    def _take(self, rows_max: int) -> Polled | None:
        """Of this file, or of one that follows. Raises ConnectorError."""
        while True:
            if self.reading is not None:
                if (found := self.reading.take(rows_max)) is not None:
                    return found
                self.close()
            following = [each for each in self._names() if each > self.name]
            if not following:
                return None
            self.name, self.inside = following[0], (0, 1)
            self._open()

    def _names(self) -> list[str]:
        try:
            there = os.scandir(self.folder)
        except OSError as error:
            raise ConnectorError(f"{self.folder}: {error.strerror}") from None
        with there:
            return sorted(
                each.name
                for each in there
                if each.is_file() and not each.name.startswith(_HIDDEN) and fnmatch(each.name, self.options.pattern)
            )

    def _open(self) -> None:
        path = self.folder / self.name
        try:
            self.file = path.open("rb")
        except OSError as error:
            raise ConnectorError(f"{path}, which is not read to its end: {error.strerror}") from None
        self.reading = opened(self.format, self.file, str(path), *self.inside)


class FilesSink(AnswerSink):
    """Rolled files: `name-00000000.jsonl`, …"""

    keeps_tokens = True

    def __init__(self, options: FilesOut, format: ValueFormat) -> None:
        self.options, self.format = options, format

    @property
    def commit_s(self) -> float:
        return self.options.roll_s

    @property
    def commit_bytes(self) -> int:
        return self.options.roll_bytes

    def open(self, name: str, epoch: int) -> AnswerWriter:
        return FilesWriter(Path(self.options.path), self.format, name, epoch)


class FilesWriter(AnswerWriter):
    """One file at a time."""

    def __init__(self, folder: Path, format: ValueFormat, name: str, epoch: int) -> None:
        self.folder, self.format, self.name, self.epoch = folder, format, name, epoch
        self.file: BufferedWriter | None = None
        self.begun = 0
        self.manifest_path = folder / f".{name}.manifest"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.lock = (folder / f".{name}.lock").open("ab")
            with _Locked(self):
                manifest = self._manifest()
                self._check(manifest)
                self._finish(manifest)
                self._write_manifest(manifest | {"epoch": epoch, "file": None})
                for part in folder.glob(f".{name}.*.part"):  # of writers that were killed
                    part.unlink()
        except OSError as error:
            raise ConnectorError(f"{folder}: {error.strerror}") from None
        self.kept: str | None = manifest["token"]

    def token(self) -> str | None:
        return self.kept

    def write(self, rows: pa.RecordBatch, origin: str) -> None:
        try:
            if self.file is None:
                self.begun += 1  # a name that was committed is never written again
                self.file = (self.folder / f".{self.name}.{self.epoch}.{self.begun}.part").open("wb")
                self.rows = self.format.rows_file(self.file, rows.schema)
            self.rows.write(rows)
        except OSError as error:
            raise ConnectorError(f"{self.folder}: {error.strerror}") from None

    def commit(self, token: str) -> None:
        try:
            part = self._closed_part()
            with _Locked(self):
                manifest = self._manifest()
                self._check(manifest)
                number = manifest["next"] if part is None else manifest["next"] + 1
                said = {"token": token, "epoch": self.epoch, "next": number, "file": part}
                self._write_manifest(said)  # the commit
                self._finish(said)
        except OSError as error:
            raise ConnectorError(f"{self.folder}: {error.strerror}") from None
        self.kept = token

    def abort(self) -> None:
        if self.file is not None:
            file, self.file = self.file, None
            with suppress(OSError), file:
                self.rows.finish()  # or what writes would find it closed when it goes
            Path(file.name).unlink(missing_ok=True)

    def close(self) -> None:
        self.abort()
        self.lock.close()

    def _closed_part(self) -> str | None:
        """The name of the file that was written, whose bytes are on the disk."""
        if self.file is None:
            return None
        file, self.file = self.file, None
        with file:
            self.rows.finish()
            file.flush()
            os.fsync(file.fileno())
        return Path(file.name).name

    def _manifest(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(self.manifest_path.read_bytes())
        except FileNotFoundError:
            return {"token": None, "epoch": 0, "next": 0, "file": None}
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
        """The file that the manifest names gets its name, if that was not done."""
        if manifest["file"] is None:
            return
        part = self.folder / manifest["file"]
        if part.exists():
            part.replace(self.folder / f"{self.name}-{manifest['next'] - 1:08d}{self.format.suffix}")
            _sync(self.folder)


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


FILES = Connector(FilesIn, FilesSource, FilesOut, FilesSink, many=True)
