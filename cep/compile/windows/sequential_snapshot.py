"""The state of sequential windows as rows and back: a partial row for each slot that is held, with what it is to its group, and the
words of that group. A group's rows stay together, since they have its key; so they can be dealt to any number of instances.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from cep.compile.aggregate.results import partial_columns
from cep.compile.aggregate.rows import partial_rows
from cep.compile.aggregate.spec import free_prefix
from cep.compile.windows.sequential import SequentialState
from cep.kernels.arrays import mask_array
from cep.kernels.columns import Column, Columns, columns_from_arrow, columns_to_arrow
from cep.kernels.windows.programs import (
    BACK,
    BACK_PANES,
    COUNT,
    FIRST,
    FRONT,
    IN_BACK,
    ITS_OWN,
    LAST,
    NONE,
    OLDEST,
    SLOT,
    SLOTS,
    SLOTS_FREE,
    list_slots,
)
from cep.model.schema import INT64, Field, Schema

RowFilter = Callable[[Columns], np.ndarray]

#: Of stacks, what a slot is to its group stands in so many bits, and how deep it lies in the bits above.
_WHAT_BITS = 2
#: Words of a group that the others do not say: which slots there are, and how many, is in the rows.
_OF_STACKS, _OF_ONE = (COUNT, LAST, OLDEST), (COUNT, LAST, FIRST)


def _words(state: SequentialState) -> tuple[int, ...]:
    """These, and its origin."""
    return *(_OF_STACKS if state.assigner.stacks else _OF_ONE), *range(state.groups.width - state.origin_words, state.groups.width)


def snapshot_schema(state: SequentialState) -> Schema:
    """How many rows the instance had taken; of stacks, what the slot is to its group and when its first row was; words of the group; and
    the partial row. What each group has alike is not said: it would be written with every checkpoint."""
    prefix = free_prefix("_w", state.spec.operator.by)
    words = range(1 + 2 * state.assigner.stacks + len(_words(state)))
    return Schema(tuple(Field(f"{prefix}{k}", INT64) for k in words) + state.spec.partial_schema.fields)


def snapshot(state: SequentialState) -> pa.RecordBatch:
    """All slots that are held, as rows of `snapshot_schema`."""
    listed = np.empty((int(state.desk[SLOTS] - state.desk[SLOTS_FREE]), 4), np.int64)
    n = list_slots(*state.groups.words, state.groups.rows, state.assigner.stacks, state.links, listed)
    group, what, depth, slot = listed[:n].T
    partial = partial_columns(state.spec, state.accumulator.groups(state.groups.table, slot, group))
    place = [what | depth << _WHAT_BITS, state.begun[slot]] if state.assigner.stacks else []
    place = [np.full(n, state.sequence), *place, *(state.groups.matrix[group, word] for word in _words(state))]
    schema = snapshot_schema(state)
    hidden = {name: Column(INT64, np.ascontiguousarray(words)) for name, words in zip(schema.names, place, strict=False)}
    return columns_to_arrow(hidden | partial, schema)


def restore(state: SequentialState, batch: pa.RecordBatch, keep: RowFilter) -> None:
    """Adds the rows of a `snapshot` of the same operator, at any parallelism, of which `keep` (by columns -> bool[n]) chooses."""
    schema = snapshot_schema(state)
    kept = keep(columns_from_arrow(batch, schema)).astype(bool)
    columns = columns_from_arrow(batch.filter(mask_array(kept)), schema)
    n = int(kept.sum())
    if not n:
        return
    sequence, *place = (columns[name].values for name in schema.names[: len(schema.names) - len(state.spec.partial_schema.fields)])
    rows = partial_rows(state.spec, columns, np.zeros(n, np.int64), 0)
    numbers, slots = state.groups.numbers(rows.keys), state.add_slots(n)
    state.accumulator.absorb(slots, np.arange(n), np.ones(n, np.uint8), rows.matrix.reshape(-1), rows.arena, rows.pool)
    state.sequence = max(state.sequence, int(sequence.max()))
    for word, values in zip(_words(state), place[-len(_words(state)) :], strict=True):
        state.groups.matrix[numbers, word] = values
    if state.assigner.stacks:
        of_slot, state.begun[slots] = place[:2]
        _link(state, numbers, of_slot & ((1 << _WHAT_BITS) - 1), of_slot >> _WHAT_BITS, slots)
    else:
        state.groups.matrix[numbers, SLOT] = slots
    state.open_sessions(numbers)


def _link(state: SequentialState, numbers: np.ndarray, what: np.ndarray, depth: np.ndarray, slots: np.ndarray) -> None:
    """Gives the groups their slots, and puts stacks together."""
    groups = state.groups.matrix
    own = what == ITS_OWN
    groups[numbers, SLOT] = groups[numbers, FRONT] = groups[numbers, BACK] = NONE
    groups[numbers[own], SLOT] = slots[own]
    groups[:, BACK_PANES] += np.bincount(numbers[what == IN_BACK], minlength=len(groups))
    order = np.lexsort((depth, what, numbers))
    same = (numbers[order[1:]] == numbers[order[:-1]]) & (what[order[1:]] == what[order[:-1]])
    state.links[slots[order]] = np.append(np.where(same, slots[order[1:]], NONE), NONE)
    tops = (depth == 0) & ~own
    groups[numbers[tops], np.where(what[tops] == IN_BACK, BACK, FRONT)] = slots[tops]
