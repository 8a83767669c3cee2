"""Which columns of a group of operators' inputs decide where their rows have to go.

A *label* is one value that every row carries from where it enters the group to every stateful operator that it
reaches, under
whatever names: entry -> column. It is followed through renaming Maps, Filters, Unions and the group fields of
Aggregates; a computed column is nobody's label. Rows partitioned by labels, each of which is in every stateful
operator's key, meet at one instance whenever they belong to one group (paper 4: "all tuples sharing the same values
of the attributes specified in the group-by parameter are processed by the same CEP instance").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cep.model.expr import Column, Expr
from cep.model.operators import (
    Aggregate,
    AsOfJoin,
    Deduplicate,
    Delay,
    Filter,
    FlatMap,
    IntervalJoin,
    Join,
    Lookup,
    Map,
    Operator,
    Sort,
    StatefulMap,
    TopN,
    Union,
    is_stateful,
)

Label = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CommonKey:
    """Columns of each entry (operators or streams outside the group that it reads), in one order for all entries.

    An entry that reaches no stateful operator has none: its rows may go anywhere. `obstacle` is the first stateful
    operator, in topological order, that shares no label with those before it on the same rows; then there is no
    common key.
    """

    fields: Mapping[str, tuple[str, ...]]
    obstacle: Operator | None = None


def common_key(operators: Sequence[Operator]) -> CommonKey:
    """The labels that are in the key of every stateful operator of a group; `operators` in topological order."""
    inside = {operator.name: operator for operator in operators}
    components: list[tuple[frozenset[str], list[Label]]] = []  # entries that meet somewhere, and their labels
    for operator in filter(is_stateful, operators):
        entries = entries_of(operator, inside)
        labels = [label for columns in equalities(operator) if (label := brought(operator, columns, inside)) is not None]
        for component in [c for c in components if c[0] & entries]:
            components.remove(component)
            entries |= component[0]
            labels = _joined(component[1], labels)
        if not labels:
            return CommonKey({}, operator)
        components.append((entries, labels))
    return CommonKey({e: tuple(label[e] for label in labels) for entries, labels in components for e in entries})


def equalities(operator: Operator) -> tuple[tuple[str, ...], ...]:
    """What brings rows of a stateful operator together: for each of its key's fields, the column of each input."""
    match operator:
        case Join(on=on) | IntervalJoin(on=on) | AsOfJoin(on=on):
            return on
        case Aggregate(by=by) | Sort(by=by) | TopN(by=by) | Deduplicate(by=by) | StatefulMap(by=by):
            return tuple((column,) for column in by)
    return ()


def group_by(operator: Operator) -> tuple[str, ...]:
    """The same for a person to read."""
    return tuple(" = ".join(dict.fromkeys(columns)) for columns in equalities(operator))


def brought(operator: Operator, columns: Sequence[str | None], inside: Mapping[str, Operator]) -> Label | None:
    """Where the values of `columns`, one of each input (None: of that input none), enter the group."""
    traced: Label | None = {}
    for input_, column in zip(operator.inputs, columns, strict=True):
        traced = _merged(traced, None if column is None else trace(input_, column, inside))
    return traced


def entries_of(operator: Operator, inside: Mapping[str, Operator]) -> frozenset[str]:
    """The names outside the group from which rows come to `operator`."""
    return frozenset().union(*(entries_of(inside[name], inside) if name in inside else {name} for name in operator.inputs))


def trace(name: str, column: str, inside: Mapping[str, Operator]) -> Label | None:
    """Where the values of column `column` of `name`'s output enter the group.

    None if they are computed inside it, or if one entry brings them in different columns on different ways.
    """
    if name not in inside:
        return {name: column}
    operator = inside[name]
    columns = _passed_from(operator, column)
    return None if columns is None else brought(operator, columns, inside)


def _passed_from(operator: Operator, column: str) -> tuple[str, ...] | None:
    """The column of each input whose values come out of `operator` unchanged as `column`, in every row that it yields."""
    match operator:
        case Filter() | Union() | Delay() | Deduplicate():
            return (column,) * len(operator.inputs)
        case Sort() | TopN():
            return None if column == operator.rank and operator.window is not None else (column,)
        case Aggregate(by=by):
            return (column,) if column in by else None
        case Map(fields=fields) | FlatMap(fields=fields) | StatefulMap(fields=fields):
            return _renamed(operator, dict(fields).get(column), column)
        case Lookup():
            return None if column in joined_names(operator) else (column,)
        case Join() | IntervalJoin() | AsOfJoin():
            return _passed_from_sides(operator, column)
    return None


def _renamed(operator: Map | FlatMap | StatefulMap, expression: Expr | None, column: str) -> tuple[str, ...] | None:
    exploded = isinstance(operator, FlatMap) and column == operator.explode
    state = [name for name, _ in operator.state] if isinstance(operator, StatefulMap) else []
    return (expression.name,) if isinstance(expression, Column) and not exploded and expression.name not in state else None


def joined_names(operator: Lookup) -> frozenset[str]:
    """The columns that come from the table."""
    shared = {left for left, right in operator.on if left == right}
    return frozenset(operator.prefix + name for name in operator.table.schema.names if name not in shared)


def _passed_from_sides(operator: Join | IntervalJoin | AsOfJoin, column: str) -> tuple[str, str] | None:
    """Only the fields of the key are the same on both sides; a NULL in place of a side that is missing is not."""
    for left, right in operator.on:
        if left == right == column:
            return left, right
        if left == column and operator.how in ("inner", "left"):
            return left, right
        if operator.prefix + right == column and left != right and operator.how in ("inner", "right"):
            return left, right
    return None


def _merged(left: Label | None, right: Label | None) -> Label | None:
    if left is None or right is None or any(right[entry] != left[entry] for entry in left.keys() & right.keys()):
        return None
    return {**left, **right}


def _joined(left: Sequence[Label], right: Sequence[Label]) -> list[Label]:
    joined: list[Label] = []
    for a in left:
        for b in right:
            label = _merged(a, b)
            if label is not None and label not in joined:
                joined.append(label)
    return joined
