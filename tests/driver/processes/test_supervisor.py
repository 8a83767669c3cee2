"""A local cluster as a whole: it starts, mends itself, and leaves nothing behind, however it ends.

Tests `supervisor.py`, `agent.py`, `children.py`, `process.py`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from typer.testing import CliRunner

from cep.config import ClusterConfig, InstanceManagerConfig, argument
from cep.errors import ClusterError
from cep.secret import Secret
from cep.service.reports import read_reports, write_report
from driver.cli import app
from driver.processes.agent import AgentConfig, run
from driver.processes.children import Child
from driver.processes.process import Home, ending, report_folders, start
from driver.processes.reach import Reach
from driver.processes.supervisor import LocalConfig, instance_managers, main
from orchestrator.rest.models import QUERY_EXAMPLE
from tests.support.paths import ROOT
from tests.support.waiting import HANG_S, until

STAND_IN = [sys.executable, str(ROOT / "tests" / "support" / "stand_in.py")]
COMMAND = [sys.executable, "-m", "driver.processes.supervisor"]

# A parent that only starts the supervisor and tells what it says; it dies without having done anything about it
PARENT = """
import subprocess, sys
child = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
print(child.pid, flush=True)
print(child.stdout.readline().decode(), end="", flush=True)
sys.stdin.read()
"""


class Started:
    """A supervisor with stand-ins, or a parent of one; and what it said."""

    def __init__(self, command: list[str], where: Path, parent: bool = False, **config: Any) -> None:
        own = {"instance_manager": STAND_IN, "instances": 2, "folder": str(where), "session_timeout_s": 4.0}
        words = [*command, json.dumps(own | config)]
        self.process = subprocess.Popen(
            [sys.executable, "-c", PARENT, *words] if parent else words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            process_group=0,
            text=True,
        )
        self.supervisor = int(self.read()) if parent else self.process.pid
        self.said: dict[str, Any] = json.loads(self.read())

    def read(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def ask(self, line: str) -> dict[str, Any]:
        assert self.process.stdin is not None
        print(line, file=self.process.stdin, flush=True)
        return dict(json.loads(self.read()))

    def pids(self) -> Mapping[str, int]:
        return dict(self.ask('{"processes": true}')["processes"])

    def kill(self, name: str) -> None:
        """With -9; returns when the supervisor has seen it."""
        pid = self.pids()[name]
        os.kill(pid, signal.SIGKILL)
        until(lambda: self.pids().get(name) != pid)

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=self.said["rest"], timeout=HANG_S, trust_env=False, verify=False)

    def everything(self) -> list[psutil.Process]:
        """All processes of the cluster, the supervisor among them."""
        return [psutil.Process(pid) for pid in (self.supervisor, *dict(self.said["processes"]).values())]

    def close(self) -> int:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        code = self.process.wait(HANG_S)
        self.process.stdout.close()
        return code


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where homes are made: short enough for sockets, and empty."""
    made = Path("/tmp") / f"supervised-{os.getpid()}"
    made.mkdir()
    yield made
    for left in made.iterdir():
        Home.make(str(made)).leave(keep=False)  # sweeps what a killed one left
        assert not left.exists()
    made.rmdir()


def gone(processes: list[psutil.Process]) -> bool:
    _, alive = psutil.wait_procs(processes, timeout=HANG_S)
    return not alive


def settled(client: httpx.Client, state: str) -> bool:
    answer = client.get("/queries/per-ip")
    return answer.status_code == 200 and answer.json()["state"] == state


#: An instance manager that says why it does not want, as long as there is a file that says so
UNWILLING = f"""[ ! -e "$0" ] || {{ echo "no licence"; exit 3; }}; exec {sys.executable} {STAND_IN[1]} "$1\""""


def deaths(reports: Path, child: str) -> int:
    (report,) = read_reports(reports)
    return next(each["deaths"] for each in report["children"] if each["name"] == child)


