"""What a host says of itself in ZooKeeper, kept up (`python -m driver.processes.host_keeper '<json>' HANDLE`): `/hosts/<name>`.

A process of its own, for an agent has one thread, and a session with ZooKeeper has several.

1. The node is ephemeral, so a host that vanishes leaves nothing behind. One of another agent stays as it is: this host is refused by
   name. One of our own agent, of a session that is about to end, is replaced.
2. How far the clock is off is what ZooKeeper says of when the node was written, against the time half-way between question and answer.
3. It is written anew when the supervisors of this host have something else to report, and every MEASURE_S with clock and load.
4. HANDLE is a descriptor: a line is written there whenever the host is registered; -1: none is.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cep.config import ClusterConfig, node
from cep.errors import CepError, ClusterError, Conflict, ProtocolError
from cep.model.hosts import AgentProcess, Host
from cep.model.topology import Topology
from cep.service.reports import read_reports
from cep.world.clock import Clock, SystemClock
from cep.world.coordination import Connection, ConnectionLost, Coordination, CoordinationError, NodeRefused, write_ephemeral
from cep.world.mailbox import Mailbox
from cep.world.zookeeper import ZooKeeperSession
from driver.commands import python

LOOK_S = 0.5
MEASURE_S = 30.0
CLOCK_STEP_MS = 100
"""A clock that has moved less is not told of: the answer's way takes as long."""

REPORT_BYTES_MAX = 200_000
"""Of all supervisors of a host together; beyond it the last words of processes that died are left out, and then the reports."""

_LOG = logging.getLogger(__name__)


class HostKeeper:
    """`reports`: what the supervisors of this host say now; `load`: processes that wanted a core in the last minute."""

    def __init__(
        self,
        coordination: Coordination,
        clock: Clock,
        host: Host,
        reports: Callable[[], Sequence[Mapping[str, Any]]],
        load: Callable[[], float] = lambda: 0.0,
        on_registered: Callable[[], None] = lambda: None,
    ) -> None:
        self.host, self.is_registered = host, False
        self._coordination, self._clock, self._reports, self._load = coordination, clock, reports, load
        self._on_registered, self._connected, self._measured_ns = on_registered, False, 0
        self._path = node("hosts", host.name)

    def take(self, connection: Connection) -> None:
        """A new session has none of our nodes; after a mere pause it may have."""
        self._connected = connection is Connection.CONNECTED
        self.is_registered = False

    def turn(self) -> None:
        """Tells what is to be told. Raises Conflict: another agent has a host of this name."""
        if not self._connected:
            return
        try:
            if not self.is_registered:
                self._register()
            self._tell()
        except ConnectionLost:
            _LOG.warning("ZooKeeper does not answer")
        except CoordinationError as error:
            _LOG.warning("ZooKeeper refuses what it is asked: %s: %s", type(error).__name__, error)

    def _register(self) -> None:
        self._coordination.ensure([node("hosts")])
        [there] = self._coordination.get([self._path])
        if isinstance(there, NodeRefused):
            raise there
        if there is not None and there.owner != self._coordination.session:
            self._check_ours(there.data)
        self._measure()
        self.is_registered = True
        self._on_registered()

    def _check_ours(self, data: bytes) -> None:
        try:
            other = Host.from_json(json.loads(data))
        except (ValueError, ProtocolError) as error:
            raise Conflict(f"{self._path} is no registration of a host: {error}; remove it, or take another name") from None
        if other.agent != self.host.agent:
            raise Conflict(
                f"there is a host {self.host.name!r} already, at {other.address}, process {other.agent.pid}: give this one another name, "
                "--name NAME; one that has just been killed is forgotten when its session has ended"
            )

    def _tell(self) -> None:
        now_ns = self._clock.steady_ns()
        if now_ns - self._measured_ns >= MEASURE_S * 1e9:
            self._measure()
        elif (reports := bounded(self._reports())) != self.host.reports:
            self._write(replace(self.host, reports=reports))

    def _measure(self) -> None:
        """Writes how the host is, and finds by that how far its clock is off."""
        began = self._clock.wall_ns()
        self._write(replace(self.host, reports=bounded(self._reports()), load=round(self._load(), 2)))
        half_ms = (began + self._clock.wall_ns()) // 2_000_000
        self._measured_ns = self._clock.steady_ns()
        [there] = self._coordination.get([self._path])
        if there is None or isinstance(there, NodeRefused):
            return
        off_ms, known = half_ms - there.changed_ms, self.host.clock_ms
        if known is None or abs(off_ms - known) >= CLOCK_STEP_MS:
            self._write(replace(self.host, clock_ms=off_ms))
            if self.host.is_clock_off:
                _LOG.warning("the clock of this host is %.1f s off ZooKeeper's: set it", off_ms / 1000)

    def _write(self, host: Host) -> None:
        write_ephemeral(self._coordination, self._path, json.dumps(host.to_json()).encode())
        self.host = host


