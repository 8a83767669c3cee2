"""The one way to ZooKeeper. Every process of a cluster connects here, with the cluster's secret; no other can read or write its nodes.

The secret lies in a file that only the cluster's user can read (`ClusterConfig.zookeeper_secret`), made by whatever starts the cluster.
From it follow a user of ZooKeeper's digest scheme, and an access list with that user alone, which every node gets when it is made.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from kazoo import exceptions as kazoo
from kazoo.client import KazooClient, KazooState
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import EventType, WatchedEvent
from kazoo.retry import KazooRetry
from kazoo.security import make_digest_acl

from cep.errors import ClusterError
from cep.world.coordination import (
    BadVersion,
    Check,
    Connection,
    ConnectionLost,
    CoordinationError,
    Create,
    FailedTransaction,
    Listener,
    NodeExists,
    NodeRefused,
    NodeWatch,
    NoNode,
    NotEmpty,
    Operation,
    Remove,
    SetData,
    Znode,
)

T = TypeVar("T")

Tls = tuple[str, str, str]
"""Authority, certificate, key."""

_USER = "cep"
_STATES = {
    KazooState.CONNECTED: Connection.CONNECTED,
    KazooState.SUSPENDED: Connection.SUSPENDED,
    KazooState.LOST: Connection.LOST,
}
_LOST = (kazoo.ConnectionLoss, kazoo.ConnectionClosedError, kazoo.SessionExpiredError, KazooTimeoutError)
_OURS: tuple[tuple[type[Exception], type[CoordinationError]], ...] = (
    (kazoo.NoNodeError, NoNode),
    (kazoo.NodeExistsError, NodeExists),
    (kazoo.NotEmptyError, NotEmpty),
    (kazoo.BadVersionError, BadVersion),
)
_OF_OTHERS = (kazoo.RolledBackError, kazoo.RuntimeInconsistency)  # what a transaction says of operations beside the one that failed


class ZooKeeperSession:
    """`Coordination` over kazoo.

    Args:
        hosts: `host:port,host:port`, with a path behind it where the tree begins there.
        timeout_s: how long a silent session lasts; so long an answer is awaited, too.
        secret: the file with the cluster's secret; None: ZooKeeper is open to all.
        tls: files in PEM: the authority that ZooKeeper's certificate is to be of, our certificate, its key; None: without TLS.

    Raises:
        ClusterError: the secret, or a file of TLS, cannot be read.
    """

    def __init__(self, hosts: str, timeout_s: float, secret: str | None = None, tls: Tls | None = None) -> None:
        self._client, self._timeout_s = connect(hosts, timeout_s, secret, tls), timeout_s

    @property
    def session(self) -> int:
        found = self._client.client_id
        return 0 if found is None else int(found[0])

    def start(self, listen: Listener) -> None:
        self._client.add_listener(lambda state: listen(_STATES[state]))
        self._client.start_async()

    def close(self) -> None:
        self._client.stop()
        self._client.close()

    def claim(self) -> None:
        client = self._connected()
        if client.default_acl:
            # Where the root of the tree that we were given has another owner already, it stays so.
            with suppress(NodeRefused):
                self._done(client.set_acls_async("/", client.default_acl))

    def sync(self) -> None:
        self._done(self._connected().sync_async("/"))

    def get(self, paths: Iterable[str], watch: NodeWatch | None = None) -> list[Znode | NodeRefused | None]:
        client = self._connected()
        asked = [client.get_async(path, _watching(watch)) for path in paths]
        return [self._read(answer, _znode) for answer in asked]

    def children(self, paths: Iterable[str], watch: NodeWatch | None = None) -> list[list[str] | NodeRefused | None]:
        client = self._connected()
        asked = [client.get_children_async(path, _watching(watch)) for path in paths]
        return [self._read(answer, sorted) for answer in asked]

    def ensure(self, paths: Iterable[str]) -> None:
        client = self._connected()
        for answer in [client.ensure_path_async(path) for path in paths]:
            self._done(answer)

    def create(self, path: str, data: bytes, *, ephemeral: bool = False, sequence: bool = False) -> str:
        return str(self._done(self._connected().create_async(path, data, ephemeral=ephemeral, sequence=sequence)))

    def set(self, path: str, data: bytes) -> int:
        return int(self._done(self._connected().set_async(path, data)).version)

    def delete(self, path: str) -> None:
        self._done(self._connected().delete_async(path))

    def commit(self, transactions: Iterable[Sequence[Operation]]) -> list[FailedTransaction | None]:
        asked = [self._transaction(operations).commit_async() for operations in transactions]
        return [_failure(self._done(answer)) for answer in asked]

    def _connected(self) -> KazooClient:
        """Raises ConnectionLost: nothing can be asked now. kazoo would keep it, and do it much too late."""
        if not self._client.connected:
            raise ConnectionLost("not connected to ZooKeeper")
        return self._client

    def _transaction(self, operations: Iterable[Operation]) -> Any:
        transaction = self._connected().transaction()
        for operation in operations:
            match operation:
                case Create(path, data, ephemeral):
                    transaction.create(path, data, ephemeral=ephemeral)
                case SetData(path, data):
                    transaction.set_data(path, data)
                case Remove(path):
                    transaction.delete(path)
                case Check(path, version):
                    transaction.check(path, version)
        return transaction

    def _read(self, answer: Any, convert: Callable[[Any], T]) -> T | NodeRefused | None:
        error = self._error(answer)
        if error is None:
            return convert(answer.get(block=False))
        if isinstance(error, NoNode):
            return None
        return error if isinstance(error, NodeRefused) else self._done(answer)

    def _done(self, answer: Any) -> Any:
        error = self._error(answer)
        if error is None:
            return answer.get(block=False)
        try:
            raise error
        finally:
            del error  # or this frame would hold what holds this frame

    def _error(self, answer: Any) -> CoordinationError | None:
        """What is wrong with an answer, once it is there. kazoo's own error is never raised: it is kept in its answer, so it would lead
        back to itself by way of all frames that it came through, and to all that they hold."""
        if not answer.wait(self._timeout_s):
            return ConnectionLost(f"no answer within {self._timeout_s:g} s")
        return None if answer.exception is None else _ours(answer.exception)


def connect(hosts: str, session_timeout_s: float, secret: str | None = None, tls: Tls | None = None) -> KazooClient:
    """A client, not started, that keeps trying to connect, with pauses so short that no session is lost to them.

    Args: as those of `ZooKeeperSession`.

    Raises:
        ClusterError: the secret, or a file of TLS, cannot be read.
    """
    told = logging.getLogger("kazoo.client")
    told.setLevel(logging.WARNING)
    told.addFilter(_TOLD)
    own: dict[str, Any] = {} if secret is None else _credentials(Path(secret))
    return KazooClient(
        hosts,
        timeout=session_timeout_s,
        connection_retry=KazooRetry(max_tries=-1, delay=0.05, backoff=1.5, max_jitter=0.2, max_delay=0.5),
        **own,
        **({} if tls is None else _secured(tls)),
    )


def _secured(tls: Tls) -> dict[str, Any]:
    """kazoo reads the files at every attempt to connect, so that a renewed certificate counts from the next one on; and would try for ever
    where they are wrong, so they are read here first. It checks the server's name only where it is told to."""
    authority, certificate, key = tls
    try:
        context = ssl.create_default_context(cafile=authority)
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise ClusterError(f"TLS with ZooKeeper cannot begin: {', '.join(tls)}: {error}") from None
    return {"use_ssl": True, "ca": authority, "certfile": certificate, "keyfile": key, "verify_certs": True, "check_hostname": True}


