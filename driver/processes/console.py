"""The console of a local cluster, which its supervisor keeps up: its socket, its secret and its command."""

from __future__ import annotations

import importlib.util
import json
import secrets
import socket
from dataclasses import dataclass
from pathlib import Path

from cep.config import ClusterConfig
from cep.errors import ClusterError
from driver.commands import python
from driver.processes.secret_files import keep_secret

HOST = "127.0.0.1"


def check_console() -> None:
    """Raises ClusterError: the library of its pages is not installed."""
    if importlib.util.find_spec("nicegui") is None:
        raise ClusterError("the console needs NiceGUI, which is an extra: pip install 'numa-cep[console]'")


@dataclass(frozen=True, slots=True)
class OwnConsole:
    """`listener`: its socket, which the supervisor holds, so that one that is started again is found where it was."""

    listener: socket.socket
    secret_file: Path | None

    @staticmethod
    def open(port: int, folder: Path, has_token: bool) -> OwnConsole:
        """With a secret where the cluster has a token, for the console has that. Raises ClusterError: it cannot be had."""
        check_console()
        try:
            listener = socket.create_server((HOST, port))
        except OSError as error:
            raise ClusterError(
                f"the console cannot listen at port {port}: {error.strerror}; choose another --console-port, or 0"
            ) from error
        file = folder / "console-secret" if has_token else None
        if file is not None:
            file.unlink(missing_ok=True)
            keep_secret(file, secrets.token_urlsafe(24))
        return OwnConsole(listener, file)

    def command(self, cluster: ClusterConfig) -> list[str]:
        told = {"url": cluster.rest, "ca": cluster.ca, "host": HOST, "port": self.port, "fd": self.listener.fileno()}
        return python("console", json.dumps(told | {"secret_file": None if self.secret_file is None else str(self.secret_file)}))

    @property
    def port(self) -> int:
        return int(self.listener.getsockname()[1])

    @property
    def address(self) -> str:
        """As a browser opens it, with the secret."""
        secret = "" if self.secret_file is None else f"/?secret={self.secret_file.read_text()}"
        return f"http://{HOST}:{self.port}{secret}"
