"""A real PostgreSQL server, on a socket in a folder of its own. It does not run as root."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tests.support.waiting import HANG_S, until

INITDB = shutil.which("initdb") or next(map(str, sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))), "")
USER = "postgres"


class PostgresServer:
    """`conninfo`: how it is reached, as the user that may do everything."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.data = folder, folder / "data"
        self.conninfo = f"host={folder} dbname=postgres user={USER}"
        self.process: subprocess.Popen[bytes] | None = None
        self._as_user([INITDB, "-D", str(self.data), "-U", USER, "-A", "trust", "--no-sync"]).wait(HANG_S)

    def start(self) -> None:
        own = ["-c", "listen_addresses=", "-c", f"unix_socket_directories={self.folder}"]
        own += ["-c", "dynamic_shared_memory_type=mmap"]  # in its folder: one that is killed leaves its part of /dev/shm for ever
        self.process = self._as_user([str(Path(INITDB).resolve().parent / "postgres"), "-D", str(self.data), *own])
        until(self._answers)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(HANG_S)
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    def connect(self) -> psycopg.Connection:
        return psycopg.connect(self.conninfo, autocommit=True)

    def _answers(self) -> bool:
        try:
            self.connect().close()
        except psycopg.OperationalError:
            return False
        return True

    def _as_user(self, command: list[str]) -> subprocess.Popen[bytes]:
        other = {} if os.getuid() else {"user": USER, "group": pwd.getpwnam(USER).pw_gid, "extra_groups": []}
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder, **other)  # type: ignore[call-overload,no-any-return]


@contextmanager
def postgres() -> Iterator[PostgresServer]:
    with tempfile.TemporaryDirectory(prefix="pg-") as name:
        folder = Path(name)
        if not os.getuid():
            os.chown(folder, pwd.getpwnam(USER).pw_uid, -1)
        made = PostgresServer(folder)
        made.start()
        try:
            yield made
        finally:
            made.kill()
