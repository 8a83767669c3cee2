"""`python -m orchestrator '<config>'`: REST in the main thread, the cluster's state in one of its own."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import uvicorn

from cep.config import TOKEN_VARIABLE, ClusterConfig
from cep.errors import ClusterError
from cep.machine import available_cores, read_topology
from cep.service.logs import begin_logging
from cep.service.serving import CONNECTIONS_MAX, raise_descriptor_limit, served, share_interpreter
from orchestrator.balance.buckets import Balancing
from orchestrator.metrics.client import MetricClient
from orchestrator.rest.api import Api
from orchestrator.rest.app import make_rest_app
from orchestrator.rest.gateway_proxy import GatewayProxy
from orchestrator.rest.guard import check_exposure
from orchestrator.service_thread import ServiceThread

_LOG = logging.getLogger(__name__)
_GRACE_S = 1  # long-polls are cut off after it


def main(arguments: Sequence[str]) -> int:
    begin_logging("orchestrator")
    try:
        config = ClusterConfig.from_json(json.loads(arguments[0]))
        begin_logging("orchestrator", config.log)
        serve_rest(replace(config, token=config.token or os.environ.get(TOKEN_VARIABLE)))
    except ClusterError as error:
        _LOG.critical("%s", error)
        return 1
    return 0


def serve_rest(config: ClusterConfig) -> None:
    """Until SIGTERM or SIGINT. Raises ClusterError: it may not, or cannot, listen where it should."""
    check_exposure(config)
    listener = listen(config)
    running = ServiceThread(config, read_topology().restricted(available_cores()))
    service = running.service
    metrics = MetricClient(config.metrics_out)
    app = make_rest_app(Api(service, metrics, GatewayProxy(config.gateway), config))
    protocol = served(min(CONNECTIONS_MAX, raise_descriptor_limit() // 2))
    served_so: dict[str, Any] = {"lifespan": "off", "timeout_graceful_shutdown": _GRACE_S}
    settings = uvicorn.Config(app, http=protocol, log_level="warning", log_config=None, access_log=False, **served_so)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)  # uvicorn raises anew what ended it, and there is still something to close
    balancing = Balancing(service, metrics)
    share_interpreter()
    running.start()
    balancing.start()
    try:
        uvicorn.Server(settings).run(sockets=[listener])
    finally:
        balancing.close()
        running.close()


def listen(config: ClusterConfig) -> socket.socket:
    """The socket it was started with, or a new one. Raises ClusterError: the port is taken."""
    if config.rest_fd is not None:
        return socket.socket(fileno=config.rest_fd)
    family = socket.AF_INET6 if ":" in config.rest_host else socket.AF_INET
    try:
        return socket.create_server((config.rest_host, config.rest_port), family=family)
    except OSError as error:
        where = f"port {config.rest_port} of {config.rest_host}"
        raise ClusterError(f"REST cannot listen at {where}: {error.strerror}; choose another port") from error


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
