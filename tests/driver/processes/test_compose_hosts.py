"""docker/first.yaml and docker/host.yaml on two Docker engines, each in a network namespace of its own: that is the network of its host,
so the containers of the two see each other only as hosts do. Long; skipped without root, a Docker engine and the image."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.faults.namespaces import HostNetwork
from cep.errors import QueryFailed
from driver.cluster import Cluster
from driver.processes.run_folder import RunFolder
from tests.driver.processes.test_compose import COMES_BACK_S, WHY_NOT, Project, Stream
from tests.support.host_network import net
from tests.support.joined_hosts import where
from tests.support.paths import ROOT
from tests.support.waiting import until

__all__ = ["net"]  # a fixture
NETWORK = "dk"
WHY_NOT_HERE = WHY_NOT or ("" if os.getuid() == 0 and shutil.which("dockerd") else "a Docker engine is started by root, and dockerd")
pytestmark = [pytest.mark.long, pytest.mark.skipif(bool(WHY_NOT_HERE), reason=WHY_NOT_HERE), pytest.mark.timeout(1800)]

FIRST = ("zookeeper", "orchestrator-1", "orchestrator-2", "metric-server", "gateway", "instance-managers")


@contextmanager
def engine(net: HostNetwork, host: int, folder: Path) -> Iterator[str]:
    """One on that host, with the image; yields its `DOCKER_HOST`."""
    at = f"unix://{folder}/socket"
    own = ("--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec", "--pidfile", f"{folder}/pid", "-H", at)
    bare = ("--storage-driver=overlay2", "--iptables=false", "--ip6tables=false", "--bridge=none")
    inside = ("nsenter", f"--net=/var/run/netns/{net.inside(host)[-1]}")  # not `ip netns exec`, which has other mounts too
    with open(folder / "log", "w") as log:
        process = subprocess.Popen([*inside, "dockerd", *own, *bare], stdout=log, stderr=log)
    environment = {**os.environ, "DOCKER_HOST": at}
    try:
        until(lambda: subprocess.run(["docker", "version"], env=environment, capture_output=True).returncode == 0, COMES_BACK_S)
        with subprocess.Popen(["docker", "save", os.environ.get("CEP_IMAGE", "numa-cep")], stdout=subprocess.PIPE) as image:
            subprocess.run(["docker", "load"], stdin=image.stdout, env=environment, check=True, capture_output=True)
        yield at
    finally:
        process.terminate()
        process.wait(60)
        subprocess.run(["umount", f"{folder}/exec/netns/default"], capture_output=True)  # an engine leaves it


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="cepdk-", dir="/var/tmp", ignore_cleanup_errors=True) as made:
        found = Path(made)
        found.chmod(0o755)
        for name in ("1", "2"):
            (found / name).mkdir()
        yield found


@contextmanager
def up(project: Project) -> Iterator[Project]:
    try:
        project.compose("up", "--detach")
        yield project
    finally:
        project.compose("down", "--volumes", "--timeout", "20", check=False)


def test_two_hosts_of_containers(net: HostNetwork, folder: Path) -> None:
    run, address = RunFolder(folder / "1" / "run"), net.address(1)
    with engine(net, 1, folder / "1") as one, engine(net, 2, folder / "2") as two:
        told = {"DOCKER_HOST": one, "CEP_RUN": str(run.path), "CEP_LISTEN": address, "CEP_HOST_NAME": "h1"}
        with up(Project(ROOT / "docker" / "first.yaml", told)) as first:
            until(lambda: all(first.healthy(service) for service in FIRST), COMES_BACK_S)
            ca = shutil.copy(run.keys / "ca.crt", folder / "ca.crt")
            joins = {"CEP_FIRST": f"{address}:8765,{address}:8766", "CEP_TOKEN": run.token(), "CEP_CA_FILE": str(ca), "CEP_HOST_NAME": "h2"}
            url = f"https://{address}:8765,https://{address}:8766"
            with (
                up(Project(ROOT / "docker" / "host.yaml", {"DOCKER_HOST": two, **joins})) as further,
                Cluster(url, run.token(), ca=str(ca), host="elsewhere", patience_s=60.0) as client,
            ):
                until(lambda: [each["name"] for each in client.hosts()] == ["h1", "h2"], COMES_BACK_S)
                _orchestrator_is_killed(client, first)
                _host_is_stopped(client, further)
                _host_is_killed(client, further)


def _orchestrator_is_killed(client: Cluster, first: Project) -> None:
    stream = _on_both(client, "killed")
    stream.send()
    first.kill("orchestrator-1")
    stream.send()
    until(lambda: first.healthy("orchestrator-1"), COMES_BACK_S)
    stream.send()
    stream.finish()


def _host_is_stopped(client: Cluster, further: Project) -> None:
    """Its instances go to the other, and nothing is lost."""
    stream = _on_both(client, "stopped")
    stream.send()
    further.compose("stop")
    assert further.inspect("host")["State"]["ExitCode"] == 0
    assert {im.partition(".")[0] for im in where(client, "stopped")} == {"h1"}
    stream.send()
    stream.finish()
    further.compose("start")
    until(lambda: [each["name"] for each in client.hosts()] == ["h1", "h2"], COMES_BACK_S)


def _host_is_killed(client: Cluster, further: Project) -> None:
    """Its queries fail with the cause, and it joins again by itself."""
    stream = _on_both(client, "lost")
    stream.send()
    further.kill("host")
    stream.reader.join(60)
    assert isinstance(stream.error, QueryFailed) and "h2.im-" in str(stream.error), stream.error
    again = _on_both(client, "again")
    again.send()
    again.finish()


def _on_both(client: Cluster, name: str) -> Stream:
    until(lambda: {im["id"].partition(".")[0] for im in client.instance_managers()} == {"h1", "h2"}, COMES_BACK_S)
    stream = Stream(client, name)
    assert {im.partition(".")[0] for im in where(client, name)} == {"h1", "h2"}
    return stream
