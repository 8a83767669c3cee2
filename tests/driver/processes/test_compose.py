"""A cluster of containers on a real Docker engine: what `docker/compose.yaml` promises. Long; skipped where no engine answers.

Containers are killed as a crash kills them: their first process, from outside. (`docker kill` is a wish, which no restart policy undoes.)
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx
import pytest

from cep.errors import CepError, QueryFailed, Unauthorized
from driver import Query, col, stream
from driver.cluster import Cluster, Running
from driver.processes.run_folder import RunFolder
from driver.streams.publisher import Publisher
from tests.support.paths import ROOT
from tests.support.visits import Answer, answers, copies, expected, rows, windows
from tests.support.waiting import until

COMPOSE = ROOT / "docker" / "compose.yaml"
COMES_BACK_S = 180.0


def engine_answers() -> str:
    """Empty, or why there is none."""
    if shutil.which("docker") is None:
        return "no docker here"
    ran = subprocess.run(["docker", "version", "--format", "{{.Server.Version}}"], capture_output=True, text=True)
    return (
        ""
        if ran.returncode == 0 and ran.stdout.strip()
        else f"no Docker engine answers: {(ran.stderr.strip() or ran.stdout).splitlines()[-1]}"
    )


def compose_command() -> list[str] | None:
    """Compose 2, or docker-compose 1.29."""
    if not subprocess.run(["docker", "compose", "version"], capture_output=True).returncode:
        return ["docker", "compose"]
    return ["docker-compose"] if shutil.which("docker-compose") else None


WHY_NOT = engine_answers() or ("" if compose_command() else "neither docker compose nor docker-compose here")
pytestmark = [pytest.mark.long, pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT), pytest.mark.timeout(900)]


class Project:
    """A project of its own, of the services of `file`; a `DOCKER_HOST` in `environment` names another engine than that of this machine."""

    def __init__(self, file: Path, environment: Mapping[str, str]) -> None:
        self.project, self.file = f"ceptest{uuid.uuid4().hex[:8]}", file
        user = {"CEP_UID": str(os.getuid() or 1000), "CEP_GID": str(os.getgid() or 1000)}
        self.environment = {**os.environ, **user, **environment}

    def compose(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        command = [*(compose_command() or ()), "-p", self.project, "-f", str(self.file), *words]
        ran = subprocess.run(command, env=self.environment, capture_output=True, text=True)
        assert not check or ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-4000:]
        return ran

    def inspect(self, service: str) -> dict[str, Any]:
        found = self._docker("inspect", self.id(service))
        return dict(json.loads(found)[0])

    def id(self, service: str) -> str:
        labels = [f"label=com.docker.compose.{key}={value}" for key, value in (("project", self.project), ("service", service))]
        filters = [word for label in labels for word in ("--filter", label)]
        return self._docker("ps", "--all", "--quiet", *filters).split()[0]

    def kill(self, service: str) -> None:
        """As a crash does. It needs the engine's rights over processes, which this user need not have: hence a container."""
        state = self.inspect(service)["State"]
        image = self.inspect(service)["Image"]
        words = ["--rm", "--pid", "host", "--user", "0", "--network", "none", "--entrypoint", "kill", image, "-9", str(state["Pid"])]
        self._docker("run", *words)
        until(lambda: self.inspect(service)["State"]["StartedAt"] != state["StartedAt"], COMES_BACK_S)

    def healthy(self, service: str) -> bool:
        state = self.inspect(service)["State"]
        return bool(state["Running"] and state.get("Health", {}).get("Status", "healthy") == "healthy")

    def _docker(self, *words: str) -> str:
        return subprocess.check_output(["docker", *words], env=self.environment, text=True, stderr=subprocess.PIPE)


class Containers(Project):
    """Those of a cluster of one machine: their run folder, their ports."""

    def __init__(self, folder: Path, more: Mapping[str, str] = MappingProxyType({})) -> None:
        self.run, ports = RunFolder(folder / "run"), [_free_port(), _free_port()]
        self.url = ",".join(f"http://127.0.0.1:{port}" for port in ports)
        super().__init__(COMPOSE, {"CEP_RUN": str(self.run.path), "CEP_PORT": str(ports[0]), "CEP_PORT_2": str(ports[1]), **more})

    def cep(self, *words: str) -> subprocess.CompletedProcess[str]:
        """The command line, on this machine outside of all containers."""
        environment = self.environment | {"CEP_URL": self.url, "PYTHONPATH": str(ROOT)}
        return subprocess.run(
            ["python", "-c", "from driver.processes.command_line import main; main()", *words],
            env=environment,
            capture_output=True,
            text=True,
        )


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@pytest.fixture(scope="module")
def containers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Containers]:
    folder = Path("/var/tmp") / f"cep-{uuid.uuid4().hex[:8]}"  # short enough for sockets, and not the user's alone
    folder.mkdir()
    started = Containers(folder)
    try:
        started.compose("up", "--detach")
        yield started
    finally:
        started.compose("down", "--volumes", "--timeout", "20", check=False)
        subprocess.run(
            [
                "docker",
                "run",
                "--rm",
                "--user",
                "0",
                "--network",
                "none",
                "-v",
                f"{folder}:/x",
                "--entrypoint",
                "rm",
                "numa-cep",
                "-rf",
                "/x/run",
            ],
            capture_output=True,
        )
        shutil.rmtree(folder, ignore_errors=True)


