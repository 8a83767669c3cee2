"""The roles of a cluster as commands: each told by its environment, together a cluster."""

from __future__ import annotations

import os
import re
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from cep.errors import ClusterError
from cep.model.topology import NumaNode, Topology
from driver.cli import app
from driver.cluster import Cluster
from driver.orchestrators import Orchestrators, address_list
from driver.processes.health import unbound
from driver.processes.run_folder import RunFolder, token_or_run_folders
from driver.processes.site import Site, managers_of
from driver.processes.zookeeper import patient
from driver.rest import Rest
from tests.support.visits import answers, expected, rows, windows
from tests.support.waiting import HANG_S, until

TWO_NODES = Topology((NumaNode(0, (0, 1), 1 << 30), NumaNode(1, (2, 3), 1 << 30)), ((10, 20), (20, 10)))
SITE = Site(RunFolder(Path("/run/x")), "zookeeper:2181")


# --- values ----------------------------------------------------------------------------------------------------------


def test_instance_managers_are_called_after_their_cores() -> None:
    assert [(m.id, m.core, m.node) for m in managers_of(SITE, TWO_NODES)] == [
        ("im-0", 0, 0),
        ("im-1", 1, 0),
        ("im-2", 2, 1),
        ("im-3", 3, 1),
    ]
    assert [m.endpoint for m in managers_of(SITE, TWO_NODES, node=1)] == ["ipc:///run/x/im-2", "ipc:///run/x/im-3"]
    assert [(m.id, m.core) for m in managers_of(SITE, TWO_NODES, node=1, count=3)] == [("im-2", 2), ("im-3", 3), ("im-2.1", 2)]


def test_a_node_that_is_not_there_is_named() -> None:
    with pytest.raises(ClusterError, match=r"--node 7: .* it has nodes 0 \(cores 0-1\), 1 \(cores 2-3\)"):
        managers_of(SITE, TWO_NODES, node=7)


