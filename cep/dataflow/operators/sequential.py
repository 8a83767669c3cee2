"""What takes its rows one after the other: they are held until the watermark has passed them, and then taken in stream order.

By itself that is a Sort without a window. Deduplicate and StatefulMap put in `_take` what they do with the rows, and have a memory of
their groups. That moves with the groups' held rows, which are all of their rows that were not yet taken; so a restored instance may
begin at any watermark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from cep.compile.aggregate.results import describe_group, listed
from cep.dataflow.operators.operator import NOTHING, Keep, Part, check_state
from cep.dataflow.state.group_memory import GroupMemory
from cep.dataflow.state.hold import Hold
from cep.elements import MIN_TIME, PAUSE, Batch, describe_time

HELD, GROUPS = "held", "groups"
#: What was taken of tuples, in bytes, before their memory is looked at again.
LOOK_BYTES = 4_096


class SequentialOperator:
    """Lets its rows out in stream order, unchanged."""

    def __init__(self, name: str, hold: Hold, state_limit: int, memory: GroupMemory | None = None) -> None:
        self.name, self.hold, self.state_limit, self.memory = name, hold, state_limit, memory
        self.since, self.incomplete = MIN_TIME, 0  # it has no windows
        self._remembered = 0  # bytes of the memory, when last looked at; it grows with what is taken
        self._look_at = 0  # of what the hold has let out: when to look again

    @property
    def state_bytes(self) -> int:
        return self.hold.bytes + self.memory_bytes

    @property
    def memory_bytes(self) -> int:
        """The size of what is remembered of rows that were taken."""
        return 0 if self.memory is None else self.memory.bytes

    @property
    def next_end(self) -> int | None:
        return None if self.hold.first is None else self.hold.first + 1

    @property
    def last_end(self) -> int | None:
        return self.next_end

    def on_batch(self, batch: Batch, port: int) -> Iterable[Batch]:
        self.hold.add(batch)
        if self.hold.bytes + self._remembered > self.state_limit:
            self._check()
        return NOTHING

    def on_watermark(self, watermark: int) -> Iterator[Batch]:
        for batch in self.hold.release(watermark):
            yield from self._take(batch)
            if self.hold.released >= self._look_at:
                self._check()
        if self.memory is not None:
            for _ in self.memory.forget(watermark):
                yield PAUSE

    def watermark_after(self, watermark: int) -> int:
        return watermark

    def on_barrier(self) -> Iterator[Batch]:
        yield from ()

    def snapshot(self) -> list[Part]:
        held = [Part(HELD, 0, self.hold.snapshot())]
        return held if self.memory is None else [*held, Part(GROUPS, 0, self.memory.snapshot())]

    def restore(self, parts: Sequence[Part], keep: Keep) -> None:
        for part in parts:
            if part.name == HELD:
                self.hold.restore(part.batch, keep(0, self.hold.columns(part.batch)))
            elif self.memory is not None:
                self.memory.restore(part.batch, keep(0, self.memory.columns(part.batch)))
        self._check()

    def clear(self) -> None:
        self.hold.clear()
        if self.memory is not None:
            self.memory.keep(np.zeros(0, np.int64))

    def _take(self, batch: Batch) -> Iterable[Batch]:
        """What comes out for rows in stream order, which follow those taken before."""
        return (batch,)

    @property
    def written(self) -> str:
        """Its name as the query has it."""
        return self.name

    def _check(self) -> None:
        self._look_at = self.hold.released + LOOK_BYTES
        self._remembered = self.memory_bytes
        if self.hold.bytes + self._remembered > self.state_limit:
            check_state(self, self.state_limit, self.written)

    def contents(self) -> str:
        held = f"{len(self.hold)} rows held until the watermark has passed them, from {describe_time(self.hold.first)} on"
        if self.memory is None:
            return held
        columns = self.memory.numbers.columns
        keys = "; ".join(describe_group(columns, self.memory.by, number) for number in self.memory.latest(3)) or "none"
        largest = self.hold.largest_keys(self.memory.by, 3)
        return f"{len(self.memory.numbers)} groups (last: {keys}); {held}; largest keys of these: {listed(largest)}"
