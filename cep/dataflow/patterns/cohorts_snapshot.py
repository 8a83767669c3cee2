"""The cohorts of an instance as Arrow batches, and back: a part for each table, as for ways (`ways_snapshot`).

    groups   what is of a group, its first and last cohort      starts   first row, the next of the cohort, stage
    stages   steps of those below; starts of cohorts            rows     what is kept of tuples

All lines of a group are in one instance's parts, so what they name goes with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from cep.compile.patterns.cohorts import Cohorts
from cep.dataflow.operators.operator import Keep, Part
from cep.dataflow.patterns.kept_rows import KeptRows
from cep.dataflow.patterns.saved import ROWS, Renaming, SavedRows, part_of, restored_rows, saved_rows
from cep.kernels.patterns import cohort_places, places
from cep.kernels.tables.group_numbers import GroupNumbers

GROUPS, STARTS, STAGES, _ = PARTS = ("cohort groups", "cohort starts", "stages", ROWS)
_SAVED_GROUP = (places.LAST, places.SEQ, places.MATCHES, places.OPEN, cohort_places.FIRST_DUE, places.HEAD, places.TAIL)


def snapshot(cohorts: Cohorts, numbers: GroupNumbers, kept: KeptRows) -> dict[str, pa.RecordBatch]:
    """By name of the part."""
    groups = cohorts.groups[: len(numbers)]
    told = np.flatnonzero(~cohorts.idle_groups(len(numbers)) | (groups[:, places.MATCHES] > 0))
    lines, stages, below = cohorts.open_starts(), cohorts.used_stages(), cohorts.stages_below()
    starts, tables = cohorts.starts[lines], cohorts.stages
    owners = tables[starts[:, cohort_places.STAGE], cohort_places.STAGE_GROUP]
    owner = np.full(kept.rows, places.NONE)
    owner[tables[below, cohort_places.STEP_ROW]] = tables[below, cohort_places.STAGE_GROUP]
    owner[starts[:, cohort_places.START_ROW]] = owners
    return {
        GROUPS: part_of(numbers, told, groups[told][:, _SAVED_GROUP]),
        STARTS: part_of(numbers, owners, np.column_stack([lines, starts])),
        STAGES: part_of(numbers, tables[stages, cohort_places.STAGE_GROUP], np.column_stack([stages, tables[stages]])),
        ROWS: saved_rows(numbers, kept, np.flatnonzero(owner != places.NONE), owner),
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
    stage_line = Renaming(np.empty(0, np.int64), 0)
    if STARTS in parts and STAGES in parts:
        stage_line = _restored_lines(cohorts, parts[STARTS], parts[STAGES], rows)
    cohorts.groups[groups.groups] = cohorts.fresh
    for i, word in enumerate(_SAVED_GROUP):
        saved = groups.words[:, i]
        cohorts.groups[groups.groups, word] = stage_line(saved) if word in (places.HEAD, places.TAIL) else saved
    cohorts.watch(np.ascontiguousarray(groups.groups))


def _restored_lines(cohorts: Cohorts, starts: SavedRows, stages: SavedRows, rows: Renaming) -> Renaming:
    """Returns the new numbers of stages."""
    start_line = Renaming(starts.words[:, 0], cohorts.add_lines("starts", cohort_places.USED_COHORT_STARTS, len(starts.groups)))
    stage_line = Renaming(stages.words[:, 0], cohorts.add_lines("stages", cohort_places.USED_STAGES, len(stages.groups)))
    table = cohorts.starts[start_line.first : start_line.first + len(starts.groups)]
    table[:] = starts.words[:, 1:]
    for word, renamed in (
        (cohort_places.NEXT_START, start_line),
        (cohort_places.STAGE, stage_line),
        (cohort_places.START_ROW, rows),
    ):
        table[:, word] = renamed(table[:, word])
    table = cohorts.stages[stage_line.first : stage_line.first + len(stages.groups)]
    table[:] = stages.words[:, 1:]
    table[:, cohort_places.STAGE_GROUP] = stages.groups
    table[:, cohort_places.ABOVE] = stage_line(table[:, cohort_places.ABOVE])
    top = table[:, cohort_places.OUTLOOK] != places.NONE
    table[~top, cohort_places.STEP_ROW] = rows(table[~top, cohort_places.STEP_ROW])
    for word in (cohort_places.FIRST_START, cohort_places.LAST_START):
        table[top, word] = start_line(table[top, word])
    return stage_line
