"""Where the tuples of a subquery leave it: balancer → one buffer per target → channel.

A buffer goes when the input is empty or has not been for long, when it holds `batch_bytes`, or when a watermark passes a point that
a receiver waits for (a multiple of `grain`); to a neighbour that shares memory what is worth a turn goes at once, uncopied.
Batches carry the watermark that holds after them, a separate Watermark goes only to targets that got no batch (rule 4.14). What
finds no credit waits in its target's queue, in order, and blocks the instance.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from math import gcd
from typing import Protocol, runtime_checkable

import numpy as np

from cep.dataflow.channel import Channel, batch_bytes, bytes_of_each, row_bytes
from cep.dataflow.meter import Account, CreditWait, Latency
from cep.dataflow.outputs.balancer import Balancer, RouteKey
from cep.elements import (
    MAX_TIME,
    MIN_TIME,
    Barrier,
    Batch,
    Element,
    End,
    Fail,
    Idle,
    MoveBarrier,
    Stop,
    Switch,
    TableBarrier,
    Watermark,
    greatest_time,
)
from cep.kernels.columns import SMALL_TEXTS, compact, concatenated_columns, is_loose
from cep.kernels.composed import Composed, concatenated_composed, selected

BATCH_BYTES_MAX = 1 << 20
ANSWER_BYTES_MAX = 4 << 20  # the same of what leaves the query: what a message costs a client, and us, weighs most there
BATCH_BYTES_MANY = 64 << 10
FEW_TARGETS = 8
HANDED_OVER = 64 << 10  # bytes of a batch that a neighbour gets as it is; smaller ones are gathered


@runtime_checkable
class Completing(Protocol):
    """A channel to where what was sent is shown as a whole."""

    def stage(self) -> None: ...

    def finish(self) -> None: ...


class Target:
    """One downstream instance: tuples gathered for it, and elements waiting for credit."""

    def __init__(self, channel: Channel, origin: bool = True, grain: int = 0, most: int = BATCH_BYTES_MAX) -> None:
        self.channel, self.origin, self.grain, self.most = channel, origin, grain, most
        self.parts: list[Batch] = []
        self.bytes = 0
        self.queue: deque[tuple[Element, int, int, int]] = deque()  # element, size, watermark after it, since
        self.promised = MIN_TIME
        self.sent_bytes = self.handed_bytes = 0  # sent; and of batches that were handed over as they were
        self.asleep = False  # the last that it was told is that we are idle
        self.switch: Channel | None = None  # on which it goes on behind a MoveBarrier

    def add(self, batch: Batch, watermark: int, since: int, full: int) -> bool:
        """Gathers tuples until there are `full` bytes of them, and then queues them; or hands them over, uncut. Is there something
        queued?"""
        if not self.origin and batch.origin is not None:
            batch = Batch(batch.columns, batch.time, None, batch.created, batch.source)
        size = batch_bytes(batch)
        if self.channel.shares and size >= HANDED_OVER:
            self.cut(watermark, since)
            self.queue.append((batch, size, watermark, since))
            self.promised, self.asleep = watermark, False
            self.handed_bytes += size
            return True
        # What would be too large together goes apart, uncopied; and so does what is large by itself, unless a copy is of few tuples.
        alone = size >= BATCH_BYTES_MAX and not isinstance(batch.columns, Composed)
        queued = (alone or self.bytes + size > self.most) and self.cut(watermark, since)
        self.parts.append(compacted(batch))
        self.bytes += size
        return ((alone or self.bytes >= full) and self.cut(watermark, since)) or queued

    def cut(self, watermark: int, since: int) -> bool:
        """Moves what was gathered into the queue, cut by rows to the largest size of a batch. Was there anything?"""
        if not self.parts:
            return False
        batch = concatenated(self.parts)
        if self.bytes <= self.most:
            self.queue.append((batch, self.bytes, watermark, since))
        else:
            for start, end, size in pieces(batch, self.most):
                self.queue.append((batch.take(slice(start, end)), size, watermark if end == len(batch) else self.promised, since))
        self.parts, self.bytes, self.promised, self.asleep = [], 0, watermark, False
        return True

    def put(self, element: Element, watermark: int, since: int) -> None:
        self.queue.append((element, 0, watermark, since))
        self.promised, self.asleep = watermark, isinstance(element, Idle)

    def rows_waiting(self) -> int:
        """Tuples gathered and queued."""
        return sum(map(len, self.parts)) + sum(len(element) for element, *_ in self.queue if isinstance(element, Batch))

    def pump(self) -> bool:
        """Sends what has credit. Is the queue empty?"""
        while self.queue:
            element, size, watermark, since = self.queue[0]
            if isinstance(element, Batch) and not self.channel.credit.allows(size):
                return False
            self.queue.popleft()
            self.sent_bytes += size
            self.channel.send(element, size, watermark, since)
            if self.switch is not None and isinstance(element, MoveBarrier):
                self.channel, self.switch = self.switch, None
        return True


class EdgeOutput:
    """One edge out of a subquery instance. `columns` of the tuples that come, which may have more, leave, with their `origin` or
    without."""

    def __init__(
        self,
        name: str,
        balancer: Balancer,
        channels: Sequence[Channel],
        columns: Sequence[str],
        grain: int = 0,
        origin: bool = True,
        leaves_query: bool = False,
    ) -> None:
        self.name, self.balancer, self.columns, self.grain = name, balancer, tuple(columns), grain
        self.leaves_query = leaves_query  # its targets are clients and readers, not instances of its own query
        self._most = ANSWER_BYTES_MAX if leaves_query else BATCH_BYTES_MAX
        self.targets = [Target(channel, origin, grain, self._most) for channel in channels]
        self.sent_until = MIN_TIME  # the greatest event time of a tuple that was given out
        self.watermark = self.since = MIN_TIME
        self.blocked = False  # something waits for credit
        self.idle = False  # what is before it has nothing under way
        self.table_version = 0  # of the buckets of its targets
        self.discarded = 0  # tuples given out without a receiver
        self.account, self.stall = Account(), CreditWait()
        self.latency: Latency | None = None  # of answers
        self._gone_bytes = 0  # sent to targets that were given up, and at its old place
        self.batch_bytes = self._most if len(channels) <= FEW_TARGETS else BATCH_BYTES_MANY

    def add(self, batch: Batch) -> None:
        """Gathers tuples; full buffers are queued."""
        n, account = len(batch.time), self.account
        account.rows += n
        account.batches += 1
        if self.latency is not None:
            self.latency.note(batch.created, n)
        if n and (latest := greatest_time(batch.time)) > self.sent_until:
            self.sent_until = latest
        if not self.targets:
            self.discarded += n
        queued = False
        for index, part in self.balancer.route(self._leaving(batch)):
            queued |= self.targets[index].add(part, self.watermark, self.since, self.batch_bytes)
        if queued:
            self.pump()

    def _leaving(self, batch: Batch) -> Batch:
        if len(batch.columns) == len(self.columns):
            return batch
        return Batch(selected(batch.columns, self.columns), batch.time, batch.origin, batch.created, batch.source, batch.in_order)

    def advance(self, watermark: int) -> bool:
        """A watermark holds from here on; it leaves at once if a receiver waits for it. Does it?"""
        passed = self.grain > 0 and (self.watermark == MIN_TIME or watermark // self.grain > self.watermark // self.grain)
        if watermark > self.watermark:
            self.watermark = watermark
        if passed:
            self.flush()
        return passed

    def flush(self) -> None:
        """Everything gathered goes, and every target learns the watermark."""
        for target in self.targets:
            cut = target.cut(self.watermark, self.since)
            if not cut and target.promised < self.watermark < MAX_TIME:
                target.put(Idle() if self.idle else Watermark(self.watermark), self.watermark, self.since)
        self.pump()

    def rest(self) -> None:
        """It is idle: targets that do not know are told, behind what was gathered."""
        for target in self.targets:
            target.cut(self.watermark, self.since)
            if not target.asleep or target.promised < self.watermark < MAX_TIME:
                target.put(Idle(), self.watermark, self.since)
        self.pump()

    @property
    def wanted(self) -> int:
        """How far its receivers want it to come; clients, and those that it has ended for, want nothing."""
        returned = [target.channel.credit.returned for target in self.targets]
        return max((time for time in returned if time < MAX_TIME), default=MIN_TIME)

    def flush_rows(self) -> None:
        """Everything gathered goes; targets that get no tuples learn nothing yet."""
        for target in self.targets:
            target.cut(self.watermark, self.since)
        self.pump()

    def barrier(self, barrier: Barrier) -> None:
        """Everything gathered goes, and then the Barrier to every target."""
        for target in self.targets:
            target.cut(self.watermark, self.since)
            target.put(barrier, self.watermark, self.since)
        self.pump()

    def reroute(self, barrier: TableBarrier) -> None:
        """Everything gathered goes, then the Barrier to every target; what comes after it goes by its table. Heard again, it is no news."""
        if barrier.number <= self.table_version:
            return
        if isinstance(self.balancer, RouteKey):
            self.balancer.retable(barrier.table)
        self.table_version = barrier.number
        self.barrier(barrier)

    def redirect(self, barrier: MoveBarrier, new: Mapping[Channel, Channel]) -> None:
        """The receiver of each channel in `new` moves: everything gathered goes, then the Barrier, and what follows goes on the channel
        that takes its place."""
        for target in self.targets:
            if target.channel in new:
                target.cut(self.watermark, self.since)
                target.put(barrier, self.watermark, self.since)
                target.switch = new[target.channel]
        self.pump()

    def depart(self) -> None:
        """The instance moves: everything gathered goes; other instances are told, and a client follows by itself."""
        self.flush()
        if not self.leaves_query:
            for target in self.targets:
                target.put(Switch(), self.watermark, self.since)
            self.pump()

    def complete(self, ended: bool) -> list[Completing]:
        """The targets to be finished before the stream ends, or is stopped; if it ends they have all that was gathered. Raises
        ClusterError where one of them cannot be made whole."""
        there = [(target, target.channel) for target in self.targets if isinstance(target.channel, Completing)]
        for target, channel in there:
            if ended:
                target.cut(self.watermark, self.since)
                target.pump()
            channel.stage()
        return [channel for _, channel in there]

    def close(self, element: End | Stop | Fail) -> None:
        """The last element, to every target. What was gathered goes first, unless the query is given up."""
        for target in self.targets:
            if isinstance(element, End):
                target.cut(self.watermark, self.since)
            else:
                target.parts, target.bytes = [], 0
                target.queue.clear()
            target.put(element, MAX_TIME if isinstance(element, End) else self.watermark, self.since)
        self.pump()

    def pump(self) -> bool:
        """Sends what has credit. Is nothing left waiting?"""
        blocked = False
        for target in self.targets:
            if target.queue and not target.pump():
                blocked = True
        self.blocked = blocked
        return not blocked

    @property
    def handed_bytes(self) -> int:
        """Bytes of batches that targets which share memory got as they were."""
        handed = 0
        for target in self.targets:
            handed += target.handed_bytes
        return handed

    @property
    def holds(self) -> bool:
        for target in self.targets:  # noqa: SIM110  (`any` takes three times as long)
            if target.parts:
                return True
        return False

    def attach(self, channel: Channel, origin: bool = False, grain: int = 0) -> None:
        """One more target of a broadcast: a subscription; a query that reads this output may order by `origin`, and waits for
        watermarks that pass a multiple of `grain`."""
        self._retarget([*self.targets, Target(channel, origin, grain, self._most)])

    def _retarget(self, targets: list[Target]) -> None:
        self.targets[:], self.balancer.targets = targets, len(targets)
        self.blocked = any(target.queue for target in targets)
        self.grain = reduce(gcd, (target.grain for target in targets), 0)

    def detach(self, channel: Channel) -> int:
        """Gives up a target; how many tuples were still to be sent to it."""
        gone = [target for target in self.targets if target.channel is channel]
        self._gone_bytes += sum(target.sent_bytes for target in gone)
        self._retarget([target for target in self.targets if target.channel is not channel])
        return sum(target.rows_waiting() for target in gone)

    @property
    def rows(self) -> int:
        """Given out so far."""
        return self.account.rows

    @property
    def bytes(self) -> int:
        """Given to channels so far."""
        return self._gone_bytes + sum(target.sent_bytes for target in self.targets)

    def sent_before(self, size: int) -> None:
        """At its old place."""
        self._gone_bytes += size

    def returned(self) -> int:
        """The least watermark that the receivers have told us of (rule 4.10)."""
        return min((target.channel.credit.returned for target in self.targets), default=MAX_TIME)


def has_room(targets: Sequence[Target], index: int) -> bool:
    """May a batch for one of them go at once?"""
    return not targets[index].queue


def pieces(batch: Batch, most: int) -> Iterator[tuple[int, int, int]]:
    """(first row, row after the last, bytes) of pieces of `batch` that have at most `most` bytes, unless it is a single row."""
    n, each = len(batch), bytes_of_each(batch)
    if each is not None:
        step = max(most // each, 1)
        yield from ((start, min(start + step, n), (min(start + step, n) - start) * each) for start in range(0, n, step))
        return
    ends = np.cumsum(row_bytes(batch))
    start = before = 0
    while start < n:
        end = max(int(np.searchsorted(ends, before + most, "right")), start + 1)
        yield start, end, int(ends[end - 1]) - before
        start, before = end, int(ends[end - 1])


def compacted(batch: Batch) -> Batch:
    """Without the bytes that its columns of text do not look at."""
    if isinstance(batch.columns, Composed):
        return Batch(batch.columns.compacted(), batch.time, batch.origin, batch.created, batch.source)
    cut = {
        name: compact(column)
        for name, column in batch.columns.items()
        if column.data is not None and len(column.data) > SMALL_TEXTS and is_loose(column)
    }
    return Batch({**batch.columns, **cut}, batch.time, batch.origin, batch.created, batch.source) if cut else batch


def concatenated(batches: list[Batch]) -> Batch:
    """One batch of the rows of `batches` in order; columns of text keep their bytes, side by side."""
    if len(batches) == 1:
        return batches[0]
    columns = concatenated_composed([batch.columns for batch in batches]) or {
        name: concatenated_columns([b.columns[name] for b in batches]) for name in batches[0].columns
    }
    origin = None if batches[0].origin is None else np.concatenate([b.origin for b in batches if b.origin is not None])
    created = min((b.created for b in batches if b.created), default=0)
    source = batches[0].source if all(b.source == batches[0].source for b in batches) else ""
    return Batch(columns, np.concatenate([b.time for b in batches]), origin, created, source)
