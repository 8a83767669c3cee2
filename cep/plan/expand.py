"""What is said for short, said in full, so that the planner and everything after it knows fewer operators.

- A Demux is a Filter for each branch, `demux.branch`; `otherwise` keeps the tuples for which no condition is true.
- A join of an operator or stream with itself reads it the second time through a Filter that keeps everything, `join.right`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cep.model.expr import Expr, coalesce, lit
from cep.model.operators import AsOfJoin, Demux, Filter, IntervalJoin, Join, Operator
from cep.model.query import Query


def expanded(query: Query) -> Query:
    """The same query in full. What is in full already stays as it is."""
    full = {operator.name: tuple(in_full(operator)) for operator in query.operators}
    parts = tuple(tuple(each.name for name in names for each in full.get(name, ())) or names for names in query.options.subqueries)
    balancers = tuple((each.name, balancer) for name, balancer in query.options.balancers for each in full.get(name, ()))
    options = replace(query.options, subqueries=parts, balancers=balancers or query.options.balancers)
    return replace(query, operators=tuple(each for operators in full.values() for each in operators), options=options)


def in_full(operator: Operator) -> Iterator[Operator]:
    """What stands for `operator`, in topological order."""
    match operator:
        case Demux(name, input_, cases, otherwise):
            yield from (Filter(f"{name}.{branch}", input_, condition) for branch, condition in cases)
            if otherwise is not None:
                yield Filter(f"{name}.{otherwise}", input_, _none_of([condition for _, condition in cases]))
        case Join() | IntervalJoin() | AsOfJoin() if operator.left == operator.right:
            again = Filter(f"{operator.name}.right", operator.right, lit(True))
            yield again
            yield replace(operator, right=again.name)
        case _:
            yield operator


def yielded(operator: Operator) -> tuple[str, ...]:
    """The names under which others read what `operator` yields."""
    return operator.branches if isinstance(operator, Demux) else (operator.name,)


def _none_of(conditions: list[Expr]) -> Expr:
    known = [coalesce(condition, False) for condition in conditions]
    any_: Expr = known[0]
    for condition in known[1:]:
        any_ = any_ | condition
    return ~any_
