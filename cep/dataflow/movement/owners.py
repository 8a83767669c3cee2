"""Whose state a row is: what a restored instance keeps of what all instances of its subquery had (rule 6.3)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cep.dataflow.layout import Layout
from cep.dataflow.operators.operator import Keep, Part
from cep.dataflow.outputs.balancer import bucket_table
from cep.kernels.columns import Columns, from_arrow, with_wider_numbers
from cep.kernels.jit import warm
from cep.kernels.tables.keys import encode_keys, key_kernels
from cep.kernels.tables.partition import bucket_targets
from cep.model.operators import Operator
from cep.model.schema import Field
from cep.plan.lineage import brought, entries_of
from cep.plan.parallelize import is_spread_theta, operators_of
from cep.plan.physical import Edge, PhysicalPlan, Subquery


def keep_of(layout: Layout, subquery: Subquery, operator: str, index: int) -> Keep:
    """Which rows of the state of `operator` instance `index` of `subquery`, of its replica, has to have: those whose tuples the plan sends
    it."""
    if subquery.parallelism == 1 or operator not in layout.operators:  # partial results have left before the Barrier
        return everything
    if is_spread_theta(operators_of(layout.plan, subquery)):
        return _keep_of_theta(layout, subquery, index)
    owners, table = Owners(layout, subquery, operator), table_of(layout.plan, subquery)

    def keep(port: int, columns: Columns) -> np.ndarray:
        mine: np.ndarray = owners.of(port, columns, table) == index
        return mine

    return keep


def table_of(plan: PhysicalPlan, subquery: Subquery) -> np.ndarray:
    """int32[buckets]: bucket -> instance of `subquery`, in each replica."""
    return bucket_table(_routed(plan, subquery), plan.buckets, subquery.parallelism)


def everything(port: int, columns: Columns) -> np.ndarray:
    """The `Keep` of what is all an instance's own."""
    return np.ones(_rows(columns), bool)


class Owners:
    """At which instance the rows of the state of `operator` have to be, by a table of buckets."""

    def __init__(self, layout: Layout, subquery: Subquery, operator: str) -> None:
        described = layout.operators[operator]
        fields, carriers = layout.route_fields(_routed(layout.plan, subquery)), _carriers(layout, subquery, described)
        self._schemas = [layout.validated.schemas[producer] for producer in described.inputs]
        self._fields = [
            tuple(Field(name, field.type, field.nullable) for name, field in zip(names, fields, strict=True)) for names in carriers
        ]
        warm(bucket_targets, *(each for by in self._fields for each in key_kernels(by)))

    def of(self, port: int, columns: Columns, table: np.ndarray) -> np.ndarray:
        """int32[n]: what `table` gives for the bucket of each row; those of `port` are keyed by columns of that input."""
        keys = encode_keys(with_wider_numbers(columns, self._fields[port]), self._fields[port])
        owners = np.empty(_rows(columns), np.int32)
        bucket_targets(keys.w0, keys.w1, table, owners)
        return owners

    def of_part(self, part: Part, table: np.ndarray) -> np.ndarray:
        names = [field.name for field in self._fields[part.port]]
        columns = {name: from_arrow(part.batch.column(name), self._schemas[part.port][name].type) for name in names}
        return self.of(part.port, columns, table)


def _rows(columns: Columns) -> int:
    return len(next(iter(columns.values())))


def _keep_of_theta(layout: Layout, subquery: Subquery, index: int) -> Keep:
    """All of the side that goes everywhere; of the other, which belongs to no instance, a share."""
    everywhere = {edge.port for edge in layout.plan.edges_into(subquery.name) if edge.balancer == "broadcast"}

    def keep(port: int, columns: Columns) -> np.ndarray:
        rows = np.arange(_rows(columns))
        mine: np.ndarray = rows >= 0 if port in everywhere else rows % subquery.parallelism == index
        return mine

    return keep


def _routed(plan: PhysicalPlan, subquery: Subquery) -> Edge:
    """The edge whose table decides where rows of `subquery` go: into it, or into the one whose partitioning it keeps."""
    edge = next(edge for edge in plan.edges_into(subquery.name) if edge.is_inner and edge.fields)
    return edge if edge.balancer == "route-key" else _routed(plan, plan.subquery(edge.source))


def _carriers(layout: Layout, subquery: Subquery, operator: Operator) -> tuple[tuple[str, ...], ...]:
    """For each input of `operator` the columns that carry what its subquery's tuples are partitioned by."""
    inside = {name: layout.operators[name] for name in subquery.operators}
    fields = {e.producer: e.fields for e in layout.plan.edges_into(subquery.name) if e.is_inner and e.fields}
    reached = entries_of(operator, inside) & fields.keys()
    found: list[tuple[str, ...]] = []
    for i in range(len(next(iter(fields.values())))):
        wanted: Mapping[str, str] = {entry: fields[entry][i] for entry in reached}
        found.append(next(columns for columns in operator.key if brought(operator, columns, inside) == wanted))
    return tuple(zip(*found, strict=True))