class TestRunning:
    def test_mends_itself_and_leaves_no_process(self, folder: Path, tmp_path: Path) -> None:
        """Every child is in a group of its own. Told to end by SIGTERM, the cluster leaves its folder where that is wanted."""
        unwilling = tmp_path / "unwilling"
        cluster = Started(COMMAND, folder, instance_manager=["sh", "-c", UNWILLING, str(unwilling)], keep_home=True)
        everything = cluster.everything()
        reports = next(each for each in report_folders() if each.name == Path(cluster.said["home"]).name)
        assert set(cluster.pids()) == {"zookeeper", "orchestrator", "metric-server", "im-0", "im-1"}
        groups = {os.getpgid(pid) for pid in cluster.pids().values()}
        assert len(groups) == 5 and os.getpgid(cluster.supervisor) not in groups
        with cluster.client() as client:
            assert client.post("/queries?wait=true", json=QUERY_EXAMPLE).json()["state"] == "running"
            self.fails_what_was_where_one_died(cluster, client)
            everything += [psutil.Process(pid) for pid in cluster.pids().values()]
            assert client.delete("/queries/per-ip?wait=true").is_success
            assert client.post("/queries?wait=true", json=QUERY_EXAMPLE).json()["state"] == "running"
            reported = {child["name"]: child["deaths"] for child in client.get("/cluster").json()["supervisors"][0]["children"]}
            assert reported == {"zookeeper": 0, "orchestrator": 0, "metric-server": 0, "im-0": 0, "im-1": 1}
            assert client.delete("/queries/per-ip?wait=true").is_success
            self.bears_one_that_cannot_live(cluster, client, reports, unwilling)
        assert "expected" in cluster.ask("nonsense")["error"]
        everything += [psutil.Process(pid) for pid in cluster.pids().values()]
        os.kill(cluster.supervisor, signal.SIGTERM)
        assert cluster.process.wait(HANG_S) == 0 and gone(everything) and not reports.exists()
        cluster.close()
        home = Path(cluster.said["home"])
        assert {path.name for path in home.glob("*.log")} >= {"orchestrator.log", "im-0.log"}
        shutil.rmtree(home)

    def fails_what_was_where_one_died(self, cluster: Started, client: httpx.Client) -> None:
        dead = cluster.pids()["im-1"]
        cluster.kill("im-1")
        until(lambda: settled(client, "failed"))
        cause = client.get("/queries/per-ip").json()["cause"]["cause"]
        assert cause == f"instance manager 'im-1' (process {dead}) was killed by SIGKILL"

    def bears_one_that_cannot_live(self, cluster: Started, client: httpx.Client, reports: Path, unwilling: Path) -> None:
        """It ends nothing, and comes back."""
        unwilling.touch()
        os.kill(cluster.pids()["im-0"], signal.SIGKILL)
        until(lambda: deaths(reports, "im-0") >= 6)
        status = CliRunner().invoke(app, ["status", "--url", cluster.said["rest"]])
        assert status.exit_code == 0 and "no queries" in status.output
        assert re.search(r"im-0: down, is tried again in \d s; .* ended with exit code 3; it said: no licence", status.output)
        unwilling.unlink()
        until(lambda: client.get("/health").json()["instance_managers"] == 2 and "im-0" in cluster.pids())
        assert client.post("/queries?wait=true", json=QUERY_EXAMPLE).json()["state"] == "running"


class TestEndings:
    @pytest.mark.long  # as `test_nothing_is_left` has it, in tests/cluster/test_kill.py
    def test_killed_parent(self, folder: Path) -> None:
        parent = Started(COMMAND, folder, parent=True)
        everything = parent.everything()
        parent.process.kill()
        assert gone(everything) and not Path(parent.said["home"]).exists()
        parent.close()


class TestDegraded:
    @pytest.mark.long
    def test_zookeeper_comes_back_when_there_is_room(self, folder: Path) -> None:
        """Its disk is full: a file system of its own, in a mount namespace that is the cluster's alone."""
        mounted = f"mount -t tmpfs -o size=16m tmpfs {folder} && exec " + " ".join(COMMAND) + ' "$0"'
        if subprocess.run(["unshare", "-rm", "sh", "-c", f"mount -t tmpfs tmpfs {folder}"], check=False, capture_output=True).returncode:
            pytest.skip("no file system may be mounted here")
        cluster = Started(["unshare", "-rm", "sh", "-c", mounted], folder)
        reports = next(each for each in report_folders() if each.name == Path(cluster.said["home"]).name)
        inside = Path(f"/proc/{cluster.supervisor}/root{folder}")
        with cluster.client() as client:
            assert client.post("/queries?wait=true", json=QUERY_EXAMPLE).json()["state"] == "running"
            with (inside / "fill").open("wb") as fill, suppress(OSError):
                while True:
                    fill.write(bytes(1 << 16))
            os.kill(cluster.pids()["zookeeper"], signal.SIGKILL)
            until(lambda: deaths(reports, "zookeeper") >= 3)
            status = CliRunner().invoke(app, ["status", "--url", cluster.said["rest"]])
            assert f"the disk of {cluster.said['home']} is full" in status.output
            assert re.search(r"zookeeper: (down, is tried again in \d s; )?.*has died \d times", status.output)
            assert {"orchestrator", "im-0", "im-1", "metric-server"} <= cluster.pids().keys()
            (inside / "fill").unlink()
            until(lambda: client.get("/health").status_code == 200)
            assert settled(client, "running")
            until(lambda: not read_reports(reports)[0]["full_disk"])
        assert cluster.close() == 0


