"""Pieces that have what has changed, with those before them that they need: all of the state, however they were cut.

Tests `increments.py`, `cep/kernels/tables/changes.py`.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cep.compile.aggregate.window_state import WindowState
from cep.compile.windows.per_row import PerRowState
from cep.dataflow.layout import Layout
from cep.dataflow.movement.owners import everything
from cep.dataflow.operators.operator import Part
from cep.elements import Batch, State
from cep.errors import ClusterError
from cep.kernels.columns import columns_from_arrow
from cep.kernels.tables.changes import BlockSizes, ChangedBlocks, TakenBlocks, block_sizes
from cep.plan.physical import PhysicalPlan
from driver import TIME, UNBOUNDED, Query, count, count_distinct, first, max_, min_, stream, sum_
from instance_manager.recovery.increments import PieceKey, blocks_state, completed, inherited, needs_document
from instance_manager.recovery.pieces import TakenPart, bytes_of, states_in, states_made
from tests.support.plans import planned

KEYS, STEPS = 20, 24
PER_ROW = ("each", "plain", "forgotten")
WINDOWS: dict[str, Any] = {
    "each": UNBOUNDED(ttl=None),
    "plain": UNBOUNDED(ttl="1s"),  # entries that refer to nothing: they stay where they are
    "forgotten": UNBOUNDED(ttl="20ms"),
    "tumbling": TIME("100ms"),
    "sliding": TIME("200ms", "20ms"),
}

pytestmark = pytest.mark.usefixtures("as_python")


def plan_of(window: str) -> PhysicalPlan:
    read = stream("s", t="timestamp[ms]", key=str, i=int, x=float, event_time="t", disorder="1s")
    functions: dict[str, Any] = {"n": count(), "opened": first("i"), "least": min_("i")}
    if window != "plain":
        functions |= {"total": sum_("x"), "most": max_("key"), "different": count_distinct("i")}
    made = Query("q").source(read).aggregate("w", WINDOWS[window], by="key", **functions).output("out")
    return planned(made.options(parallelism=1, pre_aggregation="off", recover="on-commit").build())


def content(batches: Iterable[pa.RecordBatch]) -> list[dict[str, Any]]:
    """In an order of their own; numbers of a set have none."""
    rows = [row for batch in batches for row in batch.to_pylist()]
    plain = [{name: sorted(struct.iter_unpack("<q", v)) if isinstance(v, bytes) else v for name, v in row.items()} for row in rows]
    return sorted(plain, key=repr)


class Taking:
    """A state that takes rows, and checkpoints of it as an instance would write them."""

    def __init__(self, window: str, choose: random.Random) -> None:
        self.window, self.plan, self.choose = window, plan_of(window), choose
        self.state = self._empty()
        self.files, self.there = dict[PieceKey, bytes](), dict[int, PieceKey]()
        self.at = self.number = 0

    def _empty(self) -> PerRowState | WindowState:
        layout = Layout(self.plan)
        spec = layout.spec(layout.aggregate("w"), "whole")
        return PerRowState(spec, "w") if self.window in PER_ROW else WindowState(spec, "w")

    def go_on(self) -> None:
        """Some rows, and now and then a watermark."""
        rows, few = self.choose.randint(1, 6), self.choose.random() < 0.5
        times = sorted(self.at + self.choose.randint(0, 10) for _ in range(rows))
        self.at = times[-1]
        keys = [self.choose.randrange(3 if few else KEYS) for _ in times]
        values = {
            "t": times,
            "key": [f"{'' if self.window == 'plain' else 'long ' * (key % 5)}{key}" for key in keys],
            "i": [self.choose.randrange(9) for _ in times],
        }
        values["x"] = [self.choose.choice((0.1, 1e17, 3.0)) for _ in times]
        schema = Layout(self.plan).columns("s")
        records = pa.RecordBatch.from_pydict({name: values[name] for name in schema.names}, schema=schema.arrow)
        batch = Batch(columns_from_arrow(records, schema), np.array(times) * 1000, np.stack([np.zeros(rows, int), np.arange(rows)], 1))
        if isinstance(self.state, PerRowState):
            self._drain(self.state.take(batch))
            self.state._work += 10_000  # so that groups are looked through
            self._drain(self.state.close(self.at * 1000))
            return
        self.state.add(batch)
        if self.choose.random() < 0.5:
            self._drain(self.state.advance(self.at * 1000))

    @staticmethod
    def _drain(answers: Iterator[object]) -> None:
        for _ in answers:
            """They are of no interest here."""

    def checkpoint(self) -> tuple[PieceKey, list[dict[str, Any]]]:
        """It is on the disk, and what was in the state."""
        self.number += 1
        parts = [Part("groups", 0, rows, blocks) for rows, blocks in self.state.changes(self.number)]
        oldest = min((part.blocks.oldest for part in parts if part.blocks is not None), default=self.number)
        self.there = {number: key for number, key in self.there.items() if number >= oldest}
        self.files = {key: self.files[key] for key in self.there.values()}
        taken = [*(TakenPart("w", part) for part in parts), needs_document(self.there)]
        key = f"piece {self.number}", self.number
        self.files[key] = b"".join(bytes_of(states_made(taken)))
        return key, content([made() for made in self.state.snapshot()])

    def stored(self, key: PieceKey) -> None:
        self.there[self.number] = key
        self.state.stored(self.number)

    def recover(self, key: PieceKey) -> None:
        """From that piece, in a process that knows nothing else."""
        piece = completed(self.read(key), key[1], self.read)
        self.state, self.there = self._empty(), inherited(piece, key[1], key)
        groups = [state for state in piece if state.operator]
        if isinstance(self.state, PerRowState):
            found = [state.found for state in groups if state.found is not None]
            self.state.restore([state.rows for state in groups], partial(everything, 0), found)
            return
        for state in groups:
            self.state.restore(state.rows)

    def found(self, key: PieceKey) -> list[dict[str, Any]]:
        """What a recovery from that piece would find."""
        return content([state.rows for state in completed(self.read(key), key[1], self.read) if state.operator])

    def read(self, key: PieceKey) -> list[State]:
        return states_in(memoryview(self.files[key]))


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("seed", range(2))
def test_all_of_the_state_is_in_a_piece_and_those_that_it_needs(window: str, seed: int) -> None:
    choose, needed = random.Random(seed), 0
    with block_sizes(BlockSizes(shift=seed % 2, round=4, whole_bytes=0)):
        taking = Taking(window, choose)
        for _ in range(STEPS):
            for _ in range(choose.randint(0, 2)):
                taking.go_on()
            key, wanted = taking.checkpoint()
            needed = max(needed, len(taking.there))
            assert taking.found(key) == wanted
            if choose.random() < 0.7:
                taking.stored(key)
                if choose.random() < 0.3:
                    taking.recover(key)
                    assert content([made() for made in taking.state.snapshot()]) == wanted
    assert needed <= 12  # of 24
    assert needed > 1 or window in ("tumbling", "forgotten")


def test_the_first_checkpoint_of_an_attempt_has_what_has_changed() -> None:
    with block_sizes(BlockSizes(shift=0, round=8, whole_bytes=0)):
        taking = Taking("plain", random.Random(2))
        for _ in range(2):
            for _ in range(20):
                taking.go_on()
            key, wanted = taking.checkpoint()
            taking.stored(key)
        taking.recover(key)
        again, _ = taking.checkpoint()
        there = [state for state in taking.read(again) if state.operator]
        assert 0 < sum(state.rows.num_rows for state in there) <= 3 and len(wanted) > 15
        assert taking.found(again) == wanted


def test_a_piece_that_lacks_what_it_needs_is_refused() -> None:
    with block_sizes(BlockSizes(shift=0, round=8, whole_bytes=0)):
        taking = Taking("each", random.Random(1))
        for _ in range(20):
            taking.go_on()
        taking.stored(taking.checkpoint()[0])
        taking.go_on()
        key, _ = taking.checkpoint()
        piece = [state for state in taking.read(key) if state.part != "needs"]
        with pytest.raises(ClusterError, match=r"operator 'w': of \d+ groups of a checkpoint \d+ are in its pieces"):
            completed(piece, taking.number, taking.read)


def piece_of(rows: int, oldest: int, needs: dict[int, PieceKey]) -> list[State]:
    """Of one table, number 1, that has all its groups in it."""
    blocks = TakenBlocks(1, rows, 1, oldest, np.arange(rows))
    return [blocks_state(blocks), State("w", "groups", 0, pa.record_batch({"_w": [oldest] * rows})), needs_document(needs)]


def test_the_number_of_a_table_may_have_been_another_ones_in_an_attempt_before() -> None:
    """The piece before is needed for another operator."""
    before = ("piece 1", 1)
    found = completed(piece_of(2, 2, {1: before}), 2, lambda key: piece_of(5, 1, {}))
    assert [state.rows.to_pylist() for state in found if state.operator] == [[{"_w": 2}, {"_w": 2}]]


class TestChangedBlocks:
    """Of a table of 100 entries in blocks of two."""

    sizes = BlockSizes(shift=1, round=10, whole_bytes=0)

    @pytest.fixture
    def blocks(self) -> ChangedBlocks:
        with block_sizes(self.sizes):
            made = ChangedBlocks(1)
        made.fit(100)
        return made

    def test_all_are_taken_once_and_then_those_that_change_and_a_part_of_the_others(self, blocks: ChangedBlocks) -> None:
        assert blocks.take(1, 100, 8).numbers.tolist() == list(range(50))
        blocks.stored(1)
        blocks.marks[40] = 1
        taken = blocks.take(2, 100, 8)
        assert (taken.numbers.tolist(), taken.oldest, taken.entries) == ([6, 7, 8, 9, 10, 11, 40], 1, 14)

    def test_what_is_in_doubt_is_taken_again(self, blocks: ChangedBlocks) -> None:
        blocks.take(1, 100, 8)
        blocks.stored(1)
        blocks.marks[40] = 1
        blocks.take(2, 100, 8)
        blocks.stored(1)  # too late
        assert blocks.take(3, 100, 8).numbers.tolist() == [6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 40]

    def test_nothing_old_is_needed_for_long(self, blocks: ChangedBlocks) -> None:
        for number in range(1, 40):
            taken = blocks.take(number, 100, 8)
            blocks.stored(number)
            assert number - taken.oldest <= 10
            assert len(taken.numbers) <= 6 or number == 1

    def test_a_small_table_is_taken_as_a_whole(self) -> None:
        blocks = ChangedBlocks(1)
        blocks.fit(1000)
        for number in (1, 2):
            taken = blocks.take(number, 1000, 100)
            assert (len(taken.numbers), taken.oldest, taken.entries) == (32, number, 1000)
            blocks.stored(number)

    def test_the_last_block_is_what_is_left(self, blocks: ChangedBlocks) -> None:
        assert blocks.take(1, 99, 8).entries == 99
