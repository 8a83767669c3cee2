"""One subquery instance between its inputs and outputs: pulled, resumable, never refusing, grammatical (rules 4.8, 4.12, 7.2).

Tests `instance.py`, `intake.py`, `nodes.py`, `reports.py`, `outputs/outputs.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from cep.dataflow.channel import Inbox, LocalChannel, batch_bytes
from cep.dataflow.dead_letters import DeadLetters
from cep.dataflow.instance import TURN_BYTES, SubqueryInstance
from cep.dataflow.meter import Meter
from cep.dataflow.nodes import Input, Node
from cep.dataflow.operators.operator import StatelessOperator
from cep.dataflow.outputs.balancer import Broadcast
from cep.dataflow.outputs.output import EdgeOutput
from cep.dataflow.outputs.outputs import LINGER_NS
from cep.dataflow.reports import unused_of, waits_for, watermark_of
from cep.dataflow.sources.scripted import PAUSE, ListSource
from cep.elements import MAX_TIME, MIN_TIME, Batch, Element, End, Fail, Grammar, Idle, Stop, Watermark
from cep.kernels.columns import Column
from cep.model.schema import INT64

FOREVER = lambda: False  # noqa: E731  a deadline that never comes


def batch(*numbers: int) -> Batch:
    """Each row's event time is its number."""
    n = np.array(numbers, np.int64)
    return Batch({"n": Column(INT64, n)}, n)


def show(element: Element) -> object:
    """What reads well in an assertion: rows as a list, a watermark as W(t)."""
    if isinstance(element, Batch):
        return element.columns["n"].values.tolist()
    return f"W({element.time})" if isinstance(element, Watermark) else type(element).__name__


class Windows(StatelessOperator):
    """Holds rows until a watermark passes them, then lets them out one at a time: the emission of a large window, in small."""

    name = "windows"

    def __init__(self) -> None:
        self.held: list[int] = []

    def on_batch(self, batch: Batch, port: int) -> Iterator[Batch]:
        self.held += batch.columns["n"].values.tolist()
        yield from ()

    def on_watermark(self, watermark: int) -> Iterator[Batch]:
        ripe = sorted(n for n in self.held if n < watermark)
        self.held = [n for n in self.held if n >= watermark]
        for n in ripe:
            yield batch_of(n)


class Pass(StatelessOperator):
    """Rows as they come."""

    name = "pass"

    def on_batch(self, batch: Batch, port: int) -> Iterator[Batch]:
        yield batch


class Breaks(Pass):
    """Cannot stand the number 13."""

    name = "breaks"

    def on_batch(self, batch: Batch, port: int) -> Iterator[Batch]:
        if 13 in batch.columns["n"].values:
            raise ValueError("13")
        yield batch


def batch_of(n: int) -> Batch:
    return batch(n)


class Bench:
    """An instance with two inbound channels into one node, and outputs whose receiving ends we hold."""

    def __init__(
        self,
        operator: Windows | Pass,
        share: int = 1 << 20,
        inputs: int = 2,
        outputs: int = 1,
        grain: int = 1,
        meter: Meter | None = None,
    ) -> None:
        self.node = Node(operator)
        self.node.feed("in")
        self.inboxes = [Inbox(f"in{i}", 1 << 20) for i in range(inputs)]
        self.senders = [LocalChannel(inbox) for inbox in self.inboxes]
        self.targets = [Inbox(f"out{i}", share) for i in range(outputs)]
        self.channels = [LocalChannel(inbox) for inbox in self.targets]
        self.node.outputs = [EdgeOutput(f"q/out{i}", Broadcast(1), [channel], ["n"], grain) for i, channel in enumerate(self.channels)]
        input_ = Input(self.node, "in", self.inboxes)
        self.instance = SubqueryInstance("q", "SQ2", 0, [self.node], [input_], [], self.node.outputs, DeadLetters(), meter)
        self.instance.run()
        self.grammars = [Grammar(inbox.name) for inbox in self.targets]

    def wanted(self, i: int) -> int:
        """How far the sender of a channel is asked to come."""
        self.senders[i].settle()
        return self.senders[i].credit.returned

    def send(self, i: int, *elements: Element, promised: int = MIN_TIME) -> None:
        for element in elements:
            watermark = element.time if isinstance(element, Watermark) else promised
            self.senders[i].send(element, 8 * len(element) if isinstance(element, Batch) else 0, watermark, MIN_TIME)

    def step(self) -> bool:
        return self.instance.step(FOREVER)

    def take(self, i: int = 0, most: int = 1 << 30) -> list[object]:
        """What has come out, up to `most` elements; their credit is given back."""
        taken = []
        while self.targets[i].queue and len(taken) < most:
            element, _ = self.targets[i].take()
            taken.append(show(self.grammars[i].check(element)))
        self.channels[i].settle()
        return taken


