"""Channels: numbered elements, byte credits, watermarks, as pure state. Transports move the messages; nothing here knows them.

The rules (docs/rules.md: 4.3, 4.14, 7.4):

- every element has the next sequence number; a gap is MessagesLost, which names the channel;
- only batches cost credit. While no more than an eighth of a channel's share is outstanding, a batch may go whatever its size; beyond
  that the receiver's limit holds;
- the receiver returns credit when it owes more than that eighth: small batches cost no message back, and no sender waits for ever, for
  one that may not send has more than an eighth outstanding, and gets it back when it is taken;
- control elements are free and keep their place in the order;
- a channel is one deployment's (`cep.plan.channels`): what an earlier one of the query has left behind has another name;
- the receiver returns, with its credits, the bytes it has consumed and its combined watermark.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from cep.elements import MAX_TIME, MIN_TIME, Batch, Element, End, Watermark
from cep.errors import MessagesLost
from cep.kernels.composed import Composed


def batch_bytes(batch: Batch) -> int:
    """Bytes that a batch holds: its values and its share of text, not the buffer the text lies in."""
    total: int = batch.time.nbytes if batch.origin is None else batch.time.nbytes + batch.origin.nbytes
    if isinstance(batch.columns, Composed):
        return total + int(batch.columns.sizes().sum())
    for column in batch.columns.values():
        total += column.values.nbytes
        if column.data is not None:
            total += column.body_bytes
    return total


def bytes_of_each(batch: Batch) -> int | None:
    """What every row adds to `batch_bytes`; None where not all add the same."""
    if isinstance(batch.columns, Composed) or any(column.type.is_bytes for column in batch.columns.values()):
        return None
    return _hidden_bytes(batch) + sum(column.values.itemsize for column in batch.columns.values())


def row_bytes(batch: Batch) -> np.ndarray:
    """int64[n]: what each row adds to `batch_bytes`."""
    sizes = np.full(len(batch), _hidden_bytes(batch), np.int64)
    if isinstance(batch.columns, Composed):
        sizes += batch.columns.sizes()
        return sizes
    for column in batch.columns.values():
        sizes += column.values.itemsize
        if column.type.is_bytes:
            sizes += column.values
    return sizes


def _hidden_bytes(batch: Batch) -> int:
    return 8 if batch.origin is None else 8 + 8 * batch.origin.shape[1]


def slack(share: int) -> int:
    """Bytes of a share that a receiver need not return yet."""
    return share >> 3


class Credit:
    """The sender's view of what it may send."""

    def __init__(self) -> None:
        self.sent = self.consumed = self.limit = 0
        self.returned = MIN_TIME  # the receiver's combined watermark

    def allows(self, size: int) -> bool:
        """May a batch of `size` bytes go now?"""
        return self.sent - self.consumed <= slack(self.limit - self.consumed) or self.sent + size <= self.limit

    def spend(self, size: int) -> None:
        self.sent += size

    def grant(self, consumed: int, limit: int, returned: int) -> None:
        """What the receiver says; messages may overtake nothing, so the latest is the greatest."""
        self.consumed, self.limit = max(self.consumed, consumed), max(self.limit, limit)
        self.returned = max(self.returned, returned)


class Channel(Protocol):
    """The sending end."""

    credit: Credit
    shares: bool  # it hands batches over as they are: no copy, no bytes

    def send(self, element: Element, size: int, watermark: int, since: int) -> None:
        """Sends at once; the caller has asked `credit.allows(size)` if it is a batch."""


def unwatched() -> None:
    """The reader of the inbox looks by itself."""


