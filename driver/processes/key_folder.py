"""Where the keys of a cluster are that other machines can reach: what `driver.processes.certificates` makes, as paths."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class KeyFolder:
    """It and what is in it."""

    path: Path

    @property
    def ca(self) -> Path:
        return self.path / "ca.crt"

    @property
    def server(self) -> Path:
        """The certificate; its key is beside it, and both are in `server_pem`."""
        return self.path / "server.crt"

    @property
    def server_key(self) -> Path:
        return self.path / "server.key"

    @property
    def server_pem(self) -> Path:
        return self.path / "server.pem"

    @property
    def client(self) -> Path:
        return self.path / "client.crt"

    @property
    def client_key(self) -> Path:
        return self.path / "client.key"

    @property
    def members(self) -> Path:
        return self.path / "members.key"

    @property
    def session(self) -> tuple[str, str, str]:
        """Authority, certificate and key for a session with ZooKeeper."""
        return str(self.ca), str(self.client), str(self.client_key)
