"""The starts of a pattern as cohorts, for all groups: tables that the loop of `cep.kernels.patterns.cohorts` works on, and that grow where
it says there is no room. It is in the place of `Ways` where the starts go on together (`cep.model.patterns.outlooks`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from cep.compile.patterns.groups import ROOM, ROWS_ROOM, Emitted, RowsTold, longer, parameters_of
from cep.kernels.jit import warm
from cep.kernels.patterns import cohort_places, places
from cep.kernels.patterns.cohorts import (
    advance_cohorts,
    let_pass_cohorts,
    mark_cohort_rows,
    renumber_cohort_rows,
    settle_cohorts,
    watch_cohorts,
)
from cep.model.operators import PatternWays
from cep.model.patterns import outlooks
from cep.model.patterns.checks import TO_NEXT
from cep.model.patterns.outlooks import Outlooks


class Cohorts(RowsTold):
    """For groups by number."""

    fresh, desk_words = cohort_places.FRESH_COHORT_GROUP, cohort_places.COHORT_DESK_WORDS

    def __init__(self, operator: PatternWays, found: Outlooks) -> None:
        self.outlooks = _arrays(found)
        self.parameters = parameters_of(operator, {name: number for number, (name, _) in enumerate(operator.define)})
        self.quiet = not operator.timed_out and not found.waits and (operator.after == TO_NEXT or not found.overtakes)
        self.parameters[places.VARIABLES], self.parameters[places.QUIET] = len(operator.define), self.quiet
        super().__init__()
        warm(advance_cohorts, let_pass_cohorts, settle_cohorts, watch_cohorts, mark_cohort_rows, renumber_cohort_rows)

    def clear(self) -> None:
        super().clear()
        self.starts = np.empty((ROOM, cohort_places.COHORT_START_WORDS), np.int64)
        self.stages = np.empty((ROOM, cohort_places.STAGE_WORDS), np.int64)
        self.path = np.empty(ROOM, np.int64)
        self.desk[[cohort_places.FREE_STAGES, cohort_places.FREE_COHORT_STARTS]] = places.NONE

    @property
    def tables(self) -> tuple[np.ndarray, ...]:
        return (self.groups, self.starts, self.stages, self.path, self.rows, self.desk, self.emitted, self.heap)

    def _all(self) -> Any:
        """What the kernels take."""
        return self._hand([*self.tables, self.parameters, *self.outlooks])

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
            if stopped:
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
        self._fit("starts", int(desk[cohort_places.USED_COHORT_STARTS]) + 2)
        self._fit("stages", int(desk[cohort_places.USED_STAGES]) + wanted)
        self._fit("heap", int(desk[places.HEAP]) + 2)
        if full and len(self.rows) < ROWS_ROOM:
            self.rows = longer(self.rows, 2 * len(self.rows))
        self._fit("rows", wanted)
        self._fit("path", wanted)

    # What rows and groups anything has

    def open_starts(self) -> np.ndarray:
        """Lines of starts that are in use."""
        return np.flatnonzero(self.starts[: self.desk[cohort_places.USED_COHORT_STARTS], cohort_places.START_ROW] != places.NONE)

    def stages_below(self) -> np.ndarray:
        """Lines of stages below others that are in use."""
        stages = self.stages[: self.desk[cohort_places.USED_STAGES]]
        return np.flatnonzero((stages[:, cohort_places.USES] > 0) & (stages[:, cohort_places.OUTLOOK] == places.NONE))

    def used_stages(self) -> np.ndarray:
        """All lines of stages that are in use."""
        return np.flatnonzero(self.stages[: self.desk[cohort_places.USED_STAGES], cohort_places.USES] > 0)

    def named_rows(self, rows: int) -> np.ndarray:
        """uint8[rows]: which of them anything has."""
        out = np.zeros(rows, np.uint8)
        mark_cohort_rows(self._all(), out)
        return out

    def renumber_rows(self, numbers: np.ndarray) -> None:
        """`numbers`: of each row that anything has its new number."""
        renumber_cohort_rows(self._all(), numbers)

    def keep_groups(self, kept: np.ndarray) -> np.ndarray:
        numbers = super().keep_groups(kept)
        used = self.used_stages()
        self.stages[used, cohort_places.STAGE_GROUP] = numbers[self.stages[used, cohort_places.STAGE_GROUP]]
        return numbers


def _arrays(found: Outlooks) -> tuple[np.ndarray, ...]:
    """As the loop has them: begins, moves, targets, firsts, chains, complete, done."""
    counts = [len(chains) for chains in found.chains]
    return (
        np.array(found.begins, np.int64),
        np.array(found.moves, np.int64).ravel(),
        np.array(found.targets, np.int64),
        np.cumsum([0, *counts[:-1]]),
        np.array([own for chains in found.chains for own in chains], np.int64).reshape(-1, 2),
        np.array(found.complete, np.int64),
        np.array(found.done, np.int64),
    )


assert (outlooks.SAME, outlooks.DEAD) == (cohort_places.SAME, cohort_places.DEAD)
