"""What is said for short, said in full, so that the planner and everything after it knows fewer operators.

What an operator is short for it says itself; and a join of an operator or stream with itself reads it the second time through a Filter
that keeps everything, `join.right`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from cep.model.contract.operator import TwoInputs
from cep.model.expr import lit
from cep.model.operators import Filter, Operator
from cep.model.query import Query


def expanded(query: Query) -> Query:
    """The same query in full. What is in full already stays as it is; matches that nothing reads, only another branch, are left out."""
    read = {name for operator in query.operators for name in operator.inputs} | {output.input for output in query.outputs}
    full = {
        operator.name: tuple(each for each in in_full(operator) if each.name in read or each.name != operator.name)
        for operator in query.operators
    }
    parts = tuple(tuple(each.name for name in names for each in full.get(name, ())) or names for names in query.options.subqueries)
    balancers = tuple((each.name, balancer) for name, balancer in query.options.balancers for each in full.get(name, ()))
    options = replace(query.options, subqueries=parts, balancers=balancers or query.options.balancers)
    return replace(query, operators=tuple(each for operators in full.values() for each in operators), options=options)


def shorter(query: Query, full: Query) -> Query | None:
    """`query`, if `full`, which is what it was expanded to, is longer, or says whether it recovers; None: it was in full already."""
    same = [type(each) for each in query.operators] == [type(each) for each in full.operators]
    return None if same and query.options.recover == full.options.recover else query


def written_name(query: Query, name: str) -> str:
    """The name that the operator `name` of a query in full has in `query`, as its user wrote it."""
    if any(each.name == name for each in query.operators):
        return name
    short = (each for each in query.operators if name.startswith(f"{each.name}."))
    return next((each.name for each in short if any(part.name == name for part in in_full(each))), name)


def in_full(operator: Operator) -> Iterator[Operator]:
    """What stands for `operator`, in topological order."""
    for each in operator.in_full():
        if isinstance(each, TwoInputs) and each.left == each.right:
            again = Filter(f"{each.name}.right", each.right, lit(True))
            described: Any = each
            yield from (again, replace(described, right=again.name))
        else:
            yield each
