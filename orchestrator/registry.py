"""ZooKeeper as the orchestrator sees it: what is there, what changes, and writes that only the leader can make.

Rules:
1. All calls come from one thread, the service's. Watches only put a word in its mailbox.
2. Reads are pipelined: all requests go out before the first answer is waited for.
3. Writes are absolute and wait in `pending`, the last value winning. `flush` makes as few transactions of them as their size
   allows, pipelined, each checking the fence: the version of `/orchestrator`, which every new leader raises. A deposed
   leader's transaction fails as a whole.
4. A write whose outcome is unknown (connection lost) stays pending; before it is tried again, what is there is read.
5. What cannot be read, or not be written, concerns that node alone: it is set aside (`quarantine.py`) until it can, and the rest goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import unquote

from cep.config import node
from cep.errors import ClusterError
from cep.model.hosts import Host
from cep.world.coordination import (
    BadVersion,
    Check,
    ConnectionLost,
    Coordination,
    CoordinationError,
    Create,
    FailedTransaction,
    NodeExists,
    NodeRefused,
    NodeWatch,
    NoNode,
    Operation,
    Remove,
    SetData,
    transactions,
)
from orchestrator.records import InstanceManager, Status
from orchestrator.state.desired_nodes import encode
from orchestrator.state.events import NodeCommand, Put
from orchestrator.state.quarantine import Quarantine, decode, readable

_KINDS = (
    "streams",
    "queries",
    "plans",
    "tables",
    "checkpoints",
    "assignments",
    "publishers",
    "subscriptions",
    "blames",
    "evacuations",
    "keys",
    "applications",
    "connectors",
)
_GONE = None
_DEPTH_MAX = 5  # of nodes, below each kind: two more than are ours, so that what is in the way is seen
_TRIES_MAX = 10
T = TypeVar("T")


class Deposed(Exception):
    """Another orchestrator leads now."""


class _Unwritable(Exception):
    """A node that ZooKeeper does not let us write, whatever else is written: it has children, say."""

    def __init__(self, path: str, error: CoordinationError) -> None:
        super().__init__(path)
        self.path, self.error = path, error


class Registry:
    """Reads with watches, and fenced writes. `changed` is a watch: it is called with the path that changed."""

    def __init__(self, coordination: Coordination, changed: NodeWatch, quarantine: Quarantine | None = None) -> None:
        self._coordination, self._changed = coordination, changed
        self.quarantine = quarantine or Quarantine()
        self._known: dict[str, bytes] = {}
        self._parents: set[str] = set()
        self._pending: dict[str, Any] = {}
        self._uncertain: set[str] = set()
        self._unwritable: dict[str, bool] = {}  # path of a node that was set aside so -> is there another value for it since?
        self._seen: dict[str, dict[str, Status]] = {}

    # --- reading

    def read_all(self) -> dict[str, Any]:
        """path -> value of every node the orchestrator writes; what was pending or seen before is forgotten."""
        self._known, self._pending, self._uncertain, self._unwritable, self._seen = {}, {}, set(), {}, {}
        self._ensure(node(kind) for kind in (*_KINDS, "ims", "status", "hosts"))
        self._coordination.sync()
        level = [node(kind) for kind in _KINDS]
        for _ in range(_DEPTH_MAX):
            self._known |= {path: data for path, data in self._values(level) if data is not None}
            level = [f"{path}/{name}" for path, names in self._children(level) for name in names]
        return {path: decode(data) if data else None for path, data in self._known.items()}

    def managers(self) -> dict[str, InstanceManager]:
        """The instance managers that are registered, by id; `changed` tells when to ask again."""
        names = self._names(node("ims"))
        if names is None:
            raise NoNode(f"{node('ims')}: it was removed, so nothing tells when an instance manager comes")
        paths = [node("ims", name) for name in names]
        read = [self._understood(path, data, InstanceManager.from_json) for path, data in self._values(paths, self._changed) if data]
        found = {manager.im: manager for manager in read if manager is not None}
        for path in [path for path in paths if (im := unquote(path.rpartition("/")[2])) in found and path != node("ims", im)]:
            self.quarantine.set_aside(path, "another instance manager has this id")
        self.quarantine.release_below(node("ims"), paths)
        self._ensure(node(kind, im) for kind in ("status", "assignments") for im in found)
        return found

    def hosts(self) -> dict[str, Host]:
        """The hosts that have joined, by name; `changed` tells when to ask again."""
        paths = [node("hosts", name) for name in self._names(node("hosts")) or ()]
        read = [(path, self._understood(path, data, Host.from_json)) for path, data in self._values(paths, self._changed) if data]
        found = {host.name: host for path, host in read if host is not None and path == node("hosts", host.name)}
        for path in [path for path, host in read if host is not None and path != node("hosts", host.name)]:
            self.quarantine.set_aside(path, "it says that it is another host")
        self.quarantine.release_below(node("hosts"), paths)
        return found

    def statuses(self, im: str, names: Iterable[str] | None = None) -> dict[str, Status | None]:
        """What changed among the statuses of an instance manager since the last call: name -> status, None where gone.

        Args:
            names: only these are looked at, whether known or not; None: which there are, and of these the new ones.
        """
        seen = self._seen.setdefault(im, {})
        there = {*seen, *names} if names is not None else self._names(node("status", im)) or set()
        wanted = set(names) if names is not None else there - seen.keys()
        read = self._values([f"{node('status', im)}/{name}" for name in sorted(wanted)], self._changed)
        found = {path.rpartition("/")[2]: self._understood(path, data, Status.from_json) if data else None for path, data in read}
        for path in [path for path, data in read if not data]:
            self.quarantine.release(path)
        if names is None:
            self.quarantine.release_below(node("status", im), [f"{node('status', im)}/{name}" for name in there])
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
        return self.statuses(im, (self._names(node("status", im)) or set()) | self._seen.get(im, {}).keys())

    def _understood(self, path: str, data: bytes, read: Callable[[Any], T]) -> T | None:
        """What a node holds; None: it makes no sense."""
        try:
            found = read(readable(decode(data)))
        except Exception as error:  # any process may have written it
            self.quarantine.set_aside(path, error)
            return None
        self.quarantine.release(path)
        return found

    def _names(self, path: str) -> set[str] | None:
        """The names of the nodes below it, under a watch; None: there is no such node, and no watch."""
        [names] = self._coordination.children([path], self._changed)
        if isinstance(names, NodeRefused):
            raise names
        return None if names is None else set(names)

    def _values(self, paths: Iterable[str], watch: NodeWatch | None = None) -> list[tuple[str, bytes | None]]:
        asked = list(paths)
        found = [self._readable(*each) for each in zip(asked, self._coordination.get(asked, watch), strict=True)]
        return [(path, None if there is None else there.data) for path, there in zip(asked, found, strict=True)]

    def _children(self, paths: Iterable[str]) -> list[tuple[str, list[str]]]:
        asked = list(paths)
        return [(path, self._readable(path, names) or []) for path, names in zip(asked, self._coordination.children(asked), strict=True)]

    def _readable(self, path: str, found: T | NodeRefused | None) -> T | None:
        if isinstance(found, NodeRefused):
            self.quarantine.set_aside(path, found)
            return None
        return found

    def _ensure(self, paths: Iterable[str]) -> None:
        missing = [path for path in paths if path not in self._parents]
        self._coordination.ensure(missing)
        self._parents.update(missing)

    # --- writing

    def put(self, commands: Iterable[NodeCommand]) -> None:
        """These are to be written by the next flush. Raises ClusterError, with all others noted: one cannot be written."""
        wrong = None
        for command in commands:
            try:
                data = encode(command.path, command.value) if isinstance(command, Put) else _GONE
            except Exception as error:
                self._set_aside(command.path, error)
                wrong = error if isinstance(error, ClusterError) else ClusterError(f"{command.path}: {type(error).__name__}: {error}")
                continue
            if command.path in self._unwritable:
                self._unwritable[command.path] = True
            self._pending.pop(command.path, None)  # the last word comes last
            self._pending[command.path] = data
        if wrong is not None:
            raise wrong

    @property
    def is_written(self) -> bool:
        return not self._pending

    def flush(self, fence: int) -> None:
        """Writes what is pending.

        Raises:
            Deposed: the fence has another version.
            ConnectionLost: what is pending stays so.
        """
        tries = 0
        while self._pending:
            try:
                self._refresh()
                self._uncertain = set(self._pending)
                self._ensure_parents()
                self._commit(fence)
            except (NodeExists, NoNode) as error:  # another hand: read what is there, and try again
                if (tries := tries + 1) > _TRIES_MAX:
                    raise ConnectionLost("what is there changes all the time") from error
                continue
            except _Unwritable as unwritable:
                self._set_aside(unwritable.path, unwritable.error)
                del self._pending[unwritable.path]
                continue
            for path, data in self._pending.items():
                if data is _GONE:
                    self._known.pop(path, None)
                else:
                    self._known[path] = data
            for path in [path for path, anew in self._unwritable.items() if anew and path in self._pending]:
                del self._unwritable[path]
                self.quarantine.release(path)
            self._pending, self._uncertain = {}, set()

    def _set_aside(self, path: str, why: Exception) -> None:
        self._unwritable[path] = False
        self.quarantine.set_aside(path, why)

    def _refresh(self) -> None:
        """Reads what is there, of what a lost connection left in doubt."""
        for path, data in self._values(sorted(self._uncertain)):
            if data is None:
                self._known.pop(path, None)
                self._parents.discard(path.rpartition("/")[0])
            else:
                self._known[path] = data

    def _ensure_parents(self) -> None:
        for path in [path for path, data in self._pending.items() if data is not _GONE]:
            if path.rpartition("/")[0] in self._pending or path.rpartition("/")[0] in self._known:
                continue  # made before it
            try:
                self._ensure([path.rpartition("/")[0]])
            except NodeRefused as error:
                raise _Unwritable(path, error) from error

    def _commit(self, fence: int) -> None:
        fenced = [[Check(node("orchestrator"), fence), *operations] for operations in transactions(self._operations())]
        for operations, failure in zip(fenced, self._coordination.commit(fenced), strict=True):
            if failure is not None:
                raise _what_failed(operations, failure)

    def _operations(self) -> Iterator[Operation]:
        for path, data in self._pending.items():
            if data is _GONE:
                if path in self._known:
                    yield Remove(path)
            elif path not in self._known:
                yield Create(path, data)
            elif self._known[path] != data:
                yield SetData(path, data)


def _what_failed(operations: Sequence[Operation], failure: FailedTransaction) -> Exception:
    """What a transaction that was not done means; its first operation is the check of the fence."""
    if isinstance(failure.error, BadVersion) or failure.position == 0:
        return Deposed()
    if isinstance(failure.error, NodeExists | NoNode):
        return failure.error
    return _Unwritable(operations[failure.position].path, failure.error)


def unquoted(statuses: Mapping[str, Status | None]) -> dict[str, Status | None]:
    """Statuses by the names that `cep.config.instance_node` gave them."""
    return {unquote(name): status for name, status in statuses.items()}
