"""What every `Coordination` keeps to: the real one on a real ZooKeeper, and whatever stands in for it.

Tests `coordination.py`, `zookeeper.py`, `simulation/coordination.py`.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from typing import Protocol

import pytest

from cep.world.coordination import (
    BadVersion,
    Check,
    Connection,
    ConnectionLost,
    Coordination,
    Create,
    FailedTransaction,
    NodeExists,
    NoNode,
    NotEmpty,
    Remove,
    SetData,
    Znode,
)
from cep.world.zookeeper import ZooKeeperSession
from simulation.clock import ProcessClock
from simulation.coordination import SimulatedSession, SimulatedZooKeeper
from simulation.schedule import SeededSchedule
from tests.support.control_plane import SESSION_S, Keeper, steal_session
from tests.support.waiting import HANG_S, until


class Server(Protocol):
    """What a test needs of the other side."""

    def session(self, listen: Callable[[Connection], None]) -> Coordination:
        """A new one, begun: it hears of its connection, and is to be closed by `close`."""

    def expire(self, session: Coordination, is_over: Callable[[], bool]) -> None:
        """Ends a session behind its owner's back, until the owner has heard of it."""

    def await_(self, condition: Callable[[], bool]) -> None:
        """Waits until it holds, and not for ever."""

    def stop(self) -> None:
        """Nothing is answered until `start`."""

    def start(self) -> None: ...

    def close(self) -> None: ...


class Real:
    """A tree of its own on a ZooKeeper."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper, self._hosts = keeper, keeper.fresh()
        self._sessions: list[ZooKeeperSession] = []

    def session(self, listen: Callable[[Connection], None]) -> Coordination:
        made = ZooKeeperSession(self._hosts, SESSION_S)
        made.start(listen)
        self._sessions.append(made)
        return made

    def expire(self, session: Coordination, is_over: Callable[[], bool]) -> None:
        assert isinstance(session, ZooKeeperSession)
        until(lambda: is_over() or steal_session(self._hosts, session._client.client_id))

    def await_(self, condition: Callable[[], bool]) -> None:
        until(condition)

    def stop(self) -> None:
        self._keeper.kill()

    def start(self) -> None:
        self._keeper.start()

    def close(self) -> None:
        for each in self._sessions:
            each.close()


class Simulated:
    """One in virtual time, which passes while a test waits."""

    def __init__(self) -> None:
        self._schedule = SeededSchedule(0)
        self._zookeeper = SimulatedZooKeeper(self._schedule)

    def session(self, listen: Callable[[Connection], None]) -> Coordination:
        made = self._zookeeper.connect("test", ProcessClock(self._schedule))
        made.start(listen)
        return made

    def expire(self, session: Coordination, is_over: Callable[[], bool]) -> None:
        assert isinstance(session, SimulatedSession)
        self._zookeeper.expire(session)
        self.await_(is_over)

    def await_(self, condition: Callable[[], bool]) -> None:
        self._schedule.run(condition, round(HANG_S * 1e9))

    def stop(self) -> None:
        self._zookeeper.stop()

    def start(self) -> None:
        self._zookeeper.start()

    def close(self) -> None:
        """Nothing is left."""


@pytest.fixture(params=["real", "simulated"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    made: Server = Simulated() if request.param == "simulated" else Real(request.getfixturevalue("zookeeper"))
    yield made
    made.close()


class Client:
    """A session, and what its listener and watches have said."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.states: list[Connection] = []
        self.changes: queue.Queue[str] = queue.Queue()
        self.watch = self.changes.put
        self.session = server.session(self.states.append)
        self.is_at(Connection.CONNECTED)

    def is_at(self, state: Connection) -> None:
        """Waits until its listener has heard so last."""
        self._server.await_(lambda: self.states[-1:] == [state])

    def change(self) -> str:
        self._server.await_(lambda: not self.changes.empty())
        return self.changes.get_nowait()


@pytest.fixture
def mine(server: Server) -> Client:
    return Client(server)


@pytest.fixture
def other(server: Server) -> Client:
    return Client(server)


