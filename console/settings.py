"""What a console is told: where its cluster is, and where it listens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from cep.errors import ClusterError
from cep.service.addresses import is_loopback

PORT = 8780


@dataclass(frozen=True, slots=True)
class ConsoleConfig:
    """Args:
    url: the orchestrator's REST interface; of several, theirs with commas.
    host, port: where the console listens.
    fd: a socket that listens already, which the one that starts us holds; None: the console opens one.
    ca: by whose certificate `url` is known.
    tls_cert, tls_key: the console's own certificate and key.
    insecure_http: beyond loopback without them.
    names: further names by which browsers may ask for it.
    secret_file: what browsers have to show; None: one that is made anew, where one is needed.
    """

    url: str
    host: str = "127.0.0.1"
    port: int = PORT
    fd: int | None = None
    ca: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    insecure_http: bool = False
    names: tuple[str, ...] = ()
    secret_file: str | None = None

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> ConsoleConfig:
        known = {each.name for each in fields(ConsoleConfig)}
        return ConsoleConfig(
            **{key: value for key, value in document.items() if key in known} | {"names": tuple(document.get("names", ()))}
        )

    @property
    def address(self) -> str:
        scheme, host = "http" if self.tls_cert is None else "https", f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}:{self.port}"

    @property
    def is_open(self) -> bool:
        """Can other machines get there? Raises ClusterError: it is not known."""
        try:
            return not is_loopback(self.host)
        except OSError as error:
            raise ClusterError(f"the console's address {self.host!r}: {error}") from error


def check_open(config: ConsoleConfig) -> None:
    """Raises ClusterError: what is typed there would travel in the clear."""
    if (config.tls_cert is None) != (config.tls_key is None):
        raise ClusterError("the console's certificate and its key go together: give both, --tls-cert FILE and --tls-key FILE, or none")
    if config.is_open and config.tls_cert is None and not config.insecure_http:
        raise ClusterError(
            f"a console at {config.host} can be reached from other machines, and its secret would travel in the clear: give it a "
            "certificate with --tls-cert and --tls-key, or let it listen at 127.0.0.1. Behind a proxy that speaks TLS: --insecure-http"
        )
