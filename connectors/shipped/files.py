"""Files in a folder: what is renamed into it is taken, in the order of names; answers go out as files that are there whole or not at all.

Out: see `files_out.py`.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Annotated, BinaryIO

import pyarrow as pa
from pydantic import AfterValidator, Field

from connectors.contract import (
    AnswerSink,
    AnswerWriter,
    Connector,
    ConnectorError,
    ConnectorOptions,
    Place,
    Polled,
    RecordReader,
    RecordSource,
    ValueFormat,
)
from connectors.formats.files import OpenFile, opened
from connectors.shipped.files_out import NAME_BYTES, FilesWriter, cut
from connectors.shipped.folders import STORES, Folder, LocalFolder, StoreFolder
from connectors.shipped.folders_out import STORES_OUT, LocalOut, OutFolder, StoreOut

LOOK_S = 0.2
_HIDDEN = (".", "_")


def _one_place(path: str) -> str:
    """By two colons fsspec names another place behind the first."""
    if "::" in path and not path.startswith("/"):
        raise ValueError("expected one place, without '::'")
    return path


def _of_store(path: str) -> str:
    """A commit rests on writing that fails where something is there."""
    store, separator, _ = path.partition("://")
    if separator and store not in STORES_OUT:
        known = ", ".join(f"{each}://" for each in STORES_OUT)
        raise ValueError(f"{store}:// has no writing that fails where something is there, so two writers could both commit; {known} have")
    if not path.startswith("/") and not separator:
        raise ValueError("expected a folder, from the root on, or of a store, such as s3://bucket/out")
    return path


class FilesIn(ConnectorOptions):
    """`from`: {"connector": "files", "path": "/data/in", "format": "json"}"""

    path: Annotated[
        str,
        Field(pattern=f"^(/|({'|'.join(STORES)})://)", description="The folder, from the root on, or of a store, such as `s3://…`."),
        AfterValidator(_one_place),
    ]
    store: Annotated[
        dict[str, str], Field(description="What fsspec is told to reach the store; secrets as `${env:NAME}`.", default_factory=dict)
    ]
    pattern: Annotated[str, Field(description="Which names are taken; never those that begin with `.` or `_`.")] = "*"
    follow: Annotated[bool, Field(description="What is renamed into the folder later is taken too; else the stream ends.")] = True

    def folders(self) -> Sequence[tuple[str, str]]:
        return (("path", self.path),) if self.path.startswith("/") else ()

    @property
    def place(self) -> Folder:
        return LocalFolder(self.path) if self.path.startswith("/") else StoreFolder(self.path, self.store)


class FilesOut(ConnectorOptions):
    """`to`: {"connector": "files", "path": "/data/out", "format": "json"}"""

    path: Annotated[
        str,
        Field(description="The folder, from the root on, or of a store of objects, such as `s3://…`."),
        AfterValidator(_one_place),
        AfterValidator(_of_store),
    ]
    store: Annotated[
        dict[str, str], Field(description="What fsspec is told to reach the store; secrets as `${env:NAME}`.", default_factory=dict)
    ]
    partition: Annotated[
        tuple[str, ...], Field(description="Columns whose values name folders, `day=2024-05-01/shop=7`; they are not in the files.")
    ] = ()
    roll_s: Annotated[float, Field(gt=0, le=3600, description="A file is finished after so many seconds.")] = 10.0
    roll_bytes: Annotated[int, Field(ge=1, le=32 << 20, description="Or when so many bytes of answers, as Arrow has them, are in it.")] = (
        16 << 20
    )

    def folders(self) -> Sequence[tuple[str, str]]:
        return (("path", self.path),) if self.path.startswith("/") else ()

    def wanted_columns(self) -> Sequence[tuple[str, str]]:
        return [("partition", name) for name in self.partition]

    def written(self, schema: pa.Schema) -> pa.Schema:
        return pa.schema([field for field in schema if field.name not in self.partition])

    def named(self, name: str) -> str:
        """A connector's name as a part of names of files. What adlfs looks for ends at a question mark."""
        name = cut(name, NAME_BYTES)
        return name.replace("?", "%3F") if self.path.startswith(("az://", "abfs")) else name

    def place(self, name: str) -> OutFolder:
        """Where the connector of that name writes."""
        name = self.named(name)
        return LocalOut(Path(self.path), name) if self.path.startswith("/") else StoreOut(self.path, self.store, name)


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
        self.folder, self.waiting = options.place, threading.Event()
        begins: tuple[str, int, int] = ("", 0, 1) if place is None else tuple(place)
        self.name, self.inside = begins[0], begins[1:]
        self.file: BinaryIO | None = None
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
        names = self.folder.names()
        return sorted(name for name in names if not name.startswith(_HIDDEN) and fnmatch(name, self.options.pattern))

    def _open(self) -> None:
        path = self.folder.path(self.name)
        try:
            self.file = self.folder.open(self.name)
        except OSError as error:
            raise ConnectorError(f"{path}, which is not read to its end: {error.strerror}") from None
        self.reading = opened(self.format, self.file, path, *self.inside)


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
        return FilesWriter(self.options.place(name), self.format, self.options.named(name), epoch, self.options.partition)


FILES = Connector(FilesIn, FilesSource, FilesOut, FilesSink, many=True)
