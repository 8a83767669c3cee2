"""A cluster of three hosts in network namespaces, as users start it: with keys, tokens and TLS, and a client that is on none of them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.faults.namespaces import HostNetwork
from driver.cluster import Cluster

ROOT = Path(__file__).resolve().parent.parent.parent
REST_PORT = 8765
READY_S = 90.0
_CEP = ("-P", "-c", "from driver.processes.command_line import main; main()")


class HostCluster:
    """h1 begins it, h2 and h3 join. Made by `host_cluster`."""

    def __init__(self, net: HostNetwork, keys: Path, token: str) -> None:
        self.net, self.ca, self.token = net, str(keys / "ca.crt"), token
        self.url = f"https://{net.address(1)}:{REST_PORT}"
        self.agents: dict[int, subprocess.Popen[str]] = {}

    def client(self, host: str = "client", token: str | None = None) -> Cluster:
        """`host`: where it says that it is; `token`: another one than the cluster's."""
        return Cluster(self.url, token or self.token, ca=self.ca, host=host, patience_s=60.0)

    def join(self, number: int, *options: str) -> None:
        where = ("--name", f"h{number}", "--address", self.net.address(number), "--instances", "1", "--ca", self.ca)
        self.agents[number] = self.start(number, "join", self.url, *where, *options)

    def start(self, number: int, *command: str) -> subprocess.Popen[str]:
        """`cep` on that host; returns when it has said its first line."""
        known = {key: value for key, value in os.environ.items() if not key.startswith("CEP_")} | {"PYTHONPATH": str(ROOT)}
        process = subprocess.Popen(
            [*self.net.inside(number), sys.executable, *_CEP, *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=known | {"CEP_TOKEN": self.token},
        )
        said = first_line(process)
        if not said or said.startswith("error"):
            process.kill()
            raise RuntimeError(f"h{number}: {said} {process.communicate()[0]}")
        return process

    def leave(self, number: int, timeout_s: float = 40.0) -> str:
        """By SIGTERM; what it said on its way."""
        process = self.agents.pop(number)
        process.terminate()
        said, _ = process.communicate(timeout=timeout_s)
        return said


def first_line(process: subprocess.Popen[str], timeout_s: float = READY_S) -> str:
    assert process.stdout is not None
    killer = threading.Timer(timeout_s, process.kill)
    killer.start()
    try:
        return process.stdout.readline()
    finally:
        killer.cancel()


@contextmanager
def host_cluster(
    net: HostNetwork, folder: Path, session_s: float, hosts: int = 3, data: Path | None = None, first: Sequence[str] = ()
) -> Iterator[HostCluster]:
    """While the block lasts; `folder`: for keys; `first`: more options of the first host. Raises RuntimeError: a part did not start."""
    keys, token = folder / "keys", os.urandom(16).hex()
    made = HostCluster(net, keys, token)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(
        [sys.executable, *_CEP, "keys", "--keys", str(keys), "--name", net.address(1)],
        check=True,
        env=environment,
        stdout=subprocess.DEVNULL,
    )
    options = () if data is None else ("--data", str(data))
    begin = ("--listen", net.address(1), "--name", "h1", "--port", str(REST_PORT), "--keys", str(keys), "--instances", "1")
    with ExitStack() as ending:
        begun = made.start(1, "up", *begin, "--session-timeout", f"{session_s:g}", *options, *first)
        ending.callback(end, lambda: [begun])
        ending.callback(end, lambda: list(made.agents.values()))
        for number in range(2, hosts + 1):
            made.join(number, *options)
        yield made


def end(processes: Callable[[], list[subprocess.Popen[str]]]) -> None:
    """All of them in order; what does not go within 40 s is killed."""
    for process in processes():
        process.terminate()
    for process in processes():
        try:
            process.communicate(timeout=40)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
