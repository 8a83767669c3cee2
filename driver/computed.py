"""Aggregate functions of expressions: a Map before the aggregate computes them, and the functions name its columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cep.model.expr import Column, Expr, columns_of
from cep.model.functions import Computed, Function
from cep.model.windows import TransactionWindow, Window

Named = tuple[tuple[str, Function], ...]
Fields = tuple[tuple[str, Expr], ...]


def computed_first(window: Window, by: Sequence[str], functions: Named) -> tuple[Fields, Named]:
    """What to compute first, and the functions over that; nothing, and the functions as they are, where they name columns."""
    if not any(isinstance(function, Computed) for _, function in functions):
        return (), functions
    kept = dict.fromkeys([*by, *_of_window(window), *(name for _, function in functions for name in _plain(function))])
    fields: dict[str, Expr] = {name: Column(name) for name in kept}
    over = tuple((name, _over(name, function, fields) if isinstance(function, Computed) else function) for name, function in functions)
    return tuple(fields.items()), over


def _of_window(window: Window) -> Iterable[str]:
    """The columns that its conditions read."""
    return sorted(columns_of(window.open) | columns_of(window.close)) if isinstance(window, TransactionWindow) else ()


def _plain(function: Function) -> Iterable[str]:
    """The columns that it reads as they are."""
    if isinstance(function, Computed):
        return [each.name for each in function.expressions if isinstance(each, Column)]
    return function.columns


def _over(name: str, function: Computed, fields: dict[str, Expr]) -> Function:
    """Adds what it is to be given to `fields`, under the name of its answer or one like it."""
    columns = []
    for each in function.expressions:
        if isinstance(each, Column):
            columns.append(each.name)
            continue
        number = 0
        while (chosen := f"{name}{number or ''}") in fields:
            number += 1
        fields[chosen] = each
        columns.append(chosen)
    return function.over(tuple(columns))
