"""Real parts for tests of the control plane: a ZooKeeper that can be killed, and fresh clusters in it."""

from __future__ import annotations

import itertools
import random
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import kazoo.protocol.connection
import kazoo.retry
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss
from kazoo.handlers.threading import KazooTimeoutError

from cep.config import ClusterConfig
from cep.model.topology import Topology
from cep.world.zookeeper import connect
from driver.processes.java import java_home
from driver.processes.zookeeper import ZooKeeper, reserve_port, spark_jars
from orchestrator.service import Service
from orchestrator.service_thread import ServiceThread
from orchestrator.state.cluster_state import ClusterState
from tests.support.stand_in import StandIn
from tests.support.waiting import HANG_S, until

# Kazoo's threads use the process's generator of random numbers at every ping. Hypothesis notices that in the middle of a draw, and warns
# of the strategy; so they have one of their own.
kazoo.protocol.connection.random = kazoo.retry.random = random.Random()

SESSION_S = 2.0  # the least the embedded ZooKeeper grants: two ticks


class Keeper:
    """One ZooKeeper server on a port of its own."""

    def __init__(self, folder: Path) -> None:
        self._port = reserve_port()
        self.server = ZooKeeper(folder, self._port.getsockname()[1])
        self._command = self.server.command(java_home(), spark_jars())
        self._log = (folder / "log").open("ab")
        self._numbers = itertools.count()
        self.start()
        self.client = connect(self.server.hosts, session_timeout_s=10)
        self.client.start(timeout=HANG_S)

    def start(self) -> None:
        self.process = subprocess.Popen(self._command, stdout=self._log, stderr=subprocess.STDOUT)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(HANG_S)

    def fresh(self) -> str:
        """The address of a tree of its own, as of another server."""
        name = f"/t{next(self._numbers)}"
        self.client.create(name)
        return self.server.hosts + name

    def close(self) -> None:
        self.client.stop()
        self.client.close()
        self.kill()
        self._port.close()
        self._log.close()


@contextmanager
def keeper(folder: Path) -> Iterator[Keeper]:
    kept = Keeper(folder)
    try:
        yield kept
    finally:
        kept.close()


class Cluster:
    """Orchestrator services and stand-ins in this process, in a fresh tree of a ZooKeeper."""

    def __init__(self, zookeeper: str, folder: Path, **settings: Any) -> None:
        self.config = ClusterConfig(
            home=str(folder),
            zookeeper=zookeeper,
            rest_host="127.0.0.1",
            metrics_in=f"ipc://{folder}/in",
            metrics_out=f"ipc://{folder}/out",
            **{"session_timeout_s": SESSION_S, "rest_port": 1, **settings},
        )
        self.stand_ins: dict[str, StandIn] = {}
        self.threads: list[ServiceThread] = []

    @property
    def services(self) -> list[Service]:
        return [thread.service for thread in self.threads]

    def add_service(self) -> Service:
        thread = ServiceThread(self.config, Topology.one_node([0, 1]))
        self.threads.append(thread)
        thread.start()
        return thread.service

    def close_service(self, service: Service) -> None:
        """Its session is over when this returns."""
        [thread] = [thread for thread in self.threads if thread.service is service]
        self.threads.remove(thread)
        thread.close()

    def add_stand_in(self, im: str, **settings: Any) -> StandIn:
        cluster = self.config
        made = StandIn(
            cluster.zookeeper, im, session_timeout_s=cluster.session_timeout_s, secret=cluster.zookeeper_secret, **settings
        ).start()
        self.stand_ins[im] = made
        assert made.registered.wait(HANG_S)
        return made

    def close(self) -> None:
        for stand_in in self.stand_ins.values():
            stand_in.vanish()
        for thread in self.threads:
            thread.close()


@contextmanager
def cluster(zookeeper: str, folder: Path, instance_managers: int = 2, **settings: Any) -> Iterator[Cluster]:
    """A cluster with one service that leads and knows all its stand-ins."""
    made = Cluster(zookeeper, folder, **settings)
    try:
        service = made.add_service()
        for i in range(instance_managers):
            made.add_stand_in(f"im-{i}")
        reached(service, lambda state: len(state.managers) == instance_managers)
        yield made
    finally:
        made.close()


def steal_session(hosts: str, client_id: Any) -> bool:
    """Takes a session and ends it, unless its owner is quicker and takes it back."""
    with suppress(ConnectionLoss, KazooTimeoutError):
        thief = KazooClient(hosts, client_id=client_id, timeout=HANG_S)
        thief.start(timeout=1)
        thief.stop()
        thief.close()
    return False


def reached(service: Service, condition: Callable[[ClusterState], bool]) -> None:
    """Waits until the service leads and its state fulfils the condition."""
    until(lambda: service.leads)
    service.wait(lambda state: True if condition(state) else None).result(HANG_S)