class TestAgent:
    def test_it_keeps_instance_managers_up(self, tmp_path: Path) -> None:
        cluster = ClusterConfig(str(tmp_path), "", "127.0.0.1", 0, "", "", reports=str(tmp_path))
        managers = tuple(InstanceManagerConfig(cluster, f"im-{i}", None, None, "") for i in range(2))
        command = (sys.executable, "-c", "print('here', flush=True); import signal; signal.pause()")
        config = AgentConfig("agent-0", managers, str(tmp_path), command)
        agent = subprocess.Popen([sys.executable, "-m", "driver.processes.agent", json.dumps(config.to_json())], cwd=ROOT)

        def children() -> dict[str, Any]:
            return {child["name"]: child for report in read_reports(tmp_path) for child in report["children"] if child["pid"]}

        before = until(lambda: len(found := children()) == 2 and found)
        os.kill(before["im-1"]["pid"], signal.SIGKILL)
        after = until(lambda: len(found := children()) == 2 and found["im-1"]["deaths"] and found)
        assert after["im-0"]["pid"] == before["im-0"]["pid"] and after["im-1"]["pid"] != before["im-1"]["pid"]
        assert after["im-1"]["last_deaths"][-1]["how"] == "was killed by SIGKILL"
        processes = [psutil.Process(child["pid"]) for child in after.values()]
        agent.terminate()
        assert agent.wait(HANG_S) == 0 and gone(processes) and not read_reports(tmp_path)

    def test_it_needs_somebody_to_keep_up(self) -> None:
        with pytest.raises(ClusterError, match="expected instance managers"):
            run(AgentConfig("agent-0", ()))
        with pytest.raises(ClusterError, match="not the configuration of an agent"):
            AgentConfig.from_json({"name": "agent-0"})


