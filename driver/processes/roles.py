"""The roles of a cluster, each a command that becomes the process in question: for containers, and for users' own scripts.

What they need to know stands in their options or, under the names given there, in the environment. A role runs in the foreground, logs to
standard output and ends in order on SIGTERM. `driver.processes.supervisor` starts the same processes for a cluster of one user on one
machine.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from cep.config import SESSION_TIMEOUT_S, TOKEN_VARIABLE, argument
from cep.errors import ClusterError
from cep.machine import available_cores, read_topology
from cep.model.topology import core_list
from cep.service.folders import check_folders
from driver.commands import environment, python
from driver.processes import agent
from driver.processes.agent import AgentConfig
from driver.processes.compose import compose_text, for_machine, read_compose
from driver.processes.java import java_home
from driver.processes.run_folder import RunFolder
from driver.processes.site import Site, managers_of
from driver.processes.zookeeper import ZooKeeper, spark_jars
from driver.spark.daemons import MASTER, WORKER, daemon, daemon_environment

_PANEL = "Roles of a cluster"

RunFolderOption = Annotated[Path, typer.Option("--run", envvar="CEP_RUN", help="The folder that the processes of this machine share.")]
Servers = Annotated[str, typer.Option("--zookeeper", envvar="CEP_ZOOKEEPER", help="ZooKeeper's servers, HOST:PORT,HOST:PORT.")]
Data = Annotated[str, typer.Option(envvar="CEP_DATA", help="Folders under which files may be read and written, with colons.")]
Modules = Annotated[str, typer.Option(envvar="CEP_MODULES", help="Modules whose functions queries may call, with commas.")]
ModulePath = Annotated[str, typer.Option(envvar="CEP_MODULE_PATH", help="Folders in which modules are, with colons.")]
Session = Annotated[float, typer.Option(envvar="CEP_SESSION_TIMEOUT", min=2, help="Seconds until a silent process counts as dead.")]
KernelCacheOption = Annotated[
    str | None, typer.Option(envvar="CEP_KERNEL_CACHE", help="Where compiled kernels are kept; default: the user's.")
]
FastPathOption = Annotated[
    bool, typer.Option(envvar="CEP_FAST_PATH", help="Small messages take a fast path where they can; without it for bug reports.")
]
StockNumbaOption = Annotated[
    bool, typer.Option(envvar="CEP_STOCK_NUMBA", help="Kernels are compiled as Numba does it, not by our own pipeline: for bug reports.")
]

_SERVER = "127.0.0.1:2181"


def register(app: typer.Typer) -> None:
    """Adds the roles to the command line."""
    for role in (init, zookeeper, orchestrator, metric_server, gateway, instance_managers, spark_master, spark_worker, compose):
        app.command(rich_help_panel=_PANEL)(role)


def init(
    run: RunFolderOption,
    user: Annotated[
        int | None, typer.Option(envvar="CEP_UID", help="The user that the folder is to belong to; default: the one that runs this.")
    ] = None,
    group: Annotated[int | None, typer.Option(envvar="CEP_GID", help="Likewise.")] = None,
) -> None:
    """Makes the run folder, with a token for REST, a secret for ZooKeeper and one for Spark. What is there already stays."""
    try:
        RunFolder(run).prepare(os.getuid() if user is None else user, os.getgid() if group is None else group)
    except OSError as error:
        raise ClusterError(f"cannot make the run folder {run}: {error}") from None
    print(f"the run folder is {run}, the token is in {run / 'token'}")


def zookeeper(
    host: Annotated[str, typer.Option(help="Where it listens.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Its port.")] = 2181,
    folder: Annotated[Path, typer.Option(envvar="CEP_ZOOKEEPER_DATA", help="Its data, which outlive it.")] = Path("zookeeper"),
) -> None:
    """ZooKeeper, from the jars of PySpark."""
    _become(ZooKeeper(folder, port, host, lasting=True).command(java_home(), spark_jars()))


def orchestrator(
    run: RunFolderOption,
    servers: Servers = _SERVER,
    host: Annotated[str, typer.Option(envvar="CEP_REST_HOST", help="Where REST listens.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(envvar="CEP_REST_PORT", min=1, max=65535, help="REST's port.")] = 8765,
    address: Annotated[str | None, typer.Option(envvar="CEP_REST_ADDRESS", help="The URL by which others reach it.")] = None,
    data: Data = "",
    modules: Modules = "",
    module_path: ModulePath = "",
    session_timeout: Session = SESSION_TIMEOUT_S,
) -> None:
    """An orchestrator. Of several one leads; the others stand by."""
    site = Site(
        RunFolder(run), servers, host, port, address, _split(data, ":"), _split(modules, ","), _split(module_path, ":"), session_timeout
    )
    check_folders("CEP_DATA, --data", site.data)
    check_folders("CEP_MODULE_PATH, --module-path", site.module_path)
    _become(python("orchestrator", argument(site.cluster())), _secret(site))


def metric_server(run: RunFolderOption) -> None:
    """The metric server: counts what the instance managers of this machine report."""
    _become(python("orchestrator.metrics.server", argument(Site(RunFolder(run), _SERVER).cluster())))


def gateway(
    run: RunFolderOption,
    url: Annotated[str, typer.Option(envvar="CEP_URL", help="The orchestrators' addresses, with commas.")] = "http://127.0.0.1:8765",
) -> None:
    """The gateway: publishes and subscribes for clients of REST."""
    site = Site(RunFolder(run), _SERVER, rest_url=url)
    path = site.run.path / "gateway"
    with suppress(FileNotFoundError):
        path.unlink()  # of one that was killed
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    listener.set_inheritable(True)
    _become([*python("driver.gateway", argument(site.cluster())), str(listener.fileno())], _secret(site))


def instance_managers(
    run: RunFolderOption,
    servers: Servers = _SERVER,
    node: Annotated[int | None, typer.Option(min=0, help="The NUMA node whose cores they are to have; default: all nodes.")] = None,
    instances: Annotated[int | None, typer.Option(envvar="CEP_INSTANCES", min=1, help="How many; default: one for each core.")] = None,
    data: Data = "",
    modules: Modules = "",
    module_path: ModulePath = "",
    session_timeout: Session = SESSION_TIMEOUT_S,
    kernel_cache: KernelCacheOption = None,
    fast_path: FastPathOption = True,
    stock_numba: StockNumbaOption = False,
) -> None:
    """The instance managers of a machine, or of one of its NUMA nodes, kept up: one for each core, bound to it and its memory."""
    site = Site(
        RunFolder(run),
        servers,
        data=_split(data, ":"),
        modules=_split(modules, ","),
        module_path=_split(module_path, ":"),
        session_timeout_s=session_timeout,
        kernel_cache=kernel_cache,
        fast_path=fast_path,
        stock_numba=stock_numba,
    )
    topology = read_topology().restricted(available_cores())
    name = "instance-managers" if node is None else f"instance-managers-{node}"
    agent.run(AgentConfig(name, managers_of(site, topology, node, instances)))


def spark_master(
    run: RunFolderOption,
    host: Annotated[str, typer.Option(help="Where it listens, and how others reach it.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Its port.")] = 7077,
) -> None:
    """A master of Spark, for comparison; a process without the run folder's secret is turned away."""
    _become(daemon(MASTER, host, port), daemon_environment(RunFolder(run)))


