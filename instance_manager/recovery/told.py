"""A subscription to a query that recovers and tells its answers at once: they go as they are made.

Rules:

1. Checkpoints leave *marks* among its elements, so its client knows behind which one a row came. A mark also says which is committed.
2. A restored subscription sends what its client had not confirmed at the checkpoint, with its numbers, then that checkpoint's mark, and
   then what is made once more, with numbers that begin anew behind the mark. What of it the client has had, by whichever instance, the
   client knows (`driver.streams.resuming.regenerated`). So it is told from which checkpoint the attempt after the last it knows went
   on, and numbers of before that count up to that checkpoint's mark only.
3. One that came while the query ran is told nothing before a commit covers that it is there: else rows from before it came would be made
   once more for it, behind those that it has.
4. The end is told when a commit covers it: what is over is not made once more.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cep.elements import MIN_TIME, Batch, CheckpointBarrier, Element
from cep.transport import wire
from cep.transport.wire import TIME, Format, Header
from instance_manager.recovery.kept import DROPPED, KeptChannel, Restored
from instance_manager.recovery.runs import Kept, Message, Run

#: Of so many recoveries with a commit in between a client may have slept through all.
RESTORES_MAX = 64


class ToldChannel(KeptChannel):
    """Its rows block their instance as those of any subscription do, when its client takes nothing."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.format = Format(self.format.schema, self.format.origin, TIME)  # its client tells rows of the same values apart by their times
        self.tells = False  # it does, and does not wait for a commit
        self.committed = 0

    def begin_anew(self, attempt: int, restored: int = 0, is_first: bool = False) -> None:
        super().begin_anew(attempt, restored, is_first)
        self.committed, self.tells = restored, is_first
        self.restores = [Restored(attempt, restored, 0)] if attempt else []

    @property
    def is_open(self) -> bool:
        """Does it go to the client now, as it is made?"""
        return self.tells and self.answered and not self.closed

    # What comes

    def send(self, element: Element, size: int, watermark: int, since: int) -> None:
        if isinstance(element, Batch):
            if self.drops(size):
                self.dropped += len(element.time)
                return
            self.told_bytes += size
            self._put(self._message(element, watermark, since))
        elif isinstance(element, CheckpointBarrier):
            self.told_bytes = 0
            if self.closed:
                super().send(element, size, watermark, since)
            else:
                self._put(self._mark(element.number, MIN_TIME if self.is_late else watermark))
        else:
            super().send(element, size, watermark, since)

    def pass_on(self, run: Run) -> None:
        """At once, too: nothing is held then."""
        self.sockets.relay(self.terms.endpoint, run.laid)
        self.client.spend(run.size)
        self._keep(run)

    def _put(self, message: Message) -> None:
        if self.tells:
            self._hold(message)
            self.pump()
        else:
            self.behind.append(message)
            self.behind_bytes += len(message[1])

    def _hold(self, message: Message) -> None:
        self.held.append(message)
        self.held_bytes += len(message[1])

    def _mark(self, number: int, watermark: int) -> Message:
        body = wire.to_json({"number": number, "committed": self.committed})
        header = Header(wire.BARRIER, self.id, self.sequence, self.stream, self.format.fingerprint, watermark)
        self.sequence += 1
        return header, body, 0

    def cover(self, number: int) -> None:
        self.committed = max(self.committed, number)
        if not self.tells and any(_number_of(each) <= number for each in self.behind if _is_mark(each)):
            self.tells = True
            rows = sum(isinstance(each, Run) or (not isinstance(each, int) and each[0].kind != wire.END) for each in self.behind)
            self._let_go(rows)
        super().cover(number)

    @property
    def is_new(self) -> bool:
        return super().is_new or bool(self.told_bytes) or not (self.tells or self.closed)

    # Its client

    def following(self, number: int, counted: int) -> int:
        since = self._since(counted)
        return number if since is None else min(number, since.sequence)

    def going_on(self, following: int, known: int) -> dict[str, Any]:
        since = self._since(known)
        return {"told": True, "from": following} | ({} if since is None else {"restored": since.number})

    def _since(self, attempt: int) -> Restored | None:
        """The first attempt after that one which began anew here."""
        return next((each for each in self.restores if each.attempt > attempt), None)

    def why_not_from(self, lineage: str, following: int, counted: int = 0) -> str:
        """Where the query began from nothing all is made once more, whatever was dropped meanwhile."""
        since = self._since(counted)
        begins_anew = since is not None and not since.number
        if following and lineage != self.lineage and not begins_anew:
            return DROPPED
        return super().why_not_from(self.lineage, self.following(following, counted), counted)

    # In a checkpoint

    def restore(self, kept: Iterable[Kept], attempt: int, number: int) -> None:
        super().restore(kept, attempt, number)
        here = Restored(attempt, number, self.sequence)
        self.restores = [*(each for each in self.restores if each.number < number), here][-RESTORES_MAX:]
        self.committed, self.tells, self.told_bytes = number, True, 0
        if not self.closed:
            self._hold(self._mark(number, MIN_TIME))


def _is_mark(each: Kept | int) -> bool:
    return not isinstance(each, int | Run) and each[0].kind == wire.BARRIER


def _number_of(mark: Any) -> int:
    return int(wire.from_json(mark[1])["number"])
