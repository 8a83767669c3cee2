"""Publishers that decide while a query runs: silent for a while, awake again, gone. What each has said is told to the reference.

They do what `driver.streams.publisher_core` does, at readers in this process.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

from cep.dataflow.channel import batch_bytes
from cep.dataflow.local import LocalRun, Outcome
from cep.dataflow.sources.lateness import stamp_of
from cep.dataflow.sources.published import PublishedSource
from cep.dataflow.sources.publishers import Closing, Published
from cep.elements import MIN_TIME, Element, Idle, Watermark
from cep.model.streams import Stream
from cep.plan.moving import why_it_stays
from cep.plan.physical import PhysicalPlan
from tests.reference.rows import Advance, Awake, Mark, Partition
from tests.reference.rows import Idle as Silence
from tests.strategies import Execution
from tests.support.relocating import Relocating
from tests.support.running import NOW_US, cut_of, limits


class Live:
    """One publisher of a stream that `run` reads."""

    def __init__(self, run: LocalRun, stream: Stream, partition: Partition, batch_rows: Sequence[int]) -> None:
        self.run, self.stream, self.partition, self.disorder = run, stream, partition, stream.disorder or 0
        self.name = f"p{partition.index}"
        self.batches = list(cut_of(stream, partition, batch_rows))[::-1]
        self.max_time, self.record = MIN_TIME, 0
        self.idle = self.gone = self.vanished = False
        self.marks: list[tuple[int, Mark]] = []

    @property
    def readers(self) -> list[PublishedSource]:
        """Where they are now."""
        sources = [source for instance in self.run.instances for source, _ in instance.sources]
        return [source for source in sources if isinstance(source, PublishedSource) and source.stream == self.stream.name]

    def sent(self) -> Partition:
        """What it has said so far."""
        return replace(self.partition, rows=self.partition.rows[: self.record], marks=tuple(self.marks))

    def send(self, choose: random.Random, told: float = 1.0) -> None:
        """`told`: how likely a reader that gets no rows hears of the watermark at once."""
        self._wake()
        record, batch = self.batches.pop()
        published = Published(batch, self.max_time, record)
        known = batch.time[batch.time > MIN_TIME]
        self.max_time, self.record = max([self.max_time, *known.tolist()]), record + len(batch)
        mine = choose.randrange(len(self.readers))
        for reader in range(len(self.readers)):
            if reader == mine:
                self._put(reader, published, batch_bytes(batch))
            elif choose.random() < told:
                self._put(reader, Watermark(self.stamp))

    def sleep(self) -> None:
        if not self.idle:
            self.idle = True
            self.marks.append((self.record, Silence()))
            for reader in range(len(self.readers)):
                self._put(reader, Idle())

    def advance(self, to: int) -> None:
        self._wake()
        self.marks.append((self.record, Advance(to)))
        self.max_time = max(self.max_time, to + self.disorder)
        for reader in range(len(self.readers)):
            self._put(reader, Watermark(self.stamp))

    def vanish(self) -> None:
        """Its process is gone; its readers notice once they have taken what it sent."""
        for source in self.readers:
            source.vanish(self.name)
            if self.name in source.vanished:
                source.is_complete(self.name)
        self.gone = self.vanished = all(self.name not in source.publishers for source in self.readers)

    def close(self, last: bool, others: frozenset[str]) -> None:
        self.gone = True
        for reader in range(len(self.readers)):
            self._put(reader, Closing(self.name, last, others))

    @property
    def stamp(self) -> int:
        return stamp_of(self.max_time, self.disorder)

    def _wake(self) -> None:
        if self.idle:
            self.idle = False
            answer = max(source.wake(self.name) for source in self.readers)
            if answer > MIN_TIME:
                self.max_time = max(self.max_time, answer + self.disorder)
                self.marks.append((self.record, Awake(answer)))
            for reader in range(len(self.readers)):
                self._put(reader, Watermark(self.stamp))

    def _put(self, reader: int, element: Element | Published | Closing, size: int = 0) -> None:
        inbox = self.readers[reader].publishers[self.name].inbox
        inbox.accept(element, size, inbox.sequence, self.stamp, MIN_TIME)


def opened(made: PhysicalPlan, inputs: Mapping[str, Sequence[Partition]], execution: Execution) -> tuple[LocalRun, list[Live]]:
    """A run of `made`, and the publishers of its streams, which have said nothing yet."""
    scripts: dict[str, dict[str, dict[int, list[tuple[object, int, int]]]]]
    scripts = {name: {f"p{part.index}": {} for part in inputs[name]} for name in made.streams}
    run = LocalRun(made, scripts, execution.credit_bytes, lambda: NOW_US, **limits(execution))
    lives = [Live(run, stream, part, execution.batch_rows) for name, stream in made.streams.items() for part in inputs[name]]
    return run, lives


def run_live(run: LocalRun, lives: list[Live], execution: Execution, dying: bool) -> Outcome:
    """Until all have sent everything, or are gone: one says something, then some turns of the engine."""
    choose = random.Random(execution.seed)
    left = [live for live in lives if live.batches]
    while left:
        _speak(choose.choice(left), choose, dying)
        _turns(run, choose, choose.choice((0, 0, 1, 3, 20)))
        if choose.random() < 0.1:
            _move_one(run, choose)
        left = [live for live in lives if live.batches and not live.gone]
    for live in choose.sample(lives, len(lives)):
        if not live.gone:
            _close(live, lives)
            _turns(run, choose, choose.randint(0, 3))
    for instance in run.instances if any(live.gone for live in lives) else ():
        for source, _ in instance.sources:
            _end(source)
    return run.run(execution.seed)


def _speak(live: Live, choose: random.Random, dying: bool) -> None:
    match choose.choices(("send", "sleep", "advance", "vanish"), (6, 4, 1, dying and 0.5))[0]:
        case "send":
            live.send(choose, 0.5)
        case "sleep":
            live.sleep()
        case "advance":
            live.advance(max(live.stamp, -(2**40)) + choose.choice((-5, 0, 1, 3)))
        case "vanish":
            live.vanish()


def _move_one(run: LocalRun, choose: random.Random) -> None:
    """An instance goes on elsewhere; publishers say nothing meanwhile."""
    there = [each for each in run.instances if each.state == "running" and why_it_stays(run.plan, each.subquery) is None]
    if there:
        relocating = Relocating(run, choose.choice(there), run.wires.move + 1)
        for _ in range(10_000):
            if relocating.is_over():
                return
            run.turn(choose)
        raise RuntimeError("an instance that moves never comes to its new place")


def _turns(run: LocalRun, choose: random.Random, count: int) -> None:
    for _ in range(count):
        run.turn(choose)


def _close(live: Live, lives: Sequence[Live]) -> None:
    """The last one of its stream ends it."""
    others = [each for each in lives if each.stream.name == live.stream.name and each is not live]
    live.close(all(each.gone for each in others), frozenset(each.name for each in others if each.vanished))


def _end(source: object) -> None:
    """A stream all of whose publishers have vanished does not end; it is drained."""
    if isinstance(source, PublishedSource) and not source.publishers and not source.ended:
        source.ended, source.watermark, source.idle = True, 2**63 - 1, False
