"""One local cluster: a process that starts, keeps up and takes down all others (`python -m driver.processes.supervisor '<json>'`).

Rules:
1. One thread. The kernel kills a child when the *thread* that made it ends, and forking is safe only without others.
2. Everything is an event (`driver.processes.events`): a line or the end of stdin, a signal, the death of a child or of the parent.
3. Whatever ends it (end of stdin, SIGTERM, SIGINT, the parent's death, a child that dies before all are ready), it leaves nothing:
   no process, no folder. Killed with -9, the kernel takes its children, and the next cluster sweeps its folder. Once all are ready
   no death ends it (`driver.processes.children`).
4. It holds the ports: ZooKeeper's is reserved, REST's is a listening socket handed to each orchestrator in turn, so that
   requests made while there is none wait for the next.
5. stdout: first `{"ready": true, "rest", "home", "zookeeper", "processes"}` or `{"error"}`, then one line per line of stdin.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from cep.config import (
    BUDGET_BYTES,
    EVERYWHERE,
    GRACE_S,
    HOSTS_SESSION_TIMEOUT_S,
    LOG,
    RECOVER_FORMS,
    SESSION_TIMEOUT_S,
    STATE_LIMIT_BYTES,
    TOKEN_VARIABLE,
    ClusterConfig,
    InstanceManagerConfig,
    agreed,
    argument,
)
from cep.errors import CepError, ClusterError, meant
from cep.machine import available_cores, core_quota, read_topology
from cep.model.topology import Topology
from cep.secret import Secret
from cep.service.exposure import check_exposure
from cep.service.folders import check_folders
from cep.service.logs import begin_logging
from driver.builder.own_functions import MODULE
from driver.commands import INSTANCE_MANAGER, environment, python
from driver.processes import host_keeper
from driver.processes.children import PAUSE_MAX_S, Children
from driver.processes.console import OwnConsole
from driver.processes.door import Door
from driver.processes.events import Events
from driver.processes.host_keeper import this_host
from driver.processes.java import java_home
from driver.processes.process import Home
from driver.processes.reach import KEEPER, Reach, check_reach, checked_name, own_name, rest_at
from driver.processes.watch import HOLD_S
from driver.processes.zookeeper import HOST, ZooKeeper, make_secret, reserve_port, spark_jars
from driver.streams.own_place import write_host

INSTANCES_DEFAULT_MAX = 4


@dataclass(frozen=True, slots=True)
class LocalConfig:
    """What the starter of a local cluster may choose.

    Args:
        instances: instance managers; None: one per core that this process may use, at most 4.
        numa: bind each to a core and its node.
        data: folders under which file sources may be.
        modules: the modules whose functions queries may call.
        module_path: folders in which they are found, behind those where Python looks anyway.
        own_functions: the source of one more such module, `driver.builder.own_functions`; empty: none.
        token: what REST requests must carry; a `rest_host` beyond loopback needs it, or `tokens`. Better given in the environment, as
            TOKEN_VARIABLE: command lines can be read by every user of the machine.
        host: the name of this host in a cluster of several; empty: as the machine is called.
        address: at which other hosts reach this one, so that they may join; REST is there too, unless `rest_host` is beyond loopback.
            None: the cluster is of one machine.
        tokens, keys, tls_cert, tls_key, ca, insecure_http, zookeeper_tls: as in `driver.processes.door.Door`.
        rest_port: 0: any free one.
        rest_names: further names by which REST may be asked for, behind a proxy for example; without a token others are refused.
        folder: where the private folder is made; None: the temporary folder.
        lasting_home: the folder in which the cluster is instead of a private one; it stays, and what is in it, queries and checkpoints
            among others, is the next cluster's there.
        keep_home: leave the private folder, with its logs, when the cluster ends.
        start_timeout_s: how long all may take to be ready.
        instance_manager: the command of an instance manager, without its configuration.
        session_timeout_s: as in `ClusterConfig`; None: what one machine needs, or, with an address, what several do.
        hold_s: how long one operator may hold an instance manager before it is ended and its query fails; 0: for ever.
        pause_max_s: the longest pause before a process that dies again and again is started again.
        console: a console is kept up too, at `console_port` of loopback; 0: any free one.

    The others are as in `cep.config.ClusterConfig`.
    """

    instances: int | None = None
    numa: bool = True
    data: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    module_path: tuple[str, ...] = ()
    own_functions: str = ""
    token: Secret | None = None
    tokens: str | None = None
    keys: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    ca: str | None = None
    insecure_http: bool = False
    zookeeper_tls: bool = False
    rest_url: str | None = None
    rest_host: str = "127.0.0.1"
    rest_port: int = 0
    rest_names: tuple[str, ...] = ()
    folder: str | None = None
    keep_home: bool = False
    lasting_home: str | None = None
    session_timeout_s: float | None = None
    grace_s: float = GRACE_S
    budget_bytes: int = BUDGET_BYTES
    state_limit_bytes: int = STATE_LIMIT_BYTES
    kernel_cache: str | None = None
    start_timeout_s: float = 60.0
    instance_manager: tuple[str, ...] = INSTANCE_MANAGER
    hold_s: float = HOLD_S
    pause_max_s: float = PAUSE_MAX_S
    fast_path: bool = True
    stock_numba: bool = False
    loaders: bool = True
    log: str = LOG
    host: str = ""
    address: str | None = None
    queries_max: int | None = None
    queries_of_client_max: int | None = None
    publishers_max: int | None = None
    subscribers_max: int | None = None
    requests_per_s_max: float | None = None
    memory_bytes_max: int | None = None
    checkpoint_folder: str | None = None
    recover: str = RECOVER_FORMS[0]
    console: bool = False
    console_port: int = 0

    @staticmethod
    def from_json(document: dict[str, Any]) -> LocalConfig:
        """Raises ClusterError: an unknown field."""
        known = [field.name for field in fields(LocalConfig)]
        for name in document:
            if name not in known:
                raise ClusterError(f"a local cluster has no setting {name!r}{meant(name, known)}; there are {', '.join(known)}")
        lists = {key: tuple(value) for key, value in document.items() if isinstance(value, list)}
        token = document.get("token") or os.environ.get(TOKEN_VARIABLE)
        return LocalConfig(**document | lists | {"token": Secret(token) if token else None}).reached()

    def reached(self) -> LocalConfig:
        """With all that follows from the address at which other hosts reach this one, or from there being none: how long a session bears
        silence, that REST is there too, and that beyond loopback ZooKeeper speaks TLS.

        Raises ClusterError: the host cannot be called so, links would be open to all, or queries cannot recover so.
        """
        if self.recover not in RECOVER_FORMS:
            raise ClusterError(f"recover: expected one of {', '.join(RECOVER_FORMS)}, got {self.recover!r}")
        session_s = self.session_timeout_s
        if session_s is None:
            session_s = SESSION_TIMEOUT_S if self.address is None else HOSTS_SESSION_TIMEOUT_S
        if self.address is None:
            return replace(self, host="", session_timeout_s=session_s)
        rest_host = rest_at(self.address, self.rest_host)
        behind_tls = check_reach(self.address, self.keys is not None) or self.zookeeper_tls
        name = checked_name(self.host or own_name())
        return replace(self, host=name, rest_host=rest_host, zookeeper_tls=behind_tls, session_timeout_s=session_s)

    @property
    def door(self) -> Door:
        return Door(self.keys, self.tls_cert, self.tls_key, self.ca, self.tokens, self.insecure_http, self.zookeeper_tls)


class Supervisor:
    """The children of one cluster and the events that concern them."""

    def __init__(self, config: LocalConfig, home: Home) -> None:
        self.config, self.home = config, home
        self.events = Events()
        self._sockets: list[socket.socket] = []
        self.reach = Reach(config.host, config.address)
        self.console: OwnConsole | None = None
        self._managers: list[InstanceManagerConfig] = []
        self._input = b""
        known = environment({TOKEN_VARIABLE: config.token.text} if config.token else {})
        facts = {"home": str(home.folder)}
        times = config.hold_s, config.pause_max_s
        self.children = Children("supervisor", self.events, home.folder, home.make_reports(), known, facts, *times)

    def listen(self) -> None:
        """Takes notice of stdin, of signals and of the parent's death."""
        self.events.listen()
        self.events.on(sys.stdin.fileno(), self._read_input)  # its end has to do where the parent is outside this container

    def start(self) -> ClusterConfig:
        """Starts all processes. Raises ClusterError or OSError: a part is missing, or the REST port is taken."""
        where = self.config.address or HOST
        zookeeper_port, rest = reserve_port(where), _listen(self.config.rest_host, self.config.rest_port)
        self._sockets += [zookeeper_port, rest]
        zookeeper = ZooKeeper(
            self.home.folder / "zookeeper",
            zookeeper_port.getsockname()[1],
            where,
            lasting=self.home.lasting,
            keys=self.config.door.zookeeper_keys(),
        )
        cluster = self._cluster(zookeeper, rest)
        check_exposure(cluster)  # as the orchestrator does: before anything is started
        if cluster.host:
            write_host(self.home.folder, cluster.host)
        self.children.facts["rest"] = cluster.rest
        self.children.start("zookeeper", zookeeper.command(java_home(), spark_jars()))
        self.children.start("orchestrator", python("orchestrator", argument(cluster)), (rest.fileno(),))
        self._managers = instance_managers(self.config, cluster, self.home, self.reach)
        self.children.start_managers(self.config.instance_manager, self._managers)
        self._offer("gateway", str(cluster.gateway), "driver.gateway", cluster)
        self._offer("connectors", str(cluster.connectors), "connectors.running", cluster)
        self.children.start("metric-server", python("orchestrator.metrics.server", argument(cluster)))
        if self.config.console:
            self.console = OwnConsole.open(self.config.console_port, self.home.folder, cluster.token is not None)
            self._sockets.append(self.console.listener)
            self.children.start("console", self.console.command(cluster), (self.console.listener.fileno(),))
        if cluster.host:
            self.children.start(KEEPER, host_keeper.command(cluster, this_host(cluster, _topology())))
        return cluster

    def wait_ready(self, cluster: ClusterConfig) -> None:
        """Until REST answers and all instance managers are registered. Raises ClusterError: something died, or the time is over."""
        deadline = time.monotonic() + self.config.start_timeout_s
        wanted = len(self._managers)
        patience_s = self.config.start_timeout_s / 60
        while not self.events.stopping and (health := _health(cluster, patience_s)).get("instance_managers", -1) < wanted:
            self.events.step(0.02)
            if time.monotonic() > deadline:
                tails = self.children.tails()
                raise ClusterError(f"the cluster was not ready within {self.config.start_timeout_s:g} s: {health}\n{tails}")
        self.children.started()

    def stop(self) -> None:
        """Takes down every child: ZooKeeper last, for the others say goodbye to it, and at once, if its data are not wanted."""
        self.children.stop("zookeeper", 5.0 if self.config.keep_home or self.home.lasting else 0.0)
        self.events.close()
        for each in self._sockets:
            each.close()
        self.reach.close()

    def _cluster(self, zookeeper: ZooKeeper, rest: socket.socket) -> ClusterConfig:
        own = self.config
        made: dict[str, Any] = {
            "modules": own.modules + ((MODULE,) if own.own_functions else ()),
            "module_path": own.module_path + ((self._write_own_functions(),) if own.own_functions else ()),
            **own.door.settings(),
        }
        return ClusterConfig(
            home=str(self.home.folder),
            zookeeper=zookeeper.hosts,
            rest_port=rest.getsockname()[1],
            metrics_in=self.reach.endpoint(self.home.folder / "metrics-in"),
            metrics_out=self.home.socket("metrics-out"),
            rest_fd=rest.fileno(),
            zookeeper_secret=str(self._write_secret()),
            gateway=str(self.home.folder / "gateway"),
            connectors=str(self.home.folder / "connectors-wanted"),
            reports=str(self.children.reports),
            **agreed(own, "rest_port", *made),
            **made,
        )

    def _write_secret(self) -> Path:
        """By which the cluster's processes are known to ZooKeeper."""
        file = self.home.folder / "zookeeper-secret"
        make_secret(file)
        return file

    def _write_own_functions(self) -> str:
        """The folder in which their module is."""
        folder = self.home.folder / "modules"
        folder.mkdir(exist_ok=True)
        (folder / f"{MODULE}.py").write_text(self.config.own_functions)
        return str(folder)

    def _offer(self, name: str, place: str, module: str, cluster: ClusterConfig) -> None:
        """Listens for what few clusters need, and starts it at the first connection: it takes a second of CPU."""
        Path(place).unlink(missing_ok=True)  # of a cluster that was here before
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(place)
        listener.listen()
        self._sockets.append(listener)
        handle = listener.fileno()

        def start() -> None:
            self.events.off(handle)
            self.children.start(name, [*python(module, argument(cluster)), str(handle)], (handle,))

        self.events.on(handle, start)

    def _read_input(self) -> None:
        received = os.read(sys.stdin.fileno(), 65536)
        if not received:
            self.events.stop()
        *lines, self._input = (self._input + received).split(b"\n")
        for line in lines:
            self._answer(line)

    def _answer(self, line: bytes) -> None:
        try:
            wants = json.loads(line)
        except ValueError:
            wants = None
        if isinstance(wants, dict) and wants.get("processes"):
            _say({"processes": self.children.listing()})
        else:
            _say({"error": f'expected {{"processes": true}}, got {line.decode(errors="replace")!r}'})


