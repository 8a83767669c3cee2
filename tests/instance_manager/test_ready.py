"""The loop looks only at instances that were woken: whatever the order of what happens, none that can do something is forgotten.

Tests `ready.py`, `hosting.py`, `loop.py`.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cep.dataflow.channel import Inbox, LocalChannel
from cep.dataflow.dead_letters import DeadLetters
from cep.dataflow.instance import SubqueryInstance
from cep.dataflow.meter import Account
from cep.dataflow.movement.movement import Movement
from cep.dataflow.nodes import Input, Node
from cep.dataflow.outputs.balancer import Broadcast
from cep.dataflow.outputs.output import EdgeOutput
from cep.elements import MIN_TIME, Batch, End, Watermark
from cep.kernels.jit import no_garbage
from cep.model.schema import INT64, Field, Schema
from cep.plan.channels import ChannelId
from cep.transport.sockets import open_sockets
from cep.transport.wire import Format
from instance_manager.control.commands import AddInstance, RemoveInstance, RunInstance
from instance_manager.hosting import InstanceHost
from instance_manager.loop import Loop
from instance_manager.ports import InPort, OutPort, Ports
from tests.cep.dataflow.test_instance import FOREVER, Pass, Windows, batch

FORMAT = Format(Schema((Field("n", INT64),)))


class Line:
    """Instances in a row, each reading the one before it, at home in one loop. We send to the first and take from the last."""

    def __init__(self, loop: Loop, name: str, kinds: list[type[Any]], share: int) -> None:
        self.loop, self.sent, self.taken = loop, 0, list[int]()
        self.inboxes = [Inbox(f"{name}/{i}", share) for i in range(len(kinds) + 1)]
        self.channels = [LocalChannel(inbox) for inbox in self.inboxes]
        self.hosted = [self._host(f"{name}~SQ{i}~0", i, kind()) for i, kind in enumerate(kinds)]

    def _host(self, key: str, i: int, operator: Any) -> InstanceHost:
        node = Node(operator)
        node.feed("in")
        output = EdgeOutput(f"q/{key}", Broadcast(1), [self.channels[i + 1]], ["n"], 1)
        node.outputs = [output]
        input_ = Input(node, "in", [self.inboxes[i]])
        instance = SubqueryInstance("q", key, 0, [node], [input_], [], [output], DeadLetters())
        inside, outside = self.inboxes[i], self.channels[i + 1]
        line, ports = inside.name.rpartition("/")[0], Ports()
        ports.add_in(InPort(ChannelId("q", line, i - 1, i), inside, FORMAT, Account()))
        ports.add_out(OutPort(ChannelId("q", line, i, i + 1), outside, FORMAT))
        return InstanceHost(key, instance, Movement(instance), 1, ports, depth=i)

    def add(self, i: int) -> None:
        """Instance `i` comes home, or is told to run."""
        hosted = self.hosted[i % len(self.hosted)]
        self.loop.ask(RunInstance(hosted.key) if hosted.key in self.loop.hosted else AddInstance(hosted))

    def send(self, rows: int) -> None:
        """More rows than a slice takes at a time, and the watermark behind them."""
        for _ in range(rows):
            self.channels[0].send(batch(self.sent), 8, MIN_TIME, MIN_TIME)
            self.sent += 1
        self.channels[0].send(Watermark(self.sent), 0, self.sent, MIN_TIME)

    def take(self, most: int) -> None:
        """Reads what has come out, up to so many elements; the last instance may have waited for that."""
        while self.inboxes[-1].queue and most:
            element, _ = self.inboxes[-1].take()
            self.taken += element.columns["n"].values.tolist() if isinstance(element, Batch) else []
            most -= 1


@contextmanager
def at_home() -> Iterator[Loop]:
    with TemporaryDirectory(prefix="cep-") as folder:
        sockets = open_sockets(f"ipc://{folder}/in")
        try:
            yield Loop(sockets, 1 << 20, lambda hosted: None, lambda loop, at_once: None)
        finally:
            sockets.close()


def settle(loop: Loop) -> None:
    while loop.turn():
        pass


def test_a_channel_is_of_one_deployment() -> None:
    with at_home() as loop:
        third, fourth = (ChannelId("q", "e", 0, 0, lineage) for lineage in (3, 4))
        assert loop.inbox(third) is loop.inbox(third) and loop.inbox(third) is not loop.inbox(fourth)


LINES = st.lists(
    st.tuples(st.lists(st.sampled_from([Pass, Windows]), min_size=1, max_size=3), st.sampled_from([8, 64, 1 << 16])), min_size=1
)
ACTIONS = st.lists(
    st.tuples(st.sampled_from(["add", "send", "take", "turn", "settle"]), st.integers(0, 7), st.integers(0, 40)), max_size=60
)


@given(lines=LINES.filter(lambda lines: len(lines) <= 4), actions=ACTIONS)
def test_no_instance_that_can_do_something_is_left_alone(
    lines: list[tuple[list[type[Any]], int]], actions: list[tuple[str, int, int]]
) -> None:
    with at_home() as loop:
        made = [Line(loop, f"line{i}", kinds, share) for i, (kinds, share) in enumerate(lines)]
        for action, which, amount in actions:
            line = made[which % len(made)]
            match action:
                case "add":
                    line.add(amount)
                case "send":
                    line.send(amount)
                case "take":
                    line.take(amount)
                case "turn":
                    loop.turn()
                case "settle":
                    settle(loop)
                    assert not [hosted.key for hosted in loop.hosted.values() if hosted.instance.step(FOREVER)]
        check_all_comes_through(loop, made)


def test_who_leaves_is_freed_at_once() -> None:
    with at_home() as loop, no_garbage():
        line = Line(loop, "line", [Pass, Windows, Pass], 64)
        for _ in range(2):
            for i in range(3):
                line.add(i)
            loop.turn()
        line.send(40)
        settle(loop)
        left = [weakref.ref(each) for hosted in line.hosted for each in (hosted, hosted.instance)]
        for hosted in line.hosted:
            loop.ask(RemoveInstance(hosted.key))
        line.hosted.clear()
        del hosted
        settle(loop)
        assert [each() for each in left] == [None] * 6


def check_all_comes_through(loop: Loop, made: list[Line]) -> None:
    """Once all are at home and run, and what comes out is read."""
    for line in made:
        for _ in range(2):
            for i in range(len(line.hosted)):
                line.add(i)
            settle(loop)
        line.channels[0].send(End(), 0, line.sent, MIN_TIME)
        while line.inboxes[-1].queue or loop.turn():
            line.take(1 << 30)
            settle(loop)
            wake_last(line)
            settle(loop)
        assert line.taken == list(range(line.sent))
        assert all(hosted.instance.state == "ended" for hosted in line.hosted)


def wake_last(line: Line) -> None:
    """Its reader is no instance: what it gives back, the loop cannot see."""
    if line.channels[-1].settle():
        line.hosted[-1].wake()


def test_an_idle_instance_is_not_stepped() -> None:
    with at_home() as loop:
        idle, busy = Line(loop, "idle", [Pass], 64), Line(loop, "busy", [Pass], 1 << 16)
        for line in (idle, busy, idle, busy):
            line.add(0)
            settle(loop)
        stepped: list[str] = []
        for line in (idle, busy):
            hosted = line.hosted[0]
            step = hosted.instance.step
            hosted.instance.step = lambda deadline, hosted=hosted, step=step: stepped.append(hosted.key) or step(deadline)  # type: ignore
        busy.send(3)
        settle(loop)
        assert set(stepped) == {busy.hosted[0].key}
        assert [hosted.key for hosted in loop.ready.unreported()] == ["idle~SQ0~0", "busy~SQ0~0"]
        busy.send(1)
        settle(loop)
        assert [hosted.key for hosted in loop.ready.unreported()] == [busy.hosted[0].key]


def test_who_reads_another_is_stepped_behind_it() -> None:
    """Whoever was woken first: what the other sends is read in the same turn."""
    with at_home() as loop:
        line = Line(loop, "line", [Pass, Pass, Pass], 1 << 16)
        for _ in range(2):
            for i in range(3):
                line.add(i)
            settle(loop)
        for i in (2, 1):
            line.hosted[i].wake()
        line.send(3)
        loop.turn()
        line.take(1 << 30)
        assert line.taken == [0, 1, 2]
