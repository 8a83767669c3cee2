"""Files and disks: what sources, tables, sinks and checkpoints use of them. The machine's, and one in memory that is shipped as its double.

Whatever goes wrong is an OSError with its number, as the machine says it: FileNotFoundError, FileExistsError, `errno.ENOSPC` where the
disk is full. `create`, `sync`, `rename`, `sync_folder`: after a loss of power such a file is there whole, or it is not there.
"""

from __future__ import annotations

import errno
import io
import mmap
import os
import stat
from collections.abc import Iterable
from typing import Protocol

from cep.world.confined import folder_of, open_to_read

_MODE, _OWN_MODE = 0o644, 0o600
#: Of a file that is mapped so much is read at a time, for threads of Python wait meanwhile; and the advice (madvise(2)) that reads it.
_MAPPED_BYTES, _POPULATE_READ = 1 << 20, 22
BOUNDLESS = 1 << 40
"""Bytes, of a disk in memory that is never full."""


class File(Protocol):
    """An open file, to read or to append to."""

    def read_at(self, into: memoryview, position: int) -> int:
        """Reads from `position` on. The bytes read: perhaps fewer than there is room for, 0 at the end."""

    def map(self) -> memoryview:
        """All of it, read now, not copied where that can be. It stays, whatever becomes of the file's name; nothing may write to it any
        more."""

    def append(self, data: memoryview) -> int:
        """Writes at the end. The bytes written: perhaps fewer than given, then the rest is to be given again."""

    def sync(self) -> None:
        """What was written is on the disk when this returns."""

    def size(self) -> int: ...

    def version(self) -> list[int]:
        """Numbers that differ where it is another file, or was written since."""

    def close(self) -> None: ...


class Store(Protocol):
    """Paths are absolute."""

    def open(self, path: str) -> File:
        """To be read. Raises OSError: there is none, or what is there is no file but a folder, a pipe, a device."""

    def create(self, path: str, overwrite: bool = False) -> File:
        """An empty file, to be appended to. Raises FileExistsError: there is one, and it is not to be overwritten."""

    def rename(self, path: str, name: str) -> None:
        """The file has another path from now on, whole; what was there is gone."""

    def remove(self, path: str) -> None: ...

    def make_folder(self, path: str) -> None:
        """With those above it; it may be there."""

    def names(self, folder: str) -> list[str]:
        """The names of the files and folders in it, sorted."""

    def sync_folder(self, folder: str) -> None:
        """The names in it are on the disk when this returns."""

    def free_bytes(self, path: str) -> int:
        """How much room the disk has on which `path` is."""


class DiskFile:
    """`File` of the machine."""

    def __init__(self, file: int) -> None:
        self._file = file

    def read_at(self, into: memoryview, position: int) -> int:
        return os.preadv(self._file, [into], position)

    def map(self) -> memoryview:
        if not (size := self.size()):
            return memoryview(b"")
        mapped = mmap.mmap(self._file, 0, prot=mmap.PROT_READ)
        for start in range(0, size, _MAPPED_BYTES):
            self._load(mapped, start, min(_MAPPED_BYTES, size - start))
        return memoryview(mapped)

    def _load(self, mapped: mmap.mmap, start: int, length: int) -> None:
        """What cannot be read is an error here; where it is first looked at, it would end the process."""
        try:
            mapped.madvise(_POPULATE_READ, start, length)
        except OSError as error:
            if error.errno == errno.EFAULT:
                raise OSError(errno.EIO, os.strerror(errno.EIO)) from error
            if error.errno != errno.EINVAL:
                raise
            os.pread(self._file, length, start)  # Linux before 5.14

    def append(self, data: memoryview) -> int:
        return os.write(self._file, data)

    def sync(self) -> None:
        os.fsync(self._file)

    def size(self) -> int:
        return os.fstat(self._file).st_size

    def version(self) -> list[int]:
        found = os.fstat(self._file)
        return [found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns]

    def close(self) -> None:
        os.close(self._file)


class DiskStore:
    """`Store` of the machine. `own`: of the cluster's own files, which lie where queries have none, and which no other user reads."""

    def __init__(self, own: bool = False) -> None:
        self._own, self._mode = own, _OWN_MODE if own else _MODE

    def open(self, path: str) -> File:
        file = open_to_read(path, self._own)
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise OSError(errno.EINVAL, "this is no file", path)
        return DiskFile(file)

    def create(self, path: str, overwrite: bool = False) -> File:
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_TRUNC if overwrite else os.O_EXCL)
        with folder_of(path, self._own) as (folder, name):
            return DiskFile(os.open(name, flags, self._mode, dir_fd=folder))

    def rename(self, path: str, name: str) -> None:
        with folder_of(path, self._own) as (source, old), folder_of(name, self._own) as (target, new):
            os.rename(old, new, src_dir_fd=source, dst_dir_fd=target)

    def remove(self, path: str) -> None:
        with folder_of(path, self._own) as (folder, name):
            os.unlink(name, dir_fd=folder)

    def make_folder(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def names(self, folder: str) -> list[str]:
        return sorted(os.listdir(folder))

    def sync_folder(self, folder: str) -> None:
        there = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(there)
        finally:
            os.close(there)

    def free_bytes(self, path: str) -> int:
        there = os.statvfs(path)
        return there.f_bavail * there.f_frsize


class MemoryFile:
    """`File` of a `MemoryStore`. One that was renamed or removed goes on, as on a disk."""

    def __init__(self, store: MemoryStore, data: bytearray, writes: bool) -> None:
        self._store, self._data, self._writes, self._open = store, data, writes, True

    def read_at(self, into: memoryview, position: int) -> int:
        self._check(not self._writes)
        found = self._data[position : position + len(into)]
        into[: len(found)] = found
        return len(found)

    def map(self) -> memoryview:
        self._check(not self._writes)
        return memoryview(bytes(self._data))

    def append(self, data: memoryview) -> int:
        self._check(self._writes)
        room = self._store.room_for(len(data))
        self._data += data[:room]
        return room

    def sync(self) -> None:
        self._check()

    def size(self) -> int:
        self._check()
        return len(self._data)

    def version(self) -> list[int]:
        self._check()
        return [id(self._data), len(self._data)]

    def close(self) -> None:
        self._check()
        self._open = False

    def _check(self, allowed: bool = True) -> None:
        if not self._open or not allowed:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))


