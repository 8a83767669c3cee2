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
from cep.kernels.tables.keys import Keys
from cep.kernels.windows.programs import BACK, FRONT, IN_BACK, ITS_OWN, NONE, SLOT, SLOTS, SLOTS_FREE, list_slots
from cep.model.schema import INT64, Field, Schema

RowFilter = Callable[[Columns], np.ndarray]

#: What it is to its group, how deep in its stack, when its first row was, and how many rows the instance had taken.
_PLACE = 4
_KEY_WORDS = 2


def snapshot_schema(state: SequentialState) -> Schema:
    prefix = free_prefix("_w", state.spec.operator.by)
    words = range(_PLACE + state.groups.width - _KEY_WORDS)
    return Schema(tuple(Field(f"{prefix}{k}", INT64) for k in words) + state.spec.partial_schema.fields)


def snapshot(state: SequentialState) -> pa.RecordBatch:
    """All slots that are held, as rows of `snapshot_schema`."""
    listed = np.empty((int(state.desk[SLOTS] - state.desk[SLOTS_FREE]), 4), np.int64)
    n = list_slots(*state.groups.words, state.groups.rows, state.assigner.stacks, state.links, listed)
    group, what, depth, slot = listed[:n].T
    partial = partial_columns(state.spec, state.accumulator.groups(state.groups.table, slot, group))
    begun = state.begun[slot] if state.assigner.stacks else np.zeros(n, np.int64)
    place = [what, depth, begun, np.full(n, state.sequence), *state.groups.matrix[group, _KEY_WORDS:].T]
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
    words = np.stack([columns[name].values for name in schema.names[: _PLACE + state.groups.width - _KEY_WORDS]], axis=1)
    rows = partial_rows(state.spec, columns, np.zeros(n, np.int64), 0)
    key0, key1 = (np.ascontiguousarray(rows.matrix[:, k]).view(np.uint64) for k in range(_KEY_WORDS))
    numbers, slots = state.groups.numbers(Keys(key0, key1, rows.arena)), state.add_slots(n)
    state.accumulator.absorb(slots, np.arange(n), np.ones(n, np.uint8), rows.matrix.reshape(-1), rows.arena, rows.pool)
    what, depth, begun, sequence, *_ = words.T
    state.begun[slots] = begun
    state.sequence = max(state.sequence, int(sequence.max()))
    state.groups.matrix[numbers, _KEY_WORDS:] = words[:, _PLACE:]
    _link(state, numbers, what, depth, slots)
    state.open_sessions(numbers)


def _link(state: SequentialState, numbers: np.ndarray, what: np.ndarray, depth: np.ndarray, slots: np.ndarray) -> None:
    """Gives the groups their slots, and puts stacks together."""
    groups = state.groups.matrix
    groups[numbers, SLOT] = NONE
    own = what == ITS_OWN
    groups[numbers[own], SLOT] = slots[own]
    if not state.assigner.stacks:
        return
    groups[numbers, FRONT] = groups[numbers, BACK] = NONE
    order = np.lexsort((depth, what, numbers))
    same = (numbers[order[1:]] == numbers[order[:-1]]) & (what[order[1:]] == what[order[:-1]])
    state.links[slots[order]] = np.append(np.where(same, slots[order[1:]], NONE), NONE)
    tops = (depth == 0) & ~own
    groups[numbers[tops], np.where(what[tops] == IN_BACK, BACK, FRONT)] = slots[tops]
