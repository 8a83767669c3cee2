"""A user's function as a part of a chain, between its loops."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cep.compile.chain.steps import CallUser
from cep.compile.chain.text import column_or_literal
from cep.compile.user.rows import Failures, RowFunction
from cep.kernels.columns import Column, Columns
from cep.model.expr import Udf
from cep.model.schema import BOOL


class UserCall:
    """One call of a function in an expression of an operator."""

    def __init__(self, step: CallUser) -> None:
        assert isinstance(step.tree.expr, Udf)
        self.step = step
        self.function = RowFunction(step.tree.expr.function, [arg.type for arg in step.tree.args], step.returns)

    def run(self, columns: Columns, n: int) -> tuple[dict[str, Column], Failures]:
        """The columns that it adds to `n` rows, and the rows that failed with why; none where it says so in a column."""
        step = self.step
        given = [column_or_literal(arg, columns, n) for arg in step.tree.args]
        needed = np.ones(n, np.uint8) if step.needed is None else columns[step.needed].values
        made, failures = self.function.run(given, _callable(given, np.ascontiguousarray(needed)))
        added = {step.target.name: made}
        if step.ok is None:
            return added, [(row, f"{step.where}: {reason}") for row, reason in failures]
        ok = np.ones(n, np.uint8)
        ok[[row for row, _ in failures]] = 0
        return added | {step.ok: Column(BOOL, ok)}, []


def _callable(given: Sequence[Column], called: np.ndarray) -> np.ndarray:
    """A function is not called with a NULL."""
    for column in given:
        if column.valid is not None:
            called = called & column.valid
    return called
