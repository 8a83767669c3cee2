"""The shipped double of a source: a list of batches of one partition, and tokens between them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cep.dataflow.sources.lateness import LateRows, judge, origin_of, stamp_of
from cep.dataflow.sources.source import Position
from cep.elements import MAX_TIME, MIN_TIME, Batch

#: Tokens: ABORT raises, PAUSE answers None once, EOF (or the end of the list) ends.
EOF, ABORT, PAUSE = "EOF", "ABORT", "PAUSE"


class ListSource:
    left = idle = between_blocks = False
    odd_times = before_since = 0

    def __init__(self, items: Sequence[Batch | str], disorder: int = 0, source_index: int = 0, partition: int = 0) -> None:
        self.items, self.next = list(items), 0
        self.disorder, self.source_index, self.partition, self.origin = disorder, source_index, partition, True
        self.max_time = self.watermark = self.since = MIN_TIME
        self.ended, self.late_rows, self.record = False, 0, 0
        self.late = LateRows()

    def read(self) -> Batch | None:
        item = self.items[self.next] if self.next < len(self.items) else EOF
        self.next += 1
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

    def position(self) -> Position:
        promised = {"max_time": self.max_time, "watermark": self.watermark, "ended": self.ended}
        return {"next": self.next, "record": self.record, **promised}

    def restore(self, positions: Sequence[Position]) -> None:
        (position,) = positions
        self.next, self.record = position["next"], position["record"]
        self.max_time, self.watermark, self.ended = position["max_time"], position["watermark"], position["ended"]

    def follow(self, wanted: int) -> bool:
        return False

    def release(self) -> None:
        self.items = []

    def waits_for(self, now_us: int) -> str:
        return "the next item of the list"