class TestNoStart:
    def refused(self, where: Path, **config: Any) -> str:
        cluster = Started(COMMAND, where, **config)
        assert cluster.close() == 1 and not any(where.iterdir())
        return str(cluster.said["error"])

    def refused_at_once(self, capfd: pytest.CaptureFixture[str], where: Path, **config: Any) -> str:
        """By what a supervisor looks at before it starts anything, in this process."""
        assert main([json.dumps({"folder": str(where)} | config)]) == 1 and not any(where.iterdir())
        return str(json.loads(capfd.readouterr().out)["error"])

    def test_a_port_in_use(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            assert f"port {port} of 127.0.0.1: Address already in use" in self.refused(folder, rest_port=port)

    def test_a_child_that_dies_is_quoted(self, folder: Path) -> None:
        error = self.refused(folder, instance_manager=[sys.executable, "-c", "raise SystemExit('no way')"])
        assert "ended with exit code 1; it said:\nno way" in error and error.startswith("im-")

    def test_an_open_address_without_a_token(self, folder: Path) -> None:
        assert "give the cluster a token" in self.refused(folder, rest_host="0.0.0.0")

    def test_a_home_that_cannot_be_made(self, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
        assert "cannot make a folder for the cluster" in self.refused_at_once(capfd, folder, folder="/proc")
        assert "too long a path for sockets" in self.refused_at_once(capfd, folder, folder="/tmp/" + "x" * 100)

    def test_no_configuration(self, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
        said = self.refused_at_once(capfd, folder, instanzes=2)
        assert said.startswith("a local cluster has no setting 'instanzes' (did you mean 'instances'?); there are instances, numa, data")

    @pytest.mark.parametrize("setting", ["data", "module_path"])
    def test_a_folder_that_is_not_there(self, folder: Path, tmp_path: Path, setting: str, capfd: pytest.CaptureFixture[str]) -> None:
        (tmp_path / "file").touch()
        option = f"--{setting.replace('_', '-')}"
        for name, what in {"nope": "does not exist", "file": "is no folder"}.items():
            said = self.refused_at_once(capfd, folder, **{setting: [str(tmp_path), str(tmp_path / name)]})
            assert said == f"{setting}, {option}: the folder '{tmp_path / name}' {what}"


class TestPlaces:
    def managers(self, tmp_path: Path, **config: Any) -> list[tuple[int | None, int | None]]:
        home = Home.make("/tmp")
        cluster = ClusterConfig(str(tmp_path), "", "127.0.0.1", 0, "", "")
        found = instance_managers(LocalConfig(**config), cluster, home, Reach())
        home.leave(keep=False)
        return [(manager.core, manager.node) for manager in found]

    def test_each_has_a_core_until_they_are_used_up(self, tmp_path: Path) -> None:
        cores = sorted(os.sched_getaffinity(0))
        found = self.managers(tmp_path, instances=len(cores) + 1)
        assert sorted({core for core, _ in found if core is not None}) == cores and found[-1] == found[0]

    def test_without_numa_they_run_anywhere(self, tmp_path: Path) -> None:
        assert self.managers(tmp_path, instances=2, numa=False) == [(None, None)] * 2

    def test_four_at_most_unless_asked(self, tmp_path: Path) -> None:
        assert 1 <= len(self.managers(tmp_path)) <= 4


def test_a_session_bears_more_where_there_are_several_hosts() -> None:
    """What is asked for is what is used."""
    several = {"address": "127.0.0.1", "host": "h1"}
    settings: list[dict[str, Any]] = [{}, several, {"session_timeout_s": 6.0}, {**several, "session_timeout_s": 6.0}]
    assert [LocalConfig.from_json(each).session_timeout_s for each in settings] == [6.0, 10.0, 6.0, 6.0]


def test_how_queries_recover_is_one_of_three() -> None:
    with pytest.raises(ClusterError, match="recover: expected one of off, on-commit, at-once, got 'always'"):
        LocalConfig.from_json({"recover": "always"})


def test_reports_whose_home_is_gone_are_swept(folder: Path) -> None:
    lost = Home.make(str(folder))
    reports = lost.make_reports()
    Home.make(str(folder)).leave(keep=False)
    assert reports.exists()
    shutil.rmtree(lost.folder)
    os.close(lost._held)  # as when its owner is killed
    Home.make(str(folder)).leave(keep=False)
    assert not reports.exists()


def test_what_a_killed_one_reported_is_there_as_long_as_its_home(folder: Path) -> None:
    """Clusters that start elsewhere leave it alone."""
    killed = Home.make(str(folder))
    reports = killed.make_reports()
    write_report(reports, "supervisor", {"home": str(killed.folder)})
    os.close(killed._held)
    os.close(killed._lock)
    with tempfile.TemporaryDirectory(dir="/tmp") as elsewhere:
        Home.make(elsewhere).leave(keep=False)
    assert read_reports(reports) == [{"home": str(killed.folder)}]
    Home.make(str(folder)).leave(keep=False)
    assert not reports.exists()


def test_a_folder_in_use_is_not_swept(folder: Path) -> None:
    first, second = Home.make(str(folder)), Home.make(str(folder))
    assert first.folder.exists()
    first.leave(keep=False)
    second.leave(keep=False)


def test_a_process_that_keeps_dying_is_started_again_each_time() -> None:
    child = Child("zookeeper", [])
    assert [child.pause_s(now=1.0) for _ in range(10)] == [0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]
    child.started_at = 100.0
    assert child.pause_s(now=129.0) == 128.0
    assert [child.pause_s(now=130.0) for _ in range(2)] == [0.0, 0.0]  # it had lived for long both times


@pytest.mark.parametrize(("number", "said"), [(signal.SIGKILL, "SIGKILL"), (signal.SIGRTMIN + 6, f"signal {signal.SIGRTMIN + 6}")])
def test_every_signal_that_ends_one_is_named(number: int, said: str) -> None:
    """Real-time signals have no names; one of them to one child ended the whole cluster."""
    process = start(["sleep", "3600"], None)
    os.kill(process.pid, number)
    process.wait(HANG_S)
    assert ending(process) == f"was killed by {said}"


def test_a_token_is_on_no_command_line() -> None:
    cluster = ClusterConfig("", "", "127.0.0.1", 0, "", "", token=Secret("hush-hush"))
    assert ClusterConfig.from_json(json.loads(argument(cluster))) == replace(cluster, token=None)
    assert "hush-hush" not in argument(InstanceManagerConfig(cluster, "im-0", None, None, ""))


def test_a_field_that_is_missing_is_named() -> None:
    with pytest.raises(ClusterError, match="rest_host"):
        ClusterConfig.from_json({"home": "", "zookeeper": ""})