SERVICES = ("zookeeper", "orchestrator-1", "orchestrator-2", "metric-server", "gateway", "instance-managers", "spark-master")


@pytest.fixture
def cluster(containers: Containers) -> Iterator[Cluster]:
    """All containers well, and a client on this machine."""
    until(lambda: all(containers.healthy(service) for service in SERVICES), COMES_BACK_S)
    with Cluster(containers.url, _token(containers), patience_s=60.0) as client:
        until(lambda: client.instance_managers(), COMES_BACK_S)
        yield client


def _token(containers: Containers) -> str:
    return containers.run.token()


class Stream:
    """A query whose rows are sent and answers read on and on, while things break."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster, self.name = cluster, name
        self.running: Running = cluster.deploy(windows(name))
        self.found: Counter[Answer] = Counter()
        self.error: CepError | None = None
        subscription = self.running.subscribe(f"{name}.per_ip")
        self.reader = threading.Thread(target=self._read, args=(subscription,))
        self.reader.start()
        self.publisher: Publisher = cluster.publisher(f"{name}.visits")
        self.sent: list[dict[str, Any]] = []

    def send(self, count: int = 2000) -> None:
        some = rows(count, start=len(self.sent))
        self.publisher.send(some)
        self.sent += some

    def finish(self) -> None:
        """Everything that was sent is in the answers."""
        self.publisher.close()
        self.reader.join(60)
        assert self.error is None
        assert self.found == expected(self.sent)
        self.running.delete()

    def _read(self, subscription: Any) -> None:
        try:
            self.found = answers(subscription)
        except CepError as error:
            self.error = error


def test_from_outside_deploy_publish_subscribe_and_look(containers: Containers, cluster: Cluster, tmp_path: Path) -> None:
    document = tmp_path / "q.json"
    document.write_text(json.dumps(copies("outside").to_json()))
    deployed = containers.cep("deploy", str(document))
    assert deployed.returncode == 0, deployed.stderr
    found = cluster.query("outside").subscribe("outside.all")
    with cluster.publisher("outside.visits") as out:
        out.send(rows(1000))
    assert sum(batch.num_rows for batch in found) == 1000
    top = containers.cep("top", "--once")
    assert top.returncode == 0 and "im-0" in top.stdout
    status = containers.cep("status")
    assert status.returncode == 0 and "outside" in status.stdout
    assert "not bound" not in status.stdout
    assert containers.cep("delete", "outside").returncode == 0


def test_a_client_in_a_container_publishes_and_subscribes(containers: Containers, cluster: Cluster) -> None:
    script = (
        "import os; from driver import *; from driver.cluster import Cluster\n"
        "from driver.processes.run_folder import token_or_run_folders as t\n"
        "with Cluster(os.environ['CEP_URL'], t(None)) as c:\n"
        "    s = stream('inside.v', n=int)\n"
        "    q = c.deploy(Query('inside').source(s).map('m', n=col('n') + 1).output('inside.o'))\n"
        "    found = q.subscribe('inside.o')\n"
        "    with c.publisher('inside.v') as p: p.send([{'n': i} for i in range(100)])\n"
        "    print(sum(row['n'] for batch in found for row in batch.to_pylist()))\n"
        "    q.delete()\n"
    )
    ran = containers.compose("run", "--rm", "--entrypoint", "python", "hibench", "-c", script)
    assert ran.stdout.split()[-1] == str(sum(range(1, 101)))


def test_without_the_token_nothing_answers(containers: Containers, cluster: Cluster) -> None:
    with Cluster(containers.url) as stranger, pytest.raises(Unauthorized, match="token"):
        stranger.queries()


def test_no_process_is_root_and_memory_is_bound(containers: Containers, cluster: Cluster) -> None:
    for service in SERVICES:
        assert not containers.inspect(service)["Config"]["User"].startswith("0"), service
    for manager in cluster.instance_managers():
        assert manager["binding"]["bound"], manager["binding"]


def test_without_the_capability_status_says_that_memory_is_not_bound(containers: Containers, cluster: Cluster) -> None:
    image, run = containers.inspect("instance-managers")["Image"], containers.run.path
    words = ["--rm", "--user", containers.inspect("instance-managers")["Config"]["User"], "--entrypoint", "python", "-v", f"{run}:{run}"]
    script = "from cep.numa import bind; print(bind(0, 0).note)"
    said = subprocess.check_output(["docker", "run", "--cap-drop", "ALL", *words, image, "-c", script], text=True)
    assert "EPERM" in said and "add the capability SYS_NICE" in said


@pytest.mark.parametrize("service", ["metric-server", "gateway", "zookeeper", "orchestrator-1", "orchestrator-2"])
def test_killed_beside_the_data_nothing_is_lost(containers: Containers, cluster: Cluster, service: str) -> None:
    stream = Stream(cluster, f"kill-{service}")
    stream.send()
    containers.kill(service)
    stream.send()
    until(lambda: containers.healthy(service), COMES_BACK_S)
    stream.send()
    stream.finish()


def test_the_standby_takes_over(containers: Containers, cluster: Cluster) -> None:
    stream = Stream(cluster, "takeover")
    stream.send()
    before = _leading(containers)
    containers.kill(f"orchestrator-{before}")
    assert _leading(containers) == 3 - before
    cluster.deploy(copies("after")).delete()
    stream.send()
    stream.finish()


def _leading(containers: Containers) -> int:
    def leads(number: int) -> bool:
        try:
            answer = httpx.get(f"{containers.url.split(',')[number - 1]}/health", headers={"Authorization": f"Bearer {_token(containers)}"})
        except httpx.TransportError:
            return False
        return bool(answer.json()["role"] == "leader")

    return until(lambda: [number for number in (1, 2) if leads(number)], COMES_BACK_S)[0]


def test_killed_instance_managers_fail_their_queries_and_come_back(containers: Containers, cluster: Cluster) -> None:
    stream = Stream(cluster, "lost")
    stream.send()
    containers.kill("instance-managers")
    stream.reader.join(60)
    assert isinstance(stream.error, QueryFailed), stream.error
    failed = until(lambda: _state(cluster, "lost", "failed"), COMES_BACK_S)
    assert "im-" in failed["cause"]["cause"] or "instance manager" in failed["cause"]["cause"]
    until(lambda: containers.healthy("instance-managers"), COMES_BACK_S)
    until(lambda: cluster.instance_managers(), COMES_BACK_S)
    again = Stream(cluster, "again")
    again.send()
    again.finish()


def _state(cluster: Cluster, name: str, state: str) -> dict[str, Any] | None:
    found = cluster.query(name).status()
    return found if found["state"] == state else None


@pytest.mark.parametrize(
    "words", [("--engine", "cep"), ("--engine", "spark", "--master", "spark://spark-master:7077")], ids=["cep", "spark"]
)
def test_hibench(containers: Containers, cluster: Cluster, words: tuple[str, ...]) -> None:
    ran = containers.compose("run", "--rm", "-T", "hibench", "run", "fixed-window", "--events", "50000", *words)
    assert "equal to expected" in ran.stdout, ran.stdout + ran.stderr


def test_connectors_come_with_their_profile_and_go_on_when_killed(containers: Containers, cluster: Cluster) -> None:
    """A file is read before, and one after; each row once. The libraries of the other connectors are there."""
    containers.compose("up", "--detach", "connectors")
    until(lambda: containers.healthy("connectors"), COMES_BACK_S)
    containers.compose("run", "--rm", "--entrypoint", "python", "connectors", "-c", "import confluent_kafka, fastavro, psycopg, fsspec")
    source = stream("brought", n=int)
    running = cluster.deploy(Query("brings").source(source).map("m", n=col("n")).output("brings.out").options(recover="on-commit"))
    with running.subscribe("brings.out") as answers:
        _write(containers, 1)
        path = "/var/lib/cep/work/brought"
        cluster.connect({"name": "brought", "stream": "brought", "from": {"connector": "files", "path": path, "format": "json"}})
        assert (batch := answers.next_batch(timeout=60)) is not None and batch.to_pydict() == {"n": [1]}
        containers.kill("connectors")
        _write(containers, 2)
        assert (batch := answers.next_batch(timeout=60)) is not None and batch.to_pydict() == {"n": [2]}
    until(lambda: containers.healthy("connectors"), COMES_BACK_S)
    cluster.disconnect("brought")
    running.delete()


def _write(containers: Containers, n: int) -> None:
    script = (
        "from pathlib import Path; folder = Path('/var/lib/cep/work/brought'); folder.mkdir(exist_ok=True)\n"
        f"(folder / '.new').write_text('{{\"n\": {n}}}\\n'); (folder / '.new').rename(folder / '{n}.jsonl')"
    )
    containers.compose("run", "--rm", "--entrypoint", "python", "hibench", "-c", script)


def test_a_stop_is_orderly(containers: Containers, cluster: Cluster) -> None:
    """Last: SIGTERM ends every role by itself, long before the engine would kill it."""
    containers.compose("stop", "--timeout", "15")
    ended: dict[str, int] = {service: containers.inspect(service)["State"]["ExitCode"] for service in SERVICES}
    java: Callable[[str], bool] = lambda service: service in ("zookeeper", "spark-master")  # noqa: E731
    assert ended == {service: 143 if java(service) else 0 for service in SERVICES}
