"""Sources: where rows are read, stamped and judged late (DESIGN 4.7, 4.10, 4.11).

Late is decided here, once, per partition, from the data alone; after the source nothing becomes late. A source is polled: it
answers a batch of rows on time, or None when it has nothing now.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from cep.dataflow.channel import Inbox, WatermarkMerge, watermark_after
from cep.dataflow.dead_letters import DeadLetters, Letter
from cep.dataflow.output import concat
from cep.elements import MAX_TIME, MIN_TIME, Barrier, Batch, Idle, describe_time, greatest
from cep.kernels.text import late, late_among, on_time
from cep.model.limits import ANY_TIME, odd_time
from cep.values import value

Clock = Callable[[], int]  # µs since the epoch

PARTITION_BITS = 48


class Source(Protocol):
    origin: bool  # its rows have their origins; may be set while it runs
    watermark: int  # the least event time it can still emit
    ended: bool
    idle: bool  # nobody is to be waited for
    since: int  # rows before it are not this query's (DESIGN 5.9)
    late_rows: int
    odd_times: int  # rows whose event time is none that the stream allows; at least so many
    late: LateRows

    @property
    def left(self) -> bool:
        """Of one that moves: has it taken everything that was on its way here?"""

    def poll(self) -> Batch | None:
        """Rows on time; none at all where all that it read was late or bad; None where there is nothing to read now."""

    def follow(self, wanted: int) -> bool:
        """Being idle, it is asked to come as far. Does it promise more than before?"""

    def release(self) -> None:
        """Nothing is asked of it any more: it lets go of what it holds open."""

    def waits_for(self, now_us: int) -> str:
        """For `status`: what holds the watermark back."""


def stamp_of(max_time: int, disorder: int) -> int:
    """The event time below which a row is late."""
    return max(max_time - disorder, MIN_TIME) if max_time > MIN_TIME + disorder else MIN_TIME


@dataclass(frozen=True, slots=True)
class Judged:
    """Which rows of a batch are on time, and the greatest event time after it."""

    kept: np.ndarray | None  # int64[m], None: all
    max_time: int
    late: int


class LateRows:
    """Rows that came too late, until they are taken; kept only where the query has a stream for them."""

    def __init__(self) -> None:
        self.wanted = False
        self.batches: list[Batch] = []

    def keep(self, batch: Batch, judged: Judged, since: int = MIN_TIME) -> None:
        """Those of `batch`, of which `judged` says the rest."""
        if self.wanted and judged.kept is not None:
            late = np.delete(np.arange(len(batch)), judged.kept)
            late = late[batch.time[late] >= since]
            self.batches += [batch.take(late)] if len(late) else []

    def take(self) -> list[Batch]:
        taken, self.batches = self.batches, []
        return taken


#: What a source answers that read only what was late or bad.
NONE_ON_TIME = Batch({}, np.zeros(0, np.int64))


#: The first and the last event time that a row may have, µs.
Range = tuple[int, int]


def in_range(times: np.ndarray, allowed: Range) -> np.ndarray:
    """bool[n]: which are event times; MIN_TIME stands for none."""
    inside: np.ndarray = (times >= allowed[0]) & (times <= allowed[1])
    return inside


def greatest_of(times: np.ndarray, allowed: Range) -> int:
    """The greatest event time among `times`, int64[n]; MIN_TIME where there is none."""
    if len(times) and np.minimum.reduce(times) >= allowed[0] and (found := greatest(times)) <= allowed[1]:
        return found
    return int(times[in_range(times, allowed)].max(initial=MIN_TIME))


NONE_BAD = np.zeros(0, np.int64)


def judge(time: np.ndarray, max_time: int, disorder: int, bad_rows: np.ndarray = NONE_BAD, bad_times: np.ndarray = NONE_BAD) -> Judged:
    """Applies the rule of lateness to rows of one partition in order; `bad_*` as in `cep.compile.text.Parsed`."""
    mask = np.empty(len(time), np.uint8)
    if len(bad_rows):
        after = int(late_among(time, max_time, disorder, mask, bad_rows, bad_times))
    else:
        after = int(late(time, max_time, disorder, mask))
    rows = int(np.count_nonzero(mask.view(bool)))
    return Judged(np.flatnonzero(mask == 0) if rows else None, after, rows)


def origin_of(source_index: int, partition: int, records: np.ndarray) -> np.ndarray:
    """int64[n, 2]: (source, partition) in one word, the record's number in its partition in the other."""
    origin = np.empty((len(records), 2), np.int64)
    origin[:, 0] = source_index << PARTITION_BITS | partition
    origin[:, 1] = records
    return origin


