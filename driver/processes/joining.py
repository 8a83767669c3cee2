"""A host that joins a cluster, stays in it, and leaves it: `cep join HOST:PORT`.

1. It asks REST once what a member has to know, writes nothing there, and has copies of the cluster's secrets in a folder of its own.
2. It registers (`driver.processes.host_keeper`) before it starts anything else: of two hosts with one name the second has not begun.
3. It keeps up an instance manager for each core. While it is joining a death is an error; from then on it is mended.
4. On SIGTERM it asks for its host to be evacuated, and ends its processes once nothing is left there, or what was left has failed by name,
   and readers have taken what ended queries hold for them there. Where no orchestrator answers they end at once, and queries fail with
   that cause.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cep.config import ClusterConfig, InstanceManagerConfig
from cep.errors import CepError, ClusterError, ProtocolError
from cep.machine import available_cores, read_topology
from cep.model.hosts import VERSION, check_version
from cep.model.topology import Topology
from driver.commands import INSTANCE_MANAGER, environment
from driver.processes import host_keeper
from driver.processes.children import PAUSE_MAX_S, Children
from driver.processes.events import Events
from driver.processes.process import Home
from driver.processes.reach import KEEPER, Reach, check_reach
from driver.processes.watch import HOLD_S
from driver.rest import Rest, path
from driver.streams.own_place import write_host

JOIN_S = 60.0
"""How long all that a host starts may take to be there."""
LEAVE_S = 25.0
"""How long it waits for its evacuation, and for readers: what has not gone fails after 20 s, and then is gone."""
WAIT_S = 0.1
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class JoinConfig:
    """What the host that joins is told.

    Args:
        url, token, ca: how REST is reached, as in `driver.cluster.Cluster`; the role is `admin`.
        name: its own.
        address: at which the other hosts reach it.
        run: the folder for sockets, reports and secrets, which stays; None: a private one, which goes with it.
        instances: instance managers; None: one for each core.
        given: fields of `ClusterConfig` that each host has for itself: `data`, `module_path`, `kernel_cache`, `log`; and
            `checkpoint_folder`, where it has another name here.
    """

    url: str
    token: str | None
    ca: str | None
    name: str
    address: str
    run: Path | None = None
    instances: int | None = None
    given: Mapping[str, Any] = field(default_factory=dict)
    hold_s: float = HOLD_S
    pause_max_s: float = PAUSE_MAX_S
    instance_manager: tuple[str, ...] = INSTANCE_MANAGER


class HostProcesses:
    """The processes of one host that has joined, and the events that concern them."""

    def __init__(self, config: JoinConfig, rest: Rest, cluster: ClusterConfig, logs: Path | None) -> None:
        assert cluster.reports is not None
        self.config, self.rest, self.cluster = config, rest, cluster
        self.events, self.reach = Events(), Reach(config.name, config.address)
        facts = {"home": cluster.home, "host": config.name}
        times = config.hold_s, config.pause_max_s
        self.children = Children(config.name, self.events, logs, Path(cluster.reports), environment({}), facts, *times)
        self._registered, self._keeper_says = os.pipe()

    def join(self) -> list[str]:
        """The instance managers that it has now. Raises ClusterError: a process died, or the time is over."""
        self.events.listen()
        topology = read_topology().restricted(available_cores())
        self._register(topology)
        managers = instance_managers(self.config, self.cluster, topology, self.reach)
        self.children.start_managers(self.config.instance_manager, managers)
        names = [manager.id for manager in managers]
        self._wait(lambda: set(names) <= {each["id"] for each in self.rest.get("/instance-managers")}, "instance managers")
        self.children.started()
        return names

    def stay(self) -> None:
        """Until a signal comes."""
        while not self.events.stopping:
            self.events.step()

    def leave(self) -> None:
        """Moves what is here elsewhere; what has not gone fails by name."""
        self.rest.patience_s = 2.0
        deadline = time.monotonic() + LEAVE_S
        try:
            while left := self.rest.post(f"{path('hosts', self.config.name)}/evacuate?wait=true&timeout=1", again=True)["left"]:
                self.events.step(0)
                if time.monotonic() > deadline:
                    _LOG.warning("after %g s there is still %s", LEAVE_S, ", ".join(map(_named, left)))
                    return
        except CepError as error:
            _LOG.warning("host %s leaves without being evacuated: %s", self.config.name, error)
            return
        while unread := self.children.unread():
            self.events.step(WAIT_S)
            if time.monotonic() > deadline:
                said = "%g s after it began to leave, %s still held what readers have not taken of ended queries; they hear that it is gone"
                _LOG.warning(said, LEAVE_S, ", ".join(unread))
                return

    def close(self) -> None:
        """Ends every process, that which says that the host is here last."""
        self.children.stop(KEEPER)
        self.events.close()
        self.reach.close()
        for each in (self._registered, self._keeper_says):
            os.close(each)

    def _register(self, topology: Topology) -> None:
        host = host_keeper.this_host(self.cluster, topology)
        self.children.start(KEEPER, host_keeper.command(self.cluster, host, self._keeper_says), (self._keeper_says,))
        heard: list[bytes] = []
        self.events.on(self._registered, lambda: heard.append(os.read(self._registered, 4096)))
        self._wait(lambda: bool(heard), "registration")

    def _wait(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + JOIN_S
        while not self.events.stopping and not holds():
            self.events.step(0.05)
            if time.monotonic() > deadline:
                raise ClusterError(f"host {self.config.name!r}: no {what} within {JOIN_S:g} s\n{self.children.tails()}")


def instance_managers(config: JoinConfig, cluster: ClusterConfig, topology: Topology, reach: Reach) -> list[InstanceManagerConfig]:
    """One for each core of this host, beginning again when the cores are used up."""
    places = [(core, node.id) for node in topology.nodes for core in node.cores]
    run, reports, count = Path(cluster.home), Path(str(cluster.reports)), config.instances or len(places)
    found = []
    for i in range(count):
        number, node = places[i % len(places)]
        turn = i // len(places)
        name = f"{config.name}.im-{number}" + (f".{turn}" if turn else "")
        at: tuple[int | None, int | None] = (number, node) if cluster.numa else (None, None)
        found.append(InstanceManagerConfig(cluster, name, *at, reach.endpoint(run / name), str(reports / f"{name}.mark"), count))
    return found


def _said_at_once(line: str) -> None:
    print(line, flush=True)  # to a journal too, which is no terminal: this process stays


def run(config: JoinConfig, tell: Callable[[str], None] = _said_at_once) -> None:
    """The life of a host in a cluster. `tell`: is called with a line once it has joined.

    Raises CepError or OSError: it may not join, or could not.
    """
    with ExitStack() as ending:
        rest = Rest(config.url, config.token, ca=config.ca)
        ending.callback(rest.close)
        membership = rest.post("/hosts", {"name": config.name, "version": VERSION}, again=True)
        check_membership(membership, config.address)
        folder, reports, logs = _folders(config.run, ending)
        cluster = member_config(membership, config, folder, reports)
        host = HostProcesses(config, rest, cluster, logs)
        ending.callback(host.close)
        managers = host.join()
        if not host.events.stopping:
            tell(f"host {config.name} has joined the cluster at {config.url}: {', '.join(managers)}; logs in {folder}")
            host.stay()
        host.leave()


def check_membership(membership: Mapping[str, Any], address: str) -> None:
    """Raises ClusterError: the cluster is of another version, or its links have no keys and are to be reached at `address`."""
    try:
        check_version(membership["version"])
    except ProtocolError as error:
        raise ClusterError(str(error)) from None
    check_reach(address, "members" in membership["files"])


def member_config(membership: Mapping[str, Any], config: JoinConfig, folder: Path, reports: Path) -> ClusterConfig:
    """What the processes of this host are told; files that all members have are written to `folder`, for its owner alone."""
    files = {key: str(_write(folder / key.replace("_", "-"), text)) for key, text in membership["files"].items()}
    write_host(folder, config.name)
    own = {"home": str(folder), "reports": str(reports), "host": config.name, "address": config.address, "metrics_out": ""}
    rest = {"rest_host": config.address, "rest_port": 0}
    found = ClusterConfig.from_json({**membership["cluster"], **rest, **own, **files})
    return replace(found, **dict(config.given))


def _write(file: Path, text: str) -> Path:
    """Raises OSError."""
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "w") as written:
        written.write(text)
    return file


def _folders(run: Path | None, ending: ExitStack) -> tuple[Path, Path, Path | None]:
    """For sockets and secrets, for reports, and for logs; None: they go where ours go."""
    if run is None:
        home = Home.make()
        ending.callback(home.leave, False)
        return home.folder, home.make_reports(), home.folder
    try:
        for folder in (run, run / "reports"):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ClusterError(f"cannot make the run folder {run}: {error.strerror}") from None
    return run.absolute(), (run / "reports").absolute(), None


def _named(left: Mapping[str, Any]) -> str:
    return f"{left['subquery']}/{left['instance']} of query {left['query']!r}"
