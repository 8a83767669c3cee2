"""StatefulMap with a user's function: `function(state, *values)` for each row in stream order, with the state of its group."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from cep.compile.aggregate.results import describe_group
from cep.compile.user.functions import called, check_callable_with, failure_text, resolve_function
from cep.compile.user.rows import slow_note
from cep.compile.user.state import Packed, packed, state_from_text, state_to_text, unpacked
from cep.compile.user.values import WrongResult, check_of, column_of_values, python_values
from cep.dataflow.dead_letters import DeadLetters, Letter
from cep.dataflow.operators.operator import position, record
from cep.dataflow.operators.sequential import SequentialOperator
from cep.dataflow.state.group_memory import NEVER, GroupMemory
from cep.dataflow.state.hold import Hold
from cep.elements import PAUSE, Batch
from cep.kernels.arrays import mask_array, text_array
from cep.kernels.columns import to_arrow
from cep.model.operators import StatefulMap
from cep.model.schema import STRING, Field

#: Calls of a user's function between two pauses: how long one takes is the user's affair.
CALLS_A_PIECE = 16
_STATE = Field("__state", STRING)


class FunctionMemory(GroupMemory):
    """By number of the group its state, packed (`cep.compile.user.state`)."""

    def __init__(self, by: tuple[Field, ...], ttl: int | None) -> None:
        super().__init__(by, ttl)
        self.values, self.valid = [np.empty(0, object)], [None]
        self.state_bytes = 0

    @property
    def bytes(self) -> int:
        return super().bytes + self.state_bytes

    def get(self, group: int, time: int) -> Any:
        """The state for a row at `time`; None where the group begins anew."""
        last = self.last[group]
        fresh = last == NEVER or (self.ttl >= 0 and last < time - self.ttl)
        return None if fresh else unpacked(self.values[0][group])

    def put(self, group: int, time: int, state: Packed) -> None:
        """The state after a row at `time`."""
        self.state_bytes += len(state) - (0 if self.last[group] == NEVER else len(self.values[0][group]))
        self.last[group], self.values[0][group] = time, state

    def _keep(self, kept: np.ndarray) -> None:
        super()._keep(kept)
        self.state_bytes = sum(map(len, self.values[0][self.touched]))

    @property
    def _fields(self) -> tuple[Field, ...]:
        return (*super()._fields, _STATE)

    def snapshot(self) -> pa.RecordBatch:
        touched = self.touched
        texts = text_array([state_to_text(unpacked(state)) for state in self.values[0][touched]])
        return self._part([*map(to_arrow, self._known(touched)), texts])

    def restore(self, batch: pa.RecordBatch, kept: np.ndarray) -> None:
        chosen = batch.filter(mask_array(kept))
        columns = self.columns(chosen)
        groups = self.of(columns, chosen.num_rows).tolist()
        times, texts = columns["__last"].values.tolist(), chosen.column(chosen.num_columns - 1).to_pylist()
        for group, time, text in zip(groups, times, texts, strict=True):
            self.put(group, time, packed(state_from_text(text)))


class StatefulFunctionOperator(SequentialOperator):
    """A function that fails on a row, or returns what it should not, leaves the state as it was, whatever it did to what it was given."""

    def __init__(self, operator: StatefulMap, hold: Hold, state_limit: int, dead_letters: DeadLetters) -> None:
        assert operator.function is not None and operator.schema is not None
        self.reference, self.dead_letters = operator.function, dead_letters
        self.function: Callable[..., Any] = resolve_function(operator.function)
        check_callable_with(operator.function, self.function, 1 + len(operator.columns))
        self.columns, self.schema = operator.columns, operator.schema
        self.notes = (slow_note(operator.function, "a function with state is not compiled"),)
        self._checks = [check_of(field) for field in operator.schema.fields]
        self.groups = FunctionMemory(tuple(hold.schema[name] for name in operator.by), operator.ttl)
        column_of_values([], STRING)  # Arrow looks for pandas at the first one
        super().__init__(operator.name, hold, state_limit, self.groups)

    def _take(self, batch: Batch) -> Iterator[Batch]:
        n = len(batch)
        groups, times = self.groups.of(batch.columns, n).tolist(), batch.time.tolist()
        values = [python_values(batch.columns[name]) for name in self.columns]
        rows: list[int] = []
        outputs: list[Sequence[Any]] = []
        for row in range(n):
            if row % CALLS_A_PIECE == CALLS_A_PIECE - 1:
                yield PAUSE
            arguments = [column[row] for column in values]
            try:
                output = called(self._call, groups[row], times[row], arguments)
            except Exception as error:
                self._bury(batch, row, groups[row], failure_text(self.reference, ["state", *arguments], error))
                continue
            if output is not None:
                rows.append(row)
                outputs.append(output)
        yield self._made(batch, rows, outputs)

    def _call(self, group: int, time: int, arguments: Sequence[Any]) -> Sequence[Any] | None:
        returned = self.function(self.groups.get(group, time), *arguments)
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise WrongResult(f"expected (state, output), got {type(returned).__name__}")
        state = packed(returned[0])
        output = None if returned[1] is None else self._checked(returned[1])
        self.groups.put(group, time, state)
        return output

    def _checked(self, output: Any) -> Sequence[Any]:
        if not isinstance(output, tuple | list) or len(output) != len(self._checks):
            raise WrongResult(f"expected an output of {len(self._checks)} values ({', '.join(self.schema.names)}), or None, got {output!r}")
        return [check(value) for check, value in zip(self._checks, output, strict=True)]

    def _made(self, batch: Batch, rows: list[int], outputs: list[Sequence[Any]]) -> Batch:
        chosen = batch.take(np.array(rows, np.int64))
        by_column = zip(*outputs, strict=True) if outputs else iter([()] * len(self._checks))
        fields = zip(self.schema.fields, by_column, strict=True)
        columns = {field.name: column_of_values(values, field.type) for field, values in fields}
        return Batch(columns, chosen.time, chosen.origin, chosen.created)

    def _bury(self, batch: Batch, row: int, group: int, reason: str) -> None:
        by = self.groups.by
        where = f", group {describe_group(self.groups.numbers.columns, by, group)}" if by else ""
        self.dead_letters.put(
            Letter(self.name, reason, position=position(batch, row) + where, record=record(batch, row, self.dead_letters))
        )
