"""Where the time goes: charged to what has spent it, never twice, and all of it; backpressure and latency beside it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cep.dataflow.channel import Inbox, LocalChannel
from cep.dataflow.dead_letters import DeadLetters
from cep.dataflow.instance import SubqueryInstance
from cep.dataflow.local import LocalRun
from cep.dataflow.meter import LATENCY_BOUNDS_US, Account, CreditWait, Latency, Meter
from cep.dataflow.nodes import Node
from cep.dataflow.operators.operator import StatelessOperator
from cep.dataflow.outputs.balancer import PointToPoint
from cep.dataflow.outputs.output import EdgeOutput
from cep.dataflow.outputs.sink import FileSink, SinkChannel
from cep.dataflow.outputs.staged import Staged
from cep.dataflow.sources.scripted import ListSource
from cep.elements import Batch, End
from cep.kernels.jit import warm
from cep.model.schema import Schema
from cep.model.sinks import TextSink
from cep.model.streams import TextFiles
from tests.cep.dataflow.test_instance import FOREVER, batch
from tests.support.plans import group, one_node, pick, planned, query, stream


class Hands:
    """A clock that only stands still: work moves it."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


class Works(StatelessOperator):
    """Passes tuples on; takes `before` ns to do so, `after` ns when they have gone, and `watermark` ns for a watermark."""

    def __init__(self, name: str, hands: Hands, before: int, after: int, watermark: int) -> None:
        self.name, self.hands, self.before, self.after, self.for_watermark = name, hands, before, after, watermark

    def on_batch(self, batch: Batch, port: int) -> Iterator[Batch]:
        self.hands.now += self.before
        yield batch
        self.hands.now += self.after

    def on_watermark(self, watermark: int) -> Iterator[Batch]:
        self.hands.now += self.for_watermark
        yield from ()


class Slow(ListSource):
    """Takes 1000 ns for every batch."""

    def __init__(self, items: list[Batch | str], hands: Hands) -> None:
        super().__init__(items)
        self.hands = hands

    def read(self) -> Batch | None:
        self.hands.now += 1000
        return super().read()


class SlowChannel(LocalChannel):
    """Takes 7 ns for a batch, as encoding would."""

    def __init__(self, inbox: Inbox, hands: Hands) -> None:
        super().__init__(inbox)
        self.hands = hands

    def send(self, element: object, size: int, watermark: int, since: int) -> None:
        self.hands.now += 7 if isinstance(element, Batch) else 0
        super().send(element, size, watermark, since)


def test_time_is_charged_to_who_spent_it_and_to_nobody_twice() -> None:
    """
    source ─ first ─ second ─ out      a batch of 2 tuples, one of 3, and the end
    """
    hands = Hands()
    first, second = Node(Works("first", hands, 10, 1, 100)), Node(Works("second", hands, 30, 3, 300))
    first.feed(None)
    second.feed("in")
    first.consumers.append((second, "in"))
    source = Slow([batch(1, 2), batch(3, 4, 5)], hands)
    output = EdgeOutput("q/out", PointToPoint(), [SlowChannel(Inbox("out", 1 << 20), hands)], ["n"], grain=1)
    second.outputs = [output]
    meter = Meter(hands)
    instance = SubqueryInstance("q", "SQ1", 0, [first, second], [], [(source, first)], [output], DeadLetters(), meter)
    instance.run()
    while not instance.done:
        instance.step(FOREVER)
    assert (first.account.rows, first.account.batches) == (second.account.rows, second.account.batches) == (5, 2)
    assert first.account.busy_ns == 3 * 1000 + 2 * (10 + 1) + 3 * 100  # reading it too: three polls, of which the last says that it ended
    assert second.account.busy_ns == 2 * (30 + 3) + 3 * 300
    assert output.account.busy_ns == 2 * 7 and output.account.rows == 5
    accounts = [first.account, second.account, output.account, instance.account]
    assert sum(account.busy_ns for account in accounts) == hands.now


def test_a_share_of_what_has_elapsed_is_made_cpu_time() -> None:
    account = Account(busy_ns=1000)
    account.settle(0.25)
    account.busy_ns += 100
    account.settle(1.0)
    assert (account.cpu_ns, account.busy_ns) == (350, 0)


def test_a_stall_lasts_from_the_first_note_of_it_to_the_first_of_its_end() -> None:
    stall = CreditWait()
    for waits, now in [(False, 1), (True, 10), (True, 20), (False, 35), (False, 50), (True, 100)]:
        stall.note(waits, now)
    assert (stall.waited_ns, stall.until(104), stall.until(99)) == (25, 29, 25)