class TestNodes:
    def test_what_is_created_is_read(self, mine: Client, other: Client) -> None:
        assert mine.session.create("/a", b"1") == "/a"
        other.session.sync()
        assert other.session.get(["/a", "/b"]) == [Znode(b"1", 0, 0), None]
        assert other.session.set("/a", b"2") == 1
        mine.session.sync()
        assert mine.session.get(["/b", "/a"]) == [None, Znode(b"2", 1, 0)]

    def test_what_cannot_be_done_has_a_name(self, mine: Client) -> None:
        session = mine.session
        session.create("/a", b"")
        session.create("/a/b", b"")
        for wrong, act in (
            (NodeExists, lambda: session.create("/a", b"")),
            (NoNode, lambda: session.create("/x/y", b"")),
            (NoNode, lambda: session.set("/x", b"")),
            (NoNode, lambda: session.delete("/x")),
            (NotEmpty, lambda: session.delete("/a")),
        ):
            with pytest.raises(wrong):
                act()
        session.delete("/a/b")
        session.delete("/a")
        assert session.get(["/a"]) == [None]

    def test_names_below_a_node_are_sorted(self, mine: Client) -> None:
        mine.session.ensure(["/a/c", "/a/b", "/a/b/x"])
        assert mine.session.children(["/a", "/a/b", "/a/c", "/z"]) == [["b", "c"], ["x"], [], None]

    def test_what_is_ensured_and_there_stays_as_it_is(self, mine: Client) -> None:
        mine.session.create("/a", b"1")
        mine.session.ensure(["/a/b/c", "/a"])
        assert mine.session.get(["/a", "/a/b", "/a/b/c"]) == [Znode(b"1", 0, 0), Znode(b"", 0, 0), Znode(b"", 0, 0)]

    def test_an_ephemeral_node_goes_with_its_session(self, server: Server, mine: Client) -> None:
        leaving = Client(server)
        owner = leaving.session.session
        leaving.session.create("/a", b"1", ephemeral=True)
        leaving.session.commit([[Create("/b", b"2", ephemeral=True)]])
        mine.session.sync()
        assert mine.session.get(["/a", "/b"], mine.watch) == [Znode(b"1", 0, owner), Znode(b"2", 0, owner)]
        assert owner not in (0, mine.session.session)
        leaving.session.close()
        assert {mine.change(), mine.change()} == {"/a", "/b"}
        assert mine.session.get(["/a", "/b"]) == [None, None]

    def test_numbers_of_a_sequence_rise(self, mine: Client, other: Client) -> None:
        mine.session.create("/a", b"")
        made = [each.session.create("/a/n-", b"", ephemeral=True, sequence=True) for each in (mine, other, mine)]
        numbers = [path.removeprefix("/a/n-") for path in made]
        assert all(len(number) == 10 for number in numbers) and sorted(set(numbers)) == numbers
        assert mine.session.children(["/a"]) == [[path.removeprefix("/a/") for path in made]]


class TestWatches:
    def test_a_watch_of_a_node_is_called_once(self, mine: Client, other: Client) -> None:
        mine.session.create("/a", b"1")
        mine.session.get(["/a"], mine.watch)
        for value in (b"2", b"3"):
            other.session.set("/a", value)
        assert mine.change() == "/a"
        mine.session.sync()
        mine.session.get(["/a"], mine.watch)
        other.session.delete("/a")
        assert mine.change() == "/a"
        assert mine.changes.empty()

    def test_a_watch_set_twice_is_called_once(self, mine: Client, other: Client) -> None:
        mine.session.create("/a", b"1")
        mine.session.create("/b", b"1")
        mine.session.get(["/a"], mine.watch)
        mine.session.get(["/a", "/b"], mine.watch)
        other.session.set("/a", b"2")
        other.session.set("/b", b"2")
        assert [mine.change(), mine.change()] == ["/a", "/b"]

    def test_a_watch_of_children_hears_of_coming_and_going(self, mine: Client, other: Client) -> None:
        mine.session.create("/a", b"")
        for act in (lambda: other.session.create("/a/b", b""), lambda: other.session.delete("/a/b"), lambda: other.session.delete("/a")):
            mine.session.sync()
            mine.session.children(["/a"], mine.watch)
            act()
            assert mine.change() == "/a"

    def test_a_watch_of_children_does_not_hear_of_values(self, mine: Client, other: Client) -> None:
        mine.session.ensure(["/a/b", "/last"])
        mine.session.children(["/a"], mine.watch)
        mine.session.get(["/last"], mine.watch)
        other.session.set("/a", b"1")
        other.session.set("/a/b", b"1")
        other.session.set("/last", b"1")
        assert mine.change() == "/last"

    def test_where_there_is_no_node_no_watch_is_set(self, mine: Client, other: Client) -> None:
        mine.session.create("/last", b"")
        assert mine.session.get(["/a"], mine.watch) == [None]
        assert mine.session.children(["/a"], mine.watch) == [None]
        mine.session.get(["/last"], mine.watch)
        other.session.create("/a", b"")
        other.session.set("/last", b"1")
        assert mine.change() == "/last"


