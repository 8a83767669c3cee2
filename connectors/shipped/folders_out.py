"""Where files are written to: a folder of this machine, or of a store that fsspec reaches. Nothing that is there is ever changed.

A connector's own names are in a hidden folder, `.CONNECTOR`, beside the files that have got their names.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, TypeVar
from uuid import uuid4

from connectors.contract import ConnectorError
from connectors.shipped.folders import StoreFolder, failing

STORES_OUT = ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss")
"""What fsspec has for others looks whether something is there, and then writes: two writers at a time both would."""

AT_ONCE = 16
Item = TypeVar("Item")


class OutFolder(ABC):
    """All that it does may raise ConnectorError. `called`: for messages."""

    called: str

    @abstractmethod
    def hidden(self) -> list[str]:
        """The connector's own names."""

    @abstractmethod
    def read(self, name: str) -> bytes:
        """What is under one of them."""

    @abstractmethod
    def put_new(self, name: str, content: bytes) -> None:
        """Of several that do it at a time one is not refused; it is there whole or not at all. Where it is refused for another reason, or
        this process is killed, it may be there all the same."""

    @abstractmethod
    def begin(self, name: str) -> BinaryIO:
        """A file that is being written, under one of the connector's own names."""

    @abstractmethod
    def keep(self, name: str, file: BinaryIO) -> None:
        """It is whole, and stays."""

    @abstractmethod
    def publish(self, files: Mapping[str, str]) -> None:
        """Each has from now on the name that it is to have. One that is gone has got it before."""

    @abstractmethod
    def remove(self, names: Iterable[str]) -> None:
        """Those of the connector's own that are there."""


class LocalOut(OutFolder):
    """Of this machine."""

    def __init__(self, folder: Path, name: str) -> None:
        self.called, self.folder, self.own = str(folder), folder, folder / f".{name}"
        if (folder / f".{name}.manifest").exists():
            raise ConnectorError(f"{folder}: its files are of a version before, whose manifest is not read: give {name!r} another folder")
        with self._failing():
            self.own.mkdir(parents=True, exist_ok=True)
            _sync(self.folder)

    def hidden(self) -> list[str]:
        with self._failing():
            return os.listdir(self.own)

    def read(self, name: str) -> bytes:
        with self._failing():
            return (self.own / name).read_bytes()

    def put_new(self, name: str, content: bytes) -> None:
        part = self.own / f"{name}.{uuid4().hex}.part"
        with self._failing():
            try:
                with part.open("wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                os.link(part, self.own / name)
                _sync(self.own)
            finally:
                part.unlink(missing_ok=True)

    def begin(self, name: str) -> BinaryIO:
        with self._failing():
            return (self.own / name).open("wb")

    def keep(self, name: str, file: BinaryIO) -> None:
        with self._failing(), file:
            file.flush()
            os.fsync(file.fileno())

    def publish(self, files: Mapping[str, str]) -> None:
        synced = set()
        with self._failing():
            for hidden, name in files.items():
                named = self.folder / name
                named.parent.mkdir(parents=True, exist_ok=True)
                with suppress(FileNotFoundError):
                    (self.own / hidden).replace(named)
                    synced |= {each for each in (named.parent, *named.parent.parents) if each.is_relative_to(self.folder)}
            for folder in synced:
                _sync(folder)

    def remove(self, names: Iterable[str]) -> None:
        with self._failing():
            for name in names:
                (self.own / name).unlink(missing_ok=True)

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ConnectorError(f"{self.called}: {error.strerror}") from None


class StoreOut(OutFolder):
    """Of a store, which renames nothing: an object is copied in the store, and the first one removed."""

    def __init__(self, url: str, options: Mapping[str, str], name: str) -> None:
        place = StoreFolder(url, options)
        self.called, self.store, self.folder = place.url, place.store, place.folder.rstrip("/")
        self.own = f"{self.folder}/.{name}"
        self._try_out()

    def _try_out(self) -> None:
        """Not every server of S3 knows what a commit rests on, and one that does not says nothing."""
        probe, said = f"{uuid4().hex}.part", []
        for content in (b"first", b"second"):
            try:
                self.put_new(probe, content)
            except ConnectorError as error:
                said.append(error)
        if said and not self.hidden().count(probe):
            raise said[0]
        kept = self.read(probe)
        self.remove([probe])
        if kept != b"first":
            raise ConnectorError(
                f"{self.called}: this store writes over what is there though it is told not to (`If-None-Match: *`): "
                "two writers could not be told apart, so nothing is written"
            )

    def hidden(self) -> list[str]:
        with failing(self.called):
            self.store.invalidate_cache()
            try:
                there = self.store.ls(self.own, detail=False)
            except FileNotFoundError:
                return []
        return [name.rpartition("/")[2] for name in there]

    def read(self, name: str) -> bytes:
        with failing(f"{self.called}: {name}"):
            return bytes(self.store.cat_file(f"{self.own}/{name}"))

    def put_new(self, name: str, content: bytes) -> None:
        with failing(self.called):
            self.store.pipe_file(f"{self.own}/{name}", content, mode="create")

    def begin(self, name: str) -> BinaryIO:
        return BytesIO()

    def keep(self, name: str, file: BinaryIO) -> None:
        assert isinstance(file, BytesIO)
        with failing(self.called), file:
            self.store.pipe_file(f"{self.own}/{name}", file.getvalue())

    def publish(self, files: Mapping[str, str]) -> None:
        def name_it(hidden: str) -> None:
            with suppress(FileNotFoundError):
                self.store.cp_file(f"{self.own}/{hidden}", f"{self.folder}/{files[hidden]}")
                self.store.rm_file(f"{self.own}/{hidden}")

        with failing(self.called):
            at_once(name_it, files)

    def remove(self, names: Iterable[str]) -> None:
        def remove_it(name: str) -> None:
            with suppress(FileNotFoundError):
                self.store.rm_file(f"{self.own}/{name}")

        with failing(self.called):
            at_once(remove_it, names)


def at_once(done: Callable[[Item], None], items: Iterable[Item]) -> None:
    """Several of them at a time, for each waits for a disk or a server. Raises what the first of them did."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(done, items))


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
