"""Where files are read from: a folder of this machine, or of a store that fsspec reaches."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import Any, BinaryIO

from connectors.contract import ConnectorError, library

STORES = ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "oss", "hdfs", "webhdfs", "sftp", "ftp", "smb", "memory")
"""None of which is on a disk of this machine, where a cluster says what connectors may reach."""

BLOCK_BYTES = 1 << 20


class Folder(ABC):
    """All that it does may raise ConnectorError."""

    @abstractmethod
    def names(self) -> list[str]:
        """Of its files, in any order."""

    @abstractmethod
    def open(self, name: str) -> BinaryIO:
        """Raises OSError: it is not there."""

    @abstractmethod
    def path(self, name: str) -> str:
        """What a file is called."""


class LocalFolder(Folder):
    """Of this machine."""

    def __init__(self, path: str) -> None:
        self.folder = Path(path)

    def names(self) -> list[str]:
        try:
            there = os.scandir(self.folder)
        except OSError as error:
            raise ConnectorError(f"{self.folder}: {error.strerror}") from None
        with there:
            return [each.name for each in there if each.is_file()]

    def open(self, name: str) -> BinaryIO:
        return (self.folder / name).open("rb")

    def path(self, name: str) -> str:
        return str(self.folder / name)


class StoreFolder(Folder):
    """Of a store."""

    def __init__(self, url: str, options: Mapping[str, str]) -> None:
        self.url = url.rstrip("/")
        with failing(self.url):
            self.store, self.folder = library("fsspec.core", "stores").url_to_fs(self.url, **options, skip_instance_cache=True)

    def names(self) -> list[str]:
        with failing(self.url):
            self.store.invalidate_cache()
            there = self.store.ls(self.folder, detail=True)
        return [each["name"].rstrip("/").rpartition("/")[2] for each in there if each["type"] == "file"]

    def open(self, name: str) -> BinaryIO:
        with failing(self.path(name)):
            file = self.store.open(f"{self.folder.rstrip('/')}/{name}", "rb", block_size=BLOCK_BYTES)
        return BufferedReader(_StoreFile(file, self.path(name)), BLOCK_BYTES)

    def path(self, name: str) -> str:
        return f"{self.url}/{name}"


class _StoreFile(RawIOBase):
    """What goes wrong on the way is no fault of the file: it is not to be taken for one that cannot be read."""

    def __init__(self, file: Any, name: str) -> None:
        self.file, self.called = file, name

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(self.file.seek(offset, whence))

    def tell(self) -> int:
        return int(self.file.tell())

    def readinto(self, into: Any) -> int:
        with failing(self.called):
            found = self.file.read(len(into))
        into[: len(found)] = found
        return len(found)

    def close(self) -> None:
        if not self.closed:
            self.file.close()
        super().close()


@contextmanager
def failing(what: str) -> Iterator[None]:
    """Each store has errors of its own."""
    try:
        yield
    except FileNotFoundError:
        raise ConnectorError(f"{what}: there is no such file or folder") from None
    except ConnectorError:
        raise
    except Exception as error:
        raise ConnectorError(f"{what}: {type(error).__name__}: {error}") from None
