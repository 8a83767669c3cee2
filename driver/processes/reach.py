"""How the processes of one machine are reached: by Unix sockets alone, or at an address by those of other hosts too."""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass, field
from pathlib import Path

from cep.errors import ClusterError
from cep.service.addresses import is_loopback
from cep.transport.endpoints import HOST_NAME, LOCAL_SCHEME, Endpoint
from driver.processes.zookeeper import reserve_port

KEEPER = "host"
"""What supervisors call the process that says in ZooKeeper that a host is there (`driver.processes.host_keeper`)."""

_NO_NAME = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Reach:
    """Of one host. Keep it for as long as its processes are to be reached: it holds their ports, so that one that is started again
    is found where it was.

    Args:
        host: its name; empty in a cluster of one machine.
        address: at which other hosts reach it; None: they do not.
    """

    host: str = ""
    address: str | None = None
    _held: list[socket.socket] = field(default_factory=list)

    def endpoint(self, path: Path) -> str:
        """Of a process whose Unix socket is at `path`. Raises ClusterError: the address is not this machine's, or has no port left."""
        if not self.host or self.address is None:
            return f"{LOCAL_SCHEME}{path}"
        try:
            held = reserve_port(self.address)
        except OSError as error:
            raise ClusterError(
                f"no port can be had at {self.address}, by which other hosts are to reach this one: {error.strerror}"
            ) from None
        self._held.append(held)
        return str(Endpoint(str(path), self.host, f"{bracketed(self.address)}:{held.getsockname()[1]}"))

    def close(self) -> None:
        for each in self._held:
            each.close()


ALONE = Reach()
"""Of a cluster of one machine: it holds nothing."""


def check_reach(address: str, keys: bool) -> bool:
    """Can other machines get there? `keys`: links have any. Raises ClusterError: then they have to, or the address is not known."""
    try:
        open_ = not is_loopback(address)
    except OSError as error:
        raise ClusterError(f"address {address!r}: {error}") from None
    if open_ and not keys:
        raise ClusterError(
            f"links at {address} can be reached from other machines, and would let anything speak: make keys with `cep keys`, and give the "
            "host that begins the cluster their folder, --keys DIR"
        )
    return open_


def fixed_endpoint(path: Path, host: str, address: str | None, port: int) -> str:
    """Of a process that is at that port of `address` wherever it is started; without a host or an address a Unix socket alone."""
    return str(Endpoint(str(path), host, f"{bracketed(address)}:{port}")) if host and address else f"{LOCAL_SCHEME}{path}"


def rest_at(address: str, rest_host: str) -> str:
    """Where REST listens on a host that others reach at `address`: there too, unless it was told to be elsewhere beyond loopback."""
    return address if rest_host in ("127.0.0.1", "::1", "localhost") else rest_host


def bracketed(address: str) -> str:
    """As it stands before a port."""
    return f"[{address}]" if ":" in address else address


def own_name() -> str:
    """The name by which this machine knows itself, as far as a host may be called so."""
    found = _NO_NAME.sub("-", socket.gethostname()).lstrip("-._")[:63]
    return found or "host"


def checked_name(name: str) -> str:
    """Raises ClusterError: no host can be called so."""
    if not HOST_NAME.fullmatch(name):
        raise ClusterError(f"a host is called by letters, digits, dots and dashes, at most 63, got {name[:100]!r}")
    return name


def address_towards(host: str, port: int) -> str:
    """The address of this machine from which it speaks to `host`. Raises ClusterError: there is no way there."""
    try:
        [(family, _, _, _, there), *_] = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
        with socket.socket(family, socket.SOCK_DGRAM) as asking:
            asking.connect(there)  # sends nothing
            return str(asking.getsockname()[0])
    except OSError as error:
        raise ClusterError(f"there is no way to {host}: {error.strerror}") from None
