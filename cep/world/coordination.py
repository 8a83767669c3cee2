"""What is used of ZooKeeper: a tree of nodes, watches, ephemeral nodes and transactions, as one session sees them.

Rules, which every implementation keeps (`tests/cep/world/test_coordination.py` holds them to it):

1. What is asked for many nodes is on its way for all of them before the first answer is awaited: one round trip.
2. What concerns one node is a value in its place: None where there is no node, `NodeRefused` where it cannot be read.
3. `ConnectionLost` is raised where the connection went away before the answer. Then the outcome is unknown: a write may have been done,
   or may not have been, or may still be. The caller reads what is there before it tries again.
4. A watch is called once, with the path, when what it was set at changes: a node's data, or that it is gone; a node's children, or that it
   is gone. Where there is no node none is set. The same watch set twice is called once.
5. When the connection is suspended or the session lost, all watches are gone without a word. When it is connected (again), everything is
   read and watched anew.
6. The listener and watches are called from a thread of their own and ask nothing of the session: they put a word on a queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

_TRANSACTION_BYTES = 100_000  # ZooKeeper keeps the last 500 in memory, each twice; a tenth of what its packets hold
_OPERATION_BYTES = 100  # what an operation takes beside its path and value, generously


class Connection(Enum):
    """How it stands between this process and ZooKeeper."""

    CONNECTED = "connected"
    """There is a session; perhaps a new one."""
    SUSPENDED = "suspended"
    """The session may last, but nothing can be asked."""
    LOST = "lost"
    """The session is over, and its ephemeral nodes are gone."""


Listener = Callable[[Connection], None]
NodeWatch = Callable[[str], None]


class CoordinationError(Exception):
    """Something was not done."""


class ConnectionLost(CoordinationError):
    """The connection went away before the answer: whether a write was done is not known."""


class NoNode(CoordinationError):
    """There is no such node; of a creation, it has no parent."""


class NodeExists(CoordinationError):
    """There is a node of that name already."""


class NotEmpty(CoordinationError):
    """The node has children, and stays."""


class BadVersion(CoordinationError):
    """The node has another version."""


class NodeRefused(CoordinationError):
    """Any other reason, such as an access list of another owner. Nothing was done."""


@dataclass(frozen=True, slots=True)
class Znode:
    """What is read of a node.

    Args:
        version: how often its data was set since it was created.
        owner: the session with which it goes; 0: it stays.
        changed_ms: when it was set last, by ZooKeeper's clock, in ms since 1970.
    """

    data: bytes
    version: int
    owner: int
    changed_ms: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Create:
    """The node is to be. Its parent is there."""

    path: str
    data: bytes
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class SetData:
    """The node, which is there, is to have this value."""

    path: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Remove:
    """The node is not to be."""

    path: str


@dataclass(frozen=True, slots=True)
class Check:
    """The node has this version, or the transaction fails."""

    path: str
    version: int


Operation = Create | SetData | Remove | Check


def transactions(operations: Iterable[Operation]) -> Iterator[list[Operation]]:
    """Operations, as many at a time as a transaction holds."""
    together: list[Operation] = []
    size = 0
    for operation in operations:
        bytes_ = len(operation.path) + len(getattr(operation, "data", b"")) + _OPERATION_BYTES
        if together and size + bytes_ > _TRANSACTION_BYTES:
            yield together
            together, size = [], 0
        together.append(operation)
        size += bytes_
    if together:
        yield together


@dataclass(frozen=True, slots=True)
class FailedTransaction:
    """Why a transaction was not done: its operation number `position`, counted from 0, met `error`."""

    position: int
    error: CoordinationError


class Coordination(Protocol):
    """One session. Every method but `start` and `close` may raise ConnectionLost; paths are absolute."""

    @property
    def session(self) -> int:
        """Its id, which its ephemeral nodes name as their owner; 0 while there is none."""

    def start(self, listen: Listener) -> None:
        """Begins to connect, and goes on until `close`. `listen` hears of every change from then on."""

    def close(self) -> None:
        """Ends the session: its ephemeral nodes are gone."""

    def claim(self) -> None:
        """No other user may make nodes beside ours, where there is a secret to keep them out."""

    def sync(self) -> None:
        """What is read after this is not older than it."""

    def get(self, paths: Iterable[str], watch: NodeWatch | None = None) -> list[Znode | NodeRefused | None]:
        """The nodes at these paths, in their order."""

    def children(self, paths: Iterable[str], watch: NodeWatch | None = None) -> list[list[str] | NodeRefused | None]:
        """The names of the nodes right below each of these paths, sorted."""

    def ensure(self, paths: Iterable[str]) -> None:
        """These nodes are to be, empty if they were not, and those above them. Raises NodeRefused."""

    def create(self, path: str, data: bytes, *, ephemeral: bool = False, sequence: bool = False) -> str:
        """The path of the new node; with `sequence` a number of ten digits, greater than those before it below the same parent, is added.

        Raises:
            NodeExists, NoNode, NodeRefused.
        """

    def set(self, path: str, data: bytes) -> int:
        """The version that the node has now. Raises NoNode, NodeRefused."""

    def delete(self, path: str) -> None:
        """Raises NoNode, NotEmpty, NodeRefused."""

    def commit(self, transactions: Iterable[Sequence[Operation]]) -> list[FailedTransaction | None]:
        """Does each transaction as a whole or not at all, in their order; None: it was done. If one fails the others go on."""


def write_ephemeral(coordination: Coordination, path: str, data: bytes) -> None:
    """Ours, whatever is there: a node of an older session of ours is replaced, not updated, for it is about to vanish."""
    try:
        coordination.create(path, data, ephemeral=True)
        return
    except NodeExists:
        [there] = coordination.get([path])
    try:
        if isinstance(there, Znode) and there.owner == coordination.session:
            coordination.set(path, data)
            return
        coordination.delete(path)
    except NoNode:
        pass  # it has just vanished
    coordination.create(path, data, ephemeral=True)
