"""Files as a source: blocks, dealt in order of bound, read one record after the other (rule 4.10).

- A block is a partition. Its bound is the greatest first-row time up to it within its file, minus the disorder: nothing in it that is on
  time is older.
- The blocks of all files are dealt in order of (bound, path, place): block i to reader i mod n.
- One alone that reads beside another stream (`cep.plan.sources.read_together`) does not go on either while what its receivers have
  returned is older than what it had promised AHEAD pieces ago.
- A reader begins block i only when the watermark that its receivers have returned has reached the bound of block i - 2n, so that open
  windows are at most those spanned by 2n + 1 blocks, however large the files.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from cep.dataflow.dead_letters import Letter
from cep.dataflow.sources.blocks import Block, BlockFormat, BlockReader, Piece
from cep.dataflow.sources.lateness import Judged, LateRows, judge, origin_of, stamp_of
from cep.dataflow.sources.source import NONE_ON_TIME, Position, Reading
from cep.elements import MAX_TIME, MIN_TIME, Batch, describe_time
from cep.model.limits import odd_time

#: Pieces that one reader may be ahead of what its receivers have come to: one is worked on, one is on its way.
AHEAD = 2
#: Where a reader has come to in a block: place, record, and the greatest event time so far.
Begun = tuple[int, int, int]


class FileSource:
    """One reader: the blocks dealt to it, one after the other."""

    left = idle = False  # it stays where it is, and files are never silent

    def __init__(self, reading: Reading, format_: BlockFormat, blocks: Sequence[Block]) -> None:
        self.stream, self.format, self.dead_letters, self.clock = reading.stream, format_, reading.dead_letters, reading.clock
        self.blocks, self.readers, self.returned = blocks, reading.readers, reading.returned
        self.promised = deque[int](maxlen=AHEAD) if reading.together and reading.readers == 1 else None  # before each of the last pieces
        self.source_index, self.origin = reading.source_index, reading.origin
        self.disorder = self.stream.disorder or 0
        self.since, self.before_since = MIN_TIME, 0
        self.index = self.reader = reading.reader  # of the block that is read or comes next
        self.begun: dict[int, Begun] = {}  # by partition: where readers before this one had come to
        self.finished: set[int] = set()  # partitions that such readers had finished
        self.block: BlockReader | None = None
        self.place = self.record = 0
        self.max_time = MIN_TIME
        self.late_rows = self.odd_times = 0
        self.late = LateRows()
        self.ended = False
        self.watermark = MIN_TIME
        self._promise()

    def read(self) -> Batch | None:
        if self._is_ahead():
            return None
        opened = self.block or self._begin()
        if opened is None:
            return None
        block, record = self.blocks[self.index], self.record
        piece = opened.read(self.place)
        self.place, self.record = piece.end, record + piece.count
        self._refuse(piece, block)
        batch = self._on_time(piece, block, record)
        self.max_time = max(self.max_time, piece.instant)
        if self.promised is not None:
            self.promised.append(self.watermark)
        if self.place >= block.end:
            self._finish()
        self._promise()
        return NONE_ON_TIME if batch is None else batch

    def _is_ahead(self) -> bool:
        """Of the streams beside it, so that it waits for them."""
        return self.promised is not None and len(self.promised) == AHEAD and self.returned() < self.promised[0]

    def _begin(self) -> BlockReader | None:
        """Opens the next block, if there is one and the receivers are far enough."""
        if self.index >= len(self.blocks):
            self.ended = True
            self.release()
            return None
        before = self.index - 2 * self.readers
        if before >= 0 and self.returned() < self.blocks[before].bound:
            return None
        block = self.blocks[self.index]
        self.block = self.format.open(block)
        self.place, self.record, self.max_time = self.begun.get(block.partition, (block.start, 0, block.first_time))
        return self.block

    def _finish(self) -> None:
        self._close_block()
        self.index += self.readers

    def position(self) -> Position:
        done = {block.partition for block in self.blocks[self.reader : self.index : self.readers]}
        begun = {each.partition: self.begun[each.partition] for each in self._left() if each.partition in self.begun}
        if self.block is not None:
            begun[self.blocks[self.index].partition] = (self.place, self.record, self.max_time)
        return {"finished": sorted(self.finished | done), "begun": sorted(begun.items()), "dealt": [self.reader, self.readers]}

    def restore(self, positions: Sequence[Position]) -> None:
        """The blocks that are left are dealt anew, the begun ones among them; one of several readers that knows of itself alone goes on
        with those that it had."""
        if self.readers > 1 and [each["dealt"] for each in positions] == [[self.reader, self.readers]]:
            self._go_on(positions[0])
            return
        self.finished = {partition for each in positions for partition in each["finished"]}
        self.begun = {partition: tuple(begun) for each in positions for partition, begun in each["begun"] if partition not in self.finished}
        self.blocks = [block for block in self.blocks if block.partition not in self.finished]
        self.index, self.watermark = self.reader, MIN_TIME
        self._promise()

    def _go_on(self, position: Position) -> None:
        finished = set(position["finished"])
        self.begun = {partition: tuple(begun) for partition, begun in position["begun"]}
        own = [block.partition in finished for block in self.blocks[self.reader :: self.readers]]
        self.index, self.watermark = self.reader + self.readers * sum(own), MIN_TIME
        self._promise()

    def _left(self) -> Sequence[Block]:
        """Those of its blocks that it has not finished."""
        return self.blocks[self.index :: self.readers]

    def follow(self, wanted: int) -> bool:
        return False

    def release(self) -> None:
        self._close_block()
        self.format.rest()

    def _close_block(self) -> None:
        if self.block is not None:
            self.block.close()
            self.block = None

    def _promise(self) -> None:
        """The least event time still to come: of the block at hand and of the next of ours, whose bound is the least of the rest."""
        if self.stream.event_time is None:
            self.watermark = MAX_TIME if self.index >= len(self.blocks) else max(self.watermark, self.max_time)
            return
        following = self.index + (self.readers if self.block is not None else 0)
        least = self.blocks[following].bound if following < len(self.blocks) else MAX_TIME
        here = stamp_of(self.max_time, self.disorder) if self.block is not None else MAX_TIME
        self.watermark = max(self.watermark, min(here, least))

    def _on_time(self, piece: Piece, block: Block, record: int) -> Batch | None:
        """The rows that are on time; those that are late, and bad, are counted and left out. None: there are none."""
        time, judged = self._judge(piece)
        self.max_time, self.late_rows = judged.max_time, self.late_rows + judged.late
        if not len(time):
            return None
        origin = origin_of(self.source_index, block.partition, piece.records + record) if self.origin else None
        batch = Batch(piece.columns, time, origin, source=block.path, in_order=judged.rises)
        self.late.keep(batch, judged)
        return batch if judged.kept is None else batch.take(judged.kept)

    def _judge(self, piece: Piece) -> tuple[np.ndarray, Judged]:
        if piece.time is None:
            now = max(self.clock(), self.max_time)
            return np.full(len(piece.records), now, np.int64), Judged(None, now, 0, True)
        return piece.time, judge(piece.time, self.max_time, self.disorder, piece.bad_rows, piece.bad_times)

    def _refuse(self, piece: Piece, block: Block) -> None:
        odd = odd_time(self.stream.times)
        for bad in piece.bad:
            self.odd_times += odd in bad.reason
            self.dead_letters.put(Letter(self.stream.name, bad.reason, block.path, f"{self.format.unit} {bad.place}", bad.record))
        self.dead_letters.count_only(self.stream.name, piece.bad_count - len(piece.bad))

    @property
    def between_blocks(self) -> bool:
        return self.block is None

    def waits_for(self, now_us: int) -> str:
        if self.index >= len(self.blocks):
            return "nothing: all blocks are read"
        if self._is_ahead():
            assert self.promised is not None
            return f"a stream that is read beside it, to come to {describe_time(self.promised[0])}"
        before = self.index - 2 * self.readers
        if self.block is None and before >= 0:
            return f"its receivers: block {self.index} begins when they have reached {describe_time(self.blocks[before].bound)}"
        if self.block is None:
            return "the query to be started"
        return f"nothing: it is at {self.format.unit} {self.place} of {self.blocks[self.index].path!r}"
