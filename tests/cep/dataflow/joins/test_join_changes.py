"""Checkpoints of an interval join that have what has changed: what is restored of one, and those that it needs, answers as the join does
that went on."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable

import pytest

from cep.dataflow.joins import interval_join
from cep.dataflow.joins.interval_join import IntervalJoinOperator
from cep.dataflow.movement.owners import everything
from cep.dataflow.operators.operator import KeepsBlocks
from cep.elements import MAX_TIME, Batch, State
from cep.kernels.tables.changes import BlockSizes, block_sizes
from instance_manager.recovery.increments import PieceKey, completed, inherited, needs_document
from instance_manager.recovery.pieces import TakenPart, TakenState, bytes_of, states_in, states_made
from instance_manager.recovery.scaled import parts_in
from tests.cep.dataflow.joins.test_interval_join import joined
from tests.support.joining import batch_of, made, sides
from tests.support.pausing import without_pauses
from tests.support.running import rows

pytestmark = pytest.mark.usefixtures("as_python")

#: (lower, upper, how); with rows that come out alone on each side, with bounds and without.
JOINS = ((-3, 5, "full"), (-3, 5, "inner"), (0, 0, "left"), (None, 4, "full"), (None, None, "right"))


class Joining:
    """A join that takes rows, and its checkpoints as an instance would write them."""

    def __init__(self, join: tuple[int | None, int | None, str], choose: random.Random) -> None:
        self.choose, self.join = choose, joined(join[:2], join[2], "some")
        given = sides(random.Random(1))
        self.streams = given.left, given.right
        self.operator = self.empty()
        self.files, self.there = dict[PieceKey, bytes](), dict[int, PieceKey]()
        self.watermark = self.row = self.number = 0

    def empty(self) -> IntervalJoinOperator:
        operator = made(self.join, self.streams)
        assert isinstance(operator, IntervalJoinOperator) and isinstance(operator, KeepsBlocks)
        return operator

    def what_comes(self) -> tuple[int, Batch | int]:
        """Rows on time for one side, or a watermark."""
        if self.choose.random() < 0.25:
            self.watermark += self.choose.randint(0, 4)
            return -1, self.watermark
        given = []
        for _ in range(self.choose.randint(1, 5)):
            self.row += 1
            given.append((self.watermark + self.choose.randint(0, 8), self.choose.randint(1, 4), self.row))
        port = self.choose.randrange(2)
        return port, batch_of(self.streams[port], given, port)

    def checkpoint(self) -> PieceKey:
        self.number += 1
        parts = self.operator.changes(self.number)
        oldest = min((part.blocks.oldest for part in parts if part.blocks is not None), default=self.number)
        self.there = {number: key for number, key in self.there.items() if number >= oldest}
        taken: list[TakenState] = [*(TakenPart("j", part) for part in parts), needs_document(self.there)]
        key = f"piece {self.number}", self.number
        self.files[key] = b"".join(bytes_of(states_made(taken)))
        return key

    def stored(self, key: PieceKey) -> None:
        self.there[self.number] = key
        self.operator.stored(self.number)

    def restored(self, key: PieceKey) -> IntervalJoinOperator:
        operator = self.empty()
        operator.restore(parts_in(completed(self.read(key), key[1], self.read), "j"), everything)
        return operator

    def go_on_from(self, key: PieceKey) -> None:
        self.operator = self.restored(key)
        self.there = inherited(self.read(key), key[1], key)

    def read(self, key: PieceKey) -> list[State]:
        return states_in(memoryview(self.files[key]))


def answers(joining: Joining, operator: IntervalJoinOperator, port: int, came: Batch | int) -> Counter[object]:
    schema = joining.join.joined_schema(*(each.schema for each in joining.streams))
    out: Iterable[Batch] = operator.on_batch(came, port) if isinstance(came, Batch) else operator.on_watermark(came)
    return Counter(map(repr, rows(list(without_pauses(out)), schema)))


@pytest.mark.parametrize("join", JOINS, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_what_is_restored_answers_as_what_goes_on(monkeypatch: pytest.MonkeyPatch, join: tuple[int, int, str], seed: int) -> None:
    monkeypatch.setattr(interval_join, "BLOCK_ROWS", 40)
    monkeypatch.setattr(interval_join, "_OVER_MIN", 3)
    choose, needed = random.Random(f"{join} {seed}"), 0
    with block_sizes(BlockSizes(shift=seed % 3, round=4, whole_bytes=0)):
        joining = Joining(join, choose)
        for _ in range(15 if join[:2] == (None, None) else 25):  # of one without bounds all rows stay
            for _ in range(choose.randint(0, 6)):
                answers(joining, joining.operator, *joining.what_comes())
            key = joining.checkpoint()
            needed = max(needed, len(joining.there))
            again = joining.restored(key)
            if choose.random() < 0.7:
                joining.stored(key)
                if choose.random() < 0.3:
                    joining.go_on_from(key)
            for _ in range(choose.randint(0, 6)):
                came = joining.what_comes()
                assert answers(joining, again, *came) == answers(joining, joining.operator, *came)
        assert answers(joining, joining.restored(joining.checkpoint()), -1, MAX_TIME) == answers(joining, joining.operator, -1, MAX_TIME)
    assert needed > 1 or seed, "and with blocks of one row it was in several pieces"


def test_of_many_rows_those_that_have_come_are_taken() -> None:
    with block_sizes(BlockSizes(shift=2, round=16, whole_bytes=0)):
        joining = Joining((None, None, "inner"), random.Random(5))
        while joining.row < 400:
            answers(joining, joining.operator, *joining.what_comes())
        joining.stored(joining.checkpoint())
        answers(joining, joining.operator, 0, batch_of(joining.streams[0], [(joining.watermark, 1, 1000)]))
        taken = [part for part in joining.operator.changes(2) if part.blocks is not None]
        assert 0 < sum(part.batch.num_rows for part in taken) < 60