# --- watermarks ------------------------------------------------------------------------------------------------------


def test_the_least_watermark_of_all_channels_counts() -> None:
    bench = Bench(Windows())
    bench.send(0, batch(1, 5), Watermark(10))
    bench.step()
    assert bench.take() == []
    bench.send(1, Watermark(4))
    bench.step()
    assert bench.take() == [[1]]
    assert watermark_of(bench.instance) == 4


def test_what_a_watermark_lets_out_leaves_before_it() -> None:
    """And the watermark leaves with it, not alone."""
    bench = Bench(Windows(), inputs=1)
    bench.send(0, batch(3, 1, 2), Watermark(3))
    bench.step()
    assert bench.take() == [[1, 2]]
    for watermark in (4, 5):
        bench.send(0, Watermark(watermark))
        bench.step()
    assert bench.take() == [[3], "W(5)"]


def test_an_idle_channel_is_asked_to_come_as_far_as_the_others() -> None:
    bench = Bench(Windows())
    bench.send(0, batch(1, 2, 3), Watermark(3))
    bench.send(1, Idle())
    bench.step()
    assert bench.take() == []
    assert bench.wanted(1) == 3
    bench.send(1, Idle(), promised=3)
    bench.step()
    assert bench.take() == [[1, 2]]
    bench.send(0, Watermark(9))
    bench.step()
    assert bench.wanted(1) == 9
    bench.send(1, Watermark(4))  # it has something to say again
    bench.send(0, Watermark(12))
    bench.step()
    assert bench.wanted(1) == 9
    assert watermark_of(bench.instance) == 4


def test_where_all_channels_are_idle_so_is_what_comes_out_and_the_watermark_stands() -> None:
    bench = Bench(Windows())
    bench.send(0, batch(1, 2, 3), Watermark(3), Idle())
    bench.send(1, Watermark(2), Idle())
    bench.step()
    assert bench.take() == [[1], "Idle"]
    bench.send(0, Watermark(5))
    bench.step()
    assert bench.wanted(1) == 5
    bench.send(1, Idle(), promised=5)
    bench.step()
    assert bench.take() == [[2, 3]]


def test_the_end_of_one_channel_ends_nothing() -> None:
    bench = Bench(Windows())
    bench.send(0, batch(1, 7), End())
    bench.send(1, batch(2), Watermark(3))
    bench.step()
    assert bench.take() == [[1, 2]]
    bench.send(1, End())
    bench.step()
    assert bench.take() == [[7], "End"]
    assert bench.instance.state == "ended"


# --- the last element ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("last, state", [(Stop(), "stopped"), (Fail("SQ1", 1, "it broke"), "failed")])
def test_stop_and_fail_fire_nothing_and_go_on_at_once(last: Stop | Fail, state: str) -> None:
    bench = Bench(Windows())
    bench.send(0, batch(1, 2, 3))
    bench.send(1, batch(4), last)
    bench.step()
    bench.send(0, Watermark(100), End())
    bench.step()
    assert bench.take() == [type(last).__name__]
    assert bench.instance.state == state
    assert bench.instance.cause == ("it broke" if isinstance(last, Fail) else "")


def test_an_operator_that_breaks_leaves_the_instance_to_be_failed() -> None:
    bench = Bench(Breaks(), inputs=1)
    bench.send(0, batch(1), batch(13))
    with pytest.raises(ValueError):
        bench.step()
    bench.instance.fail("ValueError: 13")
    assert bench.take()[-1] == "Fail"
    assert not bench.step()


def test_what_has_ended_does_nothing_more() -> None:
    bench = Bench(Pass(), inputs=1)
    bench.send(0, End())
    bench.step()
    for _ in range(3):
        bench.instance.tick()
        bench.instance.close(Stop())
        assert not bench.step()
    assert bench.take() == ["End"]
    assert waits_for(bench.instance, 0) == "nothing: it has ended"


