"""A service of its own thread, on a real ZooKeeper and the machine's clock."""

from __future__ import annotations

import logging
import os
import socket
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path

from cep.config import ClusterConfig
from cep.model.topology import Topology
from cep.service.keys import read_pair
from cep.service.reports import read_reports
from cep.world.clock import SystemClock
from cep.world.rings import Rings
from cep.world.zookeeper import ZooKeeperSession
from orchestrator.death_watch import DeathWatch
from orchestrator.election import Candidate
from orchestrator.service import Service
from orchestrator.state.blame import Deaths, deaths_in

_LOG = logging.getLogger(__name__)


class ServiceThread(threading.Thread):
    """Takes what has come to `service` and lets it do one turn after the other."""

    def __init__(self, config: ClusterConfig, topology: Topology) -> None:
        super().__init__(name="orchestrator", daemon=True)
        session = ZooKeeperSession(config.zookeeper, config.session_timeout_s, config.zookeeper_secret, config.zookeeper_credentials)

        members = None if config.members is None else read_pair(Path(config.members))

        def deaths() -> Deaths:
            """As the supervisors report, which keep instance managers up."""
            return {} if config.reports is None else deaths_in(read_reports(Path(config.reports)))

        candidate = Candidate.here(config.rest)
        self._deaths = DeathWatch(
            lambda im, process: self.service.manager_died(im, process), lambda processes: self.service.managers_live(processes)
        )
        rings = None if config.rings is None else Rings(Path(config.rings))
        given = config, topology, session, SystemClock(), candidate, deaths, members
        self.service = Service(*given, watch=self._deaths.watch, rings=rings, wake=partial(_wake, config.connectors))
        self._deaths.start()

    def run(self) -> None:
        service = self.service
        try:
            service.begin()
            while service.turn(service.mailbox.take(service.patience_s)):
                pass
        except Exception:  # a bug: crash, be started again, and go on from what is written
            _LOG.exception("the orchestrator's thread ended")
            os._exit(70)

    def close(self) -> None:
        """Ends its session, so that another leads at once."""
        self.service.close()
        self.join(timeout=5)


def _wake(listener: str | None) -> None:
    """By a connection: whatever listens there starts what is needed, once."""
    if listener is not None:
        with suppress(OSError), socket.socket(socket.AF_UNIX) as calling:
            calling.setblocking(False)
            calling.connect(listener)