@value
class Published:
    """A batch as a publisher sent it: rows on time and late ones, in the order of its partition. If they are not all of that order
    (`cep.dataflow.replicas`), the number of each is its origin."""

    batch: Batch
    max_time: int  # the partition's greatest event time before the first row
    record: int  # the first row's number in the partition


@dataclass(frozen=True, slots=True)
class Closing:
    """The last word of a publisher; `last`: the stream ends with it, if all `others` that count as open have vanished."""

    name: str
    last: bool
    others: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Refused:
    """A publisher sent what is no batch: it counts as closed, and as vanished, so it does not end its stream."""

    reason: str


@dataclass(slots=True)
class Vanished:
    """A publisher that was silent for so long that it counts as closed, and how much of what it sent had come by then.

    It may only have been stopped or cut off, and believe that it has sent more. `missing`: it has. `complete`: it has not, as it says
    itself, or its process has ended.
    """

    endpoint: str
    received: int  # bytes, as its channel counts them
    record: int  # the number of the first row that was not taken
    missing: bool = False
    complete: bool = False


@dataclass(slots=True)
class Publisher:
    """One open publisher, a partition of the stream."""

    name: str
    partition: int
    inbox: Inbox
    described: str = ""  # where its rows were read, for dead letters
    last_row_us: int = 0  # when its last batch came, by the clock; 0: none yet
    watermark: int = MIN_TIME
    idle: bool = False
    gone_on: bool = False  # it sends to where the source has moved, and what it sent here has been taken


#: Letters cost microseconds each, and all rows of a batch may be bad.
LETTERS_AT_ONCE = 1000
#: Batches of a publisher are taken together up to so many rows.
ENOUGH_ROWS = 1024


