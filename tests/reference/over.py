"""Over: for every tuple the functions of those of its group that are in the window which ends with it.

TRAILING(10), t       0    4    9    14   14   25       TRAILING(rows=2)    a   b   c   d
at 9                 [x────x────x]                      at c                   [b   c]
at 14, of both            [x────x────xx]                at d                       [c   d]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from cep.model.functions import Function
from cep.model.operators import Over
from cep.model.schema import Schema
from tests.reference.aggregates import Group
from tests.reference.expressions import Failed
from tests.reference.rows import DeadLetter, Row
from tests.reference.windows import by_key, result, runs


def over(operator: Over, schema: Schema, rows: Iterable[Row]) -> tuple[list[Row], list[DeadLetter]]:
    """A row for each row; and a dead letter per SUM that does not fit."""
    out: list[Row] = []
    dead: list[DeadLetter] = []
    for key, members in by_key(schema, operator.by, rows).items():
        for run in runs(operator.ttl, members):
            for i, row in enumerate(run):
                made: list[Any] = []
                for _, function in operator.functions:
                    try:
                        made.append(_value(function, operator, schema, run, i, key))
                    except Failed as failed:
                        made.append(None)
                        dead.append(DeadLetter(operator.name, failed.reason, row.origin))
                out.append(Row(row.time, row.origin, (*row.values, *made)))
    return out, dead


def _value(function: Function, operator: Over, schema: Schema, run: Sequence[Row], i: int, key: tuple[Any, ...]) -> Any:
    """Of row `i` of the rows of a group that no ttl parts."""
    if function.name == "lag":
        before = i - int(function.parameter("k"))
        return run[before].values[schema.names.index(function.column or "")] if before >= 0 else None
    if function.name == "row_number":
        return i + 1
    inside = seen(operator, run, i)
    return result(function, Group(0, 0, key, tuple(inside)), schema)


def seen(operator: Over, run: Sequence[Row], i: int) -> Sequence[Row]:
    """The rows that are in the window of row `i`."""
    if operator.window.size is None:
        return run[max(0, i + 1 - (operator.window.rows or 0)) : i + 1]
    return [row for row in run if run[i].time - operator.window.size <= row.time <= run[i].time]
