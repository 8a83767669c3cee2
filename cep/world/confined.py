"""Files of queries are opened below the cluster's folders only: that is decided of the file that is open, not of a path before.

Between a look at a path and its opening whoever may write there can put a link in its place. So a file to be read is opened first, and the
kernel then says where it is; one to be made is made in a folder that is open, and known to be inside. A process says once which folders
those are (`confine`); until then there is no such limit, as for a program that tests its queries.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_FOLDERS: list[Path] | None = None
OUTSIDE = "it is not under a folder of this cluster"


def confine(folders: Iterable[str] | None) -> None:
    """From now on this process opens files of queries below these only; None: wherever they are."""
    global _FOLDERS
    _FOLDERS = None if folders is None else [Path(folder).resolve() for folder in folders]


def open_to_read(path: str, own: bool = False) -> int:
    """A descriptor. `own`: the cluster's own file, which may be anywhere. Raises OSError; PermissionError: it is outside, whether it exists
    or not."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe without a writer is not waited for
    except OSError:
        if not own:
            _check(Path(path).resolve(), path)
        raise
    with _closed_if_wrong(file):
        if not own:
            _check(_place(file), path)
    return file


@contextmanager
def folder_of(path: str, own: bool = False) -> Iterator[tuple[int, str]]:
    """The folder in which `path` is, open, and its name there. `own` and what it raises: as `open_to_read`."""
    parent, name = os.path.split(path)
    folder = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if not own:
            _check(_place(folder), path)
        yield folder, name
    finally:
        os.close(folder)


def _place(file: int) -> Path:
    return Path(os.readlink(f"/proc/self/fd/{file}"))


def _check(place: Path, path: str) -> None:
    if _FOLDERS is not None and not any(place.is_relative_to(folder) for folder in _FOLDERS):
        raise PermissionError(errno.EACCES, OUTSIDE, path)


@contextmanager
def _closed_if_wrong(file: int) -> Iterator[None]:
    try:
        yield
    except BaseException:
        with suppress(OSError):
            os.close(file)
        raise
