"""The roles of a cluster, each a command that becomes the process in question: for containers, and for users' own scripts.

What they need to know stands in their flags, in the environment or in a file (`driver.configuration`). A role runs in the foreground, logs
to standard output and ends in order on SIGTERM. What one of them alone needs it loads itself: cryptography, YAML and a client of REST would
take half of the start of the others. `driver.processes.supervisor` starts the same processes for a cluster of one user on one machine.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any
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
from driver.processes import agent, host_keeper
from driver.processes.agent import AgentConfig
from driver.processes.console import check_console
from driver.processes.door import Door
from driver.processes.host_keeper import this_host
from driver.processes.java import java_home
from driver.processes.key_folder import KeyFolder
from driver.processes.reach import Reach, address_towards, check_reach, checked_name, own_name, rest_at
from driver.processes.run_folder import RunFolder, token_or_run_folders
from driver.processes.site import Site, keeps_host, managers_of
from driver.processes.zookeeper import Ensemble, ZooKeeper, spark_jars
from driver.spark.daemons import MASTER, WORKER, daemon, daemon_environment
from driver.streams.own_place import write_host

_PANEL = "Roles of a cluster"
_PLACES = ("zookeeper", "rest_host", "rest_port", "token")  # said of a site in words of their own


def register(app: typer.Typer) -> None:
    """Adds the roles to the command line."""
    for name, role in ROLES.items():
        app.command(name, rich_help_panel=_PANEL)(role_command(name, role))
    app.command(rich_help_panel=_PANEL)(compose)


def alone() -> typer.Typer:
    """A command line of nothing but them."""
    app = typer.Typer(no_args_is_help=True, pretty_exceptions_show_locals=False)
    register(app)
    return app


def init(told: Told) -> None:
    """Makes the run folder, with a token for REST, a secret for ZooKeeper and one for Spark; with --listen keys too. What is there already
    stays."""
    run, user, group = _run(told), told["uid"], told["gid"]
    user, group = os.getuid() if user is None else user, os.getgid() if group is None else group
    try:
        run.prepare(user, group)
        if told["listen"] is not None:
            _make_keys(Path(told["keys"] or run.keys), told["listen"], user, group)
    except OSError as error:
        raise ClusterError(f"cannot make the run folder {run.path}: {error}") from None
    run.token()  # one that was there may be empty
    print(f"the run folder is {run.path}, the token is in {run.path / 'token'}")


def _make_keys(folder: Path, address: str, user: int, group: int) -> None:
    """Those of a cluster that other hosts reach at `address`; keys that are there stay. Raises OSError."""
    keys = KeyFolder(folder.absolute())
    if not keys.server.exists():
        import_module("driver.processes.certificates").KeyMaker(keys).make([address], datetime.now(UTC))
        print(f"the keys are in {keys.path}; a host that joins is given {keys.ca}")
    for each in (keys.path, *keys.path.iterdir()):
        os.chown(each, user, group)


def zookeeper(told: Told) -> None:
    """ZooKeeper, from the jars of PySpark; alone, or one of an ensemble."""
    servers, number, folder = told["zookeeper_servers"], told["zookeeper_id"], Path(told["zookeeper_data"])
    if number > 1 and not servers:
        raise ClusterError(f"ZooKeeper's --id: expected --servers, the hosts of all of them, beside it, got {number} alone")
    ensemble = Ensemble(servers, number) if servers else None
    keys = _door(told).zookeeper_keys()
    server = ZooKeeper(folder, told["zookeeper_port"], told["zookeeper_host"], True, keys, ensemble)
    try:
        command = server.command(java_home(), spark_jars())
    except OSError as error:
        raise ClusterError(f"ZooKeeper's folder {folder} (--folder) cannot be written: {error.strerror}") from None
    _become(command)


def orchestrator(told: Told) -> None:
    """An orchestrator. Of several one leads; the others stand by."""
    site = site_of(told)
    check_folders("CEP_DATA, --data", site.told.get("data", ()))
    check_folders("CEP_MODULE_PATH, --module-path", site.told.get("module_path", ()))
    _check_checkpoints(site.told.get("checkpoint_folder"))
    _say_whose(site)
    _become(python("orchestrator", argument(site.cluster())), _secret(site))


def metric_server(told: Told) -> None:
    """The metric server: counts what the instance managers of this machine report."""
    _become(python("orchestrator.metrics.server", argument(site_of(told).cluster())))


def gateway(told: Told) -> None:
    """The gateway: publishes and subscribes for clients of REST."""
    site = site_of(told, rest_url=told["url"])
    path = site.run.socket_path("gateway")
    listener = socket.socket(socket.AF_UNIX)
    try:
        path.unlink(missing_ok=True)  # of one that was killed
        listener.bind(str(path))
    except OSError as error:
        raise ClusterError(f"the gateway cannot listen at {path}: {error.strerror}") from None
    listener.listen()
    listener.set_inheritable(True)
    _become([*python("driver.gateway", argument(site.cluster())), str(listener.fileno())], _secret(site))


def run_connectors(told: Told) -> None:
    """Runs connectors, all that no other such process runs: what brings rows to streams, and takes answers away."""
    site = site_of(told, rest_url=told["url"])
    _become(python("connectors.running", argument(site.cluster())), _secret(site))


def instance_managers(told: Told) -> None:
    """The instance managers of a machine, or of one of its NUMA nodes, kept up: one for each core, bound to it and its memory."""
    topology, node = read_topology().restricted(available_cores()), told["node"]
    name = "instance-managers" if node is None else f"instance-managers-{node}"
    site = site_of(told)
    _check_checkpoints(site.told.get("checkpoint_folder"))
    cluster = site.cluster()
    reach = Reach(cluster.host, cluster.address)
    managers = managers_of(site, topology, node, told["instances"], reach)
    _say_whose(site)
    keeper = host_keeper.command(cluster, this_host(cluster, topology)) if cluster.host and keeps_host(topology, node) else ()
    agent.run(AgentConfig(name, managers, hold_s=told["hold_s"], pause_max_s=told["pause_max_s"]), keeper)


def join(
    told: Told,
    where: Annotated[str, typer.Argument(metavar="HOST:PORT", help="REST of the cluster: its address, or a URL; several with commas.")],
) -> None:
    """This host joins a cluster that has begun elsewhere with `cep up --listen`: an instance manager for each core. On SIGTERM what they
    have moves to the other hosts."""
    import_module("driver.processes.joining").run(join_config(told, where))


def join_config(told: Told, where: str) -> Any:
    """What a host that joins at `where` is told, a `JoinConfig`. Raises ClusterError: it cannot be called so, or there is no way there."""
    urls = import_module("driver.orchestrators").address_list(where, scheme="http" if told["ca"] is None else "https")
    parts = urlsplit(urls[0])
    assert parts.hostname is not None
    given = {key: told[key] for key in ("data", "module_path", "kernel_cache", "log")}
    if told["checkpoint_folder"] is not None:  # else it is where the cluster has it
        _check_checkpoints(told["checkpoint_folder"])
        given["checkpoint_folder"] = told["checkpoint_folder"]
    return import_module("driver.processes.joining").JoinConfig(
        url=",".join(urls),
        token=told["token"],
        ca=told["ca"],
        name=checked_name(told["host_name"] or own_name()),
        address=told["address"] or address_towards(parts.hostname, parts.port or table.PORT),
        run=None if told["run"] is None else Path(told["run"]),
        instances=told["instances"],
        given=given,
        hold_s=told["hold_s"],
        pause_max_s=told["pause_max_s"],
    )


def console(told: Told) -> None:
    """The console of a cluster: pages that show what it does, for browsers, over its REST. It may do what its token may."""
    check_console()
    file = told["token_file"]
    token = token_or_run_folders(told["token"]) if file is None else _text_of(file)
    config = {
        "url": told["url"],
        "ca": told["ca"],
        "host": told["console_host"],
        "port": told["console_port"],
        "names": told["console_names"],
    }
    config |= {each: told[each] for each in ("tls_cert", "tls_key", "insecure_http")} | {"secret_file": told["console_secret_file"]}
    _become(python("console", json.dumps(config)), {TOKEN_VARIABLE: token} if token else {})


def _text_of(file: str) -> str:
    """Raises ClusterError: it cannot be read."""
    try:
        return Path(file).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ClusterError(f"{file}: {error}") from None


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
    table.CONNECTING: run_connectors,
    table.JOIN: join,
    table.CONSOLE: console,
    table.SPARK_MASTER: spark_master,
    table.SPARK_WORKER: spark_worker,
}


def compose(
    file: Annotated[Path, typer.Argument(help="The compose file to begin with.")] = Path("docker/compose.yaml"),
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Default: compose.machine.yaml beside it; `-`: here.")] = None,
) -> None:
    """Writes a compose file with a service of instance managers for every NUMA node of this machine, confined to its cores."""
    files = import_module("driver.processes.compose")
    topology = read_topology().restricted(available_cores())
    try:
        written = files.compose_text(files.for_machine(files.read_compose(file.read_text()), topology), topology)
        target = output or file.with_name("compose.machine.yaml")
        if str(target) == "-":
            print(written, end="")
        else:
            target.write_text(written)
            print(f"{target}: {', '.join(f'node {node.id} with cores {core_list(node.cores)}' for node in topology.nodes)}")
    except OSError as error:
        raise ClusterError(f"{file}: {error}") from None


def site_of(told: Told, **more: str) -> Site:
    """The cluster that a role is told of; what the role isn't told is as `ClusterConfig` has it. Raises ClusterError: its run folder is
    not there, or something that it is told is wrong."""
    known = told.fields_of(ClusterConfig)
    places = {name: known.pop(name) for name in _PLACES if name in known}
    places.pop("token", None)
    run, door = _run(told), _door(told)
    run.check()
    if "metrics_port" in told.values:
        places["metrics_port"] = told["metrics_port"]
    if known.get("address") is None:
        known["host"] = ""
    else:
        known["host"] = checked_name(known["host"] or own_name())
        _check_links(known["address"], door)
        if "rest_host" in places:
            places["rest_host"] = rest_at(known["address"], places["rest_host"])
    servers = places.pop("zookeeper", table.BY_NAME["zookeeper"].default)
    return Site(run, servers, **places, told=known | more | door.settings(run.tokens))


def _check_links(address: str, door: Door) -> None:
    """Raises ClusterError: other machines reach that address, and links, or the sessions with ZooKeeper, would be open to them."""
    if check_reach(address, door.keys is not None) and not door.zookeeper_tls:
        raise ClusterError(
            f"at {address}, which other machines reach, ZooKeeper has to speak TLS, or the cluster's secret would travel in the clear: "
            "give every role, and `cep zookeeper`, --zookeeper-tls (CEP_ZOOKEEPER_TLS=true)"
        )


def _say_whose(site: Site) -> None:
    """Where there are several hosts, the run folder says whose it is: its clients use the sockets in it."""
    if host := site.told.get("host"):
        try:
            write_host(site.run.path, host)
        except OSError as error:
            raise ClusterError(f"the run folder {site.run.path}: {error.strerror}; `cep init` makes it") from None


def _check_checkpoints(folder: str | None) -> None:
    """Raises ClusterError: it is not there. It may be one that is to be mounted, so it is not made."""
    check_folders("CEP_CHECKPOINT_FOLDER, --checkpoint-folder", () if folder is None else (folder,))


def _door(told: Told) -> Door:
    return Door(**told.fields_of(Door))


def _run(told: Told) -> RunFolder:
    return RunFolder(Path(told.required("run")).absolute())


def _secret(site: Site) -> dict[str, str]:
    """The token, where no other user can read it."""
    return {TOKEN_VARIABLE: site.run.token()}


def _become(command: list[str], more: Mapping[str, str] | None = None) -> None:
    """This process is that one from now on: a signal reaches it, and its end is the role's."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    sys.stdout.flush()
    os.execvpe(command[0], command, environment(more or {}))