def test_what_it_has_not_used_is_counted_by_operator() -> None:
    bench = Bench(Pass(), inputs=1)
    for operator, count in (("second", 2), ("none", 0), ("first", 1)):
        bench.instance.dead_letters.count_only(operator, count)
    found = unused_of(bench.instance)
    assert found == {"late": 0, "odd_times": 0, "before_since": 0, "dead_letters": {"first": 1, "second": 2}}
    assert list(found["dead_letters"]) == ["first", "second"]


# --- credit ----------------------------------------------------------------------------------------------------------


def test_a_large_emission_pauses_where_credit_ends_and_goes_on_there() -> None:
    """A window of 20 rows, credit for one batch: every piece leaves before the watermark, none twice."""
    bench = Bench(Windows(), share=1, inputs=1)
    for output in bench.node.outputs:
        output.batch_bytes = 1  # every row is a full buffer
    bench.instance.intake.enough_rows = 20
    bench.send(0, batch(*range(20)), Watermark(20), batch(25), Watermark(30))
    seen: list[object] = []
    turns = 0
    while bench.step() or bench.targets[0].queue:
        turns += 1
        assert len(bench.targets[0].queue) <= 2
        if len(seen) < 20:
            assert "W(20)" not in seen
        seen += bench.take()
    rows = [n for each in seen if isinstance(each, list) for n in each]
    assert rows == [*range(20), 25]
    assert turns > 20
    assert seen.index("W(20)") == 20


def test_input_is_taken_only_while_every_output_has_credit_but_never_refused() -> None:
    bench = Bench(Pass(), share=1, inputs=1, outputs=2)
    for n in range(5):
        bench.send(0, batch(n))
        bench.step()
    assert bench.inboxes[0].queue
    assert "credit on q/out0, q/out1" in waits_for(bench.instance, 0)
    got: list[object] = []
    while bench.inboxes[0].queue or bench.targets[0].queue:
        got += bench.take(0)
        if len(got) >= 3:  # the second receiver wakes up later
            bench.take(1)
        bench.step()
        if len(got) < 3 and not bench.targets[0].queue:
            bench.take(1)
            bench.step()
    assert [n for each in got for n in each] == list(range(5))  # type: ignore[union-attr]


def test_stop_goes_out_although_there_is_no_credit() -> None:
    bench = Bench(Pass(), share=1, inputs=1)
    for n in range(3):
        bench.send(0, batch(n))
        bench.step()
    assert waits_for(bench.instance, 0) == "credit on q/out0"
    bench.instance.close(Stop())
    assert bench.take() == [[0], "Stop"]


# --- slices, turns, ticks --------------------------------------------------------------------------------------------


def test_a_slice_ends_when_time_is_over() -> None:
    bench = Bench(Pass(), inputs=1)
    bench.instance.intake.enough_rows = 1
    bench.send(0, *(batch(n) for n in range(10)))
    assert bench.instance.step(lambda: True)
    assert len(bench.inboxes[0].queue) == 9
    bench.step()
    assert not bench.inboxes[0].queue


