"""Where a client has its sockets, and on which host that is: the cluster's processes there write to it by Unix sockets, those of other
hosts answer on the connections that it opens.

A folder with sockets of a cluster of several hosts says in a file whose it is. It is asked rather than taken for granted, for a folder of
that name may be on every host.
"""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cep.transport.endpoints import LOCAL_SCHEME, Endpoint

HOST_FILE = "host"
_NAME_CHARS = 40


@dataclass(frozen=True, slots=True)
class OwnPlace:
    """`folder`: under which a private folder for sockets is made; None: the temporary folder. `host`: its name; empty in a cluster of one
    machine."""

    folder: str | None = None
    host: str = ""

    def endpoint(self, path: Path) -> str:
        """Of a client whose Unix socket is at `path`; it has no address."""
        return str(Endpoint(str(path), self.host)) if self.host else f"{LOCAL_SCHEME}{path}"


ALONE = OwnPlace()
"""In a cluster of one machine, with a folder of its own."""


def own_place(host_of_cluster: str, folders: Iterable[str], host: str | None = None) -> OwnPlace:
    """Where a client is.

    Args:
        host_of_cluster: that of the orchestrator; empty: the cluster is of one machine.
        folders: of the cluster's processes, those that may be on this machine.
        host: how this machine is called, if that is known.
    """
    found = [(folder, _host_at(folder)) for folder in folders if os.access(folder, os.W_OK)]
    if not host_of_cluster:
        return OwnPlace(next((folder for folder, _ in found), None))
    if host is not None:
        return OwnPlace(next((folder for folder, name in found if name == host), None), host)
    return next((OwnPlace(folder, name) for folder, name in found if name), OwnPlace(None, stranger()))


def stranger() -> str:
    """The name of a machine that is none of the cluster's, as no other has it."""
    own = "".join(c if c.isalnum() and c.isascii() else "-" for c in socket.gethostname())[:_NAME_CHARS].strip("-")
    return f"client-{own or 'x'}-{uuid.uuid4().hex[:8]}"


def write_host(folder: Path, host: str) -> None:
    """Says whose folder it is. Raises OSError."""
    (folder / HOST_FILE).write_text(host)


def _host_at(folder: str) -> str:
    try:
        return (Path(folder) / HOST_FILE).read_text().strip()
    except OSError:
        return ""
