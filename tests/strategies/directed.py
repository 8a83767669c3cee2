"""A case built around one cell: an operator of a kind, behind a given balancer with several instances at one of its ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from cep.model.expr import lit
from cep.model.functions import first
from cep.model.operators import Aggregate, Filter, Join, Operator, Union
from cep.model.query import Output, Query
from cep.model.windows import TimeWindow
from tests.strategies.executions import Execution, executions
from tests.strategies.operators import Node, comparable
from tests.strategies.queries import Case, joined, makes_text_of_state, node_of, nodes_of, one_input
from tests.strategies.streams import partitions, streams
from tests.support.cells import Cell
from tests.support.kinds import JOINS, STATELESS

#: They have at least one column by which tuples are the same.
ALWAYS_KEYED = ("deduplicate", "keep_last")


@st.composite
def directed(draw: DrawFn, cell: Cell) -> tuple[Case, Execution]:
    """s goes through a Filter or two, so that there is a balancer before the operator `o`; every branch of it comes out."""
    stream = draw(streams())
    node = node_of(stream)
    before: list[Operator] = [Filter(name, "s", lit(True)) for name in ("f", "g")]
    sides = [replace(node, name=one.name) for one in before]
    if cell.kind in STATELESS:
        made, split = draw(_stateless(cell.kind, sides)), "per-operator"
    else:
        behind, made = draw(_stateful(cell, node, sides))
        before, split = [*before, *behind], "stateful"
    used = [one for one in before if any(one.name in other.inputs for other in (*before, made))]
    query = Query("q", (stream,), (*used, made), tuple(Output(f"out_{name}", name) for name in made.branches))
    assume(not makes_text_of_state(query))
    execution = draw(executions())
    balancers = (("o", cell.balancer),) if cell.kind in STATELESS else ()
    options = replace(execution.options, split=split, balancers=balancers, parallelism=max(2, execution.options.parallelism or 0))
    return Case(query, {"s": draw(partitions(stream))}), replace(execution, options=options, balancers=(), parts=())


@st.composite
def _stateless(draw: DrawFn, kind: str, sides: Sequence[Node]) -> Operator:
    return Union("o", ("f", "g")) if kind == "union" else draw(one_input(kind, sides[0], "o"))


@st.composite
def _stateful(draw: DrawFn, cell: Cell, node: Node, sides: Sequence[Node]) -> tuple[list[Operator], Operator]:
    """What stands before it besides the Filters, and the operator."""
    if cell.kind in JOINS:
        keyed = cell.balancer == "route-key"
        made = draw(joined(cell.kind, *sides, "o").filter(lambda join: bool(_on(join)) == keyed))
        if isinstance(made, Join) and not keyed:  # a full theta join is on one instance, others are shared out
            hows = ("full",) if cell.balancer == "point-to-point" else ("inner", {"left": "right", "right": "left"}[made.broadcast])
            made = replace(made, how=draw(st.sampled_from(hows)))
        return [], made
    key = draw(st.sampled_from(comparable(node.schema)))
    if cell.balancer == "point-to-point" and (cell.kind in ALWAYS_KEYED or draw(st.booleans())) and cell.kind != "sort":
        return draw(_kept(cell.kind, key, node, sides[0]))
    made = draw(one_input(cell.kind, sides[0], "o"))
    if cell.kind in ("sort", *ALWAYS_KEYED):
        return [], made
    return [], _by(made, (_of(made) or (key,)) if cell.balancer == "route-key" else ())


@st.composite
def _kept(draw: DrawFn, kind: str, key: str, node: Node, side: Node) -> tuple[list[Operator], Operator]:
    """Behind an Aggregate by a part of its own key, so that the tuples are partitioned well as they are."""
    others = tuple((name, first(name)) for name in node.schema.names if name != key)
    window = TimeWindow(node.tick, node.tick)
    spread = Aggregate("a", side.name, window, (key,), others or (("n", first(key)),))
    made = draw(one_input(kind, nodes_of(spread, [side])[0], "o"))
    return [spread], _by(made, tuple(dict.fromkeys((key, *_of(made)))))


def _on(operator: Any) -> Any:
    return operator.on


def _of(operator: Any) -> tuple[str, ...]:
    by: tuple[str, ...] = operator.by
    return by


def _by(operator: Any, by: tuple[str, ...]) -> Operator:
    made: Operator = replace(operator, by=by)
    return made