class TestTransactions:
    def test_all_of_it_is_done(self, mine: Client) -> None:
        mine.session.create("/fence", b"")
        mine.session.create("/gone", b"")
        done = mine.session.commit([[Check("/fence", 0), Create("/a", b"1"), SetData("/a", b"2"), Create("/a/b", b""), Remove("/gone")]])
        assert done == [None]
        assert mine.session.get(["/a", "/a/b", "/gone"]) == [Znode(b"2", 1, 0), Znode(b"", 0, 0), None]

    def test_or_nothing(self, mine: Client) -> None:
        mine.session.create("/fence", b"")
        mine.session.create("/folder", b"")
        mine.session.create("/folder/x", b"")
        mine.session.set("/fence", b"2")
        for position, error, operations in (
            (0, BadVersion, [Check("/fence", 0), Create("/a", b"")]),
            (1, NoNode, [Create("/a", b""), Check("/nowhere", 0)]),
            (1, NodeExists, [Create("/a", b""), Create("/fence", b"")]),
            (1, NoNode, [Create("/a", b""), Create("/nowhere/b", b""), Create("/c", b"")]),
            (1, NoNode, [Create("/a", b""), SetData("/nowhere", b"")]),
            (1, NoNode, [Create("/a", b""), Remove("/nowhere")]),
            (1, NotEmpty, [Create("/a", b""), Remove("/folder")]),
        ):
            [failure] = mine.session.commit([operations])
            assert isinstance(failure, FailedTransaction), operations
            assert (failure.position, type(failure.error)) == (position, error), operations
            assert mine.session.get(["/a", "/c"]) == [None, None]

    def test_one_that_fails_does_not_harm_the_next(self, mine: Client) -> None:
        done = mine.session.commit([[Create("/a", b"")], [Create("/a", b"")], [Create("/b", b"")]])
        assert [failure is None for failure in done] == [True, False, True]
        assert mine.session.children(["/"]) == [["a", "b"]]

    def test_an_ephemeral_node_of_a_transaction_that_fails_is_not_left(self, mine: Client) -> None:
        mine.session.commit([[Create("/a", b"", ephemeral=True), Remove("/nowhere")]])
        assert mine.session.get(["/a"]) == [None]

    def test_watches_hear_of_what_is_done(self, mine: Client, other: Client) -> None:
        mine.session.ensure(["/a", "/b"])
        mine.session.children(["/"], mine.watch)
        mine.session.get(["/a", "/b"], mine.watch)
        other.session.commit([[SetData("/a", b"1"), Remove("/b"), Create("/c", b"")]])
        said = {mine.change() for _ in range(3)}
        assert said == {"/a", "/b", "/"}


class TestConnection:
    def test_a_lost_session_is_followed_by_a_new_one(self, server: Server, mine: Client, other: Client) -> None:
        mine.session.create("/a", b"", ephemeral=True)
        mine.session.create("/stays", b"")
        mine.session.get(["/stays"], mine.watch)
        other.session.sync()
        other.session.get(["/a"], other.watch)
        before = mine.session.session
        server.expire(mine.session, lambda: Connection.LOST in mine.states)
        assert other.change() == "/a"
        mine.is_at(Connection.CONNECTED)
        assert mine.session.session not in (0, before)
        assert mine.session.get(["/a", "/stays"], mine.watch) == [None, Znode(b"", 0, 0)]
        assert mine.changes.empty()  # the watch of the old session is gone without a word
        other.session.set("/stays", b"1")
        assert mine.change() == "/stays"

    def test_what_is_closed_answers_nothing(self, mine: Client) -> None:
        mine.session.close()
        mine.is_at(Connection.LOST)
        for act in (lambda: mine.session.get(["/"]), lambda: mine.session.create("/a", b""), lambda: mine.session.commit([[Remove("/a")]])):
            with pytest.raises(ConnectionLost):
                act()

    def test_the_outcome_is_unknown_while_nobody_answers(self, server: Server, mine: Client) -> None:
        session = mine.session
        session.create("/a", b"1")
        session.get(["/a"], mine.watch)
        server.stop()
        try:
            for act in (
                lambda: session.get(["/a"]),
                lambda: session.children(["/"]),
                lambda: session.create("/b", b""),
                lambda: session.set("/a", b"2"),
                lambda: session.delete("/a"),
                lambda: session.ensure(["/a/b"]),
                lambda: session.commit([[Remove("/a")]]),
                session.sync,
            ):
                with pytest.raises(ConnectionLost):
                    act()
            mine.is_at(Connection.SUSPENDED)
        finally:
            server.start()
        mine.is_at(Connection.CONNECTED)
        assert session.get(["/nowhere"]) == [None]  # and what was asked for meanwhile was done or was not
        assert mine.changes.empty()
