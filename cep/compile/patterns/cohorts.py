"""The starts of a pattern as cohorts, for all groups: tables that the loop of `cep.kernels.patterns.cohorts` works on, and that grow where
it says there is no room. It is in the place of `Ways` where the starts go on together (`cep.model.patterns.outlooks`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cep.compile.patterns.groups import ROOM, ROWS_ROOM, Emitted, RowsTold, longer, parameters_of
from cep.kernels.jit import warm
from cep.kernels.patterns import cohort_places, places
from cep.kernels.patterns.cohorts import (
    advance_cohorts,
    free_rings,
    let_pass_cohorts,
    mark_cohort_rows,
    oldest_cohort_row,
    place_stages,
    renumber_cohort_rows,
    settle_cohorts,
    watch_cohorts,
)
from cep.model.operators import PatternWays
from cep.model.patterns import outlooks
from cep.model.patterns.checks import PAST_LAST, TO_NEXT
from cep.model.patterns.outlooks import Outlooks

_NO_LINES = np.empty(0, np.int64)


class Cohorts(RowsTold):
    """For groups by number."""

    fresh, desk_words = cohort_places.FRESH_COHORT_GROUP, cohort_places.COHORT_DESK_WORDS

    def __init__(self, operator: PatternWays, found: Outlooks) -> None:
        numbers = {name: number for number, (name, _) in enumerate(operator.define)}
        marks = operator.timed_out and operator.after != PAST_LAST
        self.outlooks = _arrays(found, {numbers[name] for name in _told_of(operator)}, marks)
        self.parameters = parameters_of(operator, numbers)
        self.quiet = not operator.timed_out and not found.waits and (operator.after == TO_NEXT or not found.overtakes)
        self.parameters[places.VARIABLES], self.parameters[places.QUIET] = len(operator.define), self.quiet
        super().__init__()
        warm(advance_cohorts, let_pass_cohorts, settle_cohorts, watch_cohorts, mark_cohort_rows, renumber_cohort_rows)
        warm(place_stages, free_rings, oldest_cohort_row)

    def clear(self) -> None:
        super().clear()
        self.rare = np.empty((0, cohort_places.RARE_WORDS), np.int64)
        self.starts = np.empty((ROOM, cohort_places.COHORT_START_WORDS), np.int64)
        self.stages = np.empty((ROOM, cohort_places.STAGE_WORDS), np.int64)
        self._open_lines = _NO_LINES
        self.desk[cohort_places.FREE_STAGES] = places.NONE
        self.desk[cohort_places.FREE_RINGS :] = places.NONE

    def has_groups(self, count: int) -> None:
        super().has_groups(count)
        before = len(self.rare)
        if len(self.groups) > before:
            self.rare = longer(self.rare, len(self.groups))
            self.rare[before:] = cohort_places.FRESH_RARE
        self.desk[cohort_places.GROUPS] = count

    @property
    def tables(self) -> tuple[np.ndarray, ...]:
        return (self.groups, self.starts, self.stages, self.rows, self.desk, self.emitted, self.heap, self.rare)

    def _all(self) -> Any:
        """What the kernels take."""
        groups, starts, stages, *others, rare = self.tables
        begins, *outlooks = self.outlooks
        return self._hand([groups, starts, stages, begins, *others, self.parameters, *outlooks, rare])

    @property
    def bytes(self) -> int:
        return sum(table.nbytes for table in self.tables)

    # Rows and time

    def _advance(
        self, numbers: np.ndarray, time: np.ndarray, first: int, bits: np.ndarray, now: int, arguments: Sequence[np.ndarray | None]
    ) -> int:
        return int(advance_cohorts(self._all(), bits, len(time), numbers, time, first))

    def pass_time(self, before: int) -> Iterator[Emitted | None]:
        self.begin()
        while self.desk[cohort_places.PENDING] or (self.desk[places.HEAP] and self.heap[0, 0] < before):
            stopped = let_pass_cohorts(self._all(), before)
            full = bool(self.desk[places.EMITTED])
            yield self._collected()
            if stopped == 1:
                self._make_room(full)

    def settle(self, before: int) -> None:
        """Starts whose time is over before that are left behind, if nothing comes out of them."""
        if self.quiet:
            settle_cohorts(self._all(), before)

    def watch(self, groups: np.ndarray) -> None:
        """Groups `groups`, int64[m], have open starts of which the heap does not know."""
        self._fit("heap", int(self.desk[places.HEAP]) + len(groups))
        if not self.quiet:
            watch_cohorts(self._all(), groups)

    def _make_room(self, full: bool) -> None:
        wanted, desk = int(self.desk[places.WANTED]), self.desk
        self._fit("starts", int(desk[cohort_places.USED_COHORT_STARTS] + desk[cohort_places.WANTED_STARTS]))
        self._fit("stages", int(desk[cohort_places.USED_STAGES]) + wanted)
        self._fit("heap", int(desk[places.HEAP]) + 2)
        if full and len(self.rows) < ROWS_ROOM:
            self.rows = longer(self.rows, 2 * len(self.rows))
        self._fit("rows", wanted)

    # What rows and groups anything has

    def idle_groups(self, groups: int) -> np.ndarray:
        idle: np.ndarray = self.groups[:groups, places.HEAD] == places.NONE
        return idle

    def opened(self, groups: int) -> np.ndarray:
        lines, rare = self.groups[:groups], self.rare[:groups]
        found: np.ndarray = lines[:, cohort_places.NEXT_NUMBER] - lines[:, cohort_places.FIRST_NUMBER] - rare[:, cohort_places.HOLES]
        return found

    def numbered_groups(self, groups: int, since: int) -> np.ndarray:
        rare = self.rare[:groups]
        found: np.ndarray = (rare[:, cohort_places.RARE_MATCHES] > 0) & (rare[:, cohort_places.RARE_LAST] >= since)
        return found

    def open_starts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of starts that are open, group by group and in order: their groups, their numbers, their lines."""
        groups = np.flatnonzero(self.groups[:, places.HEAD] != places.NONE)
        first, upto = (self.groups[groups, word] for word in (cohort_places.FIRST_NUMBER, cohort_places.NEXT_NUMBER))
        counts = upto - first
        owners = np.repeat(groups, counts)
        numbers = np.arange(len(owners)) + np.repeat(first - np.cumsum(counts) + counts, counts)
        lines = self.start_lines(owners, numbers)
        there = self.starts[lines, cohort_places.START_ROW] != places.NONE
        return owners[there], numbers[there], lines[there]

    def used_stages(self) -> np.ndarray:
        """All lines of stages that are in use."""
        return np.flatnonzero(self.stages[: self.desk[cohort_places.USED_STAGES], cohort_places.UPTO] != places.NONE)

    def stages_of_plain(self) -> tuple[np.ndarray, np.ndarray]:
        """Groups that are plain, and for each the stage that its cohort would have, behind those in use."""
        groups = np.flatnonzero(self.groups[:, places.HEAD] <= cohort_places.PLAIN)
        lines, found = self.groups[groups], np.full((len(groups), cohort_places.STAGE_WORDS), places.NONE)
        found[:, cohort_places.FROM], found[:, cohort_places.UPTO] = (
            lines[:, cohort_places.FIRST_NUMBER],
            lines[:, cohort_places.NEXT_NUMBER],
        )
        found[:, cohort_places.OUTLOOK] = cohort_places.PLAIN - lines[:, places.HEAD]
        return groups, found

    def groups_of_stages(self) -> np.ndarray:
        """int64[stages]: the group of each stage that is in use."""
        found, before = np.empty((2, int(self.desk[cohort_places.USED_STAGES])), np.int64)
        place_stages(self._all(), found, before)
        return found

    def start_lines(self, groups: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Where starts of `groups`, by their numbers, lie."""
        ring, size = np.divmod(self.groups[groups, cohort_places.RING], cohort_places.RING_SCALE)
        found: np.ndarray = ring + (numbers & ((1 << size) - 1))
        return found

    def add_rings(self, groups: np.ndarray) -> None:
        """Groups `groups`, which have none, have room for starts of the numbers that their lines name; all are over."""
        spans = self.groups[groups, cohort_places.NEXT_NUMBER] - self.groups[groups, cohort_places.FIRST_NUMBER]
        sizes = np.maximum(np.frexp(spans)[1].astype(np.int64), cohort_places.RING_AT_FIRST)
        lines = 1 << sizes
        first = self.add_lines("starts", cohort_places.USED_COHORT_STARTS, int(lines.sum()))
        self.starts[first : first + int(lines.sum()), cohort_places.START_ROW] = places.NONE
        self.groups[groups, cohort_places.RING] = (first + np.cumsum(lines) - lines) * cohort_places.RING_SCALE + sizes

    def forget(self, groups: np.ndarray) -> None:
        """Groups `groups`, int64[m], which have nothing open, begin anew."""
        free_rings(self._all(), np.ascontiguousarray(groups))
        self.groups[groups] = self.fresh

    def oldest_row(self, rows: int) -> tuple[int, int]:
        oldest, named = oldest_cohort_row(self._all())
        return min(oldest, rows), named

    def named_rows(self, rows: int) -> np.ndarray:
        """uint8[rows]: which of them anything has."""
        out = np.zeros(rows + 1, np.uint8)
        lines = np.empty(int(self.desk[cohort_places.USED_COHORT_STARTS]) + 1, np.int64)
        self._open_lines = lines[: mark_cohort_rows(self._all(), out, lines)]
        return out[:rows]

    def renumber_rows(self, numbers: np.ndarray) -> None:
        """`numbers`: of each row that anything has its new number. Since `named_rows` nothing was taken."""
        renumber_cohort_rows(self._all(), self._open_lines, numbers)
        self._open_lines = _NO_LINES

    def keep_groups(self, kept: np.ndarray) -> np.ndarray:
        left = np.ones(len(self.groups), bool)
        left[kept] = False
        free_rings(self._all(), np.flatnonzero(left))
        self.desk[cohort_places.GROUPS] = len(kept)
        self.rare = self.rare[kept]
        return super().keep_groups(kept)


def _told_of(operator: PatternWays) -> set[str]:
    """The variables whose rows somebody asks of a match, or of a start that timed out; those of the first and the last row are known."""
    if operator.whole_rows:
        return {name for name, _ in operator.define}
    return {ref.variable for ref in operator.refs} | {operator.after.partition(" ")[2]} - {""}


def _silent(found: Outlooks, move: int, told: set[int]) -> bool:
    """Does nobody ask for the row that a step takes? Its chains are those before, and no match ends with it."""
    steps = enumerate(found.chains[move])
    return found.complete[found.targets[move]] < 0 and all(own == chain and taken not in told for chain, (own, taken) in steps)


def _with_moves_of_beginners(found: Outlooks) -> Outlooks:
    """The same where rows that may begin a start are taken by moves of their own, the last ones."""
    begin, own, count = {bits for bits, move in enumerate(found.begins) if move != outlooks.DEAD}, dict[int, int](), len(found.targets)
    moves = tuple(
        tuple(own.setdefault(move, count + len(own)) if move >= 0 and bits in begin else move for bits, move in enumerate(line))
        for line in found.moves
    )
    targets, chains = ((*each, *(each[move] for move in own)) for each in (found.targets, found.chains))
    return replace(found, moves=moves, targets=targets, chains=chains)


def _arrays(found: Outlooks, told: set[int], marks: bool) -> tuple[np.ndarray, ...]:
    """As the loop has them: begins, moves, targets, firsts, chains, complete, done, heeded. `marks`: it is asked whose first rows are in
    matches, so for every row that may begin a start."""
    silent = [move for move in range(len(found.chains)) if _silent(found, move, told)]
    if marks:
        found = _with_moves_of_beginners(found)
    counts = [len(chains) for chains in found.chains]
    firsts = np.cumsum([0, *counts[:-1]])
    firsts[silent] = cohort_places.SILENT
    return (
        np.array(found.begins, np.int64),
        np.array(found.moves, np.int64).ravel(),
        np.array(found.targets, np.int64),
        firsts,
        np.array([own for chains in found.chains for own in chains], np.int64).reshape(-1, 2),
        np.array(found.complete, np.int64),
        np.array(found.done, np.int64),
        np.array([_heeded(moves) for moves in found.moves], np.int64),
    )


def _heeded(moves: Sequence[int]) -> int:
    """The variables, by bits, one of which a row is that changes anything of an outlook; ANY_ROW: a row may that is none of them."""
    changed = [bits for bits, move in enumerate(moves) if move != outlooks.SAME]
    heeded = sum(bits for bits in changed if bits.bit_count() == 1)
    return heeded if all(bits & heeded for bits in changed) else places.ANY_ROW


assert (outlooks.SAME, outlooks.DEAD) == (cohort_places.SAME, cohort_places.DEAD)
