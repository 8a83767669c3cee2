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
from typing import Any

from cep.compile.user.functions import allow
from cep.config import InstanceManagerConfig
from cep.kernels.jit import compilations, no_garbage, warm
from cep.kernels.lateness import LATENESS
from cep.numa import Binding
from cep.service.mark import Mark
from cep.transport.sockets import open_sockets
from cep.world.births import born, machine
from cep.world.clock import SystemClock
from cep.world.stalls import Stalls
from cep.world.thread_usage import SystemThreadUsage
from cep.world.usage import SystemUsage
from cep.world.zookeeper import ZooKeeperSession
from instance_manager.control.control import Control
from instance_manager.control.control_thread import ControlThread
from instance_manager.hosting import Preparation
from instance_manager.loop import Loop
from instance_manager.metrics import Reporter
from instance_manager.own_memory import take
from instance_manager.watch import Watch

VERSION = 1


def serve(config: InstanceManagerConfig, binding: Binding) -> int:
    """Runs until SIGTERM or SIGINT; 0 is an orderly end."""
    logging.basicConfig(level=logging.INFO, format=f"%(asctime)s {config.id} %(levelname)s %(message)s")
    allow(config.cluster.modules, config.cluster.module_path)
    logging.info("binding: %s", binding.to_json())
    take()
    # With its first kernel Numba reads all that it can compile, 0.1 to 0.2 s: the start of a process waits for that, not a deployment.
    with no_garbage():
        warm(*LATENESS)
    sockets = open_sockets(config.endpoint)
    stalls = Stalls(SystemClock(), SystemThreadUsage(), compilations)
    stalls.watch_garbage()
    reporter = Reporter(config, sockets, SystemClock(), SystemUsage(), stalls)
    writing = ThreadPoolExecutor(1, "cep-pieces")
    mark, own = Mark.open(config.mark), facts(config, binding)
    mark.begin(own["started"])
    loop = Loop(
        sockets,
        config.cluster.budget_bytes,
        lambda hosted: control.report(hosted),
        reporter.tick,
        mark.loop,
        config.cluster.silence_s,
        config.cluster.session_timeout_s,
        lambda: control.loop_is_back(),
        fast_path=config.cluster.fast_path,
        identity=(own["pid"], own["started"]),
        background=partial(_beside, writing),
    )
    Watch(loop, stalls)
    cluster = config.cluster
    session = ZooKeeperSession(cluster.zookeeper, cluster.session_timeout_s, cluster.zookeeper_secret)
    control = Control(config, own, Preparation(config, sockets, loop.inbox, loop.meter), loop.ask, mark.control, session)
    controlling = ControlThread(control, mark.control)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: loop.stop())
    controlling.start()
    # Batches and columns are freed by reference counts; a full collection would walk all of Numba's and Arrow's objects.
    gc.freeze()
    loop.run()
    controlling.close()
    writing.shutdown(cancel_futures=True)
    sockets.close()
    return 0


def _beside(writing: ThreadPoolExecutor, work: Callable[[], None]) -> None:
    writing.submit(work)


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
