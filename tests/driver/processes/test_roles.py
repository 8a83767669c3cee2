"""The roles of a cluster as commands: each told by its environment, together a cluster."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from cep.errors import ClusterError
from driver.cli import app
from driver.cluster import Cluster
from driver.configuration.table import CONNECTING, GATEWAY, MANAGERS, METRICS, ORCHESTRATOR, options_of
from driver.configuration.told import resolve
from driver.processes import role_health
from driver.processes.roles import site_of
from driver.processes.run_folder import RunFolder
from driver.processes.site import Site
from tests.support.visits import answers, expected, rows, windows
from tests.support.waiting import HANG_S, until


@pytest.mark.parametrize("option", ["--data", "--module-path"])
def test_an_orchestrator_without_its_folders_does_not_start(option: str, tmp_path: Path) -> None:
    found = CliRunner().invoke(app, ["orchestrator", "--run", str(tmp_path), option, f"{tmp_path}:{tmp_path / 'nope'}"])
    assert isinstance(found.exception, ClusterError)
    assert str(found.exception).endswith(f"{option}: the folder '{tmp_path / 'nope'}' does not exist")


@pytest.mark.parametrize("role", [ORCHESTRATOR, METRICS, GATEWAY, MANAGERS, CONNECTING])
def test_a_role_without_its_run_folder_is_told_so(role: str, tmp_path: Path) -> None:
    def site(folder: Path) -> Site:
        return site_of(resolve(options_of(role), role, {"run": str(folder)}, {}, None)[0])

    (tmp_path / "file").touch()
    for name, what in {"none": "No such file or directory", "file": "Not a directory"}.items():
        with pytest.raises(ClusterError) as wrong:
            site(tmp_path / name)
        assert str(wrong.value) == f"the run folder {tmp_path / name}: {what}; `cep init` makes it"
    long = tmp_path / ("l" * 100)
    long.mkdir()
    with pytest.raises(ClusterError, match="too long a path for sockets, which end at 107 bytes"):
        site(long).cluster()


def test_a_run_folder_may_be_named_from_where_one_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sockets have absolute paths, for others are told them."""
    monkeypatch.chdir(tmp_path)
    assert site_of(resolve(options_of(GATEWAY), GATEWAY, {"run": "."}, {}, None)[0]).run.path == Path.cwd()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("gateway", "--run", "{}"), "the gateway cannot listen at {}/gateway: Is a directory"),
        (("zookeeper", "--folder", "{}/file/zk"), "ZooKeeper's folder {}/file/zk (--folder) cannot be written: Not a directory"),
        (
            ("zookeeper", "--folder", "{}/file/zk", "--id", "3"),
            "ZooKeeper's --id: expected --servers, the hosts of all of them, beside it, got 3 alone",
        ),
    ],
)
def test_what_keeps_a_role_from_starting_is_said_in_a_line(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    (tmp_path / "gateway").mkdir()
    (tmp_path / "file").touch()
    found = CliRunner().invoke(app, [word.format(tmp_path) for word in words])
    assert isinstance(found.exception, ClusterError) and str(found.exception) == said.format(tmp_path)


# --- processes -------------------------------------------------------------------------------------------------------


class Roles:
    """Roles of one cluster, each a process of its own."""

    def __init__(self, run: Path) -> None:
        ports = _free_ports(3)
        self.run, self.ports = run, ports
        self.url = ",".join(f"http://127.0.0.1:{port}" for port in ports[:2])
        known = {"CEP_RUN": str(run), "CEP_ZOOKEEPER": f"127.0.0.1:{ports[2]}", "CEP_URL": self.url, "NUMBA_DISABLE_JIT": "1"}
        self.environment = {name: value for name, value in os.environ.items() if name != "CEP_TOKEN"} | known
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, *words: str) -> None:
        with (self.run.parent / f"{name}.log").open("ab") as log:
            command = [sys.executable, "-c", "from driver.processes.command_line import main; main()", *words]
            self.processes[name] = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)

    def asked(self) -> dict[str, str]:
        """The environment of a health check."""
        return self.environment | {"CEP_REST_PORT": str(self.ports[0]), "CEP_ZOOKEEPER_PORT": str(self.ports[2])}

    def healthy(self, role: str) -> bool:
        """As its health check would say, in this process: others cost time, and this asks until it is."""
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.asked().items():
                patch.setenv(name, value)
            patch.setattr(sys, "argv", ["role_health", role])
            return not role_health.main([role])

    def end(self) -> dict[str, int]:
        """Their exit codes; ZooKeeper, to which the others say goodbye, goes last."""
        for process in sorted(self.processes.values(), key=lambda each: each is self.processes["zookeeper"]):
            process.terminate()
            process.wait(30)
        return {name: process.returncode for name, process in self.processes.items()}


