"""ZooKeeper as the orchestrator sees it: what is there, what changes, and writes that only the leader can make.

Rules:
1. All calls come from one thread, the service's. kazoo's callbacks only put on its queue: a ZooKeeper call inside a callback
   would deadlock the connection (kazoo#381).
2. Reads are pipelined: all requests go out before the first answer is waited for.
3. Writes are absolute and wait in `pending`, the last value winning. `flush` makes as few transactions of them as their size
   allows, pipelined, each checking the fence: the version of `/orchestrator`, which every new leader raises. A deposed
   leader's transaction fails as a whole.
4. A write whose outcome is unknown (connection lost) stays pending; before it is tried again, what is there is read.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadVersionError,
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    NodeExistsError,
    NoNodeError,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import EventType, WatchedEvent
from kazoo.retry import KazooRetry

from cep.config import ROOT, node, transactions
from cep.errors import ClusterError
from orchestrator.events import Command, Put
from orchestrator.records import Manager, Status

NODE_BYTES_MAX = 900_000
"""ZooKeeper's packets end at 1 MiB (jute.maxbuffer), and a larger one shows only as a lost connection."""

_KINDS = ("streams", "queries", "plans", "tables", "assignments", "publishers", "subscriptions")
_GONE = None

LOST = (ConnectionLoss, ConnectionClosedError, SessionExpiredError, KazooTimeoutError)
"""The connection went away: nothing is wrong that its return does not mend."""


class Deposed(Exception):
    """Another orchestrator leads now."""


def connect(hosts: str, session_timeout_s: float) -> KazooClient:
    """A client that keeps trying, with pauses so short that no session is lost to them (INFRA, kazoo 3)."""
    logging.getLogger("kazoo.client").setLevel(logging.ERROR)  # it tells of every attempt to reconnect
    return KazooClient(
        hosts,
        timeout=session_timeout_s,
        connection_retry=KazooRetry(max_tries=-1, delay=0.05, backoff=1.5, max_jitter=0.2, max_delay=0.5),
    )


def encode(path: str, value: Any) -> bytes:
    """JSON. Raises ClusterError: more than a node can hold."""
    data = json.dumps(value, separators=(",", ":")).encode()
    if len(data) > NODE_BYTES_MAX:
        raise ClusterError(
            f"{path} would take {len(data):,} bytes, and a ZooKeeper node holds {NODE_BYTES_MAX:,}: "
            "cut the query into several, or give it a lower parallelism"
        )
    return data