def test_no_configuration_carries_the_token(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.prepare(os.getuid(), os.getgid())
    assert run.token() not in str(Site(run, "z:1").cluster().to_json())


def test_servers_are_tried_often_enough_within_a_session() -> None:
    assert patient("a:1").split(",") == ["a:1"] * 4
    assert patient("a:1,b:1,c:1").split(",") == ["a:1", "b:1", "c:1"] * 2


def test_the_run_folder_is_for_one_user_and_keeps_its_secrets(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    run.prepare(os.getuid(), os.getgid())
    token = run.token()
    run.prepare(os.getuid(), os.getgid())
    assert run.token() == token
    assert len(token) >= 40
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (run.path, *run.path.rglob("*"))}
    folders = {"run": 0o700, "reports": 0o700, "spark": 0o700}
    assert modes == folders | {"token": 0o600, "zookeeper-secret": 0o600, "spark-defaults.conf": 0o600}


def test_the_token_is_that_of_the_run_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CEP_RUN", raising=False)
    assert token_or_run_folders(None) is None
    monkeypatch.setenv("CEP_RUN", str(tmp_path))
    assert token_or_run_folders("given") == "given"
    with pytest.raises(ClusterError, match="cep init"):
        token_or_run_folders(None)
    RunFolder(tmp_path).prepare(os.getuid(), os.getgid())
    assert token_or_run_folders(None) == RunFolder(tmp_path).token()


@pytest.mark.parametrize("option", ["--data", "--module-path"])
def test_an_orchestrator_without_its_folders_does_not_start(option: str, tmp_path: Path) -> None:
    found = CliRunner().invoke(app, ["orchestrator", "--run", str(tmp_path), option, f"{tmp_path}:{tmp_path / 'nope'}"])
    assert isinstance(found.exception, ClusterError)
    assert str(found.exception).endswith(f"{option}: the folder '{tmp_path / 'nope'}' does not exist")


def test_what_is_not_bound_is_told() -> None:
    bound = {"id": "im-0", "core": 0, "node": 0, "binding": {"bound": True, "note": ""}}
    refused = {"id": "im-1", "core": 1, "node": 0, "binding": {"bound": False, "note": "set_mempolicy answers EPERM"}}
    asked_for_nothing = {"id": "im-2", "core": None, "node": None, "binding": {"bound": False, "note": "not bound to one core"}}
    assert unbound([bound, refused, asked_for_nothing]) == ["im-1: not bound to core 1 and node 0: set_mempolicy answers EPERM"]


# --- several orchestrators -------------------------------------------------------------------------------------------


def test_requests_go_to_the_one_that_leads() -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(f"{request.url.host} {request.headers['Host']}")
        if request.url.host == "gone":
            raise httpx.ConnectError("refused")
        return httpx.Response(503 if request.url.host == "standby" else 200)

    urls = address_list("http://gone:1, http://standby:2/,http://leader:3")
    with httpx.Client(base_url=urls[0], transport=Orchestrators(urls, httpx.MockTransport(answer))) as client:
        with pytest.raises(httpx.ConnectError):
            client.get("/a")
        assert [client.get("/a").status_code for _ in range(3)] == [503, 200, 200]
    assert asked == ["gone gone:1", "standby standby:2", "leader leader:3", "leader leader:3"]


@pytest.mark.parametrize(
    "url",
    [
        *("127.0.0.1:8765", "localhost:8765", "orchestrator", "ftp://a:1", "http:", "", "http://a:1,b:2", "http://a:x"),
        *("http://a:99999", "http://a:-1", "http://a:0", "http://a b:1", "http://a:1?x=1", "http://a:1#x", "http://::1"),
    ],
)
def test_what_is_no_address_is_refused_at_once(url: str) -> None:
    wrong = "b:2" if "," in url else url
    with pytest.raises(ClusterError, match=re.escape(f"expected http://HOST:PORT or https://HOST:PORT, got {wrong!r}")):
        Rest(url)


def test_an_address_without_a_scheme_has_the_one_that_is_spoken() -> None:
    assert address_list("10.0.0.1:8765", "https") == ["https://10.0.0.1:8765"]
    assert address_list(" a:1, b:2/,,http://c:3 ,[::1]:4", "https") == ["https://a:1", "https://b:2", "http://c:3", "https://[::1]:4"]
    for wrong in ("a:99999", "a:1,ftp://b:2", "::1", ""):
        with pytest.raises(ClusterError, match="the orchestrator's address"):
            address_list(wrong, "https")


def test_a_password_in_an_address_is_not_shown() -> None:
    with pytest.raises(ClusterError, match=r"got 'https://…@a:1'") as refused:
        Rest("https://me:s3cret@a:1")
    assert "s3cret" not in str(refused.value)


# --- processes -------------------------------------------------------------------------------------------------------


class Roles:
    """Roles of one cluster, each a process of its own."""

    def __init__(self, run: Path) -> None:
        ports = _free_ports(3)
        self.run, self.ports = run, ports
        self.url = ",".join(f"http://127.0.0.1:{port}" for port in ports[:2])
        known = {"CEP_RUN": str(run), "CEP_ZOOKEEPER": f"127.0.0.1:{ports[2]}", "CEP_URL": self.url}
        self.environment = {name: value for name, value in os.environ.items() if name != "CEP_TOKEN"} | known
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, *words: str) -> None:
        with (self.run.parent / f"{name}.log").open("ab") as log:
            command = [sys.executable, "-c", "from driver.cli import main; main()", *words]
            self.processes[name] = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)

    def healthy(self, *role: str) -> bool:
        environment = self.environment | {"CEP_REST_PORT": str(self.ports[0]), "CEP_ZOOKEEPER_PORT": str(self.ports[2])}
        return not subprocess.run(
            [sys.executable, "-m", "driver.processes.role_health", *role], env=environment, capture_output=True
        ).returncode

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
    RunFolder(started.run).prepare(os.getuid(), os.getgid())
    started.start("zookeeper", "zookeeper", "--port", str(started.ports[2]), "--folder", str(started.run / "zookeeper"))
    for i in (0, 1):
        started.start(f"orchestrator-{i}", "orchestrator", "--port", str(started.ports[i]))
    started.start("metric-server", "metric-server")
    started.start("gateway", "gateway")
    started.start("instance-managers", "instance-managers", "--instances", "2")
    try:
        yield started
    finally:
        for process in started.processes.values():
            process.kill()
            process.wait()


def test_roles_form_a_cluster_and_end_in_order(roles: Roles, capfd: pytest.CaptureFixture[str]) -> None:
    token = RunFolder(roles.run).token()
    with Cluster(roles.url, token, patience_s=HANG_S) as cluster:
        until(lambda: _count(cluster) == 2)
        for role in ("zookeeper", "orchestrator", "metric-server", "gateway", "instance-managers"):
            until(lambda role=role: roles.healthy(role))

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
            answer: dict[str, Any] = httpx.get(f"http://127.0.0.1:{roles.ports[i]}/health", headers=headers).json()
        except httpx.TransportError:
            return False
        return answer["role"] == "leader"

    return until(lambda: [i for i in (0, 1) if leads(i)])[0]
