"""The one way to ZooKeeper. Every process of a cluster connects here, with the cluster's secret; nobody else can read or write its nodes.

The secret lies in a file that only the cluster's user can read (`ClusterConfig.zookeeper_secret`), made by whoever starts the cluster. From
it follow a user of ZooKeeper's digest scheme, and an access list with that user alone, which every node gets when it is made.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, NoNodeError
from kazoo.retry import KazooRetry
from kazoo.security import make_digest_acl

from cep.errors import ClusterError

_USER = "cep"


def connect(hosts: str, session_timeout_s: float, secret: str | None = None, commands_tried: int = 1) -> KazooClient:
    """A client, not started, that keeps trying to connect, with pauses so short that no session is lost to them (INFRA, kazoo 3).

    Args:
        secret: the file with the cluster's secret; None: ZooKeeper is open to everybody.
        commands_tried: so often, where the connection was lost meanwhile.

    Raises:
        ClusterError: the secret cannot be read.
    """
    logging.getLogger("kazoo.client").setLevel(logging.ERROR)  # it tells of every attempt to reconnect
    own: dict[str, Any] = {} if secret is None else _credentials(Path(secret))
    return KazooClient(
        hosts,
        timeout=session_timeout_s,
        connection_retry=KazooRetry(max_tries=-1, delay=0.05, backoff=1.5, max_jitter=0.2, max_delay=0.5),
        command_retry=KazooRetry(max_tries=commands_tried, delay=0.05, max_delay=0.5),
        **own,
    )


def _credentials(file: Path) -> dict[str, Any]:
    try:
        secret = file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ClusterError(f"the cluster's secret cannot be read: {file}: {error}") from error
    if not secret:
        raise ClusterError(f"the cluster's secret is empty: {file}")
    return {"auth_data": [("digest", f"{_USER}:{secret}")], "default_acl": own_acl(secret)}


def own_acl(secret: str) -> list[Any]:
    """Whoever has the secret may do everything, others nothing."""
    return [make_digest_acl(_USER, secret, all=True)]


def own_root(client: KazooClient) -> None:
    """Nobody else makes nodes beside ours, either: the root of the tree that we were given is ours, where there is a secret, unless it is
    somebody else's already."""
    if client.default_acl:
        with suppress(NoAuthError):
            client.set_acls("/", client.default_acl)


def outcome(answer: Any, timeout_s: float | None = None) -> Any:
    """What was asked for; None: there is no such node. Raises what ZooKeeper says otherwise.

    It does not raise where nothing is there: an error that is kept in its own answer leads back to itself by way of all frames that it
    came through, and to all that they know.
    """
    answer.wait(timeout_s)
    return None if isinstance(answer.exception, NoNodeError) else answer.get(block=False)
