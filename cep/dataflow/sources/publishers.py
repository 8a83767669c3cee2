"""The publishers of a stream, as a reader of it knows them: what they send, which are open, which have vanished (rule 4.11)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from cep.dataflow.channel import Inbox, WatermarkMerge
from cep.elements import MIN_TIME, Batch
from cep.values import value


@value
class Published:
    """A batch as a publisher sent it: rows on time and late ones, in the order of its partition. If they are not all of that order
    (`cep.dataflow.sources.replicas`), the number of each is its origin."""

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
class PublisherRefused:
    """A publisher sent what is no batch: it counts as closed, and as vanished, so it does not end its stream."""

    reason: str


class TakenUntil(NamedTuple):
    """How much of a publisher's channel was taken."""

    elements: int
    bytes: int
    watermark: int = MIN_TIME


class Owed(NamedTuple):
    """The publisher of a name that was open at a checkpoint, and where what it had sent outlives its process; empty: it does not.
    `has_sent`: something of it had been taken, so a log of it is there."""

    incarnation: str
    kept_at: str
    has_sent: bool = False


@dataclass(slots=True)
class PublisherPartition:
    """One open publisher, a partition of the stream."""

    name: str
    partition: int
    inbox: Inbox
    described: str = ""  # where its rows were read, for dead letters
    last_row_us: int | None = None  # when its last batch came, by the clock; None: none yet
    idle: bool = False
    incarnation: str = ""  # which publisher of that name; empty: its query does not recover, and the next three are not kept
    kept_at: str = ""  # what it has sent outlives its process there; empty: it does not
    begins: int = 0  # the number of the first element that is of this incarnation
    taken_until: int = MIN_TIME  # its watermark behind what was taken
    inherited: int = 0  # so many elements came of what another has kept: what comes of them by itself has come already
    waits_with: int = 0  # bytes that it keeps until a commit, with room for no more
    gone_on: bool = False  # it sends to where the source has moved, and what it sent here has been taken

    @property
    def taken(self) -> TakenUntil:
        return TakenUntil(self.inbox.taken, self.inbox.consumed, self.taken_until)

    @property
    def as_owed(self) -> Owed:
        """At a checkpoint."""
        return Owed(self.incarnation, self.kept_at, self.inbox.taken > self.begins)

    def becomes(self, incarnation: str, has_sent: bool) -> None:
        """What comes next is of that publisher, of which something was taken before already or not."""
        if incarnation != self.incarnation:
            self.incarnation, self.begins = incarnation, -1 if has_sent else self.inbox.sequence

    @property
    def promised(self) -> int:
        """Its watermark behind what has come."""
        return self.inbox.queue[-1][2] if self.inbox.queue else self.taken_until

    @property
    def behind(self) -> int:
        """The number of the row behind the last that has come and was not taken; 0: there is none."""
        come = (each for each, _, _ in reversed(self.inbox.queue) if isinstance(each, Published))
        return next((each.record + len(each.batch.time) for each in come), 0)


class OpenPublishers(dict[str, PublisherPartition]):
    """Those that are open, by name, and the least of the watermarks of those that are not idle."""

    def __init__(self) -> None:
        super().__init__()
        self.merge = WatermarkMerge()
        self._order: deque[str] = deque()

    def enter(self, publisher: PublisherPartition, watermark: int) -> None:
        self[publisher.name] = publisher
        self._order.append(publisher.name)
        self.merge.add(publisher.name, watermark)

    def leave(self, name: str) -> None:
        self.pop(name, None)
        self._order = deque(each for each in self._order if each != name)
        self.merge.times.pop(name, None)

    def sleep(self, name: str) -> None:
        self[name].idle = True
        self.merge.times.pop(name, None)

    def rouse(self, name: str, watermark: int) -> None:
        self[name].idle = False
        self.merge.times[name] = max(self.merge.times.get(name, MIN_TIME), watermark)

    @property
    def idle(self) -> list[str]:
        return [name for name, publisher in self.items() if publisher.idle]

    def next_waiting(self) -> PublisherPartition | None:
        """One of which something has come; in turn, so that no publisher starves another."""
        order = self._order
        for _ in range(len(order)):
            order.rotate(-1)
            publisher = self[order[-1]]
            if publisher.inbox.queue:
                return publisher
        return None


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

    @property
    def taken(self) -> str:
        """For a person to read."""
        taken = f"its rows up to number {self.record - 1} were taken" if self.record else "none of its rows was taken"
        return f"{taken}, and it {'sent' if self.missing else 'may have sent'} more"


class VanishedPublishers(dict[str, Vanished]):
    @property
    def in_doubt(self) -> dict[str, Vanished]:
        """Publishers of which rows may be missing: with them the stream does not end."""
        return {name: each for name, each in self.items() if not each.complete}

    def doubts(self) -> Iterator[str]:
        """For a person to read."""
        silent = "was silent for so long that it counts as closed"
        return (f"publisher {name!r} {silent}, {each.taken}" for name, each in self.in_doubt.items())
