"""Whether REST may be where others than this machine's processes reach it."""

from __future__ import annotations

from cep.config import ClusterConfig
from cep.errors import ClusterError
from cep.service.addresses import is_loopback


def check_exposure(config: ClusterConfig) -> None:
    """Raises ClusterError: REST would be open to other machines without tokens or without TLS, or its address is not known."""
    if (config.tls_cert is None) != (config.tls_key is None):
        raise ClusterError("REST's certificate and its key go together: give both, --tls-cert FILE and --tls-key FILE, or none")
    if _is_here_alone(config.rest_host):
        return
    if config.token is None and config.tokens is None:
        raise ClusterError(
            f"REST at {config.rest_host} can be reached from other machines: give the cluster a token, or bind it to 127.0.0.1"
        )
    if config.tls_cert is None and not config.insecure_http:
        raise ClusterError(
            f"REST at {config.rest_host} can be reached from other machines, and tokens would travel in the clear: give it a certificate, "
            "which `cep keys` makes, with --tls-cert and --tls-key, or bind it to 127.0.0.1. "
            "Behind a proxy that speaks TLS, or on a network of its own: --insecure-http"
        )


def _is_here_alone(host: str) -> bool:
    try:
        return is_loopback(host)
    except OSError as error:
        raise ClusterError(f"REST address {host!r}: {error}") from error
