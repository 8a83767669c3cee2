"""Users' aggregate functions: a class with `init() -> state`, `add(state, *values) -> state` and `result(state) -> value`.

The engine keeps the values of a group's rows as COLLECT does, and when the window fires adds them up in stream order. So a user's
Python runs once for each row and window, no state of it has to be kept or merged, and answers depend on nothing but the rows.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cep.compile.user.functions import called, check_callable_with, error_text, resolve_function
from cep.compile.user.rows import slow_note
from cep.compile.user.values import check_of, column_of_values, python_values
from cep.elements import PAUSE, Batch
from cep.errors import QueryError
from cep.kernels.columns import Column, Columns
from cep.model.functions import Function, UserFunction
from cep.model.operators import Aggregate
from cep.model.schema import Field

#: Rows that a COLLECT without bound keeps of a group; the limit of the state comes first.
_ROWS_MAX = 1 << 40
#: Rows added between two pauses.
CALLS_A_PIECE = 64


def collecting(aggregate: Aggregate) -> Aggregate:
    """The same with a COLLECT for each argument of a user's function in the function's place."""
    functions = tuple(each for name, function in aggregate.functions for each in _collects(name, function))
    return replace(aggregate, functions=functions)


def _collects(name: str, function: Function) -> list[tuple[str, Function]]:
    if not isinstance(function, UserFunction):
        return [(name, function)]
    bound = (("at_most", _ROWS_MAX),)
    return [(_argument(name, k), Function("collect", column, parameters=bound)) for k, column in enumerate(function.arguments)]


def _argument(name: str, k: int) -> str:
    """The column with argument `k` of the function that is field `name` of the answer."""
    return f"{name} argument {k}"


@dataclass(frozen=True)
class FoldFailure:
    """The function that is field `field` failed on the rows of answer `row`; the answer has NULL there."""

    row: int
    reason: str


class Folds:
    """Users' functions of an aggregate, over the answers of the `collecting` one."""

    def __init__(self, aggregate: Aggregate) -> None:
        self.names = (*aggregate.by, *(name for name, _ in aggregate.functions))
        users = [(name, function) for name, function in aggregate.functions if isinstance(function, UserFunction)]
        self.folds = {name: _Fold(name, function) for name, function in users}
        self.notes = tuple(note for name, _ in users for note in self.folds[name].notes)

    def run(self, columns: Columns, n: int) -> Generator[Batch, None, tuple[dict[str, Column], list[FoldFailure]]]:
        """The columns of `n` answers; it pauses while they are made."""
        failures: list[FoldFailure] = []
        made: dict[str, Column] = {}
        for name in self.names:
            made[name] = (yield from self.folds[name].run(columns, n, failures)) if name in self.folds else columns[name]
        return made, failures


def _never_merged(reference: str, made: type) -> list[str]:
    """What `status` says of a class that can merge states."""
    if not hasattr(made, "merge"):
        return []
    return [f"function {reference!r}: its merge is not used: the rows of a window are added in stream order when it answers"]


def _made(reference: str, class_: type) -> Any:
    try:
        return called(class_)
    except Exception as error:
        raise QueryError(f"aggregate function {reference!r} cannot be made: {error_text(error)}") from error


class _Fold:
    """One function. Rows in which a value is NULL do not count, as for SUM."""

    def __init__(self, name: str, function: UserFunction) -> None:
        self.name, self.reference, self.type = name, function.name, function.type
        made = resolve_function(function.name)
        missing = [part for part in ("init", "add", "result") if not callable(getattr(made, part, None))]
        if missing or not isinstance(made, type):
            what = f"without {', '.join(missing)}" if missing else "that is no class"
            raise QueryError(f"aggregate function {function.name!r}: expected a class with init, add and result, got one {what}")
        self.instance: Any = _made(function.name, made)
        self.notes = (slow_note(function.name, "an aggregate function is not compiled"), *_never_merged(function.name, made))
        check_callable_with(f"{function.name}.add", self.instance.add, 1 + len(function.arguments))
        self.arguments = [_argument(name, k) for k in range(len(function.arguments))]
        self.check = check_of(Field(name, function.type, function.nullable))
        column_of_values([], function.type)  # Arrow looks for pandas at the first one

    def run(self, columns: Columns, n: int, failures: list[FoldFailure]) -> Generator[Batch, None, Column]:
        groups = zip(*(python_values(columns[name]) for name in self.arguments), strict=True)
        results: list[Any] = [None] * n
        for row, lists in enumerate(groups):
            try:
                results[row] = yield from self._fold(lists)
            except Exception as error:
                failures.append(FoldFailure(row, f"field {self.name!r}: {self.reference}: {error_text(error)}"))
        return column_of_values(results, self.type)

    def _fold(self, lists: Sequence[Sequence[Any]]) -> Generator[Batch, None, Any]:
        rows = list(zip(*lists, strict=True))
        state = called(self.instance.init)
        for start in range(0, len(rows), CALLS_A_PIECE):
            state = called(self._added, state, rows[start : start + CALLS_A_PIECE])
            yield PAUSE
        return called(self._result, state)

    def _added(self, state: Any, rows: Sequence[Sequence[Any]]) -> Any:
        for values in rows:
            if None not in values:
                state = self.instance.add(state, *values)
        return state

    def _result(self, state: Any) -> Any:
        return self.check(self.instance.result(state))