def spark_worker(
    run: RunFolderOption,
    master: Annotated[str, typer.Option(envvar="CEP_SPARK_MASTER", help="Its master.")] = "spark://127.0.0.1:7077",
    host: Annotated[str | None, typer.Option(help="Where it listens; default: this machine's name.")] = None,
    cores: Annotated[int, typer.Option(envvar="CEP_SPARK_CORES", min=1, help="Tasks at a time.")] = 1,
    memory_mb: Annotated[int, typer.Option(envvar="CEP_SPARK_MEMORY_MB", min=512, help="For its executors.")] = 1024,
    folder: Annotated[Path, typer.Option(help="Where executors keep what they need.")] = Path("/tmp/spark-worker"),
) -> None:
    """A worker of Spark."""
    size = ("--cores", str(cores), "--memory", f"{memory_mb}m", "--work-dir", str(folder), master)
    _become(daemon(WORKER, host or socket.gethostname(), 0, *size), daemon_environment(RunFolder(run)))


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


def _secret(site: Site) -> dict[str, str]:
    """The token, where no other user can read it."""
    return {TOKEN_VARIABLE: site.run.token()}


def _split(text: str, separator: str) -> tuple[str, ...]:
    return tuple(each for each in text.split(separator) if each)


def _become(command: list[str], more: Mapping[str, str] | None = None) -> None:
    """This process is that one from now on: a signal reaches it, and its end is the role's."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    sys.stdout.flush()
    os.execvpe(command[0], command, environment(more or {}))
