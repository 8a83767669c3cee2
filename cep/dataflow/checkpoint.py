"""Whose state a row is: what a restored instance keeps of what all instances of its subquery had (DESIGN 6, 10)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cep.dataflow.balancer import bucket_table, widened
from cep.dataflow.layout import Layout
from cep.dataflow.operators import Keep
from cep.kernels.columns import Columns
from cep.kernels.keys import encode_keys
from cep.kernels.partition import bucket_targets
from cep.model.operators import Operator
from cep.model.schema import Field
from cep.plan.lineage import brought, entries_of, equalities
from cep.plan.parallelize import is_spread_theta, operators_of
from cep.plan.physical import Edge, Subquery


def keep_of(layout: Layout, subquery: Subquery, operator: str, index: int) -> Keep:
    """Which rows of the state of `operator` instance `index` of `subquery` has to have: those whose tuples the plan sends it."""
    if subquery.parallelism == 1 or operator not in layout.operators:  # partial results have left before the Barrier
        return lambda port, columns: np.ones(_rows(columns), bool)
    if is_spread_theta(operators_of(layout.plan, subquery)):
        return _keep_of_theta(layout, subquery, index)
    edge = _routed(layout, subquery)
    fields, table = layout.route_fields(edge), bucket_table(edge, layout.plan.buckets, subquery.parallelism)
    carriers = _carriers(layout, subquery, layout.operators[operator])

    def keep(port: int, columns: Columns) -> np.ndarray:
        named = tuple(Field(name, field.type, field.nullable) for name, field in zip(carriers[port], fields, strict=True))
        keys = encode_keys(widened(columns, named), named)
        targets = np.empty(_rows(columns), np.int32)
        bucket_targets(keys.w0, keys.w1, table, targets)
        mine: np.ndarray = targets == index
        return mine

    return keep


def _rows(columns: Columns) -> int:
    return len(next(iter(columns.values())))


def _keep_of_theta(layout: Layout, subquery: Subquery, index: int) -> Keep:
    """All of the side that goes everywhere; of the other, which belongs to nobody, a share."""
    everywhere = {edge.port for edge in layout.plan.edges_into(subquery.name) if edge.balancer == "broadcast"}

    def keep(port: int, columns: Columns) -> np.ndarray:
        rows = np.arange(_rows(columns))
        mine: np.ndarray = rows >= 0 if port in everywhere else rows % subquery.parallelism == index
        return mine

    return keep


def _routed(layout: Layout, subquery: Subquery) -> Edge:
    """The edge whose table decides where rows of `subquery` go: into it, or into the one whose partitioning it keeps."""
    edge = next(edge for edge in layout.plan.edges_into(subquery.name) if edge.is_inner and edge.fields)
    return edge if edge.balancer == "route-key" else _routed(layout, layout.plan.subquery(edge.source))


def _carriers(layout: Layout, subquery: Subquery, operator: Operator) -> tuple[tuple[str, ...], ...]:
    """Of each input of `operator` the columns that carry what its subquery's tuples are partitioned by."""
    inside = {name: layout.operators[name] for name in subquery.operators}
    fields = {e.producer: e.fields for e in layout.plan.edges_into(subquery.name) if e.is_inner and e.fields}
    reached = entries_of(operator, inside) & fields.keys()
    found: list[tuple[str, ...]] = []
    for i in range(len(next(iter(fields.values())))):
        wanted: Mapping[str, str] = {entry: fields[entry][i] for entry in reached}
        found.append(next(columns for columns in equalities(operator) if brought(operator, columns, inside) == wanted))
    return tuple(zip(*found, strict=True))
