"""The folder that the processes of one machine share: their sockets, reports and secrets. In containers it has the same path as outside.

A user who may read it may use the cluster: it belongs to one user, and no other may enter. `cep init` makes it.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from cep.config import RUN_VARIABLE
from cep.errors import ClusterError
from driver.processes.process import check_socket_path
from driver.processes.secret_files import keep_secret
from driver.processes.zookeeper import make_secret

_SPARK_SETTINGS = "spark.authenticate true\nspark.authenticate.secret {secret}\n"


@dataclass(frozen=True, slots=True)
class RunFolder:
    """It and what is in it."""

    path: Path

    @property
    def reports(self) -> Path:
        return self.path / "reports"

    @property
    def spark(self) -> Path:
        """What Spark reads as its configuration: the secret by which its processes know each other."""
        return self.path / "spark"

    @property
    def tokens(self) -> Path:
        """Further tokens, of which `cep token` keeps the hashes; it need not be there."""
        return self.path / "tokens"

    @property
    def keys(self) -> Path:
        """The folder that `cep keys` makes."""
        return self.path / "keys"

    @property
    def sent_keys(self) -> Path:
        """The gateway's file of what was sent under which key: those of the header `Idempotency-Key`."""
        return self.path / "sent-keys"

    def heard(self, place: str) -> Path:
        """What a process for connectors touches each time that an orchestrator has answered it. `place`: the machine, or the container."""
        return self.path / "connectors" / f"{place}.heard"

    @property
    def zookeeper_secret(self) -> Path:
        """By which the processes of the cluster are known to ZooKeeper: the same on all machines, for as long as ZooKeeper's data."""
        return self.path / "zookeeper-secret"

    def socket_path(self, name: str) -> Path:
        """Of a socket in it. Raises ClusterError: it is too long for one."""
        path = self.path / name
        check_socket_path(path)
        return path

    def socket(self, name: str) -> str:
        """The endpoint of a socket in it. Raises ClusterError: its path is too long."""
        return f"ipc://{self.socket_path(name)}"

    def check(self) -> None:
        """Raises ClusterError: it is not there, or this user may not write to it."""
        try:
            os.listdir(self.path)
        except OSError as error:
            raise ClusterError(f"the run folder {self.path}: {error.strerror}; `cep init` makes it") from None
        if not os.access(self.path, os.W_OK):
            raise ClusterError(f"the run folder {self.path}: user {os.geteuid()} may not write to it; it is for the one who made it")

    def token(self) -> str:
        """What REST requests must carry. Raises ClusterError: none has been made yet, it is not ours to read, or it is empty."""
        file = self.path / "token"
        try:
            found = file.read_text().strip()
        except OSError as error:
            raise ClusterError(f"{file}: {error.strerror}; `cep init` makes the run folder and its token") from None
        if not found:
            raise ClusterError(f"{file}: expected a token, got an empty file; remove it, and `cep init` makes one")
        return found

    def prepare(self, user: int, group: int) -> None:
        """Makes what is not there yet, for this user alone; what is there stays. Raises OSError: it may not be written."""
        for folder in (self.path, self.reports, self.spark):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        keep_secret(self.path / "token", secrets.token_urlsafe(32))
        make_secret(self.zookeeper_secret)
        keep_secret(self.spark / "spark-defaults.conf", _SPARK_SETTINGS.format(secret=secrets.token_urlsafe(32)))
        for each in (self.path, self.reports, self.spark, self.path / "token", self.zookeeper_secret, self.spark / "spark-defaults.conf"):
            os.chown(each, user, group)
            each.chmod(0o700 if each.is_dir() else 0o600)


def run_folder() -> RunFolder | None:
    """The one that the environment names."""
    named = os.environ.get(RUN_VARIABLE)
    return RunFolder(Path(named)) if named else None


def token_or_run_folders(token: str | None) -> str | None:
    """`token`, else the one in the run folder that the environment names; None: there is neither. Raises ClusterError: that has none."""
    folder = run_folder()
    return token or (folder.token() if folder else None)
