"""Processes that do not outlive the one that started them, each in a process group of its own; and their private folder."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from cep.config import RINGS
from cep.errors import ClusterError
from cep.service.reports import read_reports
from cep.world.parents import die_with

SOCKET_PATH_BYTES_MAX = 107  # sun_path of unix(7), less its final zero
_SOCKET_NAME_BYTES = 32  # room for the name of any socket in the folder
_PREFIX = "cep-"
_MEMORY = Path("/dev/shm")
_LOCK = "lock"
_LASTING_LOCK = "lasting-lock"  # of a home that no cluster sweeps
_OF_HOME = "home"  # says whose folder of reports it is
_TAIL_BYTES = 64 << 10


def start(
    command: Sequence[str],
    log: Path | None,
    environment: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Starts `command`, its output appended to `log`, or with None going where ours goes. The kernel kills it when the calling
    *thread* ends, however it ends.

    Call it from the main thread of a process that has no other: the child runs Python between fork and exec. The signal
    survives exec, so that Java and numactl have it too. Being in its own group it gets no Ctrl-C from a terminal.

    Raises:
        OSError: the command or the log's folder is not there.
    """
    with nullcontext() if log is None else log.open("ab") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=None if output is None else subprocess.STDOUT,
            env=None if environment is None else dict(environment),
            pass_fds=pass_fds,
            process_group=0,
            preexec_fn=partial(die_with, os.getpid()),
        )


class ChildProcess(Protocol):
    """What a supervisor does with a child: `subprocess.Popen`, or one that was made in another way."""

    @property
    def pid(self) -> int: ...
    @property
    def returncode(self) -> int | Any: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...


def stop(processes: Iterable[ChildProcess], patience_s: float = 5.0) -> None:
    """Asks all to end, waits for them together for at most `patience_s`, kills the rest, and reaps every one."""
    running = [process for process in processes if process.poll() is None]
    for process in running:
        process.terminate()
    deadline = time.monotonic() + patience_s
    for process in running:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def tail(log: Path, lines: int = 12) -> str:
    """The last lines of a log; empty where there is none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            return "\n".join(file.read().decode(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""


def ending(process: ChildProcess) -> str:
    """How a process that is over ended, in words."""
    code = process.returncode
    return f"was killed by {_signal(-code)}" if code < 0 else f"ended with exit code {code}"


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time one: only the first and the last of them have names
        return f"signal {number}"


class Home:
    """The private folder of one cluster: logs, sockets, ZooKeeper's data.

    It is held by a lock that the kernel lets go when the owner ends, however it ends: a folder without owner can be swept. One that is
    `lasting` has a lock of another name: it stays, for the next cluster on it to go on from.
    """

    def __init__(self, folder: Path, lock: int, lasting: bool = False) -> None:
        self.folder, self._lock, self.lasting = folder, lock, lasting

    @staticmethod
    def make(parent: str | None = None) -> Home:
        """A new folder, short enough for socket paths, under `parent` (by default the temporary folder).

        Folders of clusters whose owner was killed are removed on the way.

        Raises:
            ClusterError: it cannot be written, or the path is too long.
        """
        where = _short_enough(parent)
        try:
            _sweep(where)
            _sweep_reports()
            folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=where))
            _leave_to_owner(folder)
            return Home(folder, _lock(folder))
        except OSError as error:
            raise ClusterError(f"cannot make a folder for the cluster under {where}: {error}") from error

    @staticmethod
    def keep(folder: str) -> Home:
        """That folder, with what a cluster has left there, made if it is not there.

        Raises:
            ClusterError: it cannot be written, its path is too long, or a cluster runs there.
        """
        where = Path(folder).absolute()
        check_socket_path(where, _SOCKET_NAME_BYTES + 1)
        try:
            _sweep_reports()
            where.mkdir(mode=0o700, parents=True, exist_ok=True)
            return Home(where, _lock_lasting(where), lasting=True)
        except BlockingIOError:
            raise ClusterError(f"a cluster runs in {where} already: stop it first, or name another folder") from None
        except OSError as error:
            raise ClusterError(f"cannot make the folder {where} for the cluster: {error}") from error

    def socket(self, name: str) -> str:
        """The endpoint of a socket in this folder."""
        return f"ipc://{self.folder / name}"

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def make_reports(self) -> Path:
        """The folder for what supervisors report: in memory, where a full disk does not matter; else in this one. What publishers have kept
        there for a lasting cluster's queries stays."""
        _remove_reports(self.folder, self.lasting)  # of the cluster that was here before
        for folder in (_reports_of(self.folder, self.lasting), self.folder / "reports"):
            with suppress(OSError):
                folder.mkdir(mode=0o700, exist_ok=self.lasting)
                (folder / _OF_HOME).write_text(str(self.folder))
                self._held = _lock(folder)  # by itself: its home may be removed by another process
                return folder
        raise ClusterError(f"cannot make a folder for reports, neither under {_MEMORY} nor in {self.folder}")

    def leave(self, keep: bool) -> None:
        """Removes the folder, unless it is to be kept for a look."""
        _remove_reports(self.folder, self.lasting)
        if self.lasting:
            pass
        elif keep:
            (self.folder / _LOCK).unlink(missing_ok=True)  # without it no process sweeps the folder
        else:
            shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self._lock)


