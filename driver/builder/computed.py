"""Aggregate functions of expressions: a Map before the aggregate computes them, and the functions name its columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from cep.errors import QueryError
from cep.model.contract.operator import Fields
from cep.model.expr import ColumnRef, Expr, columns_of
from cep.model.functions import WITH_BY, Computed, Function
from cep.model.windows import TransactionWindow, Window

Named = tuple[tuple[str, Function], ...]


def computed_first(window: Window, by: Sequence[str], functions: Named) -> tuple[Fields, Named]:
    """What to compute first, and the functions over that; nothing, and the functions as they are, where they name columns."""
    if not any(isinstance(function, Computed) for _, function in functions):
        return (), functions
    kept = dict.fromkeys([*by, *_of_window(window), *(name for _, function in functions for name in _plain(function))])
    fields: dict[str, Expr] = {name: ColumnRef(name) for name in kept}
    made: dict[str, str] = {}
    over = tuple((name, _over(name, each, fields, made) if isinstance(each, Computed) else each) for name, each in functions)
    return tuple(fields.items()), over


def named_functions(*given: Mapping[str, Function] | None) -> Named:
    """By name; what comes later replaces what has its name. Raises QueryError: one name is given the functions of several columns."""
    found = {name: function for each in given for name, function in (each or {}).items()}
    for name, function in found.items():
        if isinstance(function, Mapping):
            called = next(iter(function.values())).name
            by = ", by=..." * (called in WITH_BY)
            raise QueryError(
                f"field {name!r}: expected a function, got those of {len(function)} columns by name; write **{called}([...]{by}) in place "
                f"of {name}={called}([...]{by}), and {{'{name}': 'COLUMN'}} in place of a list where a name is to be another than that of "
                "its column"
            )
    return tuple(found.items())


def _of_window(window: Window) -> Iterable[str]:
    """The columns that its conditions read."""
    return sorted(columns_of(window.open) | columns_of(window.close)) if isinstance(window, TransactionWindow) else ()


def _plain(function: Function) -> Iterable[str]:
    """The columns that it reads as they are."""
    if isinstance(function, Computed):
        return [each.name for each in function.expressions if isinstance(each, ColumnRef)]
    return function.columns


def _over(name: str, function: Computed, fields: dict[str, Expr], made: dict[str, str]) -> Function:
    """Adds what it is to be given to `fields`, under the name of its answer or one like it; `made`: which column an expression, as it is
    written, is already, so that functions which compare the same are seen to."""
    columns = []
    for each in function.expressions:
        if isinstance(each, ColumnRef):
            columns.append(each.name)
            continue
        if repr(each) not in made:
            number = 0
            while (chosen := f"{name}{number or ''}") in fields:
                number += 1
            fields[chosen], made[repr(each)] = each, chosen
        columns.append(made[repr(each)])
    return function.over(tuple(columns))
