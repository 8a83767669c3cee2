"""A subscription to a query that recovers: what no commit covers yet is kept, and what its client has not confirmed is, too.

    unconfirmed | held | behind
    sent, and perhaps lost    covered, but without credit    behind the last commit, with the marks of checkpoints between

A resumable subscription confirms by acknowledging: what it was sent since is kept, within its budget, and a process that comes in the place
of its own gets it once more, from the number on that its token names.

All of it is in a checkpoint. Numbers go on from one attempt to the next; a restored one sends nothing before its client has said which
number it waits for.

What comes by the fast path is kept in runs (`instance_manager.recovery.runs`), confirmed when the last of one is: of what is kept too long
a client that waits for later numbers gets nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, NamedTuple

from cep.dataflow.channel import Credit
from cep.elements import LAST, MIN_TIME, Batch, CheckpointBarrier, Element, Fail, Idle, Stop, Watermark
from cep.transport import wire
from cep.transport.wire import Header
from instance_manager.clients.subscriptions import SubscriptionChannel, Terms
from instance_manager.recovery.runs import Kept, Message, Run, behind_of, first_of, joined, renamed, rows_of, size_of

DROPPED = "this subscription was silent for too long and was dropped"
#: Of runs, sent at once.
SENT_BYTES = 256 << 10


class Restored(NamedTuple):
    """An attempt goes on from checkpoint `number`, whose mark is element `sequence`."""

    attempt: int
    number: int
    sequence: int


class KeptChannel(SubscriptionChannel):
    """What is kept for a commit never blocks its instance, nor makes it drop rows; only what is covered and finds no credit does."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.behind: deque[Kept | int] = deque()  # and the numbers of the checkpoints that were taken in between
        self.behind_bytes = 0
        self.is_over = False  # it was stopped, or has failed
        self.unconfirmed: deque[tuple[Kept, int]] = deque()  # with the bytes that had been sent behind it
        self.unconfirmed_bytes = 0
        self.restores: list[Restored] = []  # of one that is told at once
        self.told_bytes = 0  # likewise, since the last mark

    def begin_anew(self, attempt: int, restored: int = 0, is_first: bool = False) -> None:
        """In the first one its client takes whatever comes; later it has to hear of the new place, and says what it has."""
        self.answered = attempt == 0

    def send(self, element: Element, size: int, watermark: int, since: int) -> None:
        if isinstance(element, CheckpointBarrier):
            self.behind.append(element.number)
            return
        if isinstance(element, Watermark | Idle) and not self.terms.reader:
            return  # as of any other; a query that reads waits for them
        if isinstance(element, Fail):
            return  # perhaps its query goes on; if not, `end` says so
        if isinstance(element, Stop):
            self.end(element)
            return
        if isinstance(element, Batch) and self.drops(size):
            self.dropped += len(element.time)
            return
        message = self._message(element, watermark, since)
        self.behind.append(message)
        self.behind_bytes += len(message[1] or b"")

    def drops(self, size: int) -> bool:
        """Would it drop a batch of that size? Where its client is slow, what waits for a commit counts, too: it is held soon."""
        return self.terms.on_slow == "drop" and not self.fits(self.behind_bytes + size)

    def pass_on(self, run: Run) -> None:
        """It was made by the fast path, whose numbers and rows are noted when it is left."""
        self.behind.append(run)
        self.behind_bytes += run.size

    def end(self, element: Stop | Fail) -> None:
        """Its query is stopped or has failed, and will not go on: unless the client has its end already, it is told so."""
        if self.is_over or (self.closed and self.is_covered):
            return
        self._give_up()
        self.behind.append(self._message(element, MIN_TIME, MIN_TIME))
        self.is_over = True
        self._let_go(1)

    def _message(self, element: Element, watermark: int, since: int) -> Message:
        rows, created = (len(element.time), element.created) if isinstance(element, Batch) else (0, 0)
        body = wire.body_of(element, self.format)
        own = self.id, self.sequence, self.stream, self.format.fingerprint
        self.sequence += 1
        self.rows += rows
        self.closed = isinstance(element, LAST)
        return Header(wire.kind_of(element), *own, watermark, created, since=since), body, rows

    def _give_up(self) -> None:
        """What no commit covers will not come out: the numbers of what has not been sent are free again."""
        there = [each for each in self.behind if not isinstance(each, int)]
        if there:
            self.sequence = first_of(there[0])
            self.rows -= sum(map(rows_of, there))
        self.behind.clear()
        self.behind_bytes = 0

    def cover(self, number: int) -> None:
        """Checkpoint `number` is committed: what came before it may go."""
        marks = [at for at, each in enumerate(self.behind) if isinstance(each, int) and each <= number]
        if marks:
            self._let_go(marks[-1] + 1)

    def _let_go(self, count: int) -> None:
        going = [self.behind.popleft() for _ in range(count)]
        for each in joined((each for each in going if not isinstance(each, int)), SENT_BYTES):
            size = size_of(each)
            self.held.append(each)
            self.held_bytes += size
            self.behind_bytes -= size
        self.pump()

    def pump(self) -> None:
        while self.answered and self.held:
            first = self.held[0]
            if isinstance(first, Run):
                if not self._send_runs():  # then one by one, as far as there is credit
                    self.held.popleft()
                    self.held.extendleft(reversed(list(first.messages())))
            elif self._sent(*first):
                self.held.popleft()
                self.held_bytes -= size_of(first)
            else:
                return

    def _send_runs(self) -> bool:
        """As they lie, those of the first in `held` for which there is credit. Is it any?"""
        client, laid, size = self.client, list[bytes](), 0
        while self.held and isinstance(run := self.held[0], Run) and not self.terms.resumable:
            if client.sent + run.size > client.limit or size > SENT_BYTES:
                break
            self.held.popleft()
            self.held_bytes -= run.size
            client.spend(run.size)
            self._keep(run)
            laid.append(run.laid)
            size += run.size
        if laid:
            self.sockets.relay(self.terms.endpoint, b"".join(laid))
        return bool(laid)

    def _sent(self, header: Header, body: Any, rows: int) -> bool:
        size = len(body or b"")
        self.is_full = bool(self.terms.resumable and self.unconfirmed and self.unconfirmed_bytes + size > self.terms.budget_bytes)
        sent = not self.is_full and super()._sent(header, body, rows)
        if sent:
            self._keep((header, body, rows))
        return sent

    def _keep(self, each: Kept) -> None:
        self.unconfirmed.append((each, self.client.sent))
        self.unconfirmed_bytes += size_of(each)

    def _confirm(self) -> None:
        """The oldest of what was sent."""
        self.unconfirmed_bytes -= size_of(self.unconfirmed.popleft()[0])

    def grant(self, header: Header) -> None:
        super().grant(header)
        while not self.terms.resumable and self.unconfirmed and self._is_confirmed(header.created):
            self._confirm()

    def _is_confirmed(self, following: int) -> bool:
        """Has the client the oldest of what was sent? It says the number of the element that it takes next, for an element without rows
        costs no credit; a query that reads this one says what it has consumed."""
        each, sent = self.unconfirmed[0]
        return sent <= self.client.consumed if self.terms.reader else behind_of(each) <= following

    def acknowledge(self, following: int) -> None:
        while self.unconfirmed and behind_of(self.unconfirmed[0][0]) <= following:
            self._confirm()
        self.pump()

    @property
    def first_unconfirmed(self) -> int:
        return first_of(self.unconfirmed[0][0]) if self.unconfirmed else self.sequence

    def leave(self) -> None:
        self.answered = False

    def hand_over(self, terms: Terms, id_: int) -> None:
        """It is another process's from now on, on a channel of its own; which has to say where it goes on."""
        self.terms, self.id, self.answered = terms, id_, False

    def resume(self, following: int, acknowledged: int) -> None:
        """The client waits for number `following`, and counts credit anew."""
        if self.answered:
            return
        self.client, self.is_full = Credit(), False
        there = list(renamed((*(each for each, _ in self.unconfirmed), *self.held), self.id))
        behind = ([each] if isinstance(each, int) else renamed([each], self.id) for each in self.behind)
        self.behind = deque(chain.from_iterable(behind))
        self.unconfirmed.clear()
        self.held.clear()
        self.held_bytes = self.unconfirmed_bytes = 0
        for message in there:
            if message[0].sequence >= following:
                self.held.append(message)
                self.held_bytes += size_of(message)
            elif message[0].sequence >= acknowledged and self.terms.resumable:
                self._keep(message)
        self.answered = True

    def why_not_from(self, lineage: str, following: int, counted: int = 0) -> str:
        """Why a client cannot go on from that number, as they were counted in attempt `counted`; empty: it can."""
        first = next(map(first_of, self.kept()), self.sequence)
        if following and lineage != self.lineage:
            return DROPPED
        if following > self.sequence:
            return f"element {following} was never sent, {self.sequence} were"
        if following < first:
            return (
                f"what was sent before element {first} is not kept any more, for it was acknowledged, and element {following} is asked for"
            )
        return ""

    @property
    def kept_bytes(self) -> int:
        return self.unconfirmed_bytes + self.held_bytes + self.behind_bytes

    @property
    def is_covered(self) -> bool:
        """Is there nothing that waits for a commit?"""
        return not self.behind

    @property
    def is_delivered(self) -> bool:
        """Has its client confirmed everything?"""
        return not (self.behind or self.held or self.unconfirmed)

    @property
    def is_new(self) -> bool:
        """Has something come since the last checkpoint was taken, so that another one is of use to its client?"""
        return bool(self.behind) and not isinstance(self.behind[-1], int)

    # In a checkpoint

    def kept(self) -> Iterator[Kept]:
        """All that its client may not have."""
        yield from (each for each, _ in self.unconfirmed)
        yield from self.held
        yield from (each for each in self.behind if not isinstance(each, int))

    def restore(self, kept: Iterable[Kept], attempt: int, number: int) -> None:
        """What was kept at checkpoint `number`, which is committed and from which that attempt goes on."""
        for message in renamed(kept, self.id):
            self.held.append(message)
            self.held_bytes += size_of(message)
        self.answered = False
