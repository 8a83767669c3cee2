"""A source that is another query's output stream (rules 4.4, 4.13, 5.9).

Rules:

1. There is a channel from every instance that produces the stream; the watermark is the least of theirs.
2. Nothing is taken before each of them has said how far it had come when it was asked, for only then is `since` known: 1 + the
   greatest event time that any of them had given out. So a query deployed before the other one starts misses nothing.
3. Rows come with their origins and are not judged again: nothing becomes late after a source.
4. End of all ends the stream. Stop or Fail of one ends nothing: the stream is `lost`, its watermark stands still for ever and
   `waits_for` says why.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from cep.dataflow.channel import Inbox, WatermarkMerge, watermark_after
from cep.dataflow.sources.lateness import PARTITION_BITS, LateRows
from cep.dataflow.sources.source import Position
from cep.elements import MAX_TIME, MIN_TIME, Batch, Element, Fail, Idle, Stop
from cep.errors import QueryFailed


class QuerySource:
    """Rows of `stream`, which instances `producers` of `query` put out.

    Args:
        renumbering: source index in the rows' origins -> index here.
    """

    left = between_blocks = False  # it stays where it is

    def __init__(self, stream: str, query: str, producers: Iterable[int], renumbering: Sequence[int] = ()) -> None:
        self.stream, self.query = stream, query
        self.expected = set(producers)
        self.origin = True  # they come with it, if this query asked for it
        moved = tuple(renumbering) != tuple(range(len(renumbering)))
        self.renumbering = np.array(renumbering, np.int64) << PARTITION_BITS if moved else None
        self.inboxes: list[Inbox] = []
        self.merge = WatermarkMerge()
        self.watermark = self.since = MIN_TIME
        self.ended = self.released = self.idle = False
        self.lost = ""  # why nothing comes any more
        self.late_rows = self.before_since = self.odd_times = 0
        self.late = LateRows()
        self._turn = 0

    # Producers

    def attach(self, producer: int, inbox: Inbox, sent_until: int) -> None:
        """An instance sends to `inbox` from now on. `sent_until`: the greatest event time that it has given out so far."""
        self.expected.discard(producer)
        self.inboxes.append(inbox)
        self.merge.add(inbox.name)
        inbox.merge = self.merge
        self.begin(sent_until)

    def begin(self, sent_until: int) -> None:
        """An instance has given out rows up to that time, which are not sent to us."""
        self.since = max(self.since, sent_until + 1 if sent_until > MIN_TIME else MIN_TIME)

    def lose(self, why: str) -> None:
        """The stream will not go on, and has not ended either."""
        if not self.ended:
            self.lost = self.lost or why
            self.expected.clear()
            self._discard()

    def release(self) -> None:
        self.released = True
        self.expected.clear()
        self._discard()

    # Rows

    def read(self) -> Batch | None:
        if self.lost:
            self._discard()
        waiting = [inbox for inbox in self.inboxes if inbox.queue] if not self.expected else []
        while waiting and not self.lost:
            self._turn += 1
            batch = self._take(waiting[self._turn % len(waiting)])
            if batch is not None:
                return batch
            waiting = [inbox for inbox in waiting if inbox.queue]
        return None

    def _take(self, inbox: Inbox) -> Batch | None:
        element, carried = inbox.take()
        self.since = max(self.since, inbox.since)
        batch = self._mine(element) if isinstance(element, Batch) else None
        self._note(inbox, element, watermark_after(element, carried))
        return batch

    def _note(self, inbox: Inbox, element: Element, watermark: int) -> None:
        match element:
            case Fail(subquery, instance, cause):
                self.lose(str(QueryFailed(self.query, subquery, instance, cause)))
            case Stop():
                self.lose(stopped(self.query))
            case Idle():
                self.merge.sleep(inbox.name, watermark)
            case _:
                self.merge.update(inbox.name, watermark)
        if not self.lost:
            self.watermark = self.merge.combined
            self.ended = not self.expected and all(time == MAX_TIME for time in self.merge.times.values())
        if self.merge.idle or self.idle:
            self._note_idle()

    def _note_idle(self) -> None:
        """Those that are idle are asked to come as far as the others."""
        self.idle = self.merge.asleep and not (self.expected or self.lost or self.ended)
        awake = self.merge.awake()
        if awake is not None:
            self.follow(awake)

    def follow(self, wanted: int) -> bool:
        """Asks those that put the stream out; what they promise comes as any watermark does. So nothing is promised here."""
        self.merge.wanted = max(self.merge.wanted, wanted)
        return False

    def position(self) -> Position:
        return {"watermark": self.watermark, "since": self.since, "ended": self.ended, "lost": self.lost}

    def restore(self, positions: Sequence[Position]) -> None:
        """Producers that have attached send what it had not taken."""
        (position,) = positions
        self.watermark, self.since = position["watermark"], position["since"]
        self.ended, self.lost = position["ended"], position["lost"]

    def _mine(self, batch: Batch) -> Batch | None:
        """Those of its rows that are this query's, with origins as this query counts sources."""
        if self.since > MIN_TIME and len(batch) and int(batch.time.min()) < self.since:
            kept = np.flatnonzero(batch.time >= self.since)
            self.before_since += len(batch) - len(kept)
            batch = batch.take(kept)
        if not len(batch):
            return None
        return batch if self.renumbering is None or batch.origin is None else self._renumbered(batch, batch.origin)

    def _renumbered(self, batch: Batch, origin: np.ndarray) -> Batch:
        """A first word that is negative is a hash, and stays (`cep.compile.aggregate.results.origins`)."""
        assert self.renumbering is not None
        first = origin[:, 0]
        sources = np.where(first < 0, 0, first >> PARTITION_BITS)
        partitions = first & ((1 << PARTITION_BITS) - 1)
        moved = np.column_stack((np.where(first < 0, first, self.renumbering[sources] | partitions), origin[:, 1:]))
        return Batch(batch.columns, batch.time, moved, batch.created)

    def _discard(self) -> None:
        """Takes what has come, so that nothing waits for it."""
        for inbox in self.inboxes:
            while inbox.queue:
                inbox.take()

    def waits_for(self, now_us: int) -> str:
        of = f"stream {self.stream!r} of query {self.query!r}"
        if self.lost:
            return f"nothing more of {of}: {self.lost}"
        if self.ended:
            return f"nothing: {of} has ended"
        if self.expected:
            return f"{of}: {len(self.expected)} of the instances that produce it have not answered"
        return f"{of}, channel {self.merge.slowest()}"


def stopped(query: str) -> str:
    return f"query {query!r} was stopped"
