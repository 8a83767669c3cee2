"""The process `python -m orchestrator '<config>'`: REST in the main thread, the cluster's state in one of its own."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import ssl
from collections.abc import Sequence
from dataclasses import replace

import uvicorn
from fastapi import FastAPI

from cep.config import TOKEN_VARIABLE, ClusterConfig
from cep.errors import ClusterError
from cep.machine import available_cores, read_topology
from cep.secret import Secret
from cep.service.exposure import check_exposure
from cep.service.logs import begin_logging
from cep.service.serving import CONNECTIONS_MAX, ServingLoop, served, share_interpreter
from cep.service.tls import Certificate
from cep.world.confined import confine
from cep.world.descriptors import raise_descriptor_limit
from orchestrator.balance.buckets import Balancing
from orchestrator.metrics.client import MetricClient
from orchestrator.rest.api import Api
from orchestrator.rest.app import make_rest_app
from orchestrator.rest.gateway_proxy import GatewayProxy
from orchestrator.rest.key_routes import watch_keys
from orchestrator.service_thread import ServiceThread

_LOG = logging.getLogger(__name__)
_GRACE_S = 1  # long-polls are cut off after it


def main(arguments: Sequence[str]) -> int:
    begin_logging("orchestrator")
    try:
        config = ClusterConfig.from_json(json.loads(arguments[0]))
        begin_logging("orchestrator", config.log)
        token = os.environ.get(TOKEN_VARIABLE)
        serve_rest(replace(config, token=config.token or (Secret(token) if token else None)))
    except ClusterError as error:
        _LOG.critical("%s", error)
        return 1
    return 0


def serve_rest(config: ClusterConfig) -> None:
    """Until SIGTERM or SIGINT. Raises ClusterError: it may not, or cannot, listen where it should."""
    check_exposure(config)
    confine(config.data)
    context = None if config.tls_cert is None else Certificate(config.tls_cert, str(config.tls_key)).context()
    listener = listen(config)
    running = ServiceThread(config, read_topology().restricted(available_cores()))
    service = running.service
    metrics = MetricClient(config.metrics_out)
    api = Api(service, metrics, GatewayProxy(config.gateway), config)
    server = uvicorn.Server(rest_settings(make_rest_app(api), config, context))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)  # uvicorn raises anew what ended it, and there is still something to close
    balancing = Balancing(service, metrics)
    share_interpreter()
    running.start()
    balancing.start()
    try:
        with asyncio.Runner(loop_factory=ServingLoop) as runner:
            runner.run(_serve(server, listener, api))
    finally:
        api.audit.close()
        balancing.close()
        running.close()


async def _serve(server: uvicorn.Server, listener: socket.socket, api: Api) -> None:
    watching = asyncio.create_task(watch_keys(api))
    try:
        await server.serve(sockets=[listener])
    finally:
        watching.cancel()


def rest_settings(app: FastAPI, config: ClusterConfig, context: ssl.SSLContext | None) -> uvicorn.Config:
    """How REST is served. Only behind a proxy counts what a client says of where a request came from."""
    settings = uvicorn.Config(
        app,
        http=served(min(CONNECTIONS_MAX, raise_descriptor_limit() // 2)),
        log_level="warning",
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=_GRACE_S,
        proxy_headers=config.insecure_http,
        server_header=False,
    )
    settings.load()
    settings.ssl = context
    return settings


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
