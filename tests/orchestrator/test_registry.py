"""What the leader writes, at a simulated ZooKeeper: whatever becomes of the connection, in the end it stands there."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.config import node
from cep.errors import TooLarge
from cep.world.coordination import Connection, ConnectionLost, Znode
from orchestrator.election import Candidate, Election
from orchestrator.registry import Deposed, Registry
from orchestrator.state.desired_nodes import NODE_BYTES_MAX
from orchestrator.state.events import Delete, Put
from simulation.clock import ProcessClock
from simulation.coordination import SimulatedSession, SimulatedZooKeeper
from simulation.schedule import MS, SeededSchedule
from tests.orchestrator.test_election import broken

NAMES = st.sampled_from(["a", "b", "c"])
PATHS = st.one_of(NAMES.map(lambda name: node("streams", name)), st.tuples(NAMES, NAMES).map(lambda names: node("publishers", *names)))
COMMANDS = st.one_of(PATHS.map(Delete), st.builds(Put, PATHS, st.integers(0, 5)))


class Bench:
    def __init__(self, seed: int) -> None:
        self.schedule = SeededSchedule(seed)
        self.zookeeper = SimulatedZooKeeper(self.schedule)

    def session(self, name: str) -> SimulatedSession:
        said: list[Connection] = []
        made = self.zookeeper.connect(name, ProcessClock(self.schedule))
        made.start(said.append)
        self.schedule.run(lambda: bool(said), 60_000 * MS)
        return made

    def office(self, name: str) -> tuple[SimulatedSession, Registry, int]:
        session = self.session(name)
        registry = Registry(session, lambda path: None)
        fence = Election(session, Candidate("http://me", "here", 1, "1"), lambda path: None).take_office()
        registry.read_all()
        return session, registry, fence


@given(st.integers(0, 1 << 32), st.lists(st.tuples(st.lists(COMMANDS, max_size=4), st.integers(0, 400), st.booleans()), max_size=6))
def test_what_is_to_be_written_stands_there_in_the_end(seed: int, rounds: list[tuple[list[Put | Delete], int, bool]]) -> None:
    """A write whose outcome is unknown is tried again, and what is there is read before that."""
    bench = Bench(seed)
    session, registry, fence = bench.office("one")
    expected: dict[str, int] = {}
    for commands, ms, lost in rounds:
        for command in commands:
            registry.put([command])
            if isinstance(command, Put):
                expected[command.path] = command.value
            else:
                expected.pop(command.path, None)
        bench.schedule.at(bench.schedule.now_ns + ms * MS, lambda lost=lost: broken(session, lost))
        for _ in range(20):
            if not registry.is_written:
                flush(bench, registry, fence)
    assert registry.is_written
    assert standing(bench) == expected


def flush(bench: Bench, registry: Registry, fence: int) -> None:
    try:
        registry.flush(fence)
    except ConnectionLost:
        bench.schedule.pause_until(bench.schedule.now_ns + 50 * MS)


def standing(bench: Bench) -> dict[str, int]:
    """The nodes with a value below the two kinds."""
    session = bench.session("reader")
    paths, found = [node("streams"), node("publishers")], dict[str, int]()
    while paths:
        path = paths.pop()
        [names], [there] = session.children([path]), session.get([path])
        assert isinstance(names, list) and isinstance(there, Znode)
        paths += [f"{path}/{name}" for name in names]
        if there.data:
            found[path] = json.loads(there.data)
    return found


def test_a_leader_of_an_earlier_term_writes_nothing_more() -> None:
    bench = Bench(0)
    _, first, earlier = bench.office("one")
    _, second, later = bench.office("two")
    first.put([Put(node("streams", "a"), 1)])
    with pytest.raises(Deposed):
        first.flush(earlier)
    second.put([Put(node("streams", "a"), 2)])
    second.flush(later)
    assert standing(bench) == {node("streams", "a"): 2}


def test_what_was_undone_before_it_was_written_is_undone_in_order() -> None:
    """A folder goes behind what is in it, although it was to be written before that."""
    bench = Bench(0)
    _, registry, fence = bench.office("one")
    folder, there = node("publishers", "s"), node("publishers", "s", "p")
    registry.put([Put(folder, None), Put(there, 1)])
    registry.flush(fence)
    registry.put([Put(folder, None), Put(there, 2), Delete(there), Delete(folder)])
    registry.flush(fence)
    assert standing(bench) == {} and not registry.quarantine.nodes


def test_a_leader_whose_office_was_removed_is_none() -> None:
    bench = Bench(0)
    session, registry, fence = bench.office("one")
    session.delete(node("orchestrator"))
    registry.put([Put(node("streams", "a"), 1)])
    with pytest.raises(Deposed):
        registry.flush(fence)
    assert standing(bench) == {}


def test_what_could_not_be_written_is_set_aside_until_it_is() -> None:
    bench = Bench(0)
    _, registry, fence = bench.office("one")
    path, other = node("streams", "a"), node("streams", "b")
    registry.quarantine.set_aside(other, "it makes no sense")
    for value in ("short", "x" * NODE_BYTES_MAX):
        with suppress(TooLarge):
            registry.put([Put(path, value), Put(other, 1)])
    registry.flush(fence)
    assert standing(bench) == {path: "short", other: 1} and registry.quarantine.nodes.keys() == {path, other}
    registry.put([Put(path, "again")])
    assert path in registry.quarantine.nodes
    registry.flush(fence)
    assert registry.quarantine.nodes.keys() == {other}, "that has another reason"


def test_statuses_that_are_not_looked_at_stay_as_they_were() -> None:
    bench = Bench(0)
    session, registry, _ = bench.office("one")
    first, second = node("status", "im-0", "q~SQ1~0"), node("status", "im-0", "q~SQ1~1")
    session.ensure([node("status", "im-0")])
    for path in (first, second):
        session.create(path, status("ready"), ephemeral=True)
    found = registry.statuses("im-0")
    assert {name: each and each.state for name, each in found.items()} == {"q~SQ1~0": "ready", "q~SQ1~1": "ready"}
    session.set(first, status("running"))
    session.set(second, status("running"))
    assert {name: each and each.state for name, each in registry.statuses("im-0", ["q~SQ1~0"]).items()} == {"q~SQ1~0": "running"}
    assert registry.statuses("im-0") == {}  # of the others only those that are new
    session.delete(first)
    assert registry.statuses("im-0", ["q~SQ1~0"]) == {"q~SQ1~0": None}
    assert {name: each and each.state for name, each in registry.all_statuses("im-0").items()} == {"q~SQ1~1": "running"}


def status(state: str) -> bytes:
    return json.dumps({"epoch": 1, "state": state, "cause": None, "rows": {}}).encode()
