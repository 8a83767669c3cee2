"""What the control part of an instance manager does, turn by turn, at a simulated ZooKeeper, wherever the connection goes.

Tests `control.py`, `asked_nodes.py`, `building.py`, `commands.py`, `own_nodes.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.config import ClusterConfig, InstanceManagerConfig, instance_node, node
from cep.dataflow.channel import Inbox
from cep.dataflow.meter import Meter
from cep.kernels.jit import interpreted
from cep.plan import physical, planner
from cep.plan.physical import Worker
from cep.service.mark import Mark
from cep.transport.local import LocalSockets
from cep.world.coordination import Znode
from driver import Query, col, stream
from instance_manager.control.commands import (
    AddInstance,
    AddSubscriptions,
    Command,
    Confirm,
    DrainInstance,
    ExpectInstance,
    ExpectNoMore,
    HearCheckpoints,
    RemoveInstance,
    RunInstance,
)
from instance_manager.control.control import AssignmentChanged, Control, ListingChanged
from instance_manager.control.own_nodes import OwnNodes
from instance_manager.hosting import Preparation
from simulation.clock import ProcessClock
from simulation.coordination import SimulatedSession, SimulatedZooKeeper
from simulation.schedule import MS, SeededSchedule
from tests.support.plans import one_node

EVENTS = stream("events", at="timestamp[us]", n="int64", event_time="at", disorder="0us")
IM, PROCESS = "im", [7, 1]
KEY = instance_node("q", "SQ1", 0)


class Bench:
    """A control part without its thread and without a loop, and an orchestrator of the test's own."""

    def __init__(self, sockets: LocalSockets, folder: str, seed: int = 0) -> None:
        self.schedule = SeededSchedule(seed)
        self.zookeeper, self.clock = SimulatedZooKeeper(self.schedule), ProcessClock(self.schedule)
        self.session = self.zookeeper.connect(IM, self.clock)
        self.asked: list[Command] = []
        config = InstanceManagerConfig(ClusterConfig(folder, "", "", 0, f"ipc://{folder}/m", ""), IM, None, None, sockets.endpoint)
        preparation = Preparation(config, sockets, lambda channel: Inbox(str(channel), 0), Meter(self.clock.steady_ns), self.clock)
        facts = {"id": IM, "pid": PROCESS[0], "started": PROCESS[1], "endpoint": sockets.endpoint}
        self.control = Control(config, facts, preparation, self.asked.append, Mark.open(None).control, self.session)
        self.orchestrator = self.zookeeper.connect("orchestrator", ProcessClock(self.schedule))
        self.orchestrator.start(lambda connection: None)
        query = Query("q").source(EVENTS).filter("all", col("n") >= 0).output("answers").options(split="single")
        self.plan = planner.plan(query.build(), {}, [Worker(IM, None, None, sockets.endpoint)], one_node(1), numa=False)
        self.control.begin()

    def turn(self) -> None:
        """Time passes, and it takes what has come; also where nothing has."""
        self.schedule.pause_until(self.schedule.now_ns + 50 * MS)
        assert self.control.turn(self.control.mailbox.take(0))

    def settle(self) -> None:
        for _ in range(30):
            self.turn()
        assert self.control.mailbox.is_empty and self.control.patience_s is None

    def put(self, path: str, value: Any) -> None:
        """As the orchestrator writes."""
        session, data = self.orchestrator, json.dumps(value).encode()
        session.ensure([path])
        session.set(path, data)

    def assign(self, desired: str, key: str = KEY, **more: Any) -> None:
        self.put(node("plans", "q"), physical.to_json(self.plan))
        own = {"query": "q", "subquery": "SQ1", "instance": 0, "epoch": 1, "process": PROCESS, "desired": desired}
        self.put(node("assignments", IM, key), own | more)

    def read(self, *names: str) -> tuple[Any, int] | None:
        """What is written there, and whose it is."""
        [found] = self.orchestrator.get([node(*names)])
        return (json.loads(found.data), found.owner) if isinstance(found, Znode) else None

    @property
    def kinds(self) -> list[type[Command]]:
        return [type(command) for command in self.asked]


@pytest.fixture(scope="module")
def sockets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSockets]:
    made = LocalSockets(f"ipc://{tmp_path_factory.mktemp('control')}/im")
    yield made
    made.close()


@pytest.fixture
def bench(sockets: LocalSockets, tmp_path: Path) -> Iterator[Bench]:
    with interpreted():
        yield Bench(sockets, str(tmp_path))


