"""The folder that keeps prepared records between runs: where it is, whose turn it is, how much room there is.

<cache>/lock                         held by the hibench at work; says which that is
<cache>/<dataset name>/              complete: it appears by one rename
<cache>/.making-<dataset name>/      half made; the holder of the lock may delete it
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

from hibench.errors import CacheError
from hibench.records.dataset import Dataset, Prepared

_MAKING = ".making-"
_ROOM_TO_SPARE = 64 << 20


def records_cache(chosen: Path | None) -> Path:
    """`--cache`, else $XDG_CACHE_HOME/hibench, else ~/.cache/hibench; made if absent, or CacheError."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = (chosen or base / "hibench").expanduser().absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(folder, error) from error
    return folder


@contextlib.contextmanager
def locked(cache: Path, on_wait: Callable[[str], None]) -> Iterator[None]:
    """One hibench at a time per cache folder. If another is at work `on_wait` is told which, and this one waits.

    The kernel lets go of the lock when its holder dies, so nothing stale can block.
    """
    try:
        lock = open(cache / "lock", "a+")  # noqa: SIM115 (closed by the `with` below)
    except OSError as error:
        raise _unwritable(cache, error) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            on_wait(lock.read().strip() or "another hibench")
            fcntl.flock(lock, fcntl.LOCK_EX)
        lock.truncate(0)
        command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])
        lock.write(f"process {os.getpid()} ({command}), since {datetime.now():%H:%M:%S}\n")
        lock.flush()
        yield
        lock.truncate(0)


def waiting(cache: Path, holder: str) -> str:
    """What to tell the person who waits."""
    return f"waiting: {holder}, is using the cache {cache}; Ctrl-C to give up, or --cache DIR for another"


@contextlib.contextmanager
def new_folder(cache: Path, dataset: Dataset) -> Iterator[Path]:
    """A fresh folder to make `dataset` in. It takes its place in the cache if the block succeeds, and vanishes if not.

    Raises CacheError if there is no room for it, or if the disk fills up meanwhile. Call with the lock held.
    """
    for abandoned in cache.glob(f"{_MAKING}*"):
        shutil.rmtree(abandoned, ignore_errors=True)
    _expect_room(cache, dataset)
    folder = cache / f"{_MAKING}{dataset.name}"
    try:
        folder.mkdir()
        yield folder
        folder.rename(cache / dataset.name)
    except OSError as error:
        raise disk_error(cache, error) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def datasets(cache: Path) -> Iterator[Prepared]:
    """The complete datasets of the cache, by name; damaged ones raise CacheError."""
    for manifest in sorted(cache.glob(f"uservisits-*/{Prepared.MANIFEST}")):
        yield Prepared.read(manifest.parent)


def disk_error(path: Path, error: OSError) -> CacheError:
    """The error to show for an OSError met while writing `path`."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        free = shutil.disk_usage(path if path.exists() else path.parent).free
        return CacheError(
            f"the disk under {str(path)!r} is full ({free:,} bytes free); nothing half made was kept. "
            "Make room, or choose another folder with --cache DIR"
        )
    return _unwritable(path, error)


def _expect_room(cache: Path, dataset: Dataset) -> None:
    needed, free = dataset.bytes_expected * 51 // 50 + _ROOM_TO_SPARE, shutil.disk_usage(cache).free
    if free < needed:
        raise CacheError(
            f"no room in the cache {str(cache)!r}: {dataset.events:,} records need about {needed:,} bytes, "
            f"{free:,} are free. Make room, ask for fewer --events, or choose another folder with --cache DIR"
        )


def _unwritable(path: Path, error: OSError) -> CacheError:
    reason = error.strerror or str(error)
    return CacheError(f"cannot write in {str(path)!r}: {reason}; choose a folder that can be written with --cache DIR")
