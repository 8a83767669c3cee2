"""StatefulMap: one tuple from each tuple and the state of its group, which it changes first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from cep.compile.stateful import Stateful, compile_stateful
from cep.dataflow.dead_letters import DeadLetters
from cep.dataflow.operators.context import BuildContext
from cep.dataflow.operators.operator import Clock, outcome
from cep.dataflow.operators.sequential import SequentialOperator
from cep.dataflow.operators.stateful_function import StatefulFunctionOperator
from cep.dataflow.state.group_memory import GroupMemory
from cep.dataflow.state.hold import Hold
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


def build(operator: StatefulMap, context: BuildContext) -> StatefulMapOperator | StatefulFunctionOperator:
    hold = context.hold(operator.input)
    if operator.function is not None:
        return StatefulFunctionOperator(operator, hold, context.state_limit, context.dead_letters)
    compiled = compile_stateful(operator, hold.schema)
    return StatefulMapOperator(operator, compiled, hold, context.state_limit, context.clock, context.dead_letters)