def _free_ports(count: int) -> list[int]:
    with_ports = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in with_ports]
    for each in with_ports:
        each.close()
    return ports


@pytest.fixture(scope="module")
def roles(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Roles]:
    started = Roles(tmp_path_factory.mktemp("roles") / "run")
    folder = RunFolder(started.run)
    folder.prepare(os.getuid(), os.getgid())
    folder.keys.mkdir()  # where `cep init --listen` and `cep keys` have theirs
    started.start("zookeeper", "zookeeper", "--port", str(started.ports[2]), "--folder", str(started.run / "zookeeper"))
    for i in (0, 1):
        started.start(f"orchestrator-{i}", "orchestrator", "--port", str(started.ports[i]))
    started.start("metric-server", "metric-server")
    started.start("gateway", "gateway")
    started.start("instance-managers", "instance-managers", "--instances", "1")
    try:
        yield started
    finally:
        for process in started.processes.values():
            process.kill()
            process.wait()


def test_roles_form_a_cluster_and_end_in_order(roles: Roles, capfd: pytest.CaptureFixture[str]) -> None:
    token = RunFolder(roles.run).token()
    with Cluster(roles.url, token, patience_s=HANG_S) as cluster:
        until(lambda: _count(cluster) == 1)
        for role in ("zookeeper", "orchestrator", "metric-server", "gateway", "instance-managers"):
            until(lambda role=role: roles.healthy(role))
        checked = [sys.executable, "-m", "driver.processes.role_health", "instance-managers"]
        assert subprocess.run(checked, env=roles.asked(), capture_output=True).stdout == b"1 up\n"

        running = cluster.deploy(windows("roles", parallelism=2))
        found, given = running.subscribe("roles.per_ip"), rows(4000, groups=11)
        with cluster.publisher("roles.visits") as out:
            out.send(given[:2000])
            leading = _leader(roles, token)
            roles.processes[f"orchestrator-{leading}"].kill()  # the other one takes over
            out.send(given[2000:])
        assert answers(found) == expected(given)
        assert _leader(roles, token) == 1 - leading
        assert cluster.plane is not None
        assert Path(cluster.plane.endpoint.removeprefix("ipc://")).is_relative_to(roles.run)

        assert cluster.rest.post("/streams/roles.visits/records", []) == {"rows": 0}  # through the gateway
    ended = roles.end()
    assert ended.pop(f"orchestrator-{leading}") == -signal.SIGKILL
    assert ended.pop("zookeeper") in (143, -signal.SIGTERM)
    assert ended == dict.fromkeys(ended, 0)


def _count(cluster: Cluster) -> int:
    return len(cluster.instance_managers())


def _leader(roles: Roles, token: str) -> int:
    def leads(i: int) -> bool:
        headers = {"Authorization": f"Bearer {token}"}
        try:
            answer: dict[str, Any] = httpx.get(f"http://127.0.0.1:{roles.ports[i]}/health", headers=headers, verify=False).json()
        except httpx.TransportError:
            return False
        return answer["role"] == "leader"

    return until(lambda: [i for i in (0, 1) if leads(i)])[0]
