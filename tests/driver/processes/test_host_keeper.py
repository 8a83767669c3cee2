"""What a host says of itself, on a real ZooKeeper: kept up, refused, replaced; its clock, and reports that are too large."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from cep.config import node
from cep.errors import Conflict
from cep.model.hosts import AgentProcess, Host
from cep.model.topology import Topology
from cep.world.clock import ManualClock
from cep.world.coordination import Connection
from cep.world.mailbox import Mailbox
from cep.world.zookeeper import ZooKeeperSession
from driver.processes.host_keeper import MEASURE_S, REPORT_BYTES_MAX, HostKeeper, bounded
from tests.support.control_plane import SESSION_S, Keeper
from tests.support.waiting import HANG_S, until

HOUR_MS = 3_600_000


def host(pid: int = 7) -> Host:
    return Host("h2", "10.0.0.2", Topology.one_node([0, 1]), AgentProcess(pid, 1))


class Kept:
    """A keeper that is connected, with a clock and reports that the test sets."""

    def __init__(self, session: ZooKeeperSession, host: Host, ahead_ms: int = 0) -> None:
        self.clock = ManualClock(1, time.time_ns() + ahead_ms * 1_000_000)
        self.reports: list[dict[str, Any]] = []
        self.registered = 0
        self.keeper = HostKeeper(session, self.clock, host, lambda: self.reports, lambda: 1.5, self._count)
        self.words: Mailbox[Connection] = Mailbox()
        session.start(self.words.put)
        for word in self.words.take(HANG_S):
            self.keeper.take(word)

    def _count(self) -> None:
        self.registered += 1


@contextmanager
def kept(hosts: str, host: Host, **settings: Any) -> Iterator[Kept]:
    session = ZooKeeperSession(hosts, SESSION_S)
    try:
        yield Kept(session, host, **settings)
    finally:
        session.close()


def there(zookeeper: Keeper, tree: str) -> Host:
    found, _ = zookeeper.client.get(tree.partition("/")[1] + tree.partition("/")[2] + node("hosts", "h2"))
    return Host.from_json(json.loads(found))


@pytest.fixture
def tree(zookeeper: Keeper) -> str:
    return zookeeper.fresh()


def test_it_registers_and_goes_with_its_session(zookeeper: Keeper, tree: str) -> None:
    with kept(tree, host()) as made:
        made.keeper.turn()
        assert made.registered == 1
        found = there(zookeeper, tree)
        assert (found.name, found.address, found.load, found.agent) == ("h2", "10.0.0.2", 1.5, AgentProcess(7, 1))
        assert found.clock_ms is not None and abs(found.clock_ms) < 1000 and not found.is_clock_off
    until(lambda: zookeeper.client.exists("/" + tree.partition("/")[2] + node("hosts", "h2")) is None)


def test_a_clock_that_is_an_hour_off_is_told(zookeeper: Keeper, tree: str, caplog: pytest.LogCaptureFixture) -> None:
    with kept(tree, host(), ahead_ms=HOUR_MS) as made:
        made.keeper.turn()
        found = there(zookeeper, tree)
        assert found.clock_ms is not None and abs(found.clock_ms - HOUR_MS) < 2000 and found.is_clock_off
        assert "the clock of this host is 3" in caplog.text
        made.clock.set_wall(time.time_ns())
        made.clock.advance(0)
        made.keeper.turn()
        assert there(zookeeper, tree).is_clock_off, "it is looked at now and then only"
        made.clock.advance(int(MEASURE_S * 1e9))
        made.clock.set_wall(time.time_ns())
        made.keeper.turn()
        assert not there(zookeeper, tree).is_clock_off


def test_another_agent_of_the_name_is_refused(zookeeper: Keeper, tree: str) -> None:
    with kept(tree, host()) as first, kept(tree, host(pid=8)) as second:
        first.keeper.turn()
        with pytest.raises(Conflict, match=r"there is a host 'h2' already, at 10\.0\.0\.2, process 7"):
            second.keeper.turn()
        assert there(zookeeper, tree).agent.pid == 7 and second.registered == 0


def test_the_next_session_of_our_own_agent_takes_over(zookeeper: Keeper, tree: str) -> None:
    """A keeper that was killed is started again before its session has ended."""
    with kept(tree, host()) as first, kept(tree, host()) as second:
        first.keeper.turn()
        second.keeper.turn()
        assert second.registered == 1
        _, stat = zookeeper.client.get("/" + tree.partition("/")[2] + node("hosts", "h2"))
        assert stat.ephemeralOwner == second.keeper._coordination.session


def test_reports_come_over_when_they_change(zookeeper: Keeper, tree: str) -> None:
    with kept(tree, host()) as made:
        made.keeper.turn()
        made.reports = [{"supervisor": "h2", "written": 1.0, "children": []}]
        made.keeper.turn()
        assert there(zookeeper, tree).reports == ({"supervisor": "h2", "children": []},)
        _, before = zookeeper.client.get("/" + tree.partition("/")[2] + node("hosts", "h2"))
        made.reports = [made.reports[0] | {"written": 2.0}]
        made.keeper.turn()
        _, after = zookeeper.client.get("/" + tree.partition("/")[2] + node("hosts", "h2"))
        assert before.version == after.version, "that it was written again says nothing"


def test_reports_that_are_too_large_lose_their_last_words_first() -> None:
    died = {"pid": 1, "log": "x" * 1000, "how": "was killed"}
    few = bounded([{"supervisor": "h2", "children": [{"name": "im", "last_deaths": [died] * 10}]}])
    assert few[0]["children"][0]["last_deaths"][0]["log"]
    many = bounded([{"supervisor": "h2", "children": [{"name": f"im-{i}", "last_deaths": [died] * 8} for i in range(100)]}])
    assert many[0]["children"][99]["last_deaths"][0] == died | {"log": ""} and len(json.dumps(many)) <= REPORT_BYTES_MAX
    without = bounded([{"supervisor": "h2", "children": [{"name": f"im-{i}", "last_deaths": [died] * 8} for i in range(1000)]}])
    assert without[0]["children"][999]["last_deaths"] == []
    assert bounded([{"supervisor": "x" * REPORT_BYTES_MAX, "children": []}]) == ()
