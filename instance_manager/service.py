"""Puts the parts of an instance manager together, and takes them down."""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from cep.compile.user.functions import allow
from cep.config import InstanceManagerConfig
from cep.kernels.jit import compilations, no_garbage, warm
from cep.kernels.lateness import LATENESS
from cep.numa import Binding
from cep.service.keys import keyring_of, read_pair
from cep.service.logs import begin_logging
from cep.service.mark import Mark
from cep.transport.endpoints import LOCAL_SCHEME
from cep.transport.keyring import Keyring
from cep.transport.linked import LinkSockets
from cep.transport.sockets import Sockets, open_sockets
from cep.world.births import born, machine
from cep.world.clock import SystemClock
from cep.world.confined import confine
from cep.world.descriptors import raise_descriptor_limit
from cep.world.memory import SystemMemory
from cep.world.rings import Rings
from cep.world.stalls import Stalls
from cep.world.thread_usage import SystemThreadUsage
from cep.world.usage import SystemUsage
from cep.world.zookeeper import ZooKeeperSession
from instance_manager.control.control import Control
from instance_manager.control.control_thread import ControlThread
from instance_manager.hosting import Preparation
from instance_manager.loop import Loop
from instance_manager.memory import MemoryGuard
from instance_manager.metrics import Reporter
from instance_manager.own_memory import take
from instance_manager.watch import Watch

LOG = logging.getLogger(__name__)
VERSION = 1


def load() -> None:
    """With its first kernel Numba reads all that it can compile, half a second of CPU: the start of a process waits for that, not a
    deployment."""
    with no_garbage():
        warm(*LATENESS)


def serve(config: InstanceManagerConfig, binding: Binding) -> int:
    """Runs until SIGTERM or SIGINT; 0 is an orderly end. `load` has been called."""
    begin_logging(config.id, config.cluster.log, logging.INFO)
    raise_descriptor_limit()
    allow(config.cluster.modules, config.cluster.module_path)
    confine(config.cluster.data)
    LOG.info("binding: %s", binding.to_json())
    take()
    sockets = open_sockets(config.endpoint, _first_keyring(config))
    stalls = Stalls(SystemClock(), SystemThreadUsage(), compilations)
    stalls.watch_garbage()
    writing = ThreadPoolExecutor(1, "cep-pieces")
    guard = MemoryGuard(config.id, SystemMemory(config.cluster.memory_bytes_max), SystemClock(), config.neighbours)
    reporter = Reporter(config, sockets, SystemClock(), SystemUsage(), stalls, guard.limit_bytes())

    def tick(loop: Loop, at_once: bool) -> None:
        guard.tick(loop.hosted)
        reporter.tick(loop, at_once)

    mark, own = Mark.open(config.mark), facts(config, binding)
    mark.begin(own["started"])
    loop = Loop(
        sockets,
        config.cluster.budget_bytes,
        lambda hosted: control.report(hosted),
        tick,
        mark.loop,
        config.cluster.silence_s,
        config.cluster.lease_s,
        lambda: control.loop_is_back(),
        fast_path=config.cluster.fast_path,
        identity=(own["pid"], own["started"]),
        background=partial(_beside, writing),
        rings=_rings(config),
        cpu_ns=SystemUsage.thread_cpu_ns,
    )
    Watch(loop, stalls)
    cluster = config.cluster
    session = ZooKeeperSession(cluster.zookeeper, cluster.session_timeout_s, cluster.zookeeper_secret, cluster.zookeeper_credentials)
    control = Control(config, own, Preparation(config, sockets, loop.inbox, loop.meter), loop.ask, mark.control, session, _rekey(sockets))
    controlling = ControlThread(control, mark.control)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: loop.stop())
    controlling.start()
    # Batches and columns are freed by reference counts; a full collection would walk all of Numba's and Arrow's objects.
    gc.freeze()
    gc.enable()
    loop.run()
    controlling.close()
    writing.shutdown(cancel_futures=True)
    sockets.close()
    return 0


def _beside(writing: ThreadPoolExecutor, work: Callable[[], None]) -> None:
    writing.submit(work)


def _rings(config: InstanceManagerConfig) -> Rings | None:
    """Of clients of this host. None: there is no folder for them."""
    if config.cluster.rings is None:
        return None
    folder = Path(config.cluster.rings)
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        LOG.warning("%s: clients keep what they send in their own memory: %s", folder, error)
        return None
    return Rings(folder)


def _first_keyring(config: InstanceManagerConfig) -> Keyring | None:
    """With which links begin; ZooKeeper's, which may be others by now, come as soon as it is there. None: no links, or no keys."""
    members = config.cluster.members
    return None if members is None or config.endpoint.startswith(LOCAL_SCHEME) else keyring_of(read_pair(Path(members)))


def _rekey(sockets: Sockets) -> Callable[[Keyring], None] | None:
    return sockets.rekey if isinstance(sockets, LinkSockets) and sockets.keyring is not None else None


def facts(config: InstanceManagerConfig, binding: Binding) -> dict[str, Any]:
    """What this instance manager registers of itself."""
    return {
        "id": config.id,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "started": SystemClock.wall_ns() // 1000,
        "machine": machine(),
        "born": born(os.getpid()),
        "core": config.core,
        "node": config.node,
        "endpoint": config.endpoint,
        "version": VERSION,
        "binding": binding.to_json(),
    }
