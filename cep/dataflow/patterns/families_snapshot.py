"""The families of an instance as Arrow batches, and back: a part for each table, as for ways (`ways_snapshot`).

    groups   what is of a group, its first and last open start, its first bundle      starts    in order
    bundles  kind and heap                                                             nodes     of heaps; rows: what is kept of tuples

All lines of a group are in one instance's parts, so what they name goes with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from cep.compile.patterns.families import FamilyBundles
from cep.dataflow.operators.operator import Keep, Part
from cep.dataflow.patterns.kept_rows import KeptRows
from cep.dataflow.patterns.saved import ROWS, Renaming, RowOwners, SavedRows, part_of, restored_rows, saved_rows
from cep.kernels.patterns import family_places, places
from cep.kernels.tables.group_numbers import GroupNumbers

GROUPS, STARTS, BUNDLES, NODES, _ = PARTS = ("family groups", "family starts", "bundles", "heaps", ROWS)
_SAVED_GROUP = (places.LAST, places.SEQ, places.MATCHES, places.OPEN, places.HEAD, places.TAIL, family_places.BUNDLES)


def snapshot(families: FamilyBundles, numbers: GroupNumbers, kept: KeptRows) -> dict[str, pa.RecordBatch]:
    """By name of the part."""
    groups = families.groups[: len(numbers)]
    told = np.flatnonzero(~families.idle_groups(len(numbers)) | (groups[:, places.MATCHES] > 0))
    found = {GROUPS: part_of(numbers, told, groups[told][:, _SAVED_GROUP])}
    for name, table, lines, word in (
        (STARTS, families.starts, families.open_starts(), family_places.OPEN_GROUP),
        (BUNDLES, families.bundles, families.used_bundles(), family_places.BUNDLE_GROUP),
        (NODES, families.nodes, families.used_nodes(), family_places.HEAP_GROUP),
    ):
        found[name] = part_of(numbers, table[lines, word], np.column_stack([lines, table[lines]]))
    nodes, rows = families.nodes[families.used_nodes()], RowOwners(kept)
    rows.put(nodes[:, family_places.TAKEN_ROW], nodes[:, family_places.HEAP_GROUP])
    return found | {ROWS: saved_rows(numbers, rows)}


def restore(families: FamilyBundles, numbers: GroupNumbers, kept: KeptRows, parts: Sequence[Part], keep: Keep) -> None:
    """Adds what `snapshot`s of former instances had, of which `keep` says what is this one's: their parts in order, each from `groups`
    on."""
    begins = [i for i, part in enumerate(parts) if part.name == GROUPS]
    for begin, end in pairwise([*begins, len(parts)]):
        own = {part.name: SavedRows.of(part, numbers, keep) for part in parts[begin:end]}
        families.has_groups(len(numbers))
        _restore_one(families, own, restored_rows(own.get(ROWS), kept))


def _restore_one(families: FamilyBundles, parts: dict[str, SavedRows], rows: Renaming) -> None:
    """What one former instance had."""
    starts = _added(families, parts.get(STARTS), "starts", family_places.USED_OPEN)
    bundles = _added(families, parts.get(BUNDLES), "bundles", family_places.USED_BUNDLES)
    nodes = _added(families, parts.get(NODES), "nodes", family_places.USED_HEAP)
    for table, added, group, renamings in (
        (families.starts, starts, family_places.OPEN_GROUP, {family_places.NEXT_OPEN: starts}),
        (families.bundles, bundles, family_places.BUNDLE_GROUP, {family_places.NEXT_BUNDLE: bundles, family_places.HEAP_ROOT: nodes}),
        (
            families.nodes,
            nodes,
            family_places.HEAP_GROUP,
            {family_places.TAKEN_ROW: rows, **dict.fromkeys((family_places.LEFT, family_places.RIGHT, family_places.BEHIND), nodes)},
        ),
    ):
        lines = table[added.lines]
        lines[:, group] = added.groups
        for word, renaming in renamings.items():
            lines[:, word] = renaming(lines[:, word])
        table[added.lines] = lines
    families.nodes[nodes.lines, family_places.LOOKED] = places.NONE
    groups = parts[GROUPS]
    families.groups[groups.groups] = families.fresh
    for i, word in enumerate(_SAVED_GROUP):
        renamed = {places.HEAD: starts, places.TAIL: starts, family_places.BUNDLES: bundles}.get(word)
        saved = groups.words[:, i]
        families.groups[groups.groups, word] = saved if renamed is None else renamed(saved)


class _Added(Renaming):
    """Lines that were added, and their groups: from numbers there to those here."""

    def __init__(self, part: SavedRows, first: int) -> None:
        super().__init__(part.words[:, 0], first)
        self.groups, self.lines = part.groups, slice(first, first + len(part.groups))


def _added(families: FamilyBundles, part: SavedRows | None, table: str, used: int) -> _Added:
    """The lines of a part, as they were there."""
    part = part or SavedRows(np.empty(0, np.int64), np.empty((0, 1), np.int64), pa.record_batch([], []))
    added = _Added(part, families.add_lines(table, used, len(part.groups)))
    if len(part.groups):
        getattr(families, table)[added.lines] = part.words[:, 1:]
    return added