def instance_managers(config: LocalConfig, cluster: ClusterConfig, home: Home, reach: Reach) -> list[InstanceManagerConfig]:
    """The instance managers that there will be: number i at the i-th core in order of nodes, beginning again when the cores are used up."""
    places: list[tuple[int | None, int | None]] = [(core, node.id) for node in _topology().nodes for core in node.cores]
    count = config.instances or min(INSTANCES_DEFAULT_MAX, _core_count(len(places)))
    places = places if config.numa else [(None, None)]
    marks = None if cluster.reports is None else Path(cluster.reports)
    names = (f"{cluster.host}.im-{i}" if cluster.host else f"im-{i}" for i in range(count))
    return [
        InstanceManagerConfig(
            cluster,
            name,
            *places[i % len(places)],
            reach.endpoint(home.folder / name),
            None if marks is None else str(marks / f"{name}.mark"),
            count,
        )
        for i, name in enumerate(names)
    ]


def _topology() -> Topology:
    """What of this machine is for us."""
    return read_topology().restricted(available_cores())


def _core_count(cores: int) -> int:
    quota = core_quota()
    return cores if quota is None else max(1, min(cores, int(quota)))


def _listen(host: str, port: int) -> socket.socket:
    """Raises ClusterError: the port is taken, or the address is not this machine's."""
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=128)
    except OSError as error:
        raise ClusterError(f"REST cannot listen at port {port} of {host}: {error.strerror}; choose another port, or 0 for any") from error


