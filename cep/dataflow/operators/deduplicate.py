"""Deduplicate: of tuples with equal `by` the first in stream order, and the next that is more than ttl after it, and so on."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from cep.dataflow.operators.context import BuildContext
from cep.dataflow.operators.sequential import SequentialOperator
from cep.dataflow.state.group_memory import FOR_EVER, NEVER, GroupMemory
from cep.dataflow.state.hold import Hold
from cep.elements import Batch
from cep.kernels.jit import kernel
from cep.model.operators import Deduplicate


@kernel("int64(const int64[:], const int64[:], int64, int64[:], uint8[:])")
def mark_first(groups: np.ndarray, time: np.ndarray, ttl: int, last: np.ndarray, first: np.ndarray) -> int:
    """Marks the rows to be let out, and returns how many they are; `last` is the time of each group's last one."""
    count = 0
    for i in range(len(groups)):
        before = last[groups[i]]
        first[i] = before == NEVER or (ttl != FOR_EVER and before < time[i] - ttl)
        if first[i]:
            last[groups[i]] = time[i]
            count += 1
    return count


class DeduplicateOperator(SequentialOperator):
    """Remembers of each group when a row of it was let out last."""

    def __init__(self, operator: Deduplicate, hold: Hold, state_limit: int) -> None:
        by = tuple(hold.schema[name] for name in operator.by)
        self.groups = GroupMemory(by, operator.ttl)
        super().__init__(operator.name, hold, state_limit, self.groups)

    def _take(self, batch: Batch) -> Iterable[Batch]:
        n = len(batch.time)
        first, groups = np.empty(n, np.uint8), self.groups.of(batch.columns, n)
        count = mark_first(groups, np.ascontiguousarray(batch.time), self.groups.ttl, self.groups.last, first)
        return (batch if count == n else batch.take(np.flatnonzero(first)),)


def build(operator: Deduplicate, context: BuildContext) -> DeduplicateOperator:
    return DeduplicateOperator(operator, context.hold(operator.input), context.state_limit)
