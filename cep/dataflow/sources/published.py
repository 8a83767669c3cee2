"""The source of a stream that publishers send (rules 4.7, 4.11).

Each publisher is a partition with an inbox of its own. The source takes what has come, judges which rows are late by the stamp that came
with them, and combines the publishers' watermarks. Publishers come, fall idle, close and vanish while it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from cep.dataflow.channel import watermark_after
from cep.dataflow.dead_letters import DeadLetters, Letter
from cep.dataflow.outputs.output import concatenated
from cep.dataflow.sources.lateness import NONE_BAD, LateRows, Range, in_range, judge, origin_of, out_of_range
from cep.dataflow.sources.publishers import (
    Closing,
    OpenPublishers,
    Owed,
    Published,
    PublisherPartition,
    PublisherRefused,
    TakenUntil,
    Vanished,
    VanishedPublishers,
)
from cep.dataflow.sources.source import ENOUGH_ROWS, NONE_ON_TIME, Position
from cep.elements import MAX_TIME, MIN_TIME, Barrier, Batch, Idle
from cep.errors import ClusterError
from cep.kernels.lateness import on_time
from cep.model.limits import ANY_TIME

#: Letters cost microseconds each, and all rows of a batch may be bad.
LETTERS_AT_ONCE = 1000


class PublishedSource:
    """Rows that publishers send. One class, for each element that is taken moves rows, watermark and the publishers that are open together.

    The watermark is the least of the open publishers' that are not idle; with none open it stands still.

    When all publishers are idle, the source promises any watermark that its receiver asks for (`follow`). With `may_idle` (the stream
    declares `idle_after`) it does so too when all have closed without ending the stream. No promise is broken by a publisher that opens or
    awakes later: its stamp starts at the watermark that the source answers it with.

    `expected` were open when the query was deployed. Nothing is taken before each of them has opened here, for only then is
    `since` known: 1 + the greatest event time that any of them had sent (rule 5.9).

    `columns` are read of its rows; None: all.
    """

    between_blocks = False

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
        columns: Sequence[str] | None = None,
    ) -> None:
        self.times, self.columns = times, columns
        self.stream, self.disorder, self.source_index, self.origin = stream, disorder, source_index, origin
        self.dead_letters = dead_letters
        self.expected = set(expected)
        self.expected_from_us = 0  # since when they are waited for
        self.ending = False  # the last publisher has closed; others that closed before it may be heard of after it
        self.records: dict[str, int] = {}  # by publisher: the number of its next row, for one that comes again
        self.publishers = OpenPublishers()
        self.merge = self.publishers.merge
        self.watermark = self.since = MIN_TIME
        self.ended = self.idle = False
        self.may_idle = may_idle
        self.had_any = False  # a publisher
        self.late_rows = self.before_since = self.odd_times = 0
        self.enough_rows = ENOUGH_ROWS
        self.vanished = VanishedPublishers()
        self.late = LateRows()
        self.is_restored = False  # it goes on from a checkpoint, and publishers send what came behind it once more
        self.resumes: dict[str, TakenUntil] = {}  # of those that were open there
        self.owed: dict[str, Owed] = {}  # likewise, until it comes: which publisher of the name it was
        self.left_at: dict[str, TakenUntil] = {}  # of those that have closed: another one of the name goes on from there
        self.closed: dict[str, str] = {}  # by name, which publisher has closed last
        self.covered: dict[str, str] = {}  # likewise at that checkpoint: one that has not heard of it sends nothing once more

    def open(self, publisher: PublisherPartition, sent_until: int = MIN_TIME) -> int:
        """Registers it at the watermark this source answers with. `sent_until`: the greatest event time it has sent so far."""
        if publisher.name in self.expected and publisher.name not in self.resumes:
            self.since = max(self.since, min(sent_until, MAX_TIME - 1) + 1 if sent_until > MIN_TIME else MIN_TIME)
        self.expected.discard(publisher.name)
        self.vanished.pop(publisher.name, None)
        publisher.described = f"stream {self.stream!r}, publisher {publisher.name!r}"
        # One that goes on from a checkpoint has promised that before, and does not say it once more.
        self.publishers.enter(publisher, max(self.watermark, publisher.taken_until))
        self.had_any = True
        self._note_idle()
        return self.watermark

    def left_off(self, name: str) -> TakenUntil:
        """From where a publisher of that name goes on that is not open: behind the last one of the name."""
        return self.resumes.get(name) or self.left_at.get(name) or TakenUntil(0, 0)

    def has_sent(self, name: str, incarnation: str) -> bool:
        """Had that publisher of the name at the checkpoint?"""
        owed = self.owed.get(name)
        return owed is not None and owed.incarnation == incarnation and owed.has_sent

    def has_come(self, name: str, incarnation: str) -> None:
        """That publisher of the name, by itself or by what it has kept."""
        if (owed := self.owed.get(name)) is not None and owed.incarnation == incarnation:
            del self.owed[name]

    def wake(self, name: str) -> int:
        """A publisher that was idle is about to send again. The watermark that it is registered at."""
        queue = self.publishers[name].inbox.queue
        for i in reversed(range(len(queue))):
            if isinstance(queue[i][0], Idle):
                del queue[i]  # it has come, and was not taken yet
        self._rouse(name)
        return self.watermark

    def _rouse(self, name: str) -> None:
        self.publishers.rouse(name, self.watermark)
        self._note_idle()

    def fall_asleep(self, names: Iterable[str]) -> None:
        """These were idle where the source comes from."""
        for name in names:
            if name in self.publishers:
                self.publishers.sleep(name)
        self._note_idle()

    def _recombine(self) -> None:
        """A publisher is not waited for any more."""
        if self.merge.recombine():
            self.watermark = self.merge.combined
        self._note_idle()

    def _note_idle(self) -> None:
        there = self.publishers
        quiet = len(there.idle) == len(there) and (bool(there) or (self.may_idle and self.had_any))
        self.idle = quiet and not (self.expected or self.ended)

    def follow(self, wanted: int) -> bool:
        if not self.idle or wanted <= self.watermark:
            return False
        self.watermark = self.merge.combined = wanted
        return True

    def close(self, name: str) -> None:
        """What it sent has been taken; its watermark binds nothing any more."""
        if (known := self.publishers.get(name)) is not None and known.incarnation:
            self.left_at[name] = known.taken
        self.publishers.leave(name)
        self._recombine()
        self.finish(last=False)

    def finish(self, last: bool, others: frozenset[str] = frozenset()) -> None:
        """A publisher has said its last word; see `Closing`."""
        self.ending |= last and others <= self.vanished.keys()
        if self.ending and not self.publishers and not self.vanished.in_doubt:
            self.ended, self.watermark, self.idle = True, MAX_TIME, False

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

    def read(self) -> Batch | None:
        if self.expected:
            return None
        while (publisher := self.publishers.next_waiting()) is not None:
            batches = self._take_all(publisher)
            if batches:
                return concatenated(batches if len(batches) == 1 else [self._read_of(batch) for batch in batches])
        return NONE_ON_TIME if self.late.batches else None

    def _read_of(self, batch: Batch) -> Batch:
        """The columns that are read of it: others are not worth their copying."""
        if self.columns is None or len(self.columns) == len(batch.columns):
            return batch
        return replace(batch, columns={name: batch.columns[name] for name in self.columns})

    def _take_all(self, publisher: PublisherPartition) -> list[Batch]:
        """Rows on time of what has come meanwhile: what follows costs as much for a batch of few rows as for one of many."""
        batches: list[Batch] = []
        rows, queue = 0, publisher.inbox.queue
        while queue and rows < self.enough_rows:
            batch = self._take(publisher)
            if batch is not None:
                batches.append(batch)
                rows += len(batch.time)
        return batches

    def _take(self, publisher: PublisherPartition) -> Batch | None:
        element, after = publisher.inbox.take()
        batch = None
        if isinstance(element, Published):
            batch = self._on_time(publisher, element)
        elif isinstance(element, PublisherRefused):
            self._give_up(publisher.name, element.reason)
            return None
        elif isinstance(element, Closing):
            if publisher.incarnation:
                self.closed[publisher.name] = publisher.incarnation
            self.close(element.name)
            self.finish(element.last, element.others)
            return None
        else:
            after = watermark_after(element, after)
            publisher.gone_on = isinstance(element, Barrier)
        if publisher.idle:
            if publisher.gone_on:
                return None  # it is idle at the new place, too
            self._rouse(publisher.name)
        if self.is_restored and batch is not None and int(batch.time.min()) < self.watermark:
            raise ClusterError(f"{publisher.described}: rows that it sent once more come too late: others were not waiting for them")
        if publisher.incarnation:
            publisher.taken_until = max(publisher.taken_until, after)
        if self.merge.update(publisher.name, after):
            self.watermark = self.merge.combined
        if isinstance(element, Idle) and all(isinstance(behind[0], Barrier) for behind in publisher.inbox.queue):
            # Others do not wait for it. Where more than a Barrier has come behind the Idle already, as where all is sent once more, it
            # is awake again before anything may be promised without it.
            self.publishers.sleep(publisher.name)
            self._recombine()
        return batch

    def _on_time(self, publisher: PublisherPartition, published: Published) -> Batch | None:
        """The rows that are on time; those that are late, and bad, are counted and left out. None: there are none."""
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

    def _numbered(self, publisher: PublisherPartition, batch: Batch, records: np.ndarray) -> Batch | None:
        """With origins where they are read; None if it is empty."""
        if not len(batch.time):
            return None
        origin = origin_of(self.source_index, publisher.partition, records) if self.origin else None
        return Batch(batch.columns, batch.time, origin, batch.created, publisher.described)

    def _refuse(self, publisher: PublisherPartition, records: np.ndarray, times: np.ndarray) -> None:
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
            self.vanished.update({name: Vanished("", 0, 0, complete=True) for name in sorted(self.expected)})
            self.expected.clear()
            self._note_idle()

    def _give_up(self, name: str, reason: str) -> None:
        """It was told so; what else it has sent is no loss that goes unnoticed."""
        self.vanished[name] = Vanished("", 0, self.records.get(name, 0), complete=True)
        self.tell_refused(self.publishers[name], reason)
        self.close(name)

    def tell_refused(self, publisher: PublisherPartition, reason: str) -> None:
        self.dead_letters.put(Letter(self.stream, f"closed: {reason}", publisher.described))

    def vanish(self, name: str, endpoint: str = "") -> None:
        """A publisher whose process is silent counts as closed, once what it sent is taken, and never ends the stream."""
        if name in self.publishers and not self.publishers[name].inbox.queue:
            self.vanished[name] = Vanished(endpoint, self.publishers[name].inbox.received, self.records.get(name, 0))
            self.close(name)

    def doubt(self) -> str:
        """Why the stream cannot end."""
        return f"stream {self.stream!r} is not known to be complete: {'; '.join(self.vanished.doubts())}"

    def position(self) -> Position:
        return {
            "origin": self.origin,
            "ending": self.ending,
            "ended": self.ended,
            "had_any": self.had_any,
            "watermark": self.watermark,
            "combined": self.merge.combined,
            "since": self.since,
            "times": dict(self.merge.times),
            "records": dict(self.records),
            "vanished": {name: asdict(each) for name, each in self.vanished.items()},
            "idle": self.publishers.idle,
            "closed": dict(self.closed),
            "open": self._resuming() | {name: [*self._owed_of(each), *each.taken] for name, each in self.publishers.items()},
            "left_at": {name: list(each) for name, each in self.left_at.items()},
        }

    def _owed_of(self, publisher: PublisherPartition) -> Owed:
        """What is known of it may be all that one before it has left."""
        return self.owed.get(publisher.name, publisher.as_owed)

    def _resuming(self) -> dict[str, list[Any]]:
        """Those that have not come yet are as open as they were."""
        return {name: [*self.owed.get(name, Owed("", "")), *taken] for name, taken in self.resumes.items()}

    def give_up(self, name: str) -> None:
        """One that has not come will not, and has left nothing: the next one of the name goes on from where it would have."""
        self.left_at[name] = self.left_off(name)
        self.resumes.pop(name, None)
        self.owed.pop(name, None)

    def restore(self, positions: Sequence[Position]) -> None:
        """Publishers may have opened here before. Of several positions the least promise counts, and the greatest `since`."""
        self.origin = any(each["origin"] for each in positions)
        self.ending = any(each["ending"] for each in positions)
        self.ended = all(each["ended"] for each in positions)
        self.had_any = any(each["had_any"] for each in positions)
        self.watermark = min(each["watermark"] for each in positions)
        self.merge.combined = min(each["combined"] for each in positions)
        self.since = max(each["since"] for each in positions)
        for each in positions:
            for name, vanished in each["vanished"].items():
                self.vanished.setdefault(name, Vanished(**vanished))
        self.records = _by_publisher(max, [each["records"] for each in positions])
        times = _by_publisher(min, [each["times"] for each in positions])
        self.merge.times.update({name: time for name, time in times.items() if name in self.publishers})
        self.fall_asleep(set.intersection(*(set(each["idle"]) for each in positions)))

    def expect_again(self, position: Position) -> None:
        """The publishers that were open there: each sends what was not taken then, and nothing is taken before all have come."""
        self.is_restored = True
        self.resumes = {name: TakenUntil(*taken) for name, (_, _, _, *taken) in position["open"].items()}
        self.owed = {name: Owed(*owed[:3]) for name, owed in position["open"].items()}
        self.left_at = {name: TakenUntil(*taken) for name, taken in position["left_at"].items()}
        self.expected = set(self.resumes)
        self.closed = dict(position["closed"])
        self.covered = dict(self.closed)

    def waits_for(self, now_us: int) -> str:
        if self.ended:
            return "nothing: the stream has ended"
        if self.expected:
            return f"publishers of stream {self.stream!r} that were open when it was deployed: {', '.join(sorted(self.expected))}"
        if not self.publishers:
            gone = f" (vanished: {', '.join(self.vanished)})" if self.vanished else ""
            if self.idle:
                return f"no publisher of stream {self.stream!r}: no publisher is open{gone}; it comes as far as what is read beside it"
            return f"a publisher of stream {self.stream!r}: none is open{gone}"
        if full := [each for each in self.publishers.values() if each.waits_with]:
            keeps = f"it keeps {full[0].waits_with:,} bytes until then, and has no room for more"
            return f"a commit, as publisher {full[0].name} of stream {self.stream!r} does: {keeps}"
        idle = self.publishers.idle
        if len(idle) == len(self.publishers):
            return f"no publisher of stream {self.stream!r}: idle are {_some(idle)}; it comes as far as what is read beside it"
        slowest = self.publishers[str(self.merge.slowest())]
        came = slowest.last_row_us
        ago = "no row yet" if came is None else f"last row {(now_us - came) / 1e6:.0f} s ago"
        return f"publisher {slowest.name} of stream {self.stream!r}, {ago}{f'; idle: {_some(idle)}' if idle else ''}"


def _by_publisher(merge: Callable[[Iterable[int]], int], each: Sequence[Mapping[str, int]]) -> dict[str, int]:
    names = {name for found in each for name in found}
    return {name: merge([found[name] for found in each if name in found]) for name in sorted(names)}


def _some(names: list[str], most: int = 5) -> str:
    """For a person to read."""
    return ", ".join([*names[:most], *[f"{len(names) - most} more"] * (len(names) > most)])