def _short_enough(parent: str | None) -> Path:
    asked = Path(parent or tempfile.gettempdir()).absolute()
    more = len("/cep-12345678/") + _SOCKET_NAME_BYTES
    if not parent and len(os.fsencode(asked)) + more > SOCKET_PATH_BYTES_MAX:
        asked = Path("/tmp")
    check_socket_path(asked, more)
    return asked


def check_socket_path(folder: Path, more: int = 0) -> None:
    """Raises ClusterError: with so many bytes more it is no path for a socket."""
    if len(os.fsencode(folder)) + more > SOCKET_PATH_BYTES_MAX:
        raise ClusterError(f"{folder}: too long a path for sockets, which end at {SOCKET_PATH_BYTES_MAX} bytes; name a shorter folder")


def _lock_lasting(folder: Path) -> int:
    """Raises BlockingIOError: another process has it."""
    lock = os.open(folder / _LASTING_LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise
    return lock


def _lock(folder: Path) -> int:
    """Locked before it has its name, so that a sweeper never finds a new folder unlocked."""
    unnamed = folder / f"{_LOCK}.new"
    lock = os.open(unnamed, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    unnamed.rename(folder / _LOCK)
    return lock


def _leave_to_owner(folder: Path) -> None:
    """A folder that root makes in one of a single other user, a cluster's run folder, is that user's: the cluster looks into it."""
    owner = folder.parent.stat()
    if os.geteuid() == 0 and owner.st_uid != 0 and not owner.st_mode & stat.S_IWOTH:
        os.chown(folder, owner.st_uid, owner.st_gid)


def _sweep(where: Path) -> None:
    for lock in where.glob(f"{_PREFIX}????????/{_LOCK}"):
        if _free(lock):
            _remove_reports(lock.parent)
            shutil.rmtree(lock.parent, ignore_errors=True)


def _sweep_reports() -> None:
    """Those of homes that are gone. What a killed supervisor reported is to be read as long as its home is there, wherever that is, and
    whichever clusters start meanwhile."""
    for lock in _MEMORY.glob(f"{_PREFIX}????????/{_LOCK}"):
        if _free(lock) and not any(home.exists() for home in _homes(lock.parent)):
            shutil.rmtree(lock.parent, ignore_errors=True)


def _homes(reports: Path) -> Iterator[Path]:
    """Whose folder of reports it is."""
    yield from (Path(report["home"]) for report in read_reports(reports) if report.get("home"))
    with suppress(OSError):
        yield Path((reports / _OF_HOME).read_text())


def _reports_of(home: Path, lasting: bool) -> Path:
    """In memory: by the name of a private home, which is made up; lasting ones may be called alike, so by their whole path."""
    return _MEMORY / (_PREFIX + hashlib.blake2b(bytes(home), digest_size=4).hexdigest() if lasting else home.name)


def _remove_reports(home: Path, lasting: bool = False) -> None:
    """`lasting`: what publishers have kept stays, and what says whose it is."""
    folder = _reports_of(home, lasting)
    with suppress(OSError):
        if folder.stat().st_uid != os.getuid():
            return
        if lasting and any((folder / RINGS).glob("*")):
            for each in folder.iterdir():
                if each.name not in (RINGS, _LOCK, _OF_HOME):
                    each.unlink(missing_ok=True)
        else:
            shutil.rmtree(folder, ignore_errors=True)


def report_folders() -> Iterator[Path]:
    """Those of our clusters that run on this machine, and of some that were killed."""
    homes = {Path(tempfile.gettempdir()), Path("/tmp")}
    for folder in (*_MEMORY.glob(f"{_PREFIX}????????"), *(each for home in homes for each in home.glob(f"{_PREFIX}????????/reports"))):
        with suppress(OSError):
            if folder.stat().st_uid == os.getuid():
                yield folder


def _free(lock: Path) -> bool:
    """It is ours and no process holds it. One that vanishes meanwhile belongs to a folder that is being removed."""
    try:
        handle = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.fstat(handle).st_uid == os.getuid()
    except BlockingIOError:
        return False
    finally:
        os.close(handle)
