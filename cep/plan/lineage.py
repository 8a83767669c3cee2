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

from cep.model.expr import Column
from cep.model.operators import Aggregate, Filter, Map, Operator, Union, is_stateful

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
        labels = [label for column in group_by(operator) if (label := trace(operator.inputs[0], column, inside)) is not None]
        for component in [c for c in components if c[0] & entries]:
            components.remove(component)
            entries |= component[0]
            labels = _joined(component[1], labels)
        if not labels:
            return CommonKey({}, operator)
        components.append((entries, labels))
    return CommonKey({e: tuple(label[e] for label in labels) for entries, labels in components for e in entries})


def group_by(operator: Operator) -> tuple[str, ...]:
    """The fields whose equality brings rows of a stateful operator together."""
    return operator.by if isinstance(operator, Aggregate) else ()


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
    origin = _passed_from(operator, column)
    if origin is None:
        return None
    traced: Label | None = {}
    for input_ in operator.inputs:
        traced = _merged(traced, trace(input_, origin, inside))
    return traced


def _passed_from(operator: Operator, column: str) -> str | None:
    """The column of each input that comes out of `operator` unchanged as `column`."""
    match operator:
        case Filter() | Union():
            return column
        case Aggregate(by=by):
            return column if column in by else None
        case Map(fields=fields):
            expression = dict(fields).get(column)
            return expression.name if isinstance(expression, Column) else None


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