class PublishedSource:
    """Rows that publishers send. The watermark is the least of the open publishers' that are not idle; with none open it stands still.

    Where all are idle it promises what others want of it (`follow`); and `may_idle`, the stream declares when that is, so it does when all
    have closed without ending the stream. What is told of a publisher before it has opened again, or awakes, is true then: its stamp starts
    at the watermark that it is answered with.

    `expected` were open when the query was deployed. Nothing is taken before each of them has opened here, for only then is
    `since` known: 1 + the greatest event time that any of them had sent (DESIGN 5.9).
    """

    def __init__(
        self,
        stream: str,
        disorder: int,
        source_index: int,
        origin: bool,
        dead_letters: DeadLetters,
        expected: Iterable[str] = (),
        times: Range = ANY_TIME,
        may_idle: bool = False,
    ) -> None:
        self.times = times
        self.stream, self.disorder, self.source_index, self.origin = stream, disorder, source_index, origin
        self.dead_letters = dead_letters
        self.expected = set(expected)
        self.expected_from_us = 0  # since when they are waited for
        self.ending = False  # the last publisher has closed; others that closed before it may be heard of after it
        self.records: dict[str, int] = {}  # by publisher: the number of its next row, for one that comes again
        self.publishers: dict[str, Publisher] = {}
        self.order: deque[str] = deque()
        self.merge = WatermarkMerge()
        self.watermark = self.since = MIN_TIME
        self.ended = self.idle = False
        self.may_idle = may_idle
        self.had_any = False  # a publisher
        self.late_rows = self.before_since = self.odd_times = 0
        self.enough_rows = ENOUGH_ROWS
        self.vanished: dict[str, Vanished] = {}
        self.late = LateRows()

    def open(self, publisher: Publisher, sent_until: int = MIN_TIME) -> int:
        """Registers it at the watermark this source answers with. `sent_until`: the greatest event time it has sent so far."""
        if publisher.name in self.expected:
            self.expected.discard(publisher.name)
            self.since = max(self.since, min(sent_until, MAX_TIME - 1) + 1 if sent_until > MIN_TIME else MIN_TIME)
        self.vanished.pop(publisher.name, None)
        publisher.watermark = self.watermark
        publisher.described = f"stream {self.stream!r}, publisher {publisher.name!r}"
        self.publishers[publisher.name] = publisher
        self.order.append(publisher.name)
        self.merge.add(publisher.name, self.watermark)
        self.had_any = True
        self._note_idle()
        return self.watermark

    def wake(self, name: str) -> int:
        """A publisher that was idle is about to send again. The watermark that it is registered at."""
        queue = self.publishers[name].inbox.queue
        for i in reversed(range(len(queue))):
            if isinstance(queue[i][0], Idle):
                del queue[i]  # it has come, and was not taken yet
        self._rouse(self.publishers[name])
        return self.watermark

    def _rouse(self, publisher: Publisher) -> None:
        publisher.idle = False
        self.merge.times[publisher.name] = max(self.merge.times.get(publisher.name, MIN_TIME), self.watermark)
        self._note_idle()

    def fall_asleep(self, names: Iterable[str]) -> None:
        """These were idle where the source comes from."""
        for name in names:
            if name in self.publishers:
                self.publishers[name].idle = True
                self.merge.times.pop(name, None)
        self._note_idle()

    def _sleep(self, publisher: Publisher) -> None:
        """Others do not wait for it. What has come behind the Idle already, as where all is sent once more, is taken in the same breath
        (`poll`), before anything is promised."""
        publisher.idle = True
        self.merge.times.pop(publisher.name, None)
        self._recombine()

    def _recombine(self) -> None:
        """Somebody is not waited for any more."""
        if self.merge.recombine():
            self.watermark = self.merge.combined
        self._note_idle()

    def _note_idle(self) -> None:
        there = self.publishers.values()
        quiet = all(publisher.idle for publisher in there) and (bool(there) or (self.may_idle and self.had_any))
        self.idle = quiet and not (self.expected or self.ended)

    def follow(self, wanted: int) -> bool:
        if not self.idle or wanted <= self.watermark:
            return False
        self.watermark = self.merge.combined = wanted
        return True

    def close(self, name: str) -> None:
        """What it sent has been taken; its watermark binds nobody any more."""
        self.publishers.pop(name, None)
        self.order = deque(n for n in self.order if n != name)
        self.merge.times.pop(name, None)
        self._recombine()
        self.finish(last=False)

    def finish(self, last: bool, others: frozenset[str] = frozenset()) -> None:
        """A publisher has said its last word; see `Closing`."""
        self.ending |= last and others <= self.vanished.keys()
        if self.ending and not self.publishers and not self.in_doubt:
            self.ended, self.watermark, self.idle = True, MAX_TIME, False

    @property
    def in_doubt(self) -> dict[str, Vanished]:
        """Publishers of which rows may be missing: with them the stream does not end."""
        return {name: each for name, each in self.vanished.items() if not each.complete}

    def is_complete(self, name: str) -> None:
        """A publisher that had vanished has sent no more than what was taken."""
        self.vanished[name].complete = True
        self.finish(last=False)

    @property
    def awaits_doubt(self) -> bool:
        """It would have ended, were it known to be complete."""
        return self.ending and not self.publishers and not self.ended

    @property
    def left(self) -> bool:
        return self.ended or (not self.expected and all(publisher.gone_on for publisher in self.publishers.values()))

    def poll(self) -> Batch | None:
        if self.expected:
            return None
        while (publisher := self._next_waiting()) is not None:
            batches = self._take_all(publisher)
            if batches:
                return concat(batches)
        return NONE_ON_TIME if self.late.batches else None

    def _take_all(self, publisher: Publisher) -> list[Batch]:
        """Rows on time of what has come meanwhile: what follows costs as much for a batch of few rows as for one of many."""
        batches: list[Batch] = []
        rows, queue = 0, publisher.inbox.queue
        while queue and rows < self.enough_rows:
            batch = self._take(publisher)
            if batch is not None:
                batches.append(batch)
                rows += len(batch.time)
        return batches

    def _next_waiting(self) -> Publisher | None:
        """In turn, so that no publisher starves another."""
        order = self.order
        for _ in range(len(order)):
            order.rotate(-1)
            publisher = self.publishers[order[-1]]
            if publisher.inbox.queue:
                return publisher
        return None

    def _take(self, publisher: Publisher) -> Batch | None:
        element, after = publisher.inbox.take()
        batch = None
        if isinstance(element, Published):
            batch = self._on_time(publisher, element)
        elif isinstance(element, Refused):
            self._give_up(publisher.name, element.reason)
            return None
        elif isinstance(element, Closing):
            self.close(element.name)
            self.finish(element.last, element.others)
            return None
        else:
            after = watermark_after(element, after)
            publisher.gone_on = isinstance(element, Barrier)
        if publisher.idle:
            if publisher.gone_on:
                return None  # it is idle at the new place, too
            self._rouse(publisher)
        if self.merge.update(publisher.name, after):
            self.watermark = self.merge.combined
        if batch is None and isinstance(element, Idle):
            self._sleep(publisher)
        return batch

    def _on_time(self, publisher: Publisher, published: Published) -> Batch | None:
        batch = published.batch
        first, behind = published.record, published.record + len(batch.time)
        if batch.origin is None and self.since == MIN_TIME and on_time(batch.time, published.max_time, self.disorder, *self.times):
            if behind > self.records.get(publisher.name, 0):
                self.records[publisher.name] = behind
            return self._numbered(publisher, batch, np.arange(first, behind) if self.origin else NONE_BAD)
        records = np.arange(first, behind) if batch.origin is None else batch.origin[:, 0]
        self.records[publisher.name] = max(self.records.get(publisher.name, 0), int(records.max(initial=-1)) + 1)
        known = in_range(batch.time, self.times)
        if not known.all():
            self._refuse(publisher, records[~known], batch.time[~known])
            batch, records = batch.take(np.flatnonzero(known)), records[known]
        judged = judge(batch.time, published.max_time, self.disorder)
        self.late_rows += judged.late
        self.late.keep(batch, judged, self.since)
        if judged.kept is not None:
            batch, records = batch.take(judged.kept), records[judged.kept]
        if self.since > MIN_TIME and len(batch) and int(batch.time.min()) < self.since:
            kept = np.flatnonzero(batch.time >= self.since)
            self.before_since += len(batch) - len(kept)
            batch, records = batch.take(kept), records[kept]
        return self._numbered(publisher, batch, records)

    def _numbered(self, publisher: Publisher, batch: Batch, records: np.ndarray) -> Batch | None:
        """With origins where they are read; None if it is empty."""
        if not len(batch.time):
            return None
        origin = origin_of(self.source_index, publisher.partition, records) if self.origin else None
        return Batch(batch.columns, batch.time, origin, batch.created, publisher.described)

    def _refuse(self, publisher: Publisher, records: np.ndarray, times: np.ndarray) -> None:
        self.odd_times += int(np.count_nonzero(times != MIN_TIME))
        self.dead_letters.count_only(self.stream, max(len(records) - LETTERS_AT_ONCE, 0))
        for record, time in zip(records[-LETTERS_AT_ONCE:].tolist(), times[-LETTERS_AT_ONCE:].tolist(), strict=True):
            reason = "event time is NULL" if time == MIN_TIME else out_of_range(time, self.times)
            self.dead_letters.put(Letter(self.stream, reason, publisher.described, f"record {record}"))

    def release(self) -> None:
        self.expected.clear()
        self.idle = False

    def give_up_expected(self, now_us: int, silence_us: int) -> None:
        """Publishers that were open when the query was deployed, and have not opened here for so long, count as closed."""
        self.expected_from_us = self.expected_from_us or now_us
        if now_us - self.expected_from_us > silence_us:
            # What they sent was for others: nothing of it is missing here.
            self.vanished |= {name: Vanished("", 0, 0, complete=True) for name in sorted(self.expected)}
            self.expected.clear()
            self._note_idle()

    def _give_up(self, name: str, reason: str) -> None:
        """It was told so; what else it has sent is no loss that nobody knows of."""
        self.vanished[name] = Vanished("", 0, self.records.get(name, 0), complete=True)
        self.tell_refused(self.publishers[name], reason)
        self.close(name)

    def tell_refused(self, publisher: Publisher, reason: str) -> None:
        self.dead_letters.put(Letter(self.stream, f"closed: {reason}", publisher.described))

    def vanish(self, name: str, endpoint: str = "") -> None:
        """A publisher whose process is silent counts as closed, once what it sent is taken, and never ends the stream."""
        if name in self.publishers and not self.publishers[name].inbox.queue:
            self.vanished[name] = Vanished(endpoint, self.publishers[name].inbox.received, self.records.get(name, 0))
            self.close(name)

    def doubt(self) -> str:
        """Why the stream cannot end."""
        silent = "was silent for so long that it counts as closed"
        found = "; ".join(f"publisher {name!r} {silent}, {_up_to(each)}" for name, each in self.in_doubt.items())
        return f"stream {self.stream!r} is not known to be complete: {found}"

    def waits_for(self, now_us: int) -> str:
        if self.ended:
            return "nothing: the stream has ended"
        if self.expected:
            return f"publishers of stream {self.stream!r} that were open when it was deployed: {', '.join(sorted(self.expected))}"
        if not self.publishers:
            gone = f" (vanished: {', '.join(self.vanished)})" if self.vanished else ""
            if self.idle:
                return f"nobody of stream {self.stream!r}, of which no publisher is open{gone}; it comes as far as what is read beside it"
            return f"a publisher of stream {self.stream!r}: none is open{gone}"
        idle = [name for name, publisher in self.publishers.items() if publisher.idle]
        if len(idle) == len(self.publishers):
            return f"nobody of stream {self.stream!r}: idle are {_some(idle)}; it comes as far as what is read beside it"
        slowest = self.publishers[str(self.merge.slowest())]
        ago = f"last row {(now_us - slowest.last_row_us) / 1e6:.0f} s ago" if slowest.last_row_us else "no row yet"
        return f"publisher {slowest.name} of stream {self.stream!r}, {ago}{f'; idle: {_some(idle)}' if idle else ''}"