class Inbox:
    """The receiving end: elements in order, waiting for their instance."""

    def __init__(self, name: str, share: int) -> None:
        self.name, self.share = name, share
        self.queue: deque[tuple[Any, int, int]] = deque()  # element, size, watermark after it
        self.sequence = 0
        self.received = self.consumed = self.granted = 0
        self.watermark = MIN_TIME  # what the channel has promised, of the elements taken
        self.since = MIN_TIME
        self.credit_due = True  # the first grant is due at once
        self.ended = False  # its End has been taken
        self.merge: WatermarkMerge | None = None  # of the input that the channel belongs to
        self.on_arrival: Callable[[], None] = unwatched  # for the part that has to see to it that it is taken

    @property
    def returned(self) -> int:
        """The receiver's combined watermark; of a channel that is idle, how far the receiver would go if its sender promised it."""
        merge = self.merge
        if merge is None:
            return MIN_TIME
        own = merge.combined if merge.combined >= merge.wanted else merge.wanted
        return own if merge.beside is None else min(own, merge.beside.combined)

    def accept(self, element: Any, size: int, sequence: int, watermark: int, since: int) -> None:
        """Puts an element that arrived into the queue. Raises MessagesLost at a gap."""
        if sequence != self.sequence:
            raise MessagesLost(f"channel {self.name!r}: expected element {self.sequence}, got {sequence}: messages were lost")
        self.sequence += 1
        self.received += size
        if since > self.since:
            self.since = since
        self.queue.append((element, size, watermark))
        self.on_arrival()

    def take(self) -> tuple[Any, int]:
        """The next element and the watermark that holds after it; its credit is free again."""
        element, size, watermark = self.queue.popleft()
        if size:
            self.consumed += size
            # The first grant of all may have come before the sender was at home: what it sends without one is granted at once.
            self.credit_due |= not self.granted or self.consumed - self.granted > slack(self.share)
        return element, watermark

    def grant(self) -> int:
        """What has been consumed is told to the sender now; the limit that it may send up to."""
        self.granted, self.credit_due = self.consumed, False
        return self.limit()

    @property
    def taken(self) -> int:
        """Elements that were taken."""
        return self.sequence - len(self.queue)

    def go_on_from(self, sequence: int, consumed: int) -> None:
        """So many elements and bytes were taken of another one of its channel, in whose place it is."""
        self.sequence = sequence
        self.received = self.consumed = consumed

    def begin_anew(self) -> None:
        """On another channel, whose credit is counted anew, and on which what was not taken comes once more."""
        self.sequence = self.taken
        self.queue.clear()
        self.received = self.consumed = self.granted = 0
        self.credit_due = True

    def held(self) -> int:
        """Bytes that have come and were not taken yet."""
        return self.received - self.consumed

    def limit(self) -> int:
        """Total bytes up to which the sender may send."""
        return self.consumed + self.share


class LocalChannel:
    """Both ends in one process: the same rules, no copy, no transport."""

    shares = True

    def __init__(self, inbox: Inbox) -> None:
        self.inbox = inbox
        self.credit = Credit()
        self.credit.limit = inbox.share
        self.sequence = 0

    def send(self, element: Element, size: int, watermark: int, since: int) -> None:
        self.inbox.accept(element, size, self.sequence, watermark, since)
        self.sequence += 1
        self.credit.spend(size)

    def settle(self) -> bool:
        """Gives back what the receiver has consumed, and its combined watermark. Was there news?"""
        inbox, credit = self.inbox, self.credit  # mostly there is none, and this is asked of every channel after every step
        if not (inbox.credit_due or inbox.consumed > credit.consumed or inbox.returned > credit.returned):
            return False
        credit.grant(inbox.consumed, inbox.grant(), inbox.returned)
        return True


class WatermarkMerge:
    """The combined watermark of several channels: the least of those that are open.

    An idle one counts, too: it is not passed over but asked (`cep.dataflow.sources.quiet`), and promises what it is asked for. `wanted`:
    how far idle senders are asked to come. `beside`: of all inputs of the operator that it is one of, if its senders wait for
    those of the others (`cep.plan.sources.read_together`).
    """

    def __init__(self) -> None:
        self.times: dict[object, int] = {}
        self.idle: set[object] = set()
        self.combined = self.wanted = MIN_TIME
        self.beside: WatermarkMerge | None = None

    def add(self, channel: object, time: int = MIN_TIME) -> None:
        self.times[channel] = time

    def update(self, channel: object, time: int) -> bool:
        """Did the combined watermark rise?"""
        times = self.times
        if time > times[channel]:
            times[channel] = time
        else:
            time = times[channel]
        if len(times) == 1 and not self.idle:  # as with most, and asked for every batch
            risen = time > self.combined
            if risen:
                self.combined = time
            return risen
        self.idle.discard(channel)
        return self.recombine()

    def sleep(self, channel: object, time: int) -> bool:
        """It is idle, having promised `time`. Did the combined watermark rise?"""
        risen = self.update(channel, time)
        self.idle.add(channel)
        return risen

    @property
    def asleep(self) -> bool:
        """Is no sender to be waited for: is each idle, or has ended?"""
        return bool(self.idle) and all(channel in self.idle or time == MAX_TIME for channel, time in self.times.items())

    def awake(self) -> int | None:
        """The least promise of those that are neither idle nor have ended; None: there is none."""
        times = [time for channel, time in self.times.items() if channel not in self.idle and time < MAX_TIME]
        return min(times, default=None)

    def rename(self, channel: object, new: object) -> None:
        """Another channel takes the place of one."""
        self.times[new] = self.times.pop(channel)
        if channel in self.idle:
            self.idle.remove(channel)
            self.idle.add(new)

    def slowest(self) -> object:
        """The channel that holds the combined watermark back."""
        return min(self.times, key=self.times.__getitem__, default=None)

    def recombine(self) -> bool:
        """Takes the minimum anew, after a channel has gone."""
        combined = min(self.times.values(), default=self.combined)
        risen, self.combined = combined > self.combined, max(combined, self.combined)
        return risen


def watermark_after(element: Element, carried: int) -> int:
    """The watermark that holds once `element` has been taken; `carried` came in its header."""
    if isinstance(element, Watermark):
        return element.time
    return MAX_TIME if isinstance(element, End) else carried
