"""StatefulMap: one tuple from each tuple and the state of its group, which it changes first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from cep.compile.stateful import Stateful
from cep.dataflow.dead_letters import DeadLetters
from cep.dataflow.group_memory import GroupMemory
from cep.dataflow.hold import Hold
from cep.dataflow.operators import Clock, outcome
from cep.dataflow.sequential import SequentialOperator
from cep.elements import Batch
from cep.model.operators import StatefulMap


class StatefulMapOperator(SequentialOperator):
    """With expressions, compiled."""

    def __init__(
        self, operator: StatefulMap, compiled: Stateful, hold: Hold, state_limit: int, clock: Clock, dead_letters: DeadLetters
    ) -> None:
        self.compiled, self.clock, self.dead_letters = compiled, clock, dead_letters
        self.notes = compiled.before.notes
        self.groups = GroupMemory(tuple(hold.schema[name] for name in operator.by), operator.ttl, compiled.state, compiled.texts)
        super().__init__(operator.name, hold, state_limit, self.groups)

    def _take(self, batch: Batch) -> Iterable[Batch]:
        now = self.clock()
        batch = outcome(batch, self.compiled.before.process(batch.columns, len(batch), now), self.dead_letters)
        columns = {
            **batch.columns,
            **{codes.name: self.groups.texts.codes(batch.columns[text]) for text, codes in self.compiled.codes.items()},
        }
        groups, time = self.groups.of(batch.columns, len(batch)), np.ascontiguousarray(batch.time)
        ttl, arrays = self.groups.ttl, self.groups.arrays
        result = self.compiled.loop.run(columns, len(batch), now, groups, time, ttl, *arrays)
        decoded = {field.name: self.groups.texts.texts(result.columns[field.name], field.type) for field in self.compiled.decoded}
        self.groups.forget_texts()
        return (outcome(batch, replace(result, columns={**result.columns, **decoded}), self.dead_letters),)
