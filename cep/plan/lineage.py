"""Which columns of a group of operators' inputs decide where their rows have to go.

A *label* is one value that every row carries from where it enters the group to every stateful operator that it reaches, under whatever
names: entry -> column. It is followed through renaming Maps, Filters, Unions and the group fields of
Aggregates; a computed column is no label. Rows partitioned by labels, each of which is in every stateful
operator's key, meet at one instance whenever they belong to one group (paper 4: "all tuples sharing the same values
of the attributes specified in the group-by parameter are processed by the same CEP instance").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cep.model.operators import Operator

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
    for operator in (operator for operator in operators if operator.stateful):
        entries = entries_of(operator, inside)
        labels = [label for columns in operator.key if (label := brought(operator, columns, inside)) is not None]
        for component in [c for c in components if c[0] & entries]:
            components.remove(component)
            entries |= component[0]
            labels = _joined(component[1], labels)
        if not labels:
            return CommonKey({}, operator)
        components.append((entries, labels))
    return CommonKey({e: tuple(label[e] for label in labels) for entries, labels in components for e in entries})


def group_by(operator: Operator) -> tuple[str, ...]:
    """What brings its tuples together, for a person to read."""
    return tuple(" = ".join(dict.fromkeys(columns)) for columns in operator.key)


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
    columns = operator.passes(column)
    return None if columns is None else brought(operator, columns, inside)


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
