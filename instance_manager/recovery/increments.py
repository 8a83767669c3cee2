"""Pieces of checkpoints that have only what has changed, and name the earlier ones in which the rest is.

Before the rows of a table that a piece has in part (`cep.kernels.tables.changes`) stands which blocks they are. Of each block the newest
counts, in the piece itself and then in those that it needs, from the last to the first; tables that the piece itself says nothing of are
no more. The first column of such rows says how far the instance had come, and so it does of the piece itself for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from cep.dataflow.movement.instance_move import move_document, value_of
from cep.elements import State
from cep.errors import ClusterError
from cep.kernels.tables.changes import TakenBlocks

_BLOCKS, _NEEDS = "blocks", "needs"

#: Rows of a column of one value, at least.
CONSTANTS = 65_536
#: The name and CRC of a piece.
PieceKey = tuple[str, int]


def needs_document(pieces: Sequence[PieceKey]) -> State:
    """`pieces`: in the order in which they were taken."""
    return move_document(_NEEDS, pieces)


def blocks_state(blocks: TakenBlocks) -> State:
    """To stand before the rows."""
    words = np.concatenate([[blocks.table, blocks.rows, blocks.size, blocks.oldest], blocks.numbers])
    return State("", _BLOCKS, 0, pa.record_batch({"words": words}))


def _blocks_in(state: State) -> TakenBlocks:
    words = state.rows.column("words").to_numpy()
    table, rows, size, oldest = words[:4].tolist()
    return TakenBlocks(table, rows, size, oldest, words[4:])


class _Table:
    """What is found of a table, as the piece itself says that it is."""

    def __init__(self, blocks: TakenBlocks, rows: pa.RecordBatch) -> None:
        self.rows, self.size, self.found = blocks.rows, blocks.size, 0
        self.there = np.zeros(-(-blocks.rows // blocks.size), bool)
        self.progress = rows.column(0)[0]

    def take(self, blocks: TakenBlocks, state: State, constants: _Constants) -> Iterator[State]:
        """Of the rows those of blocks that are not there yet."""
        fresh = ~self.there[blocks.numbers]
        self.there[blocks.numbers] = True
        rows = state.rows
        if not fresh.all():
            rows = rows.filter(pa.array(np.repeat(fresh, self.size)[: rows.num_rows]))
        self.found += rows.num_rows
        if rows.num_rows:
            if rows.column(0)[0] != self.progress:
                rows = rows.set_column(0, rows.schema.field(0), constants.of(self.progress, rows.num_rows))
            yield State(state.operator, state.part, state.port, rows)


class _Constants:
    """Columns of one value each, which look at the same memory."""

    def __init__(self) -> None:
        self._made = dict[int, pa.Array]()

    def of(self, value: pa.Scalar, rows: int) -> pa.Array:
        number = value.as_py()
        if number not in self._made or len(self._made[number]) < rows:
            self._made[number] = pa.array(np.full(max(rows, CONSTANTS), number, np.int64))
        return self._made[number].slice(0, rows)


def completed(piece: Sequence[State], read: Callable[[PieceKey], Iterable[State]]) -> list[State]:
    """A piece with what is in those that it needs, which `read` reads. Raises ClusterError: something is in none of them."""
    parts, constants = list(_parts(piece)), _Constants()
    in_part = {id(state) for _, state in parts}
    apart = [state for state in piece if id(state) not in in_part and (state.operator or state.part not in (_BLOCKS, _NEEDS))]
    tables = dict[tuple[str, int], _Table]()
    for blocks, state in parts:
        if (state.operator, blocks.table) not in tables:
            tables[state.operator, blocks.table] = _Table(blocks, state.rows)
    needs = [tuple(each) for state in piece if not state.operator and state.part == _NEEDS for each in value_of(state)]
    found = list[State]()
    for own in (parts, *(_parts(read((name, crc))) for name, crc in reversed(needs if tables else []))):
        for blocks, state in own:
            if (table := tables.get((state.operator, blocks.table))) is not None:
                found += table.take(blocks, state, constants)
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


__all__ = ["blocks_state", "completed", "needs_document"]
