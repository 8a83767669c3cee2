"""Hosts on one machine: network namespaces with addresses of their own behind one bridge, which can be cut off, both ways or one.

A cut is silent: what is sent to where it holds is dropped, as on a cable that is pulled out far away. It needs root.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

#: A bucket that never has room for a packet: all that comes is dropped.
_DROP = ("root", "tbf", "rate", "8bit", "burst", "1", "limit", "1")


class NoNamespaces(Exception):
    """This machine, or this user, cannot have any; says why."""


@dataclass(frozen=True)
class HostNetwork:
    """`count` hosts, numbered from 1; we are at `gateway`. `prefix`: of the names of everything, at most 6 characters."""

    prefix: str
    subnet: str  # its first three numbers
    count: int

    @property
    def gateway(self) -> str:
        return f"{self.subnet}.1"

    def address(self, host: int) -> str:
        return f"{self.subnet}.{10 + host}"

    def inside(self, host: int) -> tuple[str, ...]:
        """Runs a command there, when it stands before it."""
        return ("ip", "netns", "exec", self._space(host))

    def cut(self, host: int, out: bool = True, into: bool = True) -> None:
        """Nothing gets `out` of it, or `into` it, from now on."""
        if into:
            _run("tc", "qdisc", "replace", "dev", self._port(host), *_DROP)
        if out:
            _run("tc", "-n", self._space(host), "qdisc", "replace", "dev", "eth0", *_DROP)

    def heal(self, host: int) -> None:
        for command in (
            ("tc", "qdisc", "del", "dev", self._port(host), "root"),
            ("tc", "-n", self._space(host), "qdisc", "del", "dev", "eth0", "root"),
        ):
            with suppress(NoNamespaces):  # that way was not cut
                _run(*command)

    def up(self) -> None:
        """Raises NoNamespaces."""
        bridge = f"{self.prefix}br"
        _run("ip", "link", "add", bridge, "type", "bridge")
        _run("ip", "address", "add", f"{self.gateway}/24", "dev", bridge)
        _run("ip", "link", "set", bridge, "up")
        for host in range(1, self.count + 1):
            space, port = self._space(host), self._port(host)
            _run("ip", "netns", "add", space)
            _run("ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", space)
            _run("ip", "link", "set", port, "master", bridge, "up")
            for command in (
                ("link", "set", "lo", "up"),
                ("address", "add", f"{self.address(host)}/24", "dev", "eth0"),
                ("link", "set", "eth0", "up"),
            ):
                _run("ip", "-n", space, *command)

    def down(self) -> None:
        for host in range(1, self.count + 1):
            with suppress(NoNamespaces):
                _run("ip", "netns", "delete", self._space(host))
        with suppress(NoNamespaces):
            _run("ip", "link", "delete", f"{self.prefix}br")

    def _space(self, host: int) -> str:
        return f"{self.prefix}h{host}"

    def _port(self, host: int) -> str:
        return f"{self.prefix}v{host}"


@contextmanager
def network(name: str, count: int) -> Iterator[HostNetwork]:
    """One that is there while the block lasts. `name`: two letters. Raises NoNamespaces."""
    if os.geteuid() != 0:
        raise NoNamespaces("network namespaces need root")
    number = os.getpid() % 10_000
    made = HostNetwork(f"{name}{number}", f"10.{100 + (number + sum(name.encode())) % 100}.{number // 100}", count)
    try:
        made.up()
        yield made
    finally:
        made.down()


def _run(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except OSError as error:
        raise NoNamespaces(f"{command[0]}: {error.strerror}") from None
    if done.returncode:
        raise NoNamespaces(f"{' '.join(command)}: {done.stderr.strip()}")