def bounded(reports: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    """So much of them as a node holds. When they were written says nothing new."""
    found: list[Mapping[str, Any]] = [{key: value for key, value in each.items() if key != "written"} for each in reports]
    for cut in (lambda report: report, _without_logs, _without_deaths):
        found = [cut(report) for report in found]
        if len(json.dumps(found)) <= REPORT_BYTES_MAX:
            return tuple(found)
    return ()


def _without_logs(report: Mapping[str, Any]) -> Mapping[str, Any]:
    return _with_deaths(report, lambda deaths: [{**death, "log": ""} for death in deaths])


def _without_deaths(report: Mapping[str, Any]) -> Mapping[str, Any]:
    return _with_deaths(report, lambda deaths: [])


def _with_deaths(report: Mapping[str, Any], cut: Callable[[list[Any]], list[Any]]) -> Mapping[str, Any]:
    return {**report, "children": [{**child, "last_deaths": cut(child["last_deaths"])} for child in report.get("children", ())]}


def run(config: ClusterConfig, host: Host, handle: int) -> None:
    """Until SIGTERM. Raises Conflict: another agent has a host of this name; ClusterError."""
    if config.reports is None:
        raise ClusterError(f"host {host.name!r}: expected a cluster with a folder for reports")
    folder, words = Path(config.reports), Mailbox[Connection | None]()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: words.put(None))
    session = ZooKeeperSession(config.zookeeper, config.session_timeout_s, config.zookeeper_secret, config.zookeeper_credentials)
    keeper = HostKeeper(
        session, SystemClock(), host, lambda: read_reports(folder), lambda: os.getloadavg()[0], lambda: _say(handle, "registered")
    )
    session.start(words.put)
    try:
        while None not in (said := words.take(LOOK_S)):
            for word in said:
                assert word is not None
                keeper.take(word)
            keeper.turn()
    finally:
        session.close()


def command(config: ClusterConfig, host: Host, handle: int = -1) -> list[str]:
    """Which process that is."""
    document = {"cluster": config.to_json(), "host": host.to_json()}
    return [*python("driver.processes.host_keeper", json.dumps(document, separators=(",", ":"))), str(handle)]


def this_host(config: ClusterConfig, topology: Topology) -> Host:
    """As it is registered; the calling process is its agent."""
    wall_ns = SystemClock().wall_ns()
    agent = AgentProcess(os.getpid(), wall_ns // 1000)
    return Host(config.host, config.address or "", topology, agent, since=round(wall_ns / 1e9, 3))


def _say(handle: int, line: str) -> None:
    if handle >= 0:
        os.write(handle, line.encode() + b"\n")


def main(arguments: Sequence[str]) -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s host %(levelname)s %(message)s")
    logging.getLogger("kazoo").setLevel(logging.ERROR)
    try:
        document = json.loads(arguments[0])
        run(ClusterConfig.from_json(document["cluster"]), Host.from_json(document["host"]), int(arguments[1]))
    except (CepError, OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
