"""Pieces of a checkpoint for an attempt whose query is another one: what it still has of them, as it would have written it. Pure.

Operators find their state by name, but for those that cannot keep it (`cep.plan.kept_state`): they begin with none. Only an aggregate that
has fewer functions than it had reads what it remembers otherwise."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from cep.compile.aggregate.spec import AggregateSpec
from cep.dataflow.layout import Layout
from cep.dataflow.operators.aggregate import partial_name
from cep.elements import State
from cep.model import operator_documents
from cep.model import query as queries
from cep.model.functions import Order
from cep.model.operators import Aggregate
from cep.plan.kept_state import ComparedQuery, begun_anew
from cep.plan.physical import PhysicalPlan


def as_read_by(before: PhysicalPlan, after: PhysicalPlan, piece: Sequence[State]) -> list[State]:
    """The piece, which was written under the plan `before`, for an instance of the plan `after`."""
    if _text(queries.to_json(before.query)) == _text(queries.to_json(after.query)):
        return list(piece)
    changed = dict(_changed(before, after))
    anew = begun_anew(ComparedQuery.of(before), ComparedQuery.of(after))
    dropped = {state for name in anew for state in (name, partial_name(name))}
    kept = [replace(state, found=None) for state in piece if state.operator not in dropped]
    return [_narrowed(state, *changed[state.operator]) if state.operator in changed else state for state in kept]


def _changed(before: PhysicalPlan, after: PhysicalPlan) -> list[tuple[str, tuple[AggregateSpec, AggregateSpec]]]:
    """Aggregates that have other functions, and what makes partial results for them, by the name that their state has."""
    old, new = Layout(before), Layout(after)
    found = list[tuple[str, tuple[AggregateSpec, AggregateSpec]]]()
    for name in old.operators.keys() & new.operators.keys():
        one, other = old.operators[name], new.operators[name]
        if not isinstance(one, Aggregate) or not isinstance(other, Aggregate) or one.row_order is Order.SEQUENTIAL:
            continue
        if _text(operator_documents.to_json(one)["functions"]) != _text(operator_documents.to_json(other)["functions"]):
            for state, stage in ((name, old.stage(name)), (partial_name(name), "partial")):
                found.append((state, (old.spec(one, stage), new.spec(other, stage))))
    return found


def _text(document: Any) -> str:
    """In its order, in which state is."""
    return json.dumps(document)


def _narrowed(state: State, old: AggregateSpec, new: AggregateSpec) -> State:
    """Its first columns, which are those of no function, say where each row belongs."""
    schema, places = state.rows.schema, state.rows.num_columns - len(old.partial_schema.fields)
    columns = [state.rows.column(name) for name in (*schema.names[:places], *new.partial_columns_in(old))]
    narrow = pa.schema([*(schema.field(i) for i in range(places)), *new.partial_schema.arrow])
    return State(state.operator, state.part, state.port, pa.RecordBatch.from_arrays(columns, schema=narrow))
