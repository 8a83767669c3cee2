"""What a cluster is told of its door: tokens, certificates, and whether ZooKeeper is behind TLS. One value for all that start one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cep.errors import ClusterError
from driver.processes.key_folder import KeyFolder


@dataclass(frozen=True, slots=True)
class Door:
    """Paths as users give them.

    Args:
        keys: the folder that `cep keys` has made: REST speaks TLS with the certificate in it. None: there is none.
        tls_cert, tls_key: another certificate for REST, and its key; None: that of `keys`.
        ca: the authority of that one; None: that of `keys`.
        tokens: the file of tokens; None: where the cluster has it anyway.
        insecure_http: plain HTTP beyond loopback, behind a proxy that speaks TLS or on a network of the cluster's own.
        zookeeper_tls: ZooKeeper is reached over TLS, with the certificates in `keys`.
    """

    keys: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    ca: str | None = None
    tokens: str | None = None
    insecure_http: bool = False
    zookeeper_tls: bool = False

    def settings(self, tokens: Path | None = None) -> dict[str, Any]:
        """Fields of `cep.config.ClusterConfig`. `tokens`: the file where none is named. Raises ClusterError: something needs keys."""
        keys = self.zookeeper_keys()
        own = None if self.keys is None or self.tls_cert is not None else KeyFolder(Path(self.keys))
        _, client, client_key = (None, None, None) if keys is None else keys.session
        return {
            "tokens": _absolute(self.tokens if tokens is None else self.tokens or str(tokens)),
            "tls_cert": _absolute(str(own.server) if own else self.tls_cert),
            "tls_key": _absolute(str(own.server_key) if own else self.tls_key),
            "ca": _absolute(self.ca or (None if self.keys is None else str(KeyFolder(Path(self.keys)).ca))),
            "insecure_http": self.insecure_http,
            "members": _absolute(None if self.keys is None else str(KeyFolder(Path(self.keys)).members)),
            "zookeeper_cert": _absolute(client),
            "zookeeper_key": _absolute(client_key),
        }

    def zookeeper_keys(self) -> KeyFolder | None:
        """With which ZooKeeper is reached; None: without TLS. Raises ClusterError: there is no folder of keys."""
        if not self.zookeeper_tls:
            return None
        if self.keys is None:
            raise ClusterError("ZooKeeper over TLS needs keys: make them with `cep keys`, and give their folder, --keys DIR")
        return KeyFolder(Path(self.keys).absolute())


def _absolute(path: str | None) -> str | None:
    return None if path is None else str(Path(path).absolute())