def test_an_output_without_credit_waits_until_there_is_some() -> None:
    hands = Hands()
    node, inbox = Node(Works("pass", hands, 10, 0, 0)), Inbox("out", 1)
    node.feed(None)
    channel = LocalChannel(inbox)
    node.outputs = [EdgeOutput("q/out", PointToPoint(), [channel], ["n"], grain=1)]
    source = ListSource([batch(1), batch(2)])
    instance = SubqueryInstance("q", "SQ1", 0, [node], [], [(source, node)], node.outputs, DeadLetters(), Meter(hands))
    instance.run()
    instance.step(FOREVER)
    stall, stopped = node.outputs[0].stall, hands.now
    assert node.outputs[0].blocked and stall.until(stopped) == 0  # the one batch that may always be under way has gone, the next waits
    hands.now += 500
    assert stall.until(hands.now) == 500
    inbox.take()
    channel.settle()
    instance.step(FOREVER)
    assert not node.outputs[0].blocked and stall.waited_ns == 500


def test_latency_is_counted_by_tuples_in_classes() -> None:
    """
    ≤ 0.1 ms │ ≤ 0.2 ms │ … │ ≤ 50 s │ more
    """
    latency = Latency(lambda: 1_000_000_000)
    latency.note(0, 99)  # it is not known when they were created
    for age_us, rows in [(100, 3), (101, 4), (200, 5), (90_000_000, 6), (-5, 1)]:
        latency.note((1_000_000_000 - age_us) * 1000, rows)
    assert latency.counts[:2] == [3 + 1, 4 + 5] and latency.counts[-1] == 6 and sum(latency.counts) == 19
    assert latency.sum_us == 3 * 100 + 4 * 101 + 5 * 200 + 6 * 90_000_000
    assert len(latency.counts) == len(LATENCY_BOUNDS_US) + 1


def test_writing_a_file_is_on_an_account_of_its_own(tmp_path: Path) -> None:
    """The clock says how long it took to come to each write, and how many there were."""

    class Written(FileSink):
        def write(self, batch: Batch) -> None:
            hands.now += 40
            super().write(batch)

        def finish(self, staged: Staged) -> None:
            hands.now += 40
            super().finish(staged)

    hands, before = Hands(), Account()
    sink = SinkChannel(Written(TextSink(str(tmp_path)), "out", 0, Schema.of({"n": int}), DeadLetters()), Meter(hands), before)
    hands.now += 2
    sink.send(batch(1, 2, 3), 24, 0, 0)
    hands.now += 3
    sink.send(End(), 0, 0, 0)
    assert (before.busy_ns, sink.account.busy_ns, sink.account.rows, sink.account.batches) == (5, 80, 3, 1)
    assert (tmp_path / "out-00000.csv").read_text().split() == ["1", "2", "3"]


@pytest.mark.parametrize("parallelism", [1, 2])
def test_of_a_busy_run_most_is_on_its_operators_and_steps(tmp_path: Path, parallelism: int) -> None:
    """The clock is the thread's CPU time: the sum of all accounts is at most what the run took, and nearly all of it."""
    records = 200_000
    path = tmp_path / "visits.txt"
    ips, times = np.arange(records) * 7919 % 5000, 1_700_000_000_000 + np.arange(records)
    path.write_text("".join(f"10.0.0.{ip},/,{ip},1.5,{time_}\n" for ip, time_ in zip(ips.tolist(), times.tolist(), strict=True)))
    declared = stream("v", files=TextFiles((str(path),)))
    made = query(pick("pick", "v"), group("window", "pick", "ip"), declared=(declared,), parallelism=parallelism)
    plan = planned(made, one_node(parallelism), files={"v": ((str(path), path.stat().st_size),)})
    meter = Meter(time.thread_time_ns)
    run = LocalRun(plan, meter=meter)
    warm()
    meter.charge(run.account)
    began, built = time.thread_time_ns(), run.account.busy_ns
    outcome = run.run()
    took = time.thread_time_ns() - began
    instances = [account for i in run.instances for account in (i.account, *(o.account for o in i.outputs), *(n.account for n in i.nodes))]
    steps = sum(account.busy_ns for account in instances)
    assert 0.5 * took < steps < took
    assert 0.95 * took < steps + run.account.busy_ns - built <= took
    own = sum(instance.account.busy_ns for instance in run.instances)
    assert own < 0.2 * steps  # finding out what is next
    rows = {name: sum(n.rows_in for i in run.instances for n in i.nodes if n.operator.name == name) for name in ("v", "pick")}
    assert rows == {"v": records, "pick": records}
    answered = sum(n.rows_out for i in run.instances for n in i.nodes if n.operator.name == "window")
    assert answered == sum(map(len, outcome.batches["window_out"])) > 0
