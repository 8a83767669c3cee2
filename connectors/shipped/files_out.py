"""Rolled files, exactly once, also where nothing can be renamed or locked, as in stores of objects.

A file is written under a hidden name that no other writer uses, one for each folder that rows go to. The commit is one more manifest, with
the number behind that of the last. It is put where nothing may be yet, so one of two writers finds it taken. It has the token, and names
the files; then they get their names. Whoever opens the folder next does what was left to do, and puts a manifest of its own, behind which
the writer before it can commit nothing. Manifests but the last are removed, so one that an old writer puts late may find its number free
again: it counts only if no greater one is there.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pyarrow as pa

from connectors.contract import AnswerWriter, ConnectorError, Fenced, ValueFormat
from connectors.formats.instants import names_of
from connectors.shipped.folders_out import OutFolder, at_once

OPEN_MAX = 100
NAME_BYTES, FOLDER_BYTES = 170, 230  # of a connector, or of a column and its value, in a name; a file system lets 255 be
_SAFE, _NULL = " +,-.@_", "__HIVE_DEFAULT_PARTITION__"
_MANIFEST, _PART = re.compile(r"(\d+)\.manifest(\..+)?"), re.compile(r"(\d+)\.\d+\.part")
_NOTHING: dict[str, Any] = {"token": None, "epoch": 0, "next": 0, "files": {}}


class _Part:
    """A file that is being written, under its hidden name."""

    def __init__(self, place: OutFolder, name: str, folder: str, format: ValueFormat, schema: pa.Schema) -> None:
        self.place, self.name, self.folder = place, name, folder
        self.file = place.begin(name)
        self.rows = format.rows_file(self.file, schema)

    def finish(self) -> None:
        """Its bytes are there to stay."""
        if not self.file.closed:
            self.rows.finish()
            self.place.keep(self.name, self.file)

    def drop(self) -> None:
        if not self.file.closed:
            with suppress(OSError), self.file:
                self.rows.finish()  # or what writes would find it closed when it goes
        self.place.remove([self.name])


class FilesWriter(AnswerWriter):
    """One file at a time in each folder."""

    def __init__(self, place: OutFolder, format: ValueFormat, name: str, epoch: int, partition: Sequence[str] = ()) -> None:
        self.place, self.format, self.name, self.epoch, self.partition = place, format, name, epoch, partition
        self.open: dict[str, _Part] = {}  # by the folder that each goes to, that which was written last at the end
        self.full: list[_Part] = []  # closed already
        self.begun = 0
        self.number, self.manifest = self._last()
        while not self._take_over():
            self.number, self.manifest = self._last()
        self._sweep()

    def token(self) -> str | None:
        token: str | None = self.manifest["token"]
        return token

    def write(self, rows: pa.RecordBatch, origin: str) -> None:
        try:
            for folder, part in self._apart(rows):
                self._part(folder, part.schema).rows.write(part)
        except OSError as error:
            raise ConnectorError(f"{self.place.called}: {error.strerror}") from None

    def commit(self, token: str) -> None:
        parts, self.full, self.open = [*self.full, *self.open.values()], [], {}  # whatever happens now: it may have come about
        try:
            at_once(_Part.finish, parts)
        except OSError as error:
            raise ConnectorError(f"{self.place.called}: {error.strerror}") from None
        following, before = self.manifest["next"], self.number
        files = {part.name: self._named(part, number) for number, part in enumerate(parts, following)}
        self._put({"token": token, "epoch": self.epoch, "next": following + len(files), "files": files})
        self.place.publish(files)
        self.place.remove([_called(before)])

    def abort(self) -> None:
        parts, self.full, self.open = [*self.full, *self.open.values()], [], {}
        for part in parts:
            part.drop()

    def close(self) -> None:
        self.abort()

    def _take_over(self) -> bool:
        """From the writer before. False: it has committed in between."""
        self._check()
        self.place.publish(self.manifest["files"])
        try:
            self._put(self.manifest | {"epoch": self.epoch, "files": {}})
        except Fenced:
            return False
        return True

    def _sweep(self) -> None:
        """Takes away what writers before have left, who can commit nothing more; not what a later one is writing."""
        for kind, first in (_PART, self.epoch), (_MANIFEST, self.number):
            there = filter(None, map(kind.fullmatch, self.place.hidden()))
            self.place.remove([each[0] for each in there if int(each[1]) < first])

    def _last(self) -> tuple[int, dict[str, Any]]:
        """The manifest that counts, and its number."""
        there = filter(None, map(_MANIFEST.fullmatch, self.place.hidden()))
        number = max((int(each[1]) for each in there if not each[2]), default=0)
        if not number:
            return 0, _NOTHING
        try:
            found: dict[str, Any] = json.loads(self.place.read(_called(number)))
        except ValueError as error:
            what = f"{self.place.called}: the manifest {_called(number)} of {self.name!r}"
            raise ConnectorError(f"{what} makes no sense, so it is not known what was written: {error}") from None
        return number, found

    def _put(self, manifest: dict[str, Any]) -> None:
        """The commit. Raises Fenced. What is there tells whether it has come about: the store's own answer may be lost."""
        number, manifest = self.number + 1, manifest | {"attempt": uuid4().hex}
        wrong: ConnectorError | None = None
        try:
            self.place.put_new(_called(number), json.dumps(manifest).encode())
        except ConnectorError as error:
            wrong = error
        last, found = self._last()
        if last < number:
            raise wrong or ConnectorError(f"{self.place.called}: {_called(number)} was written, and is not there")  # it may come yet
        if (last, found) != (number, manifest):
            raise Fenced(f"{self.place.called}: another writer of {self.name!r} has come: its epoch is {found['epoch']}, ours {self.epoch}")
        self.number, self.manifest = number, manifest

    def _check(self) -> None:
        if (there := self.manifest["epoch"]) > self.epoch:
            raise Fenced(f"{self.place.called}: a later writer of {self.name!r} has come: epoch {there}, ours is {self.epoch}")

    def _part(self, folder: str, schema: pa.Schema) -> _Part:
        part = self.open.pop(folder, None)
        if part is None:
            if len(self.open) == OPEN_MAX:
                oldest = self.open.pop(next(iter(self.open)))
                self.full.append(oldest)
                oldest.finish()
            self.begun += 1  # a name that was committed is never written again
            part = _Part(self.place, f"{self.epoch}.{self.begun}.part", folder, self.format, schema)
        self.open[folder] = part
        return part

    def _apart(self, rows: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The folder, and what goes there, without the columns that name it. Raises ConnectorError."""
        if not self.partition:
            yield "", rows
            return
        if missing := [name for name in self.partition if name not in rows.schema.names]:
            raise ConnectorError(f"partition: the stream has no column {missing[0]!r}; it has {', '.join(rows.schema.names)}")
        places: dict[tuple[str | None, ...], list[int]] = {}
        for at, values in enumerate(zip(*(names_of(rows.column(name)) for name in self.partition), strict=True)):
            places.setdefault(values, []).append(at)
        left = rows.select([name for name in rows.schema.names if name not in self.partition])
        if not left.num_columns:
            raise ConnectorError("partition: no column is left for the files")
        for values, indexes in places.items():
            yield "/".join(map(_folder_name, self.partition, values)), left.take(pa.array(indexes))

    def _named(self, part: _Part, number: int) -> str:
        return f"{part.folder}{'/' if part.folder else ''}{self.name}-{number:08d}{self.format.suffix}"


def _called(number: int) -> str:
    return f"{number:010d}.manifest"


def _folder_name(column: str, value: str | None) -> str:
    """As Hive has it, and so what reads such folders."""
    return cut(f"{quote(column, safe=_SAFE)}={quote(value or '', safe=_SAFE) or _NULL}", FOLDER_BYTES)


def cut(name: str, most: int) -> str:
    """`name`, of `most` bytes: where it is longer, so much of it and a hash, which tells it apart from all others. As
    `cep.model.limits.name_in_files`, which a connector may not import."""
    whole = name.encode()
    return name if len(whole) <= most else f"{whole[:most].decode(errors='ignore')}~{hashlib.sha256(whole).hexdigest()[:16]}"
