"""Pieces of checkpoints that have only what has changed, and name the earlier ones in which the rest is.

Before the rows of a table that a piece has in part (`cep.kernels.tables.changes`) stands which blocks they are. Of each block the newest
counts, in the piece itself and then in those that it needs, from the last to the first; tables that the piece itself says nothing of are
no more. The first column of such rows says how far the instance had come, and so it does of the piece itself for all of them. A number of
a table may have been another one's in an attempt before: nothing of a table is looked for before the oldest checkpoint that it names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from cep.dataflow.movement.instance_move import move_document, value_of
from cep.elements import State
from cep.errors import ClusterError
from cep.kernels.arrays import int64_array, mask_array, numbers_in
from cep.kernels.tables.changes import FoundBlocks, TakenBlocks

_BLOCKS, _NEEDS = "blocks", "needs"

#: Rows of a column of one value, at least.
CONSTANTS = 65_536
#: The name and CRC of a piece.
PieceKey = tuple[str, int]


def needs_document(pieces: Mapping[int, PieceKey]) -> State:
    """`pieces`: by checkpoint."""
    return move_document(_NEEDS, [[number, *pieces[number]] for number in sorted(pieces)])


def needs_of(piece: Iterable[State]) -> dict[int, PieceKey]:
    """What it names, by checkpoint in their order."""
    documents = [value_of(state) for state in piece if not state.operator and state.part == _NEEDS]
    return {number: (name, crc) for document in documents for number, name, crc in document}


def inherited(piece: Iterable[State], number: int, own: PieceKey) -> dict[int, PieceKey]:
    """What an attempt that goes on from `piece`, of checkpoint `number`, known as `own`, is to name in its own as long as it needs it."""
    return needs_of(piece) | {number: own}


def blocks_state(blocks: TakenBlocks) -> State:
    """To stand before the rows."""
    words = np.concatenate([[blocks.table, blocks.rows, blocks.size, blocks.oldest], blocks.numbers])
    return State("", _BLOCKS, 0, pa.RecordBatch.from_arrays([int64_array(words)], ["words"]))


def _blocks_in(state: State) -> TakenBlocks:
    words = numbers_in(state.rows.column("words"))
    table, rows, size, oldest = words[:4].tolist()
    return TakenBlocks(table, rows, size, oldest, words[4:])


class _Table:
    """What is found of a table, as the piece itself says that it is."""

    def __init__(self, blocks: TakenBlocks, rows: pa.RecordBatch) -> None:
        self.rows, self.size, self.oldest, self.found = blocks.rows, blocks.size, blocks.oldest, 0
        self.there = np.zeros(-(-blocks.rows // blocks.size), bool)
        self.progress = rows.column(0)[0]

    def take(self, blocks: TakenBlocks, state: State, checkpoint: int, constants: _Constants) -> Iterator[State]:
        """Of the rows those of blocks that are not there yet, as `checkpoint` has them."""
        fresh = ~self.there[blocks.numbers]
        self.there[blocks.numbers] = True
        rows = state.rows
        if not fresh.all():
            rows = rows.filter(mask_array(np.repeat(fresh, self.size)[: rows.num_rows]))
        self.found += rows.num_rows
        if rows.num_rows:
            if rows.column(0)[0] != self.progress:
                rows = rows.set_column(0, rows.schema.field(0), constants.of(self.progress, rows.num_rows))
            found = FoundBlocks(replace(blocks, rows=self.rows, numbers=blocks.numbers[fresh]), checkpoint)
            yield State(state.operator, state.part, state.port, rows, found)


class _Constants:
    """Columns of one value each, which look at the same memory."""

    def __init__(self) -> None:
        self._made = dict[int, pa.Array]()

    def of(self, value: pa.Scalar, rows: int) -> pa.Array:
        number = value.as_py()
        if number not in self._made or len(self._made[number]) < rows:
            self._made[number] = int64_array(np.full(max(rows, CONSTANTS), number))
        return self._made[number].slice(0, rows)


def completed(piece: Sequence[State], number: int, read: Callable[[PieceKey], Iterable[State]]) -> list[State]:
    """The piece of checkpoint `number` with what is in those that it needs, which `read` reads. Raises ClusterError: something is in none
    of them."""
    parts, constants = list(_parts(piece)), _Constants()
    in_part = {id(state) for _, state in parts}
    apart = [state for state in piece if id(state) not in in_part and (state.operator or state.part != _BLOCKS)]
    tables = dict[tuple[str, int], _Table]()
    for blocks, state in parts:
        if (state.operator, blocks.table) not in tables:
            tables[state.operator, blocks.table] = _Table(blocks, state.rows)
    earlier = reversed(needs_of(piece).items() if tables else ())
    found = list[State]()
    for checkpoint, own in ((number, parts), *((each, _parts(read(key))) for each, key in earlier)):
        for blocks, state in own:
            if (table := tables.get((state.operator, blocks.table))) is not None and checkpoint >= table.oldest:
                found += table.take(blocks, state, checkpoint, constants)
    for (operator, _), table in tables.items():
        if table.found != table.rows:
            raise ClusterError(f"operator {operator!r}: of {table.rows} groups of a checkpoint {table.found} are in its pieces")
    return apart + found


def _parts(piece: Iterable[State]) -> Iterator[tuple[TakenBlocks, State]]:
    """What is there in part."""
    before: State | None = None
    for state in piece:
        if before is not None and before.part == _BLOCKS and not before.operator:
            yield _blocks_in(before), state
        before = state


__all__ = ["blocks_state", "completed", "inherited", "needs_document", "needs_of"]
