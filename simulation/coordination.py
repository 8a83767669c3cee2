"""A simulated ZooKeeper: one tree, sessions, watches, and answers that take their time.

What is asked travels to it, is done at once, and the answer travels back; both ways take as long as the seed says, and one session hears
everything in order, watches among the answers. Where the connection is cut meanwhile nothing is said of what was asked: it was done, or
it was not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

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
from simulation.clock import ProcessClock
from simulation.schedule import MS, S, SeededSchedule

T = TypeVar("T")

#: How long one way takes, in ns, from and to; one server in four is slow.
WAYS_NS = ((20_000, MS), (20_000, MS), (100_000, 4 * MS), (MS, 40 * MS))


@dataclass
class _Znode:
    data: bytes
    owner: int = 0
    version: int = 0
    created: int = 0  # children, ever: the next number of a sequence
    children: dict[str, _Znode] = field(default_factory=dict)


class SimulatedZooKeeper:
    """The server, and what a fault does to it. Paths are looked up from the root each time: trees are small."""

    def __init__(self, schedule: SeededSchedule) -> None:
        self.schedule = schedule
        self.way_ns = schedule.choose.choice(WAYS_NS)
        self.sessions: list[SimulatedSession] = []
        self.is_there = True
        self._root = _Znode(b"")
        self._watches: dict[tuple[str, bool], dict[tuple[SimulatedSession, NodeWatch], None]] = {}  # by path, and whether of its children
        self._numbers = 0

    def connect(self, name: str, clock: ProcessClock) -> SimulatedSession:
        """A session of a process, not started."""
        session = SimulatedSession(self, name, clock)
        self.sessions.append(session)
        return session

    def new_session(self) -> int:
        self._numbers += 1
        return self._numbers

    # Faults

    def stop(self) -> None:
        """Nothing is answered from now on."""
        self.is_there = False
        for session in self.sessions:
            session.cut()

    def start(self) -> None:
        self.is_there = True
        for session in self.sessions:
            session.mend()

    def cut(self, session: SimulatedSession, ns: int) -> None:
        """Its connection is away for so long."""
        session.cut()
        self.schedule.at(self.schedule.now_ns + ns, session.mend)

    def kill(self, session: SimulatedSession, noticed_ns: int) -> None:
        """Its process is dead, which is noticed then, if there is a server."""
        self.sessions.remove(session)
        session.die()
        self._bury(session.session, noticed_ns)

    def _bury(self, session: int, at_ns: int) -> None:
        def due() -> None:
            if self.is_there:
                self.forget(session)
            else:
                self._bury(session, self.schedule.now_ns + S)

        self.schedule.at(at_ns, due)

    def expire(self, session: SimulatedSession) -> None:
        """Its time is over, as far as others know; it hears of that when it is connected again."""
        session.cut()
        self.forget(session.session)
        session.lose()

    # The tree

    def forget(self, owner: int) -> None:
        """The ephemeral nodes of a session are gone."""
        for path in list(self._owned("", self._root, owner)) if owner else ():
            self._remove(path)

    def _owned(self, path: str, node: _Znode, owner: int) -> Iterable[str]:
        for name, child in node.children.items():
            if child.owner == owner:
                yield f"{path}/{name}"
            else:
                yield from self._owned(f"{path}/{name}", child, owner)

    def unwatch(self, session: SimulatedSession) -> None:
        for key, watches in list(self._watches.items()):
            self._watches[key] = {each: None for each in watches if each[0] is not session}

    def read(self, session: SimulatedSession, path: str, watch: NodeWatch | None) -> Znode | None:
        node = self._find(path)
        if node is None:
            return None
        self._watch(session, path, False, watch)
        return Znode(node.data, node.version, node.owner)

    def names(self, session: SimulatedSession, path: str, watch: NodeWatch | None) -> list[str] | None:
        node = self._find(path)
        if node is None:
            return None
        self._watch(session, path, True, watch)
        return sorted(node.children)

    def ensure(self, path: str) -> None:
        parts = path.strip("/").split("/")
        for length in range(1, len(parts) + 1):
            above = "/" + "/".join(parts[:length])
            if self._find(above) is None:
                self.create(0, above, b"")

    def create(self, owner: int, path: str, data: bytes, sequence: bool = False) -> str:
        above, _, name = path.rpartition("/")
        parent = self._find(above or "/")
        if parent is None:
            raise NoNode(path)
        if sequence:
            name += f"{parent.created:010}"
        if name in parent.children:
            raise NodeExists(path)
        parent.created += 1
        parent.children[name] = _Znode(data, owner)
        self._changed((above or "/", True))
        return f"{above}/{name}"

    def set(self, path: str, data: bytes) -> int:
        node = self._there(path)
        node.data, node.version = data, node.version + 1
        self._changed((path, False))
        return node.version

    def delete(self, path: str) -> None:
        if self._there(path).children:
            raise NotEmpty(path)
        self._remove(path)

    def check(self, path: str, version: int) -> None:
        if self._there(path).version != version:
            raise BadVersion(path)

    def commit(self, owner: int, operations: Sequence[Operation]) -> FailedTransaction | None:
        """All of them, or none: what an operation would meet is found out on a copy of the tree, where nothing watches."""
        there = self._root, self._watches
        self._root, self._watches = _copy(self._root), {}
        failure = self._attempt(owner, operations)
        self._root, self._watches = there
        return failure or self._attempt(owner, operations)

    def _attempt(self, owner: int, operations: Sequence[Operation]) -> FailedTransaction | None:
        for position, operation in enumerate(operations):
            try:
                self._do(owner, operation)
            except CoordinationError as error:
                return FailedTransaction(position, error)
        return None

    def _do(self, owner: int, operation: Operation) -> None:
        match operation:
            case Create(path, data, ephemeral):
                self.create(owner if ephemeral else 0, path, data)
            case SetData(path, data):
                self.set(path, data)
            case Remove(path):
                self.delete(path)
            case Check(path, version):
                self.check(path, version)

    def _find(self, path: str) -> _Znode | None:
        node: _Znode | None = self._root
        for name in path.strip("/").split("/") if path != "/" else ():
            node = None if node is None else node.children.get(name)
        return node

    def _there(self, path: str) -> _Znode:
        node = self._find(path)
        if node is None:
            raise NoNode(path)
        return node

    def _remove(self, path: str) -> None:
        above, _, name = path.rpartition("/")
        del self._there(above or "/").children[name]
        self._changed((path, False), (path, True))
        self._changed((above or "/", True))

    def _watch(self, session: SimulatedSession, path: str, of_children: bool, watch: NodeWatch | None) -> None:
        if watch is not None:
            self._watches.setdefault((path, of_children), {})[session, watch] = None

    def _changed(self, *keys: tuple[str, bool]) -> None:
        called = {each: None for key in keys for each in self._watches.pop(key, ())}
        for session, watch in called:
            session.tell(partial(watch, keys[0][0]))


def _copy(node: _Znode) -> _Znode:
    return _Znode(node.data, node.owner, node.version, node.created, {name: _copy(child) for name, child in node.children.items()})


class SimulatedSession:
    """A `cep.world.coordination.Coordination`."""

    def __init__(self, server: SimulatedZooKeeper, name: str, clock: ProcessClock) -> None:
        self.server, self.name, self.clock = server, name, clock
        self._listen: Listener = lambda connection: None
        self._session = 0
        self._state = Connection.LOST
        self._cuts = 0  # so often the connection has gone
        self._told_ns = 0  # it hears of nothing before it has heard of what came before
        self._closed = False

    @property
    def session(self) -> int:
        return self._session

    def start(self, listen: Listener) -> None:
        self._listen = listen
        self.mend()

    def close(self) -> None:
        if not self._closed:
            self.cut()
            self._closed = True
            self.server.forget(self._session)
            self._say(Connection.LOST)

    # What happens to it

    def die(self) -> None:
        """No answer reaches its process, and it asks nothing more."""
        self._cuts += 1
        self._closed = True
        self._listen = lambda connection: None
        self.server.unwatch(self)

    def cut(self) -> None:
        """The connection is gone, and with it what was to be heard."""
        if self._state is Connection.CONNECTED and not self._closed:
            self._cuts += 1
            self.server.unwatch(self)
            self._say(Connection.SUSPENDED)

    def lose(self) -> None:
        """The session is over; the next one begins at once, where there is a server."""
        self._session = 0
        self._say(Connection.LOST)
        self.mend()

    def mend(self) -> None:
        if self.server.is_there and not self._closed and self._state is not Connection.CONNECTED:
            self._session = self._session or self.server.new_session()
            self._say(Connection.CONNECTED)

    def _say(self, state: Connection) -> None:
        self._state = state
        self.server.schedule.note(self.name, f"ZooKeeper: {state.value}")
        self._at(lambda: self._listen(state))

    def tell(self, watch: Callable[[], None]) -> None:
        """A watch is called, unless the connection goes before."""
        cuts = self._cuts
        self._at(lambda: watch() if cuts == self._cuts else None)

    def _at(self, act: Callable[[], None]) -> None:
        self.server.schedule.at(self._next_ns(), act)

    def _next_ns(self) -> int:
        """When it hears of what is said now."""
        self._told_ns = max(self._told_ns, self.server.schedule.now_ns + self._way_ns())
        return self._told_ns

    def _way_ns(self) -> int:
        return self.server.schedule.choose.randint(*self.server.way_ns)

    def _ask(self, what: str, act: Callable[[], T]) -> T:
        schedule, cuts = self.server.schedule, self._cuts
        if self._state is not Connection.CONNECTED:
            raise ConnectionLost(what)
        schedule.pause_until(self.clock.now_ns + self._way_ns())
        if cuts != self._cuts:
            raise ConnectionLost(what)
        schedule.note(self.name, f"ZooKeeper: {what}")
        try:
            found: T | CoordinationError = act()
        except CoordinationError as error:
            found = error
        schedule.pause_until(self._next_ns())
        if cuts != self._cuts:
            raise ConnectionLost(what)
        if isinstance(found, CoordinationError):
            raise found
        return found

    # What it is asked

    def claim(self) -> None:
        """No other session is there."""

    def sync(self) -> None:
        self._ask("sync", lambda: None)

    def get(self, paths: Iterable[str], watch: NodeWatch | None = None) -> list[Znode | NodeRefused | None]:
        asked = list(paths)
        return self._ask(f"get {_first_of(asked)}", lambda: [self.server.read(self, path, watch) for path in asked]) if asked else []

    def children(self, paths: Iterable[str], watch: NodeWatch | None = None) -> list[list[str] | NodeRefused | None]:
        asked = list(paths)
        return self._ask(f"children {_first_of(asked)}", lambda: [self.server.names(self, path, watch) for path in asked]) if asked else []

    def ensure(self, paths: Iterable[str]) -> None:
        asked = list(paths)

        def ensure_all() -> None:
            for path in asked:
                self.server.ensure(path)

        if asked:
            self._ask(f"ensure {_first_of(asked)}", ensure_all)

    def create(self, path: str, data: bytes, *, ephemeral: bool = False, sequence: bool = False) -> str:
        owner = self._session if ephemeral else 0
        return self._ask(f"create {path}", lambda: self.server.create(owner, path, data, sequence))

    def set(self, path: str, data: bytes) -> int:
        return self._ask(f"set {path}", lambda: self.server.set(path, data))

    def delete(self, path: str) -> None:
        self._ask(f"delete {path}", lambda: self.server.delete(path))

    def commit(self, transactions: Iterable[Sequence[Operation]]) -> list[FailedTransaction | None]:
        asked, owner = [list(each) for each in transactions], self._session
        paths = [operation.path for operations in asked for operation in operations]
        return self._ask(f"commit {_first_of(paths)}", lambda: [self.server.commit(owner, each) for each in asked]) if asked else []


def _first_of(paths: Sequence[str]) -> str:
    return paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more" if paths else "nothing"
