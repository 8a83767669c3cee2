"""Endpoints: where a process of a cluster takes messages.

    ipc:///run/cep/im-0                              in a cluster of one machine: a Unix socket
    link://h2@10.77.0.12:4100/run/cep/h2.im-0        in a cluster of several: that socket for processes of host h2, a link for all others
    link://h3@/tmp/cep-x/in                          a client on host h3, which is answered on the connection that it has opened

An endpoint is a word that travels in plans, registrations and messages; what it consists of is asked here and nowhere else.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from cep.errors import ProtocolError

LOCAL_SCHEME = "ipc://"
LINK_SCHEME = "link://"
PATH_BYTES_MAX = 107
HOST_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62})")

_ADDRESS = re.compile(r"(?P<host>[A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]):(?P<port>[0-9]{1,5})")
_LINK = re.compile(rf"link://(?P<host>{HOST_NAME.pattern})@(?P<address>[^/]*)(?P<path>/.*)")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One endpoint, taken apart.

    Args:
        path: of the Unix socket.
        host: the name of its host; empty in a cluster of one machine.
        address: `HOST:PORT` at which others reach it; empty: it is not called, it calls.
    """

    path: str
    host: str = ""
    address: str = ""

    @staticmethod
    def parse(text: str, own: bool = False) -> Endpoint:
        """`own`: its port may be 0, for one that the system chooses. Raises ProtocolError: it is none."""
        if text.startswith(LOCAL_SCHEME):
            found = Endpoint(text.removeprefix(LOCAL_SCHEME))
        elif (match := _LINK.fullmatch(text)) is not None:
            found = Endpoint(match["path"], match["host"], match["address"])
        else:
            raise ProtocolError(f"endpoint: expected {LOCAL_SCHEME}PATH or {LINK_SCHEME}HOST@ADDRESS:PORT/PATH, got {text[:200]!r}")
        found._check(text, 0 if own else 1)
        return found

    def _check(self, text: str, port_min: int) -> None:
        if not self.path.startswith("/") or "\0" in self.path or len(os.fsencode(self.path)) > PATH_BYTES_MAX:
            raise ProtocolError(f"endpoint {text[:200]!r}: expected an absolute path of at most {PATH_BYTES_MAX} bytes")
        if self.address and not is_address(self.address, port_min):
            raise ProtocolError(f"endpoint {text[:200]!r}: expected an address HOST:PORT, got {self.address[:100]!r}")

    def __str__(self) -> str:
        return f"{LINK_SCHEME}{self.host}@{self.address}{self.path}" if self.host else f"{LOCAL_SCHEME}{self.path}"


def host_of(endpoint: str) -> str:
    """The name of the host of whatever takes messages there; empty in a cluster of one machine."""
    return Endpoint.parse(endpoint).host if endpoint.startswith(LINK_SCHEME) else ""


def is_address(text: str, port_min: int = 1) -> bool:
    """Is it `HOST:PORT`, with brackets round an IPv6 address?"""
    found = _ADDRESS.fullmatch(text)
    return found is not None and port_min <= int(found["port"]) < 1 << 16