def test_it_registers_and_does_what_is_assigned(bench: Bench) -> None:
    bench.settle()
    assert bench.read("ims", IM) == ({"id": IM, "pid": 7, "started": 1, "endpoint": bench.plan.workers[0].endpoint}, bench.session.session)
    bench.assign("ready")
    bench.settle()
    assert bench.kinds == [AddInstance]
    bench.assign("run")
    bench.settle()
    assert bench.kinds == [AddInstance, RunInstance]
    bench.control.report(bench.asked[0].hosted)  # type: ignore[union-attr]
    bench.settle()
    status = bench.read("status", IM, KEY)
    assert status is not None and (status[0]["state"], status[1]) == ("ready", bench.session.session)


def test_what_is_withdrawn_goes_with_its_status(bench: Bench) -> None:
    bench.assign("run")
    bench.settle()
    bench.control.report(bench.asked[0].hosted)  # type: ignore[union-attr]
    bench.settle()
    bench.orchestrator.delete(node("assignments", IM, KEY))
    bench.settle()
    assert bench.kinds == [AddInstance, RunInstance, RemoveInstance] and bench.read("status", IM, KEY) is None


def test_what_is_withdrawn_and_assigned_again_before_that_is_told_is_read(bench: Bench) -> None:
    """A query recovered twice: an instance was moved away, and back. That its assignment had gone was read, and in the listing it was."""
    bench.settle()
    bench.assign("ready")
    bench.settle()
    bench.orchestrator.delete(node("assignments", IM, KEY))
    bench.schedule.pause_until(bench.schedule.now_ns + 50 * MS)
    words = bench.control.mailbox.take(0)
    assert set(map(type, words)) == {AssignmentChanged, ListingChanged}
    assert bench.control.turn([word for word in words if isinstance(word, AssignmentChanged)])
    bench.assign("ready", epoch=2)
    assert bench.control.turn([ListingChanged()])
    bench.settle()
    assert [command.hosted.epoch for command in bench.asked if isinstance(command, AddInstance)] == [1, 2]


def test_what_cannot_be_built_is_its_querys_failure(bench: Bench) -> None:
    bench.put(
        node("assignments", IM, "r~SQ1~0"),
        {"query": "r", "subquery": "SQ1", "instance": 0, "epoch": 3, "process": PROCESS, "desired": "run"},
    )
    bench.settle()
    status = bench.read("status", IM, "r~SQ1~0")
    assert status is not None and status[0]["state"] == "failed" and "there is no plan of query 'r'" in status[0]["cause"]
    assert AddInstance not in bench.kinds


def test_what_makes_no_sense_is_named_in_the_registration(bench: Bench) -> None:
    bench.assign("explode")
    bench.settle()
    registered = bench.read("ims", IM)
    assert registered is not None and "desired: expected one of" in registered[0]["refused"][KEY]
    bench.assign("run")
    bench.settle()
    registered = bench.read("ims", IM)
    assert registered is not None and "refused" not in registered[0] and bench.kinds == [AddInstance, RunInstance]


def test_after_a_lost_session_all_that_is_true_is_written_again(bench: Bench) -> None:
    bench.assign("run")
    bench.settle()
    bench.control.report(bench.asked[0].hosted)  # type: ignore[union-attr]
    bench.settle()
    before = bench.session.session
    bench.zookeeper.expire(bench.session)
    assert bench.read("ims", IM) is None and bench.read("status", IM, KEY) is None
    bench.assign("drain")
    bench.settle()
    assert bench.session.session != before
    for found in (bench.read("ims", IM), bench.read("status", IM, KEY)):
        assert found is not None and found[1] == bench.session.session
    assert bench.kinds == [AddInstance, RunInstance, DrainInstance]


def test_the_loop_is_told_when_all_has_been_read_since_it_was_away(bench: Bench) -> None:
    bench.assign("run")
    bench.settle()
    bench.zookeeper.stop()
    bench.control.loop_is_back()
    bench.settle()
    assert Confirm not in bench.kinds
    bench.zookeeper.start()
    bench.assign("drain")
    bench.settle()
    assert bench.kinds[-2:] == [DrainInstance, Confirm]


def test_the_end_ends_its_session(bench: Bench) -> None:
    bench.settle()
    bench.control.close()
    assert not bench.control.turn(bench.control.mailbox.take(0))
    assert bench.read("ims", IM) is None


@given(st.integers(0, 1 << 32), st.data())
def test_wherever_the_connection_goes_everything_is_done_once(sockets: LocalSockets, seed: int, data: st.DataObject) -> None:
    """It is cut at any moment, also between what is asked and its answer; the session may be lost with it."""
    with interpreted():
        bench = Bench(sockets, "/nowhere", seed)
        for desired in ("ready", "run", "drain", None):
            if desired is None:
                bench.orchestrator.delete(node("assignments", IM, KEY))
            else:
                bench.assign(desired)
            cut_ns, lost = data.draw(st.integers(0, 200 * MS)), data.draw(st.booleans())
            bench.schedule.at(bench.schedule.now_ns + cut_ns, lambda lost=lost: cut(bench.session, lost))
            for _ in range(8):
                bench.turn()
            if desired == "ready" and bench.asked:
                bench.control.report(bench.asked[0].hosted)  # type: ignore[union-attr]
        for _ in range(40):
            bench.turn()
    assert bench.control.patience_s is None
    kinds = bench.kinds
    assert kinds.count(AddInstance) <= 1 and kinds == [
        kind for kind in (AddInstance, RunInstance, DrainInstance, RemoveInstance) if kind in kinds
    ]
    assert (RemoveInstance in kinds) == (AddInstance in kinds)
    assert bench.read("status", IM, KEY) is None
    registered = bench.read("ims", IM)
    assert registered is not None and registered[1] == bench.session.session


