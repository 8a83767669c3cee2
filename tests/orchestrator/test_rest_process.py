"""The orchestrator's process, as others meet it: it answers all that ask, whatever else reaches it. It has no ZooKeeper here."""

from __future__ import annotations

import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from cep.config import ClusterConfig, argument
from cep.errors import ClusterError
from driver.processes.zookeeper import reserve_port
from orchestrator.rest_process import serve_rest
from tests.support.paths import ROOT
from tests.support.waiting import HANG_S, until

DESCRIPTORS = 1024
IDLE = 1100


@dataclass
class Orchestrator:
    url: str
    pid: int

    def memory(self) -> int:
        """MiB that it has had at most."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) >> 10


@pytest.fixture(scope="module")
def orchestrator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Orchestrator]:
    """One that may open DESCRIPTORS files, and begins with half of them."""
    folder = tmp_path_factory.mktemp("home")
    with reserve_port() as nobody, socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        config = ClusterConfig(
            home=str(folder),
            zookeeper=f"127.0.0.1:{nobody.getsockname()[1]}",
            rest_host="127.0.0.1",
            rest_port=listener.getsockname()[1],
            rest_fd=listener.fileno(),
            metrics_in=f"ipc://{folder}/in",
            metrics_out=f"ipc://{folder}/out",
        )
        command = [sys.executable, "-m", "orchestrator", argument(config)]
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            pass_fds=(listener.fileno(),),
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS // 2, DESCRIPTORS)),
        )
        try:
            yield Orchestrator(config.rest, process.pid)
        finally:
            process.terminate()
            process.wait(HANG_S)


def test_it_answers_beside_more_idle_connections_than_it_may_open(orchestrator: Orchestrator) -> None:
    """An idle connection makes room; the descriptors that it may have it takes, and leaves half of them to others."""
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 2 * IDLE:
        pytest.skip("this test may not open so many files itself")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * IDLE), hard))
    url = orchestrator.url
    with ExitStack() as connections:
        address = ("127.0.0.1", int(url.rpartition(":")[2]))
        assert httpx.get(f"{url}/docs", timeout=HANG_S, trust_env=False, verify=False).status_code == 200
        idle = [connections.enter_context(socket.create_connection(address, timeout=HANG_S)) for _ in range(IDLE)]
        for path, status in (("/docs", 200), ("/openapi.json", 200), ("/queries", 503)):
            assert httpx.get(f"{url}{path}", timeout=HANG_S, trust_env=False, verify=False).status_code == status
        assert idle[0].recv(1) == b""  # the first was the first to go
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_it_answers_beside_somebody_who_sends_large_documents(orchestrator: Orchestrator) -> None:
    """What was a minute and 1.5 GB of memory: 60 MB of JSON, 1 MB of YAML, and a body without end."""
    with httpx.Client(base_url=orchestrator.url, timeout=HANG_S, trust_env=False, verify=False) as client:
        until(lambda: client.get("/health").status_code == 503)
        as_yaml, as_json = {"Content-Type": "application/yaml"}, {"Content-Type": "application/json"}
        assert client.post("/explain", content=b"[" + b"[]," * 330_000 + b"1]", headers=as_yaml).status_code == 413
        assert client.post("/explain", content=b"[" * 200_000, headers=as_yaml).status_code == 400
        assert client.post("/explain", content=b"[" + b"[]," * 20_000_000 + b"1]", headers=as_json).status_code == 413
        assert client.post("/queries:bulk", content=(b" " * (1 << 20) for _ in range(300)), headers=as_json).status_code == 413
        assert client.get("/health").json()["role"] == "standby"
    assert orchestrator.memory() < 600


def test_it_does_not_serve_where_it_may_not() -> None:
    config = ClusterConfig("", "", "0.0.0.0", 0, "", "")
    with pytest.raises(ClusterError, match="give the cluster a token"):
        serve_rest(config)