class Registry:
    """Reads with watches, and fenced writes. `changed` is called, from kazoo's thread, with the path that changed."""

    def __init__(self, client: KazooClient, timeout_s: float, changed: Callable[[str], None]) -> None:
        self._client, self._timeout_s, self._changed = client, timeout_s, changed
        self._known: dict[str, bytes] = {}
        self._parents: set[str] = set()
        self._pending: dict[str, Any] = {}
        self._uncertain: set[str] = set()
        self._seen: dict[str, dict[str, Status]] = {}

    # --- reading

    def read_all(self) -> dict[str, Any]:
        """path -> value of every node the orchestrator writes; what was pending or seen before is forgotten."""
        self._known, self._pending, self._uncertain, self._seen = {}, {}, set(), {}
        self._ensure(node(kind) for kind in (*_KINDS, "ims", "status"))
        self._client.sync(ROOT)
        level = [node(kind) for kind in _KINDS]
        while level:
            self._known |= {path: data for path, data in self._values(level) if data is not None}
            level = [f"{path}/{name}" for path, names in self._children(level) for name in names]
        return {path: json.loads(data) if data else None for path, data in self._known.items()}

    def managers(self) -> dict[str, Manager]:
        """The instance managers that are registered, by id; `changed` tells when to ask again."""
        paths = [node("ims", name) for name in self._client.get_children(node("ims"), watch=self._watch)]
        found = [Manager.from_json(json.loads(data)) for _, data in self._values(paths, self._watch) if data]
        self._ensure(node(kind, manager.im) for kind in ("status", "assignments") for manager in found)
        return {manager.im: manager for manager in found}

    def statuses(self, im: str, names: Iterable[str] | None = None) -> dict[str, Status | None]:
        """What changed among the statuses of an instance manager since the last call: name -> status, None where gone.

        Args:
            names: only these are looked at, whether known or not; None: which there are, and of these the new ones.
        """
        seen = self._seen.setdefault(im, {})
        there = {*seen, *names} if names is not None else self._names(node("status", im))
        wanted = set(names) if names is not None else there - seen.keys()
        read = self._values([f"{node('status', im)}/{name}" for name in sorted(wanted)], self._watch)
        found = {path.rpartition("/")[2]: Status.from_json(json.loads(data)) if data else None for path, data in read}
        changes: dict[str, Status | None] = {name: None for name in seen.keys() - there}
        changes |= {name: status for name, status in found.items() if status != seen.get(name)}
        for name, status in changes.items():
            if status is None:
                seen.pop(name, None)
            else:
                seen[name] = status
        return changes

    def all_statuses(self, im: str) -> dict[str, Status | None]:
        """The same, with every one read and watched anew: after a reconnection no watch is left."""
        return self.statuses(im, self._names(node("status", im)) | self._seen.get(im, {}).keys())

    def _names(self, path: str) -> set[str]:
        try:
            return set(self._client.get_children(path, watch=self._watch))
        except NoNodeError:
            return set()

    def _values(self, paths: Iterable[str], watch: Any = None) -> list[tuple[str, bytes | None]]:
        asked = [(path, self._client.get_async(path, watch)) for path in paths]
        return [(path, self._result(answer, lambda found: bytes(found[0]))) for path, answer in asked]

    def _children(self, paths: Iterable[str]) -> list[tuple[str, list[str]]]:
        asked = [(path, self._client.get_children_async(path)) for path in paths]
        return [(path, self._result(answer, sorted) or []) for path, answer in asked]

    def _result(self, answer: Any, convert: Callable[[Any], Any]) -> Any:
        try:
            return convert(answer.get(timeout=self._timeout_s))
        except NoNodeError:
            return None

    def _watch(self, event: WatchedEvent) -> None:
        if event.type != EventType.NONE:  # that one says that the connection is lost, which the listener says too
            self._changed(event.path)

    def _ensure(self, paths: Iterable[str]) -> None:
        for path in paths:
            if path not in self._parents:
                self._client.ensure_path(path)
                self._parents.add(path)

    # --- writing

    def put(self, commands: Iterable[Command]) -> None:
        """These are to be written by the next flush. Raises ClusterError, with nothing noted: one is too large."""
        encoded = {c.path: encode(c.path, c.value) if isinstance(c, Put) else _GONE for c in commands}
        for path, data in encoded.items():
            self._pending.pop(path, None)  # the last word comes last
            self._pending[path] = data

    @property
    def is_written(self) -> bool:
        return not self._pending

    def flush(self, fence: int) -> None:
        """Writes what is pending.

        Raises:
            Deposed: the fence has another version.
            one of LOST: the connection is away; what is pending stays so.
        """
        while self._pending:
            try:
                self._refresh()
                self._uncertain = set(self._pending)
                self._ensure(path.rpartition("/")[0] for path, data in self._pending.items() if data is not _GONE)
                self._commit(fence)
            except (NodeExistsError, NoNodeError):
                continue  # somebody else's hand: read what is there, and try again
            for path, data in self._pending.items():
                if data is _GONE:
                    self._known.pop(path, None)
                else:
                    self._known[path] = data
            self._pending, self._uncertain = {}, set()

    def _refresh(self) -> None:
        """Reads what is there, of what a lost connection left in doubt."""
        for path, data in self._values(sorted(self._uncertain)):
            if data is None:
                self._known.pop(path, None)
                self._parents.discard(path.rpartition("/")[0])
            else:
                self._known[path] = data

    def _commit(self, fence: int) -> None:
        asked = [self._transaction(chunk, fence) for chunk in transactions(self._operations())]
        for answer in [transaction.commit_async() for transaction in asked]:
            _check(answer.get(timeout=self._timeout_s))

    def _operations(self) -> Iterator[tuple[str, str, bytes]]:
        for path, data in self._pending.items():
            if data is _GONE:
                if path in self._known:
                    yield "delete", path, b""
            elif path not in self._known:
                yield "create", path, data
            elif self._known[path] != data:
                yield "set", path, data

    def _transaction(self, operations: Iterable[tuple[str, str, bytes]], fence: int) -> Any:
        transaction = self._client.transaction()
        transaction.check(node("orchestrator"), fence)
        for verb, path, data in operations:
            if verb == "create":
                transaction.create(path, data)
            elif verb == "set":
                transaction.set_data(path, data)
            else:
                transaction.delete(path)
        return transaction


def _check(results: list[Any]) -> None:
    """Raises what made a transaction fail; the first operation is the check of the fence."""
    if isinstance(results[0], BadVersionError | NoNodeError):
        raise Deposed
    failures = [result for result in results if isinstance(result, KazooException)]
    for failure in failures:
        if isinstance(failure, NodeExistsError | NoNodeError):
            raise failure
    if failures:
        raise failures[0]


def unquoted(statuses: Mapping[str, Status | None]) -> dict[str, Status | None]:
    """Statuses by the names that `cep.config.instance_node` gave them."""
    return {unquote(name): status for name, status in statuses.items()}
