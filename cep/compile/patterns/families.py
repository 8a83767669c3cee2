"""Rows taken so far of a pattern of which all matches come out, for all groups: tables that the loop of `cep.kernels.patterns.families`
works on, and that grow where it says there is no room. It is in the place of `Ways` where such rows go on together
(`cep.model.patterns.families`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from cep.compile.patterns.groups import ROOM, Emitted, RowsTold, longer, parameters_of
from cep.kernels.jit import warm
from cep.kernels.patterns import family_places, places
from cep.kernels.patterns.families import advance_families
from cep.kernels.patterns.family_lines import keep_starts, settle_families, starts_alive
from cep.model.operators import PatternWays
from cep.model.patterns import families
from cep.model.patterns.families import Families

#: What the loop returns where open starts are to be counted anew.
_RECOUNT = 3


class FamilyBundles(RowsTold):
    """For groups by number."""

    quiet = True
    fresh, desk_words = family_places.FRESH_FAMILY_GROUP, family_places.FAMILY_DESK_WORDS

    def __init__(self, operator: PatternWays, found: Families) -> None:
        self.families = _arrays(found)
        self.parameters = parameters_of(operator, {})
        self.parameters[places.VARIABLES] = len(operator.define)
        most = max(len(step.children) for step in found.known)
        self.parameters[places.FAN] = (len(found.steps) + 1) * (2 * most + 1)
        self.parameters[places.MAY_END] = not found.last
        self._looked = 0  # times
        super().__init__()
        warm(advance_families, settle_families, starts_alive, keep_starts)

    def clear(self) -> None:
        super().clear()
        self.starts = np.empty((ROOM, family_places.OPEN_WORDS), np.int64)
        self.bundles = np.empty((ROOM, family_places.BUNDLE_WORDS), np.int64)
        self.nodes = np.empty((ROOM, family_places.HEAP_WORDS), np.int64)
        self.waiting, self.chosen = np.empty((ROOM, 2), np.int64), np.empty(ROOM, np.int64)
        free = [family_places.FREE_OPEN, family_places.FREE_BUNDLES, family_places.FREE_HEAP, family_places.TO_TELL]
        self.desk[free] = places.NONE

    @property
    def tables(self) -> tuple[np.ndarray, ...]:
        return (self.groups, self.starts, self.bundles, self.nodes, self.rows, self.desk, self.emitted, self.heap)

    def _all(self) -> Any:
        """What the kernels take."""
        return self._hand([*self.tables, self.parameters, *self.families, self.waiting, self.chosen])

    @property
    def bytes(self) -> int:
        return sum(table.nbytes for table in (*self.tables, self.waiting, self.chosen))

    # Rows and time

    def _advance(
        self, numbers: np.ndarray, time: np.ndarray, first: int, bits: np.ndarray, now: int, arguments: Sequence[np.ndarray | None]
    ) -> int:
        while (stopped := int(advance_families(self._all(), bits, len(time), numbers, time, first))) == _RECOUNT:
            self._recount(int(self.desk[places.OVERFULL]))
        return stopped

    def _recount(self, group: int) -> None:
        """The open starts of a group, among which are such of which a row has ended all: they are not looked for before."""
        found = np.empty(int(self.desk[family_places.USED_HEAP]), np.int64)
        count = starts_alive(self._all(), group, self._looking(), self._looked, found)
        keep_starts(self._all(), group, np.unique(found[:count]))
        self.desk[family_places.RECOUNTED] = 1

    def _looking(self) -> np.ndarray:
        """Room to look through all nodes, once more."""
        self._looked += 1
        return np.empty(3 * int(self.desk[family_places.USED_HEAP]) + 3, np.int64)

    def pass_time(self, before: int) -> Iterator[Emitted | None]:
        yield from ()

    def end(self) -> Iterator[Emitted | None]:
        yield from ()

    def settle(self, before: int) -> None:
        settle_families(self._all(), before, self._looking(), self._looked)

    def _make_room(self, full: bool) -> None:
        wanted, desk = int(self.desk[places.WANTED]), self.desk
        if wanted != family_places.WANTS_OUT:
            self._fit("starts", int(desk[family_places.USED_OPEN]) + 2)
            self._fit("bundles", int(desk[family_places.USED_BUNDLES]) + wanted)
            self._fit("nodes", int(desk[family_places.USED_HEAP]) + wanted)
        elif not full:
            for name in ("emitted", "rows", "waiting", "chosen"):
                table = getattr(self, name)
                setattr(self, name, longer(table, 2 * len(table)))

    # What rows and groups anything has

    def open_starts(self) -> np.ndarray:
        """Lines of starts that are in use."""
        return np.flatnonzero(self.starts[: self.desk[family_places.USED_OPEN], family_places.OPEN_SEQ] != places.NONE)

    def used_bundles(self) -> np.ndarray:
        """Lines of bundles that are in use."""
        return np.flatnonzero(self.bundles[: self.desk[family_places.USED_BUNDLES], family_places.BUNDLE_GROUP] != places.NONE)

    def used_nodes(self) -> np.ndarray:
        """Lines of nodes that are in use."""
        return np.flatnonzero(self.nodes[: self.desk[family_places.USED_HEAP], family_places.HEAP_USES] > 0)

    def named_rows(self, rows: int) -> np.ndarray:
        """uint8[rows]: which of them anything has."""
        out = np.zeros(rows, np.uint8)
        out[self.nodes[self.used_nodes(), family_places.TAKEN_ROW]] = 1
        return out

    def renumber_rows(self, numbers: np.ndarray) -> None:
        """`numbers`: of each row that anything has its new number."""
        used = self.used_nodes()
        self.nodes[used, family_places.TAKEN_ROW] = numbers[self.nodes[used, family_places.TAKEN_ROW]]

    def keep_groups(self, kept: np.ndarray) -> np.ndarray:
        numbers = super().keep_groups(kept)
        for table, lines, word in (
            (self.starts, self.open_starts(), family_places.OPEN_GROUP),
            (self.bundles, self.used_bundles(), family_places.BUNDLE_GROUP),
            (self.nodes, self.used_nodes(), family_places.HEAP_GROUP),
        ):
            table[lines, word] = numbers[table[lines, word]]
        return numbers


def _arrays(found: Families) -> tuple[np.ndarray, ...]:
    """As the loop has them: begins, steps, stays, firsts, children."""
    counts = [len(step.children) for step in found.known]
    children = [(child.variable, child.kind, child.complete) for step in found.known for child in step.children]
    return (
        np.array([number if found.known[number].children else places.NONE for number in found.begins], np.int64),
        np.array(found.steps, np.int64).ravel(),
        np.array([step.stays for step in found.known], np.int64),
        np.cumsum([0, *counts]),
        np.array(children, np.int64).reshape(-1, family_places.CHILD_WORDS),
    )


assert families.NONE == places.NONE
