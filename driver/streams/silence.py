"""Silence (rule 4.12) is decided here and nowhere else, and numbered among the rows.

Silent for the stream's `idle_after` a publisher says Idle to all its readers, and to those that come while it is idle. Before the next
row, or promise, it asks every reader how far that has come without it, and a Watermark behind the Idle says where its stamp goes on. Rows
that are older are late, at every reader alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cep.transport import wire
from driver.streams.commands import NOTHING, StreamCommand
from driver.streams.numbering import Numbering
from driver.streams.readers import StreamReader, StreamReaders


class Silence:
    """Need the readers wait for the publisher? `after_us`: how long it is silent before they need not."""

    def __init__(self, after_us: int | None, numbering: Numbering, readers: StreamReaders) -> None:
        self.after_ns, self.numbering, self.readers = (after_us or 0) * 1000, numbering, readers
        self.idle = False  # readers do not wait for us
        self.since = 0  # ns, by the steady clock
        self._record = 0  # the number of the next row when that was looked at last

    def ends(self, now: int) -> None:
        """The publisher has said something at `now`, ns by the steady clock."""
        self.since = now

    def look(self, now: int) -> Sequence[StreamCommand]:
        """Has it been silent for so long that readers need not wait for it?"""
        if self.numbering.record != self._record:
            self._record = self.numbering.record
            self.ends(now)
        elif not self.idle and now - self.since >= self.after_ns:
            self.idle = True
            return self.say_idle(self.readers.values())
        return NOTHING

    def say_idle(self, readers: Iterable[StreamReader]) -> Sequence[StreamCommand]:
        here = [reader for reader in readers if reader.is_here]
        for reader in here:
            reader.told_idle = True
        return self.numbering.tell(wire.IDLE, here)

    def awake(self, asked: Iterable[StreamReader], now: int) -> Sequence[StreamCommand]:
        """All have answered that were asked how far they have come without it."""
        self.idle = False
        self.ends(now)
        return self.numbering.tell(wire.WATERMARK, asked)
