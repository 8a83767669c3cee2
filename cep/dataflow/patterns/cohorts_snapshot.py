"""The cohorts of an instance as Arrow batches, and back: a part for each table, as for ways (`ways_snapshot`).

    groups   what is of a group, its first and last cohort      starts   number in the ring, first row
    stages   cohorts, and steps of those below                  rows     what is kept of tuples

All lines of a group are in one instance's parts, so what they name goes with them. Rings are made anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from cep.compile.patterns.cohorts import Cohorts
from cep.dataflow.operators.operator import Keep, Part
from cep.dataflow.patterns.kept_rows import KeptRows
from cep.dataflow.patterns.saved import ROWS, Renaming, RowOwners, SavedRows, part_of, restored_rows, saved_rows
from cep.kernels.patterns import cohort_places, places
from cep.kernels.tables.group_numbers import GroupNumbers

GROUPS, STARTS, STAGES, _ = PARTS = ("cohort groups", "cohort starts", "stages", ROWS)
_SAVED_GROUP = (
    cohort_places.FIRST_DUE,
    cohort_places.FIRST_NUMBER,
    cohort_places.NEXT_NUMBER,
    cohort_places.HEEDING,
    places.HEAD,
    places.TAIL,
)


def snapshot(cohorts: Cohorts, numbers: GroupNumbers, kept: KeptRows) -> dict[str, pa.RecordBatch]:
    """By name of the part. What is plain here may not be so where it is restored, and has a stage there."""
    groups, rare = cohorts.groups[: len(numbers)], cohorts.rare[: len(numbers)]
    told = np.flatnonzero(~cohorts.idle_groups(len(numbers)) | (rare[:, cohort_places.RARE_MATCHES] > 0))
    owners, own_numbers, lines = cohorts.open_starts()
    first_rows, begun = np.divmod(cohorts.starts[lines, cohort_places.START_ROW], cohort_places.START_SCALE)
    times = cohorts.starts[lines, cohort_places.START_TIME]
    used, (plain, more) = cohorts.used_stages(), cohorts.stages_of_plain()
    stages, owners_of_stages = cohorts.stages[used], cohorts.groups_of_stages()[used]
    stages, owners_of_stages = np.concatenate([stages, more]), np.concatenate([owners_of_stages, plain])
    own = len(cohorts.stages) + np.arange(len(plain))
    used = np.concatenate([used, own])
    told_groups = groups.copy()
    told_groups[plain, places.HEAD] = told_groups[plain, places.TAIL] = own
    below = stages[:, cohort_places.OUTLOOK] < 0
    rows = RowOwners(kept)
    rows.put(stages[below, cohort_places.STEP_ROW], owners_of_stages[below])
    rows.put(first_rows, owners)
    return {
        GROUPS: part_of(numbers, told, np.column_stack([told_groups[told][:, _SAVED_GROUP], rare[told]])),
        STARTS: part_of(numbers, owners, np.column_stack([own_numbers, times, first_rows, begun])),
        STAGES: part_of(numbers, owners_of_stages, np.column_stack([used, stages])),
        ROWS: saved_rows(numbers, rows),
    }


def restore(cohorts: Cohorts, numbers: GroupNumbers, kept: KeptRows, parts: Sequence[Part], keep: Keep) -> None:
    """Adds what `snapshot`s of former instances had, of which `keep` says what is this one's: their parts in order, each from `groups`
    on."""
    begins = [i for i, part in enumerate(parts) if part.name == GROUPS]
    for begin, end in pairwise([*begins, len(parts)]):
        own = {part.name: SavedRows.of(part, numbers, keep) for part in parts[begin:end]}
        cohorts.has_groups(len(numbers))
        _restore_one(cohorts, kept, own)


def _restore_one(cohorts: Cohorts, kept: KeptRows, parts: dict[str, SavedRows]) -> None:
    """What one former instance had."""
    groups, rows = parts[GROUPS], restored_rows(parts.get(ROWS), kept)
    stage_line = _restored_stages(cohorts, parts[STAGES], rows) if STAGES in parts else Renaming(np.empty(0, np.int64), 0)
    cohorts.forget(groups.groups)
    for i, word in enumerate(_SAVED_GROUP):
        saved = groups.words[:, i]
        cohorts.groups[groups.groups, word] = stage_line(saved) if word in (places.HEAD, places.TAIL) else saved
    cohorts.rare[groups.groups] = groups.words[:, len(_SAVED_GROUP) :]
    cohorts.add_rings(groups.groups[cohorts.groups[groups.groups, places.HEAD] >= 0])
    if STARTS in parts:
        starts = parts[STARTS]
        number, time, first_row, begun = starts.words.T
        lines = cohorts.start_lines(starts.groups, number)
        cohorts.starts[lines, cohort_places.START_TIME] = time
        cohorts.starts[lines, cohort_places.START_ROW] = rows(first_row) * cohort_places.START_SCALE + begun
    cohorts.watch(np.ascontiguousarray(groups.groups))


def _restored_stages(cohorts: Cohorts, stages: SavedRows, rows: Renaming) -> Renaming:
    """Returns their new numbers."""
    line = Renaming(stages.words[:, 0], cohorts.add_lines("stages", cohort_places.USED_STAGES, len(stages.groups)))
    table = cohorts.stages[line.first : line.first + len(stages.groups)]
    table[:] = stages.words[:, 1:]
    for word in (cohort_places.BELOW, cohort_places.BESIDE):
        table[:, word] = line(table[:, word])
    top = table[:, cohort_places.OUTLOOK] >= 0
    table[~top, cohort_places.STEP_ROW] = rows(table[~top, cohort_places.STEP_ROW])
    table[top, cohort_places.LAST_BELOW] = line(table[top, cohort_places.LAST_BELOW])
    _find_lowest(table, line.first)
    return line


def _find_lowest(table: np.ndarray, first: int) -> None:
    """What follows from which stages are below which: of those in `table`, int64[n, STAGE_WORDS], whose numbers are from `first` on."""
    own, below = np.arange(first, first + len(table)), table[:, cohort_places.BELOW]
    has = below >= 0
    table[below[has] - first, cohort_places.ABOVE] = own[has]
    lowest = np.where(has, below, own)
    while (further := lowest[lowest - first]).tobytes() != lowest.tobytes():  # twice as far down each time
        lowest = further
    table[:, cohort_places.LOWEST] = lowest
