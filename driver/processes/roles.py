"""The roles of a cluster, each a command that becomes the process in question: for containers, and for users' own scripts.

What they need to know stands in their flags, in the environment or in a file (`driver.configuration`). A role runs in the foreground, logs
to standard output and ends in order on SIGTERM. `driver.processes.supervisor` starts the same processes for a cluster of one user on one
machine.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from cep.config import TOKEN_VARIABLE, ClusterConfig, argument
from cep.errors import ClusterError
from cep.machine import available_cores, read_topology
from cep.model.topology import core_list
from cep.service.folders import check_folders
from driver.commands import environment, python
from driver.configuration import table
from driver.configuration.flags import role_command
from driver.configuration.told import Told
from driver.processes import agent, joining
from driver.processes.agent import AgentConfig
from driver.processes.compose import compose_text, for_machine, read_compose
from driver.processes.door import Door
from driver.processes.java import java_home
from driver.processes.joining import JoinConfig
from driver.processes.reach import address_towards, checked_name, own_name
from driver.processes.run_folder import RunFolder
from driver.processes.site import Site, managers_of
from driver.processes.zookeeper import ZooKeeper, spark_jars
from driver.spark.daemons import MASTER, WORKER, daemon, daemon_environment

_PANEL = "Roles of a cluster"
_PLACES = ("zookeeper", "rest_host", "rest_port", "token")  # said of a site in words of their own


def register(app: typer.Typer) -> None:
    """Adds the roles to the command line."""
    for name, role in ROLES.items():
        app.command(name, rich_help_panel=_PANEL)(role_command(name, role))
    app.command(rich_help_panel=_PANEL)(compose)


def init(told: Told) -> None:
    """Makes the run folder, with a token for REST, a secret for ZooKeeper and one for Spark. What is there already stays."""
    run, user, group = _run(told), told["uid"], told["gid"]
    try:
        run.prepare(os.getuid() if user is None else user, os.getgid() if group is None else group)
    except OSError as error:
        raise ClusterError(f"cannot make the run folder {run.path}: {error}") from None
    print(f"the run folder is {run.path}, the token is in {run.path / 'token'}")


def zookeeper(told: Told) -> None:
    """ZooKeeper, from the jars of PySpark."""
    server = ZooKeeper(Path(told["zookeeper_data"]), told["zookeeper_port"], told["zookeeper_host"], True, _door(told).zookeeper_keys())
    _become(server.command(java_home(), spark_jars()))


def orchestrator(told: Told) -> None:
    """An orchestrator. Of several one leads; the others stand by."""
    site = site_of(told)
    check_folders("CEP_DATA, --data", site.told.get("data", ()))
    check_folders("CEP_MODULE_PATH, --module-path", site.told.get("module_path", ()))
    _become(python("orchestrator", argument(site.cluster())), _secret(site))


def metric_server(told: Told) -> None:
    """The metric server: counts what the instance managers of this machine report."""
    _become(python("orchestrator.metrics.server", argument(site_of(told).cluster())))


def gateway(told: Told) -> None:
    """The gateway: publishes and subscribes for clients of REST."""
    site = site_of(told, rest_url=told["url"])
    path = site.run.path / "gateway"
    with suppress(FileNotFoundError):
        path.unlink()  # of one that was killed
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    listener.set_inheritable(True)
    _become([*python("driver.gateway", argument(site.cluster())), str(listener.fileno())], _secret(site))


def instance_managers(told: Told) -> None:
    """The instance managers of a machine, or of one of its NUMA nodes, kept up: one for each core, bound to it and its memory."""
    topology, node = read_topology().restricted(available_cores()), told["node"]
    name = "instance-managers" if node is None else f"instance-managers-{node}"
    managers = managers_of(site_of(told), topology, node, told["instances"])
    agent.run(AgentConfig(name, managers, hold_s=told["hold_s"]))


def join(
    told: Told, where: Annotated[str, typer.Argument(metavar="HOST:PORT", help="REST of the cluster: its address, or a URL.")]
) -> None:
    """This host joins a cluster that has begun elsewhere with `cep up --listen`: an instance manager for each core. On SIGTERM what they
    have moves to the other hosts."""
    url = where if "://" in where else f"{'http' if told['ca'] is None else 'https'}://{where}"
    parts = urlsplit(url)
    if parts.hostname is None:
        raise ClusterError(f"expected the address of a cluster's REST, HOST:PORT or a URL, got {where!r}")
    given = {key: told[key] for key in ("data", "module_path", "kernel_cache", "log")}
    joining.run(
        JoinConfig(
            url=url,
            token=told["token"],
            ca=told["ca"],
            name=checked_name(told["host_name"] or own_name()),
            address=told["address"] or address_towards(parts.hostname, parts.port or table.PORT),
            run=None if told["run"] is None else Path(told["run"]),
            instances=told["instances"],
            given=given,
            hold_s=told["hold_s"],
        )
    )


def spark_master(told: Told) -> None:
    """A master of Spark, for comparison; a process without the run folder's secret is turned away."""
    _become(daemon(MASTER, told["spark_host"] or "127.0.0.1", told["spark_port"]), daemon_environment(_run(told)))


