"""Hosts that join a cluster on loopback, where each has a name and ports of its own: real agents, as users start them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from driver.cluster import Cluster
from tests.support.paths import ROOT

JOIN_S = 60.0
_CEP = ("-P", "-c", "from driver.processes.command_line import main; main()")


class Joined:
    """A host that has joined: its agent, and what that said."""

    def __init__(self, name: str, process: subprocess.Popen[str], said: str) -> None:
        self.name, self.process, self.said = name, process, said

    def leave(self, timeout_s: float = 40.0) -> str:
        """By SIGTERM; what it said on its way."""
        self.process.send_signal(signal.SIGTERM)
        said, _ = self.process.communicate(timeout=timeout_s)
        assert self.process.returncode == 0, said
        return said

    def kill(self) -> None:
        """The kernel takes all that it has started."""
        self.process.kill()
        self.process.wait()


def start_join(
    url: str, name: str, *options: str, prefix: Sequence[str] = (), token: str | None = None, compiled: bool = True
) -> subprocess.Popen[str]:
    """`cep join` as a process. `prefix`: a command before it, such as `ip netns exec NAME`. `compiled`: or it runs kernels as their source,
    as `tests.support.one_cluster.uncompiled` does."""
    own = {"PYTHONPATH": str(ROOT)} | ({} if token is None else {"CEP_TOKEN": token}) | ({} if compiled else {"NUMBA_DISABLE_JIT": "1"})
    known = {key: value for key, value in os.environ.items() if key not in ("CEP_RUN", "CEP_TOKEN", "PYTHONUNBUFFERED")}
    return subprocess.Popen(
        [*prefix, sys.executable, *_CEP, "join", url, "--name", name, "--instances", "1", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**known, **own},
    )


@contextmanager
def joined(url: str, name: str, *options: str, **settings: Any) -> Iterator[Joined]:
    """A host while the block lasts; it is there when this returns."""
    process = start_join(url, name, *options, **settings)
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        assert "has joined" in said, said + process.stdout.read()
        yield Joined(name, process, said)
    finally:
        process.terminate()  # it goes in order, or it would be there for a session longer
        process.communicate(timeout=JOIN_S)


def where(cluster: Cluster, query: str) -> set[str]:
    """The instance managers on which it is."""
    return {place["im"] for place in cluster.query(query).status()["placed"]}
