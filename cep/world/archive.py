"""A folder of files that are written once, whole or not at all, and known by name and CRC: pieces of checkpoints, and their manifests.

zlib-ng makes the CRC of zlib, sixteen times as fast (2.2 and 36 GB/s here): an eighth of the CPU of
instance managers went there where much was on its way to programs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NamedTuple

from zlib_ng import zlib_ng

from cep.errors import ClusterError
from cep.world.store import Store, append_all

_TEMPORARY = ".writing"


class WrittenFile(NamedTuple):
    crc: int
    bytes: int


class Archive:
    """Raises ClusterError, which names the file, where the disk does not do what it is asked."""

    def __init__(self, store: Store, folder: str) -> None:
        self.store, self.folder = store, folder

    def write(self, name: str, parts: Iterable[bytes | memoryview]) -> WrittenFile:
        """`parts`, one behind the other. When this returns, it is on the disk. No name is written twice."""
        path, crc, size = f"{self.folder}/{name}", 0, 0
        try:
            self.store.make_folder(self.folder)
            if name in self.store.names(self.folder):
                raise FileExistsError(17, "it is there already")
            file = self.store.create(path + _TEMPORARY, overwrite=True)
            try:
                for part in parts:
                    append_all(file, part)
                    crc, size = zlib_ng.crc32(part, crc), size + len(part)
                file.sync()
            finally:
                file.close()
            self.store.rename(path + _TEMPORARY, path)
            self.store.sync_folder(self.folder)
        except BaseException as error:  # of what makes the parts, too
            with suppress(OSError):
                self.store.remove(path + _TEMPORARY)
            if not isinstance(error, OSError):
                raise
            raise ClusterError(f"file {path!r} cannot be written: {error.strerror}") from error
        return WrittenFile(crc, size)

    def read(self, name: str, crc: int) -> memoryview:
        """It is looked at where it lies, first to see that it is what was written: to put it into memory of its own would cost more than
        all that is done with it (`benchmarks/log/memory.md`), and to have it copied for the CRC alone half as much."""
        path = f"{self.folder}/{name}"
        try:
            file = self.store.open(path)
            try:
                data = file.map()
            finally:
                file.close()
        except OSError as error:
            raise ClusterError(f"file {path!r} cannot be read: {error.strerror}") from error
        if (found := zlib_ng.crc32(data)) != crc:
            raise ClusterError(f"file {path!r} is not what was written: expected CRC {crc:08x}, got {found:08x}")
        return data

    def sweep(self, goes: Callable[[str], bool]) -> int:
        """Removes what is to go, as far as the disk allows. How many."""
        removed = 0
        with suppress(OSError):
            for name in self.store.names(self.folder):
                if goes(name):
                    self.store.remove(f"{self.folder}/{name}")
                    removed += 1
        return removed


__all__ = ["Archive", "WrittenFile"]
