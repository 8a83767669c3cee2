"""Drawn cases as a cluster gets them: with names of their own, and with what of a way to run them the planner takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cep.model.query import Options, Query
from cep.plan.expand import in_full
from cep.transport import wire
from instance_manager.clients.publishers import PARTITION_MASK
from tests.strategies import Execution
from tests.support.running import plan_of


def named(query: Query, execution: Execution, name: str, files: Mapping[str, Sequence[tuple[str, int]]] | None = None) -> Query:
    """`query` with what of `execution` is sound for it, and with outputs of its own."""
    outputs = tuple(replace(output, stream=f"{name}.{output.stream}") for output in query.outputs)
    late = None if query.late is None else f"{name}.{query.late}"
    options = as_written(query, plan_of(query, execution, files).query.options)
    return replace(query, name=name, outputs=outputs, late=late, options=options)


def as_written(query: Query, options: Options) -> Options:
    """The options of `query` in full, in the words of `query`."""
    full = {operator.name: [each.name for each in in_full(operator)] for operator in query.operators}
    parts = tuple(tuple(name for name, (first, *_) in full.items() if first in part) for part in options.subqueries)
    chosen = dict(options.balancers)
    balancers = {name: {chosen.get(each) for each in names} for name, names in full.items()}
    agreed = tuple((name, each) for name, (each, *others) in balancers.items() if each is not None and not others)
    return replace(options, subqueries=parts, balancers=agreed)


def partition_number(publisher: str) -> int:
    return wire.name_id(publisher) & PARTITION_MASK