def spark_worker(told: Told) -> None:
    """A worker of Spark."""
    size = ("--cores", str(told["spark_cores"]), "--memory", f"{told['spark_memory_mb']}m")
    where = ("--work-dir", told["spark_folder"], told["spark_master"])
    _become(daemon(WORKER, told["spark_host"] or socket.gethostname(), 0, *size, *where), daemon_environment(_run(told)))


ROLES: dict[str, Callable[..., None]] = {
    table.INIT: init,
    table.ZOOKEEPER: zookeeper,
    table.ORCHESTRATOR: orchestrator,
    table.METRICS: metric_server,
    table.GATEWAY: gateway,
    table.MANAGERS: instance_managers,
    table.JOIN: join,
    table.SPARK_MASTER: spark_master,
    table.SPARK_WORKER: spark_worker,
}


def compose(
    file: Annotated[Path, typer.Argument(help="The compose file to begin with.")] = Path("docker/compose.yaml"),
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Default: compose.machine.yaml beside it; `-`: here.")] = None,
) -> None:
    """Writes a compose file with a service of instance managers for every NUMA node of this machine, confined to its cores."""
    topology = read_topology().restricted(available_cores())
    try:
        written = compose_text(for_machine(read_compose(file.read_text()), topology), topology)
        target = output or file.with_name("compose.machine.yaml")
        if str(target) == "-":
            print(written, end="")
        else:
            target.write_text(written)
            print(f"{target}: {', '.join(f'node {node.id} with cores {core_list(node.cores)}' for node in topology.nodes)}")
    except OSError as error:
        raise ClusterError(f"{file}: {error}") from None


def site_of(told: Told, **more: str) -> Site:
    """The cluster that a role is told of; what the role isn't told is as `ClusterConfig` has it."""
    known = told.fields_of(ClusterConfig)
    places = {name: known.pop(name) for name in _PLACES if name in known}
    places.pop("token", None)
    run = _run(told)
    return Site(
        run, places.pop("zookeeper", table.BY_NAME["zookeeper"].default), **places, told=known | more | _door(told).settings(run.tokens)
    )


def _door(told: Told) -> Door:
    return Door(**told.fields_of(Door))


def _run(told: Told) -> RunFolder:
    return RunFolder(Path(told.required("run")))


def _secret(site: Site) -> dict[str, str]:
    """The token, where no other user can read it."""
    return {TOKEN_VARIABLE: site.run.token()}


def _become(command: list[str], more: Mapping[str, str] | None = None) -> None:
    """This process is that one from now on: a signal reaches it, and its end is the role's."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    sys.stdout.flush()
    os.execvpe(command[0], command, environment(more or {}))