class MemoryStore:
    """`Store` in memory.

    Args:
        bytes_max: so much there is room for; a write beyond it is cut short, and the next one fails, as on a full disk.
        write_bytes_max: more is not written with one call.
    """

    def __init__(self, bytes_max: int = BOUNDLESS, write_bytes_max: int = 1 << 30) -> None:
        self.bytes_max, self.write_bytes_max = bytes_max, write_bytes_max
        self._files: dict[str, bytearray] = {}
        self._folders = {"/"}

    def open(self, path: str) -> File:
        if path in self._folders:
            raise _error(errno.EISDIR, path)
        return MemoryFile(self, self._there(path), writes=False)

    def create(self, path: str, overwrite: bool = False) -> File:
        self._check_folder(os.path.dirname(path))
        if path in self._folders:
            raise _error(errno.EISDIR if overwrite else errno.EEXIST, path)
        if path in self._files and not overwrite:
            raise _error(errno.EEXIST, path)
        data = self._files.setdefault(path, bytearray())
        data.clear()
        return MemoryFile(self, data, writes=True)

    def rename(self, path: str, name: str) -> None:
        data = self._there(path)
        self._check_folder(os.path.dirname(name))
        del self._files[path]
        self._files[name] = data

    def remove(self, path: str) -> None:
        self._there(path)
        del self._files[path]

    def make_folder(self, path: str) -> None:
        for folder in _upwards(path):
            if folder in self._files:
                raise _error(errno.EEXIST if folder == path else errno.ENOTDIR, folder)
            self._folders.add(folder)

    def names(self, folder: str) -> list[str]:
        self._check_folder(folder)
        return sorted(os.path.basename(path) for path in (*self._files, *self._folders) if path != "/" and os.path.dirname(path) == folder)

    def sync_folder(self, folder: str) -> None:
        self._check_folder(folder)

    def free_bytes(self, path: str) -> int:
        if path not in self._folders:
            self._there(path)
        return self.bytes_max - sum(map(len, self._files.values()))

    def room_for(self, size: int) -> int:
        """How much of a write of `size` bytes is done. Raises OSError: the disk is full."""
        free = self.bytes_max - sum(map(len, self._files.values()))
        if size and free <= 0:
            raise _error(errno.ENOSPC)
        return min(size, free, self.write_bytes_max)

    def _there(self, path: str) -> bytearray:
        if path not in self._files:
            raise _error(errno.ENOENT, path)
        return self._files[path]

    def _check_folder(self, folder: str) -> None:
        if folder in self._files:
            raise _error(errno.ENOTDIR, folder)
        if folder not in self._folders:
            raise _error(errno.ENOENT, folder)


class ReadableFile(io.RawIOBase):
    """An open `File` for libraries that want one of Python's. Closing it closes that.

    `failed`: the store could not read, so whatever a library makes of it, nothing is said of what is in the file.
    """

    def __init__(self, file: File) -> None:
        self._file, self._position, self._version = file, 0, file.version()
        self.failed: OSError | None = None

    def is_as_opened(self) -> bool:
        """Has nobody changed the file since?"""
        return self._file.version() == self._version

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._file.size()}
        self._position = base[whence] + offset
        return self._position

    def readinto(self, into: bytearray | memoryview) -> int:  # type: ignore[override]
        """As much as there is room for; less only at the end of the file, for Arrow takes less for the end. Raises OSError."""
        try:
            got = fill(self._file, memoryview(into).cast("B"), self._position)
        except OSError as error:
            self.failed = error
            raise
        self._position += got
        return got

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


def fill(file: File, into: memoryview, position: int) -> int:
    """Fills `into` from `position` on. The bytes read: fewer than there is room for only at the end of the file."""
    done = 0
    while done < len(into) and (got := file.read_at(into[done:], position + done)):
        done += got
    return done


def append_all(file: File, data: bytes | memoryview) -> None:
    """Writes all of it, however often a write is cut short."""
    left = memoryview(data)
    while left:
        left = left[file.append(left) :]


def _error(number: int, path: str | None = None) -> OSError:
    return OSError(number, os.strerror(number), path)  # which makes it FileNotFoundError and so on


def _upwards(path: str) -> Iterable[str]:
    while path != "/":
        yield path
        path = os.path.dirname(path)