def _some(names: list[str], most: int = 5) -> str:
    """For a person to read."""
    return ", ".join([*names[:most], *[f"{len(names) - most} more"] * (len(names) > most)])


def _up_to(vanished: Vanished) -> str:
    taken = f"its rows up to number {vanished.record - 1} were taken" if vanished.record else "none of its rows was taken"
    return f"{taken}, and it {'sent' if vanished.missing else 'may have sent'} more"


def out_of_range(time: int, allowed: Range) -> str:
    """For a dead letter."""
    return f"{odd_time(allowed)}: got {describe_time(time)}"


#: Tokens of `ListSource`, put between batches.
EOF, ABORT, PAUSE = "EOF", "ABORT", "PAUSE"


class ListSource:
    """The shipped double: a list of batches of one partition and tokens. PAUSE answers None once, ABORT raises, EOF (or the end) ends."""

    left = idle = False
    odd_times = 0

    def __init__(self, items: list[Batch | str], disorder: int = 0, source_index: int = 0, partition: int = 0) -> None:
        self.items: Iterator[Batch | str] = iter(items)
        self.disorder, self.source_index, self.partition, self.origin = disorder, source_index, partition, True
        self.max_time = self.watermark = self.since = MIN_TIME
        self.ended, self.late_rows, self.record = False, 0, 0
        self.late = LateRows()

    def poll(self) -> Batch | None:
        item = next(self.items, EOF)
        if item == ABORT:
            raise RuntimeError("the source was told to abort")
        if item == PAUSE:
            return None
        if not isinstance(item, Batch):
            self.ended, self.watermark = True, MAX_TIME
            return None
        records = np.arange(self.record, self.record + len(item), dtype=np.int64)
        self.record += len(item)
        judged = judge(item.time, self.max_time, self.disorder)
        self.max_time, self.late_rows = judged.max_time, self.late_rows + judged.late
        self.watermark = stamp_of(self.max_time, self.disorder)
        self.late.keep(item, judged)
        kept = np.arange(len(item)) if judged.kept is None else judged.kept
        origin = origin_of(self.source_index, self.partition, records[kept])
        return Batch(item.take(kept).columns, item.time[kept], origin, item.created)

    def follow(self, wanted: int) -> bool:
        return False

    def release(self) -> None:
        self.items = iter(())

    def waits_for(self, now_us: int) -> str:
        return "the next item of the list"
