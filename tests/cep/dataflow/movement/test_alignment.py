"""Barriers at an instance: queued by number, none lost, none twice, and what waits behind them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cep.dataflow.channel import Inbox
from cep.dataflow.movement.alignment import Alignment, Work
from cep.dataflow.nodes import Input, Node
from cep.dataflow.operators.operator import PassOperator
from cep.dataflow.sources.scripted import ListSource
from cep.dataflow.sources.source import Source
from cep.elements import Barrier, CheckpointBarrier, MoveBarrier, TableBarrier
from cep.errors import ProtocolError


class Notes:
    """A handler that writes down what it did; it waits until `may_go_on`."""

    def __init__(self, past: bool = True) -> None:
        self.done: list[str] = []
        self.past, self.may_go_on = past, True

    def begin(self) -> None:
        self.done.append("begin")

    def is_past(self, source: Source) -> bool:
        return self.past

    def run(self, barrier: Barrier) -> Iterator[Work | None]:
        yield self._work(barrier)
        while not self.may_go_on:
            yield None
        self.done.append(f"over {barrier.number}")

    def _work(self, barrier: Barrier) -> Work:
        self.done.append(f"work {barrier.number}")
        yield

    @property
    def waits_for(self) -> str:
        return "" if self.may_go_on else "leave to go on"


class Bench:
    """Channels `a`, `b`, `c` and perhaps a source; handlers of checkpoints and tables that take notes."""

    def __init__(self, sources: int = 0, past: bool = True) -> None:
        self.inboxes = {name: Inbox(name, 1) for name in "abc"}
        node = Node(PassOperator("n"))
        node.feed("in")
        self.sources = [ListSource([]) for _ in range(sources)]
        self.alignment = Alignment([Input(node, "in", list(self.inboxes.values()))], self.sources)
        self.checkpoints, self.tables = Notes(past), Notes()
        self.alignment.handlers |= {CheckpointBarrier: self.checkpoints, TableBarrier: self.tables}

    def came(self, names: str, barrier: Barrier) -> None:
        for name in names:
            self.alignment.came(self.inboxes[name], barrier)

    def taken(self) -> str:
        """The channels of which something may be taken."""
        return "".join(name for name, inbox in self.inboxes.items() if inbox not in self.alignment.held)

    def work(self) -> bool:
        """Is there work now? It is done then."""
        work = self.alignment.work() if self.alignment.queue else None
        for _ in work or ():
            pass
        return work is not None

    def work_all(self) -> None:
        while self.work():
            pass


def test_a_channel_waits_until_the_barrier_has_come_on_all() -> None:
    bench = Bench()
    bench.came("a", CheckpointBarrier(1))
    assert (bench.taken(), bench.work()) == ("bc", False)
    bench.came("bc", CheckpointBarrier(1))
    assert bench.taken() == ""
    bench.work_all()
    assert bench.checkpoints.done == ["begin", "work 1", "over 1"] and bench.taken() == "abc"
    assert not bench.alignment.queue and not bench.alignment.held


def test_a_channel_that_has_ended_is_not_waited_for() -> None:
    bench = Bench()
    bench.came("ab", CheckpointBarrier(1))
    assert not bench.alignment.complete()
    bench.inboxes["c"].ended = True
    assert bench.alignment.complete()


def test_one_that_is_not_greater_than_the_last_is_ignored() -> None:
    bench = Bench()
    bench.came("abc", CheckpointBarrier(5))
    bench.work_all()
    for number in (5, 4, 0):
        bench.came("abc", CheckpointBarrier(number))
        assert not bench.alignment.begin(CheckpointBarrier(number))
    assert bench.taken() == "abc" and not bench.work() and bench.checkpoints.done.count("begin") == 1


def test_one_that_comes_during_another_is_queued_behind_it() -> None:
    """
    a  ──1──2
    b  ──1─────2
    c  ────1─────2
    """
    bench = Bench()
    bench.came("ab", CheckpointBarrier(1))
    assert bench.alignment.begin(CheckpointBarrier(2))  # the sources hear of the next
    bench.came("c", CheckpointBarrier(1))
    bench.work_all()
    assert bench.checkpoints.done == ["begin", "begin", "work 1", "over 1"] and bench.taken() == "abc"
    bench.came("abc", CheckpointBarrier(2))
    bench.work_all()
    assert bench.checkpoints.done[-2:] == ["work 2", "over 2"]


def test_one_stands_for_those_before_it_that_its_sender_has_passed_over() -> None:
    """
    a  ──1────2
    b  ────2
    c  ──1────2
    """
    bench = Bench()
    bench.came("ac", CheckpointBarrier(1))
    bench.came("b", CheckpointBarrier(2))
    bench.work_all()
    assert bench.checkpoints.done == ["begin", "begin", "work 1", "over 1"]
    assert bench.taken() == "ac"  # b is behind the second
    bench.came("b", CheckpointBarrier(1))  # too late, and no news
    bench.came("ac", CheckpointBarrier(2))
    bench.work_all()
    assert bench.checkpoints.done[-1] == "over 2" and bench.taken() == "abc"


def test_kinds_have_numbers_of_their_own() -> None:
    bench = Bench()
    bench.came("abc", TableBarrier(7, (0,)))
    bench.came("abc", CheckpointBarrier(1))
    bench.work_all()
    assert (bench.tables.done[-1], bench.checkpoints.done[-1]) == ("over 7", "over 1")
    assert bench.alignment.last == {"TableBarrier": 7, "CheckpointBarrier": 1}


def test_a_handler_may_wait() -> None:
    bench = Bench()
    bench.tables.may_go_on = False
    bench.came("abc", TableBarrier(1, (0,)))
    assert (bench.work(), bench.work(), bench.alignment.works) == (True, False, True)
    assert (bench.taken(), bench.alignment.waits_for) == ("", "leave to go on")
    bench.tables.may_go_on = True
    assert (bench.work(), bench.work(), bench.alignment.works) == (True, False, False)


def test_sources_are_held_as_soon_as_they_are_past_it() -> None:
    bench = Bench(sources=1)
    bench.alignment.begin(CheckpointBarrier(1))
    assert bench.sources[0] in bench.alignment.held and bench.taken() == "abc"
    bench.came("abc", CheckpointBarrier(1))
    bench.work_all()
    assert bench.sources[0] not in bench.alignment.held


def test_a_source_that_is_not_past_it_is_waited_for() -> None:
    bench = Bench(sources=1, past=False)
    bench.came("abc", CheckpointBarrier(1))
    assert bench.sources[0] not in bench.alignment.held and not bench.alignment.complete()
    bench.checkpoints.past = True
    assert bench.alignment.complete()


@pytest.mark.parametrize("wrong, named", [(TableBarrier(1, (1,)), "of one number"), (MoveBarrier(1, "SQ2", 0, "x"), "do nothing about")])
def test_what_makes_no_sense_is_refused(wrong: Barrier, named: str) -> None:
    bench = Bench()
    bench.came("a", TableBarrier(1, (0,)))
    with pytest.raises(ProtocolError, match=named):
        bench.came("b", wrong)


def test_two_kinds_in_opposite_orders_are_a_mistake_and_not_a_wait() -> None:
    bench = Bench()
    bench.came("a", TableBarrier(1, (0,)))
    with pytest.raises(ProtocolError, match="channel 'b'"):
        bench.came("b", CheckpointBarrier(1))


def test_it_says_which_channels_it_waits_for() -> None:
    bench = Bench()
    bench.came("ab", CheckpointBarrier(4))
    assert bench.alignment.waits_for == "the barrier of a checkpoint on c"