def _health(cluster: ClusterConfig, timeout_s: float) -> dict[str, Any]:
    """What the orchestrator says of itself; empty where it says nothing within that time."""
    connection = _connection(cluster, timeout_s)
    headers = {"Authorization": f"Bearer {cluster.token.text}"} if cluster.token else {}
    try:
        connection.request("GET", "/health", headers=headers)
        return dict(json.loads(connection.getresponse().read()))
    except (OSError, http.client.HTTPException, ValueError):
        return {}
    finally:
        connection.close()


def _connection(cluster: ClusterConfig, timeout_s: float) -> http.client.HTTPConnection:
    """To our own listening socket, so that no certificate has to prove it; it need not be for the address either."""
    host = EVERYWHERE.get(cluster.rest_host, cluster.rest_host)
    if cluster.tls_cert is None:
        return http.client.HTTPConnection(host, cluster.rest_port, timeout=timeout_s)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return http.client.HTTPSConnection(host, cluster.rest_port, timeout=timeout_s, context=context)


def _say(line: dict[str, Any]) -> None:
    with suppress(BrokenPipeError):  # no process listens any more: the end of stdin says so too
        os.write(sys.stdout.fileno(), json.dumps(line).encode() + b"\n")


def run(config: LocalConfig) -> None:
    """The life of one cluster. Raises CepError or OSError: it could not start, or could not go on."""
    check_folders("data, --data", config.data)
    check_folders("module_path, --module-path", config.module_path)
    check_folders("checkpoint_folder, --checkpoint-folder", filter(None, (config.checkpoint_folder,)))
    with ExitStack() as ending:
        home = Home.make(config.folder) if config.lasting_home is None else Home.keep(config.lasting_home)
        ending.callback(home.leave, config.keep_home)
        begin_logging("supervisor", config.log, file=home.folder / "supervisor.log")
        supervisor = Supervisor(config, home)
        ending.callback(supervisor.stop)
        supervisor.listen()
        cluster = supervisor.start()
        supervisor.wait_ready(cluster)
        if not supervisor.events.stopping:
            told = {"rest": cluster.rest, "ca": cluster.ca, "home": cluster.home, "zookeeper": cluster.zookeeper}
            told["console"] = None if supervisor.console is None else supervisor.console.address
            _say({"ready": True, **told, "processes": supervisor.children.listing()})
        while not supervisor.events.stopping:
            supervisor.events.step()


def main(arguments: Sequence[str]) -> int:
    try:
        run(LocalConfig.from_json(json.loads(arguments[0]) if arguments else {}))
    except (CepError, OSError, ValueError) as error:
        _say({"error": str(error)})
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