def cut(session: SimulatedSession, lost: bool) -> None:
    if lost:
        session.server.expire(session)
    else:
        session.cut()
        session.mend()


def test_an_instance_that_is_withdrawn_and_back_before_that_is_told_has_a_status(bench: Bench) -> None:
    bench.settle()
    own = OwnNodes(bench.session, "other", {})
    own.register({})
    for key in ("a", "b"):
        own.say(key, {"state": "ready"})
    own.write()
    own.forget(["a", "b"])
    own.say("a", {"state": "deploying"})
    own.write()
    found = [bench.read("status", "other", key) for key in ("a", "b")]
    assert found == [({"state": "deploying"}, bench.session.session), None] and own.is_written


@pytest.mark.parametrize("relieves", [False, True])
def test_what_is_there_works_on_while_what_relieves_it_is_built(bench: Bench, relieves: bool) -> None:
    other = instance_node("q", "SQ1", 1)
    bench.plan = planner.plan(  # with another instance
        replace(bench.plan.query, options=replace(bench.plan.query.options, parallelism=2)),
        {},
        [Worker(IM, None, None, bench.plan.workers[0].endpoint)],
        one_node(1),
        numa=False,
    )
    for attempt, more in enumerate(({}, {"attempt": 1, "relieves": relieves})):
        for index, key in enumerate((KEY, other)):
            bench.assign("run", key, instance=index, **more)
        bench.settle()
        assert attempt or bench.kinds == [AddInstance] * 2 + [RunInstance] * 2
    home = [ExpectInstance] * 2 + [AddInstance, RunInstance] * 2 if relieves else [RemoveInstance, AddInstance] * 2 + [RunInstance] * 2
    assert bench.kinds[4:] == home


def test_what_relieves_comes_home_when_it_is_to_run_with_what_it_was_told_meanwhile(bench: Bench) -> None:
    other, query = instance_node("q", "SQ1", 1), bench.plan.query
    bench.plan = replace(bench.plan, query=replace(query, options=replace(query.options, recover="on-commit")))
    for key, index in ((KEY, 0), (other, 1)):
        bench.assign("run", key, instance=index)
    bench.settle()
    subscription = {"id": "s", "stream": "answers", "endpoint": bench.plan.workers[0].endpoint}
    bench.orchestrator.delete(node("assignments", IM, other))
    bench.assign("ready", attempt=1, relieves=True)
    bench.settle()
    bench.assign("ready", attempt=1, relieves=True, subscriptions=[subscription])
    bench.settle()
    status = bench.read("status", IM, KEY)
    assert status is not None and (status[0]["state"], status[0]["attempt"]) == ("ready", 1)
    assert bench.kinds[4:] == [ExpectInstance], "and the one that is withdrawn works on"
    bench.assign("run", attempt=1, relieves=True, subscriptions=[subscription])
    bench.settle()
    assert [kind for kind in bench.kinds[5:] if kind is not HearCheckpoints] == [AddInstance, AddSubscriptions, RunInstance, RemoveInstance]


def test_what_was_to_relieve_is_given_up_for_the_next_attempt(bench: Bench) -> None:
    bench.assign("run")
    bench.settle()
    bench.assign("ready", attempt=1, relieves=True)
    bench.settle()
    bench.assign("ready", attempt=2)
    bench.settle()
    assert bench.kinds == [AddInstance, RunInstance, ExpectInstance, ExpectNoMore, RemoveInstance, AddInstance]


def test_what_cannot_be_relieved_goes_and_says_nothing_more(bench: Bench) -> None:
    bench.assign("run")
    bench.settle()
    there = bench.asked[0].hosted  # type: ignore[union-attr]
    bench.plan = replace(bench.plan, subqueries=())
    bench.assign("run", attempt=1, relieves=True)
    bench.control.report(there)
    bench.settle()
    bench.control.report(there)
    bench.settle()
    status = bench.read("status", IM, KEY)
    assert status is not None and (status[0]["state"], status[0]["attempt"]) == ("failed", 1)
    assert bench.kinds == [AddInstance, RunInstance, RunInstance, RemoveInstance]
