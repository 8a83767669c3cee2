"""The commands of docker/first.yaml, docker/host.yaml and docker/three-zookeepers.env, as processes in network namespaces: each service
with its command and its environment, on the host that it would be on. No engine is needed for it, and no image."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from benchmarks.faults.namespaces import HostNetwork
from cep.world.zookeeper import connect
from driver.cluster import Cluster
from driver.processes.compose import read_compose
from driver.processes.run_folder import RunFolder
from tests.support.host_network import net
from tests.support.joined_hosts import where
from tests.support.paths import ROOT
from tests.support.visits import answers, expected, rows, visits, windows
from tests.support.waiting import HANG_S, until

__all__ = ["net"]  # a fixture
NETWORK = "rh"
pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]  # nine processes, several of them with Java

DOCKER = ROOT / "docker"
_VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")
_CEP = (sys.executable, "-P", "-c", "from driver.processes.command_line import main; main()")


def said(text: str, told: Mapping[str, str]) -> str:
    """A text of a compose file, with its variables replaced. Raises AssertionError: one that has to be told is not."""

    def value(match: re.Match[str]) -> str:
        name, kind, rest = match.groups()
        assert told.get(name) or kind != "?", f"{name}: {rest}"
        return told.get(name) or (rest if kind == "-" else "")

    return _VARIABLE.sub(value, text)


class Services:
    """The services of a compose file as processes. `paths`: what stands in the file -> where that is here."""

    def __init__(self, file: Path, told: Mapping[str, str], paths: Mapping[str, str], inside: Sequence[str] = ()) -> None:
        self.told, self.paths, self.inside = told, paths, inside
        self.services: dict[str, Any] = read_compose(file.read_text())["services"]
        self.processes: dict[str, subprocess.Popen[str]] = {}

    def run(self, name: str, *command: str) -> subprocess.Popen[str]:
        """Its command, or another one in its place."""
        service = self.services[name]
        words = command or (*_CEP, *(self._here(word) for word in service["command"]))
        own = {key: self._here(str(value)) for key, value in service.get("environment", {}).items()}
        known = {key: value for key, value in os.environ.items() if not key.startswith("CEP_")} | {"PYTHONPATH": str(ROOT)}
        more = {"CEP_INSTANCES": "1"}
        return subprocess.Popen([*self.inside, *words], env=known | own | more, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def start(self, *names: str) -> None:
        for name in names:
            self.processes[name] = self.run(name)

    def is_healthy(self, name: str) -> bool:
        """As its health check says."""
        [_, _, *words] = self.services[name]["healthcheck"]["test"]
        return self.run(name, sys.executable, *words).wait() == 0

    def end(self, *names: str) -> dict[str, tuple[int, str]]:
        """By SIGTERM; their exit codes, and what they said."""
        for name in names:
            self.processes[name].terminate()
        found = {name: self.processes[name].communicate(timeout=40) for name in names}
        return {name: (self.processes.pop(name).returncode, out) for name, (out, _) in found.items()}

    def kill(self) -> None:
        while self.processes:
            _, process = self.processes.popitem()
            process.kill()
            process.communicate()

    def _here(self, text: str) -> str:
        found = said(text, self.told)
        for there, here in self.paths.items():
            found = found.replace(there, here)
        return found


@contextmanager
def services(*arguments: Any) -> Iterator[Services]:
    made = Services(*arguments)
    with ExitStack() as ending:
        ending.callback(made.kill)
        yield made


def test_a_cluster_of_two_hosts(net: HostNetwork) -> None:
    """docker/first.yaml on h1, docker/host.yaml on h2, and a client on neither; then h2 leaves."""
    with TemporaryDirectory(prefix="rh-", dir="/tmp") as folder:  # short enough for sockets
        _run_two_hosts(net, Path(folder))


def _run_two_hosts(net: HostNetwork, folder: Path) -> None:
    for name in ("data", "work", "zookeeper"):
        (folder / name).mkdir(parents=True)
    run = RunFolder(folder / "run")
    paths = {"/var/lib/cep": str(folder), "/etc/cep": str(run.keys)}
    user = {"CEP_UID": str(os.getuid()), "CEP_GID": str(os.getgid())}
    told = {"CEP_LISTEN": net.address(1), "CEP_HOST_NAME": "h1", **user}
    with services(DOCKER / "first.yaml", told, paths, net.inside(1)) as first:
        assert first.run("init").wait() == 0
        first.start("zookeeper")
        until(lambda: first.is_healthy("zookeeper"))
        lasting = ("orchestrator-1", "orchestrator-2", "metric-server", "gateway", "instance-managers")
        first.start(*lasting)
        url = f"https://{net.address(1)}:8765,https://{net.address(1)}:8766"
        joins = {"CEP_FIRST": url.replace("https://", ""), "CEP_TOKEN": run.token(), "CEP_CA_FILE": "x", "CEP_HOST_NAME": "h2"}
        with Cluster(url, run.token(), ca=str(run.keys / "ca.crt"), patience_s=HANG_S) as client:
            until(lambda: len(client.instance_managers()) == 1)
            with services(DOCKER / "host.yaml", joins, paths, net.inside(2)) as further:
                further.start("host")
                until(lambda: len(client.instance_managers()) == 2)
                until(lambda: [each["name"] for each in client.hosts()] == ["h1", "h2"])
                until(lambda: all(first.is_healthy(name) for name in lasting))
                _answers_are_right(client)
                [(code, said_)] = further.end("host").values()
                assert code == 0, said_
            until(lambda: [each["name"] for each in client.hosts()] == ["h1"])
        ended = {name: code for name, (code, _) in first.end(*lasting).items()}
        assert ended == dict.fromkeys(ended, 0)


def _answers_are_right(client: Cluster) -> None:
    """Over both hosts, of rows that a program and REST have sent."""
    running, given = client.deploy(windows("two", visits("two"), parallelism=2)), rows(3000)
    assert {im.partition(".")[0] for im in where(client, "two")} == {"h1", "h2"}
    found = running.subscribe("two.per_ip")
    with client.publisher("two.visits") as out:
        assert client.rest.post("/streams/two.visits/records", given[:500]) == {"rows": 500}
        client.rest.post("/streams/two.visits/records?end=true", [])
        for begin in range(500, len(given), 100):
            out.send(given[begin : begin + 100])
    assert answers(found) == expected(given)
    until(lambda: all(f'"{host}.im-' in client.metrics() for host in ("h1", "h2")))  # reports come over links
    running.delete()


def test_three_zookeepers_of_which_one_dies(net: HostNetwork, tmp_path: Path) -> None:
    """docker/three-zookeepers.env: what was written is there when one has gone, and more can be."""
    told = dict(line.split("=") for line in (DOCKER / "three-zookeepers.env").read_text().splitlines() if "=" in line)
    names = told["CEP_ZOOKEEPER_SERVERS"].split(",")
    at = ",".join(net.address(i) for i in (1, 2, 3))
    with ExitStack() as ending:
        started = []
        for i, name in enumerate(names, 1):
            paths = {"/var/lib/cep/zookeeper": str(tmp_path / name), "/var/lib/cep/run": str(tmp_path)}
            one = ending.enter_context(services(DOCKER / "compose.yaml", {"CEP_ZOOKEEPER_SERVERS": at}, paths, net.inside(i)))
            one.start(name)
            started.append(one)
        until(lambda: all(one.is_healthy(name) for one, name in zip(started, names, strict=True)))
        client = connect(",".join(f"{net.address(i)}:2181" for i in (1, 2, 3)), 10.0)
        client.start(timeout=HANG_S)
        ending.callback(client.close)
        ending.callback(client.stop)
        client.create("/a", b"1")
        started[0].kill()
        assert client.retry(client.get, "/a")[0] == b"1"
        client.retry(client.set, "/a", b"2")
        assert client.retry(client.get, "/a")[0] == b"2"
