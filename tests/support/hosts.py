"""Hosts on one machine: network namespaces beside each other on a bridge, which a test makes and takes down. Needs root."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

NETWORK = "10.89.77"
needs_namespaces = pytest.mark.skipif(
    os.getuid() != 0 or shutil.which("ip") is None or shutil.which("nsenter") is None,
    reason="network namespaces need root and iproute2",
)


class Hosts:
    """`names[i]` is the namespace of the host with the address `address(i)`."""

    def __init__(self, count: int) -> None:
        self._prefix = f"cl{os.getpid() % 100_000}"
        self.bridge = f"{self._prefix}b"
        self.names = [f"{self._prefix}h{i}" for i in range(count)]

    def address(self, host: int) -> str:
        return f"{NETWORK}.{host + 1}"

    def make(self) -> None:
        _ip("link", "add", self.bridge, "type", "bridge")
        _ip("link", "set", self.bridge, "up")
        for host, name in enumerate(self.names):
            _ip("netns", "add", name)
            _ip("link", "add", self._port(host), "type", "veth", "peer", "name", "eth0", "netns", name)
            _ip("link", "set", self._port(host), "master", self.bridge, "up")
            _ip("-n", name, "link", "set", "lo", "up")
            _ip("-n", name, "addr", "add", f"{self.address(host)}/24", "dev", "eth0")
            _ip("-n", name, "link", "set", "eth0", "up")

    def _port(self, host: int) -> str:
        return f"{self._prefix}v{host}"

    def command(self, host: int, *command: str) -> list[str]:
        """That command, on that host."""
        return ["ip", "netns", "exec", self.names[host], *command]

    def cut(self, host: int) -> None:
        """Nothing comes there, and nothing goes from there; the host does not see it."""
        _ip("link", "set", self._port(host), "nomaster")

    def heal(self, host: int) -> None:
        _ip("link", "set", self._port(host), "master", self.bridge)

    def mute(self, host: int) -> None:
        """What is said to it is lost; what it says is heard: the bridge knows no way to it any more."""
        off = ["flood", "off", "bcast_flood", "off", "mcast_flood", "off", "learning", "off", "fdb_flush"]
        _ip("link", "set", self._port(host), "type", "bridge_slave", *off)

    def unmute(self, host: int) -> None:
        on = ["flood", "on", "bcast_flood", "on", "mcast_flood", "on", "learning", "on"]
        _ip("link", "set", self._port(host), "type", "bridge_slave", *on)

    def take_down(self) -> None:
        for host, name in enumerate(self.names):
            _ip("link", "del", self._port(host), check=False)
            _ip("netns", "del", name, check=False)
        _ip("link", "del", self.bridge, check=False)


@contextmanager
def hosts(count: int) -> Iterator[Hosts]:
    made = Hosts(count)
    try:
        made.make()
        yield made
    finally:
        made.take_down()


def _ip(*words: str, check: bool = True) -> None:
    subprocess.run(["ip", *words], check=check, capture_output=True)
