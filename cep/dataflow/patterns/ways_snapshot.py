"""The ways of an instance as Arrow batches, and back: a part for each table, whose rows have the keys of their groups, so that groups
can go to different instances. Lines are named by their numbers there, which are new where they are restored.

    groups   last row, numbers            starts   first row, ways' fate         ways   state, last row, registers
    nodes    the row, and the one before  waiting  rows not said unmatched yet   rows   what is kept of them
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from cep.compile.patterns.ways import Ways
from cep.dataflow.operators.operator import Keep, Part
from cep.dataflow.outputs.text_codes import TextCodes
from cep.dataflow.patterns.kept_rows import KeptRows
from cep.dataflow.patterns.saved import ROWS, Renaming, RowOwners, SavedRows, part_of, restored_rows, saved_rows
from cep.kernels.arrays import bytes_array
from cep.kernels.columns import Column, from_arrow, to_arrow
from cep.kernels.patterns import places
from cep.kernels.patterns.chains import place_nodes, place_ways
from cep.kernels.states.exact_sum import POOL_WORDS, SPILLED
from cep.kernels.tables.group_numbers import GroupNumbers
from cep.model.schema import BINARY, INT64

GROUPS, STARTS, WAYS, NODES, WAITING, _ = PARTS = ("groups", "starts", "ways", "nodes", "waiting", ROWS)
_SAVED_GROUP = (places.LAST, places.SEQ, places.MATCHES)
_TEXT, _SUM = "__t", "__s"


def snapshot(ways: Ways, numbers: GroupNumbers, kept: KeptRows, texts: TextCodes) -> dict[str, pa.RecordBatch]:
    """By name of the part."""
    groups = ways.groups[: len(numbers)]
    told = np.flatnonzero(~ways.idle_groups(len(numbers)) | (groups[:, places.MATCHES] > 0))
    starts = ways.starts[: ways.desk[places.USED_STARTS]]
    open_ = np.flatnonzero(starts[:, places.GROUP] != places.NONE)
    return {
        GROUPS: part_of(numbers, told, groups[told][:, _SAVED_GROUP]),
        STARTS: part_of(numbers, starts[open_, places.GROUP], np.column_stack([open_, starts[open_]])),
        **_ways_and_nodes(ways, numbers, starts, texts),
        WAITING: _waiting(ways, numbers, groups),
        ROWS: _rows(ways, numbers, kept),
    }


def _ways_and_nodes(ways: Ways, numbers: GroupNumbers, starts: np.ndarray, texts: TextCodes) -> dict[str, pa.RecordBatch]:
    used = int(ways.desk[places.USED_WAYS])
    start_of, place = np.empty((2, used), np.int64)
    group_of = np.empty(int(ways.desk[places.USED_NODES]), np.int64)
    place_ways(starts, ways.ways[:used], start_of, place)
    place_nodes(starts, ways.ways[:used], ways.nodes[: len(group_of)], start_of, group_of)
    alive, nodes = np.flatnonzero(start_of != places.NONE), np.flatnonzero(group_of != places.NONE)
    words = np.column_stack([start_of[alive], place[alive], ways.ways[alive], _registers(ways)[alive]])
    more = {**_text_columns(ways, alive, texts), **_sums(ways, alive)}
    return {
        WAYS: part_of(numbers, starts[start_of[alive], places.GROUP], words, more),
        NODES: part_of(numbers, group_of[nodes], np.column_stack([nodes, ways.nodes[nodes]])),
    }


def _registers(ways: Ways) -> np.ndarray:
    """A line for each way."""
    width = ways.loop.registers.width
    return ways.registers[: len(ways.ways) * width].reshape(len(ways.ways), width)


def _text_columns(ways: Ways, alive: np.ndarray, texts: TextCodes) -> dict[str, pa.Array]:
    """What codes stand for; a word that is no code of a text that is there is NULL."""
    registers, found = _registers(ways)[alive], {}
    for word in ways.loop.registers.texts:
        column = Column(INT64, np.ascontiguousarray(registers[:, word]), (registers[:, word + 1] != 0).astype(np.uint8))
        found[f"{_TEXT}{word}"] = to_arrow(texts.texts(column, BINARY))
    return found


def _sums(ways: Ways, alive: np.ndarray) -> dict[str, pa.Array]:
    """The numbers of sums that have spilled, NULL of others."""
    registers, found = _registers(ways)[alive], {}
    for place in ways.loop.registers.sums:
        rows = np.where(registers[:, place] & SPILLED, registers[:, place + 1], -1)
        values = [None if row < 0 else ways.pool[row].tobytes() for row in rows.tolist()]
        found[f"{_SUM}{place}"] = bytes_array(values, pa.binary())
    return found


def _waiting(ways: Ways, numbers: GroupNumbers, groups: np.ndarray) -> pa.RecordBatch:
    lines: list[int] = []
    owners: list[int] = []
    for group in np.flatnonzero(groups[:, places.WAITING_FIRST] >= 0).tolist():
        line = int(groups[group, places.WAITING_FIRST])
        while line >= 0:
            lines.append(line)
            owners.append(group)
            line = int(ways.waiting[line, places.NEXT])
    at = np.array(lines, np.int64)
    return part_of(numbers, np.array(owners, np.int64), np.column_stack([at, ways.waiting[at]]))


def _rows(ways: Ways, numbers: GroupNumbers, kept: KeptRows) -> pa.RecordBatch:
    """Those that anything has; a row is of one group."""
    rows = RowOwners(kept)
    for lines, word, groups in _owners(ways):
        rows.put(lines[:, word], groups)
    return saved_rows(numbers, rows)


def _owners(ways: Ways) -> Iterator[tuple[np.ndarray, int, np.ndarray]]:
    """Lines that have rows, the word that says which, and their groups."""
    starts = ways.starts[: ways.desk[places.USED_STARTS]]
    start_of, place = np.empty((2, int(ways.desk[places.USED_WAYS])), np.int64)
    group_of = np.empty(int(ways.desk[places.USED_NODES]), np.int64)
    place_ways(starts, ways.ways[: len(start_of)], start_of, place)
    place_nodes(starts, ways.ways[: len(start_of)], ways.nodes[: len(group_of)], start_of, group_of)
    there = group_of != places.NONE
    yield ways.nodes[: len(group_of)][there], places.ROW, group_of[there]
    for group in np.flatnonzero(ways.groups[:, places.WAITING_FIRST] >= 0).tolist():
        line = int(ways.groups[group, places.WAITING_FIRST])
        while line >= 0:
            yield ways.waiting[line : line + 1], places.WAITING_ROW, np.array([group])
            line = int(ways.waiting[line, places.NEXT])


# --- back -------------------------------------------------------------------------------------------------------------


def restore(ways: Ways, numbers: GroupNumbers, kept: KeptRows, texts: TextCodes, parts: Sequence[Part], keep: Keep) -> None:
    """Adds what `snapshot`s of former instances had, of which `keep` says what is this one's: their parts in order, each from `groups`
    on."""
    begins = [i for i, part in enumerate(parts) if part.name == GROUPS]
    for begin, end in pairwise([*begins, len(parts)]):
        own = {part.name: SavedRows.of(part, numbers, keep) for part in parts[begin:end]}
        _Restoring(ways, kept, texts, own).run(len(numbers))


class _Restoring:
    """What one former instance had, table by table: each names lines of those before it."""

    def __init__(self, ways: Ways, kept: KeptRows, texts: TextCodes, parts: Mapping[str, SavedRows]) -> None:
        self.ways, self.kept, self.texts, self.parts = ways, kept, texts, parts

    def run(self, groups: int) -> None:
        self.ways.has_groups(groups)
        self._groups()
        rows = self._rows()
        waiting = self._waiting(rows)
        nodes = self._nodes(rows, waiting)
        starts = self._starts(rows, nodes)
        self._ways(starts, nodes)
        restored = self.parts.get(GROUPS)
        if restored is not None:
            self.ways.watch(np.ascontiguousarray(restored.groups))

    def _groups(self) -> None:
        part = self.parts[GROUPS]
        self.ways.groups[part.groups] = places.FRESH_GROUP
        for i, word in enumerate(_SAVED_GROUP):
            self.ways.groups[part.groups, word] = part.words[:, i]

    def _rows(self) -> Renaming:
        return restored_rows(self.parts.get(ROWS), self.kept)

    def _added(self, name: str, table: str, used: int) -> tuple[SavedRows, Renaming, slice] | None:
        part = self.parts.get(name)
        if part is None or not len(part.groups):
            return None
        first = self.ways.add_lines(table, used, len(part.groups))
        lines = slice(first, first + len(part.groups))
        return part, Renaming(part.words[:, 0], first), lines

    def _waiting(self, rows: Renaming) -> Renaming:
        added = self._added(WAITING, "waiting", places.USED_WAITING)
        if added is None:
            return Renaming(np.empty(0, np.int64), 0)
        part, renaming, lines = added
        table = self.ways.waiting[lines]
        table[:] = part.words[:, 1:]
        table[:, places.WAITING_ROW] = rows(table[:, places.WAITING_ROW])
        order = np.lexsort((table[:, places.WAITING_SEQ], part.groups))
        self._link(
            order + lines.start, part.groups[order], (places.WAITING_FIRST, places.WAITING_LAST, places.WAITING), "waiting", places.NEXT
        )
        return renaming

    def _link(self, lines: np.ndarray, groups: np.ndarray, words: tuple[int, int, int], table: str, following: int) -> None:
        """`lines` are lists of their groups, in order."""
        ends = np.concatenate([groups[1:] != groups[:-1], [True]])
        begins = np.concatenate([[True], ends[:-1]])
        lists = getattr(self.ways, table)
        lists[lines, following] = np.where(ends, places.NONE, np.concatenate([lines[1:], [places.NONE]]))
        first, last, count = words
        self.ways.groups[groups[begins], first] = lines[begins]
        self.ways.groups[groups[ends], last] = lines[ends]
        np.add.at(self.ways.groups, (groups, np.full(len(groups), count)), 1)
        if table == "starts":
            lists[lines, places.BEFORE] = np.where(begins, places.NONE, np.concatenate([[places.NONE], lines[:-1]]))

    def _nodes(self, rows: Renaming, waiting: Renaming) -> Renaming:
        added = self._added(NODES, "nodes", places.USED_NODES)
        if added is None:
            return Renaming(np.empty(0, np.int64), 0)
        part, renaming, lines = added
        table = self.ways.nodes[lines]
        table[:] = part.words[:, 1:]
        table[:, places.PARENT] = renaming(table[:, places.PARENT])
        table[:, places.ROW] = rows(table[:, places.ROW])
        table[:, places.MARK] = waiting(table[:, places.MARK])
        for word in (places.HIT, places.SEEN, places.CHILD, places.SIBLING):
            table[:, word] = places.NONE
        table[:, places.USES] = 0
        self._use(table[:, places.PARENT])
        return renaming

    def _use(self, nodes: np.ndarray) -> None:
        used = nodes[nodes >= 0]
        np.add.at(self.ways.nodes, (used, np.full(len(used), places.USES)), 1)

    def _starts(self, rows: Renaming, nodes: Renaming) -> Renaming:
        added = self._added(STARTS, "starts", places.USED_STARTS)
        if added is None:
            return Renaming(np.empty(0, np.int64), 0)
        part, renaming, lines = added
        table = self.ways.starts[lines]
        table[:] = part.words[:, 1:]
        table[:, places.GROUP], table[:, places.WAY] = part.groups, places.NONE
        table[:, places.ROW0] = rows(table[:, places.ROW0])
        table[:, places.WITH] = nodes(table[:, places.WITH])
        self._use(table[:, places.WITH])
        order = np.lexsort((table[:, places.SEQ0], part.groups))
        self._link(order + lines.start, part.groups[order], (places.HEAD, places.TAIL, places.OPEN), "starts", places.AFTER)
        return renaming

    def _ways(self, starts: Renaming, nodes: Renaming) -> None:
        added = self._added(WAYS, "ways", places.USED_WAYS)
        if added is None:
            return
        part, _, lines = added
        ways, words = self.ways, part.words
        own, place, saved = starts(words[:, 0]), words[:, 1], words[:, 2 : 2 + places.WAY_WORDS]
        table = ways.ways[lines]
        table[:] = saved
        table[:, places.NODE] = nodes(saved[:, places.NODE])
        self._use(table[:, places.NODE])
        order = np.lexsort((place, own))
        at, begins = order + lines.start, np.concatenate([[True], own[order][1:] != own[order][:-1]])
        ends = np.concatenate([begins[1:], [True]])
        ways.ways[at, places.FOLLOWING] = np.where(ends, places.NONE, np.concatenate([at[1:], [places.NONE]]))
        ways.starts[own[order][begins], places.WAY] = at[begins]
        np.add.at(ways.groups, (part.groups, np.full(len(part.groups), places.WAYS)), 1)
        ways.groups[part.groups, places.HEEDS] = -1  # until none is open
        self._registers(part, lines)

    def _registers(self, part: SavedRows, lines: slice) -> None:
        registers = self.ways.loop.registers
        table = _registers(self.ways)[lines]
        table[:] = part.words[:, 2 + places.WAY_WORDS :]
        for word in registers.texts:
            codes = self.texts.codes(from_arrow(part.batch.column(f"{_TEXT}{word}"), BINARY))
            table[:, word] = codes.values
        for j, place in enumerate(registers.sums):
            for i, value in enumerate(part.batch.column(f"{_SUM}{place}").to_pylist()):
                if value is not None:
                    row = (lines.start + i) * len(registers.sums) + j
                    self.ways.pool[row] = np.frombuffer(value, np.int64, POOL_WORDS)
                    table[i, place + 1] = row