class _Told(logging.Filter):
    """Of what kazoo says of every attempt to connect: why TLS is not begun, once, and not again until that is for another reason."""

    def __init__(self) -> None:
        super().__init__()
        self._last = ""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno >= logging.ERROR:
            return True
        before, self._last = self._last, record.getMessage() if "SSL" in record.getMessage() else self._last
        return self._last != before


_TOLD = _Told()


def _credentials(file: Path) -> dict[str, Any]:
    try:
        secret = file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ClusterError(f"the cluster's secret cannot be read: {file}: {error}") from error
    if not secret:
        raise ClusterError(f"the cluster's secret is empty: {file}")
    return {"auth_data": [("digest", f"{_USER}:{secret}")], "default_acl": [make_digest_acl(_USER, secret, all=True)]}


@dataclass(frozen=True, slots=True)
class _Watching:
    """As kazoo calls a watch. Equal where the watch is, for kazoo keeps a set of them: the same one set twice is called once."""

    watch: NodeWatch

    def __call__(self, event: WatchedEvent) -> None:
        if event.type != EventType.NONE:  # that one says that the connection is lost, which the listener says too
            self.watch(event.path)


def _znode(found: Any) -> Znode:
    data, stat = found
    return Znode(bytes(data), stat.version, stat.ephemeralOwner, stat.mtime)


def _watching(watch: NodeWatch | None) -> _Watching | None:
    return None if watch is None else _Watching(watch)


def _ours(error: Exception) -> CoordinationError:
    """The same, as `Coordination` says it."""
    if isinstance(error, _LOST):
        return ConnectionLost(type(error).__name__)
    own = next((ours for theirs, ours in _OURS if isinstance(error, theirs)), NodeRefused)
    return own(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)


def _failure(results: Sequence[Any]) -> FailedTransaction | None:
    """The operation that a transaction failed at; the others were rolled back, or not tried."""
    failed = [(i, result) for i, result in enumerate(results) if isinstance(result, Exception)]
    if not failed:
        return None
    position, error = next((each for each in failed if not isinstance(each[1], _OF_OTHERS)), failed[0])
    ours = _ours(error)
    if isinstance(ours, ConnectionLost):
        raise ours
    return FailedTransaction(position, ours)
