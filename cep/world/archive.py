"""A folder of files that are written once, whole or not at all, and known by name and CRC: pieces of checkpoints, and their manifests."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from contextlib import suppress

from cep.errors import ClusterError
from cep.world.store import Store, append_all

_TEMPORARY = ".writing"


class Archive:
    """Raises ClusterError, which names the file, where the disk does not do what it is asked."""

    def __init__(self, store: Store, folder: str) -> None:
        self.store, self.folder = store, folder

    def write(self, name: str, data: bytes) -> int:
        """Its CRC. When this returns, it is on the disk. No name is written twice."""
        path = f"{self.folder}/{name}"
        try:
            self.store.make_folder(self.folder)
            if name in self.store.names(self.folder):
                raise FileExistsError(17, "it is there already")
            file = self.store.create(path + _TEMPORARY, overwrite=True)
            try:
                append_all(file, data)
                file.sync()
            finally:
                file.close()
            self.store.rename(path + _TEMPORARY, path)
            self.store.sync_folder(self.folder)
        except OSError as error:
            with suppress(OSError):
                self.store.remove(path + _TEMPORARY)
            raise ClusterError(f"file {path!r} cannot be written: {error.strerror}") from error
        return zlib.crc32(data)

    def read(self, name: str, crc: int) -> bytes:
        path = f"{self.folder}/{name}"
        try:
            file = self.store.open(path)
            try:
                data = bytearray(file.size())
                self._fill(file.read_at, data)
            finally:
                file.close()
        except OSError as error:
            raise ClusterError(f"file {path!r} cannot be read: {error.strerror}") from error
        if (found := zlib.crc32(data)) != crc:
            raise ClusterError(f"file {path!r} is not what was written: expected CRC {crc:08x}, got {found:08x}")
        return bytes(data)

    def _fill(self, read_at: Callable[[memoryview, int], int], data: bytearray) -> None:
        at = 0
        while at < len(data):
            with memoryview(data)[at:] as rest:
                got = read_at(rest, at)
            if not got:
                raise OSError(5, "it ends too soon")
            at += got

    def sweep(self, goes: Callable[[str], bool]) -> int:
        """Removes what is to go, as far as the disk allows. How many."""
        removed = 0
        with suppress(OSError):
            for name in self.store.names(self.folder):
                if goes(name):
                    self.store.remove(f"{self.folder}/{name}")
                    removed += 1
        return removed


__all__ = ["Archive"]