def test_a_slice_ends_when_neighbours_have_got_enough() -> None:
    bench = Bench(Pass(), share=1 << 30, inputs=1)
    rows = TURN_BYTES // batch_bytes(batch(1))
    large = [batch(*range(i, i + n)) for i, n in enumerate((rows, rows // 2, rows // 2 + 1, 3 * rows))]
    bench.send(0, large[0], large[1], large[2], batch(1), batch(2), large[3])
    for handed in ([large[0]], [large[1], large[2]], [batch(1, 2), large[3]]):
        assert bench.step()
        assert [each for each in bench.take() if isinstance(each, list)] == [show(each) for each in handed]
    assert not bench.step()


def one_element(bench: Bench) -> None:
    """Slices that are over at once, until what the next element means is done."""
    before = len(bench.inboxes[0].queue)
    while len(bench.inboxes[0].queue) == before or bench.instance._cursor is not None:
        bench.instance.step(lambda: True)


def test_small_batches_that_wait_behind_each_other_are_one() -> None:
    """Up to so many tuples, and up to what is neither batch nor watermark; of the watermarks the last counts."""
    bench = Bench(Pass(), inputs=1)
    bench.instance.intake.enough_rows = 4
    bench.send(0, *(batch(n) for n in range(6)), batch(6, 7, 8, 9, 10), Watermark(5), batch(11), Watermark(8), batch(12))
    bench.send(0, Watermark(9), Watermark(10), Idle(), batch(13))
    lengths = []
    while bench.inboxes[0].queue:
        waiting = len(bench.inboxes[0].queue)
        one_element(bench)
        lengths.append(waiting - len(bench.inboxes[0].queue))
    assert lengths == [4, 2, 2, 5, 1, 1]
    assert bench.instance.inputs[0].merge.combined == 10
    bench.step()
    assert [n for each in bench.take() if isinstance(each, list) for n in each] == list(range(14))


def test_tuples_do_not_wait_for_an_input_that_is_never_empty() -> None:
    """An instance with more to do than it can gives out all the same, at the end of a slice."""
    now = [0]
    bench = Bench(Pass(), inputs=1, meter=Meter(lambda: now[0]))
    bench.instance.intake.enough_rows = 1
    bench.send(0, *(batch(n) for n in range(4)))
    for moment in (0, LINGER_NS, LINGER_NS + 1):
        now[0] = moment
        one_element(bench)
    assert bench.take() == [[0, 1, 2]]
    assert len(bench.inboxes[0].queue) == 1


def test_no_channel_starves_another() -> None:
    bench = Bench(Pass(), inputs=2)
    bench.send(0, *(batch(n) for n in range(10)))
    bench.send(1, batch(100))
    for _ in range(2):
        bench.instance.step(lambda: True)
    assert not bench.inboxes[1].queue


def test_what_arrived_together_leaves_together() -> None:
    """Adaptive batching: under load large batches, idle at once."""
    bench = Bench(Pass(), inputs=1)
    bench.send(0, *(batch(n) for n in range(10)))
    bench.step()
    assert bench.take() == [list(range(10))]
    bench.send(0, batch(10))
    bench.step()
    assert bench.take() == [[10]]


def test_a_watermark_nobody_waits_for_goes_with_the_tick() -> None:
    bench = Bench(Pass(), inputs=1, grain=0)
    bench.send(0, Watermark(5))
    bench.step()
    assert bench.take() == []
    bench.instance.tick()
    assert bench.take() == ["W(5)"]


def test_fan_out_to_operators_and_outputs() -> None:
    """
           ┌─ windows ─ out0
    source ┤
           └─ out1
    """
    source = ListSource([batch(1, 2), PAUSE, batch(3, 9)])
    root, windows = Node(Pass()), Node(Windows())
    root.feed(None)
    windows.feed("in")
    root.consumers.append((windows, "in"))
    inboxes = [Inbox(f"out{i}", 1 << 20) for i in range(2)]
    windows.outputs = [EdgeOutput("q/out0", Broadcast(1), [LocalChannel(inboxes[0])], ["n"], grain=1)]
    root.outputs = [EdgeOutput("q/out1", Broadcast(1), [LocalChannel(inboxes[1])], ["n"])]
    instance = SubqueryInstance("q", "SQ1", 0, [root, windows], [], [(source, root)], windows.outputs + root.outputs, DeadLetters())
    instance.run()
    for _ in range(3):
        instance.step(FOREVER)
    got = [[show(inbox.take()[0]) for _ in range(len(inbox.queue))] for inbox in inboxes]
    assert [n for each in got[0] if isinstance(each, list) for n in each] == [1, 2, 3, 9]
    assert [n for each in got[1] if isinstance(each, list) for n in each] == [1, 2, 3, 9]
    assert got[0][-1] == got[1][-1] == "End"
    assert instance.state == "ended"
    assert (root.rows_in, root.rows_out, windows.rows_in, windows.rows_out) == (4, 4, 4, 4)
    assert watermark_of(instance) == MAX_TIME


def test_drained_means_that_the_source_ends_where_it_is() -> None:
    source = ListSource([batch(1, 2), PAUSE, batch(3)])
    root = Node(Windows())
    root.feed(None)
    inbox = Inbox("out", 1 << 20)
    root.outputs = [EdgeOutput("q/out", Broadcast(1), [LocalChannel(inbox)], ["n"])]
    instance = SubqueryInstance("q", "SQ1", 0, [root], [], [(source, root)], root.outputs, DeadLetters())
    instance.run()
    instance.step(lambda: True)
    instance.drain()
    instance.step(FOREVER)
    assert [show(inbox.take()[0]) for _ in range(len(inbox.queue))] == [[1, 2], "End"]
