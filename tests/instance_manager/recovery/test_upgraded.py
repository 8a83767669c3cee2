"""What an aggregate with fewer functions reads of the state of the one that was there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cep.compile.aggregate.window_state import WindowState
from cep.dataflow.layout import Layout
from cep.dataflow.operators.aggregate import partial_name
from cep.elements import MAX_TIME, Batch, State
from cep.kernels.columns import columns_from_arrow, columns_to_arrow
from cep.plan.physical import PhysicalPlan
from driver import TIME, Query, arg_max, avg, count, count_distinct, first, max_, stream, sum_
from instance_manager.recovery.upgraded import as_read_by
from tests.support.plans import planned

FUNCTIONS: dict[str, Any] = {
    "n": count(),
    "total": sum_("x"),  # an exact sum
    "words": max_("word"),
    "distinct": count_distinct("word"),  # a block
    "mean": avg("i"),
    "opened": first("word"),  # by origin
    **arg_max(["word", "i"], by="i"),
}


def plan_with(names: Sequence[str], partials: str = "off", by: str = "key") -> PhysicalPlan:
    read = stream("s", t="timestamp[ms]", key=int, i=int, x=float, word=str, event_time="t", disorder="1s")
    made = Query("q").source(read).aggregate("w", TIME("1s"), by=by, **{name: FUNCTIONS[name] for name in names})
    options = {"parallelism": {"SQ1": 1, "SQ2": 1}, "pre_aggregation": partials, "recover": "on-commit"}
    return planned(made.output("out").options(**options).build())


def state_of(plan: PhysicalPlan, stage: str) -> WindowState:
    layout = Layout(plan)
    return WindowState(layout.spec(layout.aggregate("w"), stage), "w")


def rows(plan: PhysicalPlan, numbers: Sequence[int]) -> Batch:
    schema = Layout(plan).columns("s")
    values = {"t": [i * 1000 for i in numbers], "key": [i % 3 for i in numbers], "i": [i * 7 % 11 for i in numbers]}
    values |= {"x": [i * 1e17 + 0.1 for i in numbers], "word": [f"word {i * 5 % 7} of more than eight bytes" for i in numbers]}
    table = pa.RecordBatch.from_pydict({name: values[name] for name in schema.names}, schema=schema.arrow)
    origin = np.array([[0, i] for i in numbers], np.int64)
    return Batch(columns_from_arrow(table, schema), np.array([i * 1000 for i in numbers], np.int64), origin)


def answers(state: WindowState) -> list[Mapping[str, Any]]:
    found = [columns_to_arrow(batch.columns, state.spec.output_schema).to_pylist() for batch in state.advance(MAX_TIME) if len(batch.time)]
    return sorted((row for batch in found for row in batch), key=lambda row: row["key"])


@pytest.mark.parametrize(
    "kept",
    [
        ("n",),
        ("total",),
        ("words", "n"),
        ("distinct", "opened"),
        ("word", "i", "mean"),
        ("opened", "mean", "n"),
        ("word", "i", "opened", "mean", "distinct", "words", "total", "n"),
        ("i", "total", "word"),
    ],
)
def test_the_functions_that_stay_answer_as_if_others_had_never_been(kept: tuple[str, ...]) -> None:
    before, after = plan_with(tuple(FUNCTIONS)), plan_with(kept)
    there, wanted, alone = state_of(before, "whole"), state_of(after, "whole"), state_of(after, "whole")
    there.add(rows(before, range(40)))
    for piece in as_read_by(before, after, [State("w", "groups", 0, made()) for made in there.snapshot()]):
        wanted.restore(piece.rows)
    assert {made().schema for made in wanted.snapshot()} == {alone.snapshot_schema.arrow}, "the next checkpoint has it with what comes"
    for state in (wanted, alone):
        state.add(rows(after, range(40 if state is wanted else 0, 60)))
    assert answers(wanted) == answers(alone)


MANY = [f"c{i}" for i in range(35)]
"""Columns of one row, which more than one record keeps."""
TYPES = ("int64", "string?", "int64?", "float64?", "string")


def of_many_columns(names: Sequence[str], by: str | None) -> PhysicalPlan:
    read = stream("s", t="timestamp[ms]", key=int, **dict(zip(MANY, TYPES * 7, strict=True)), event_time="t", disorder="1s")
    made = Query("q").source(read).aggregate("w", TIME("1s"), by="key", **(arg_max(names, by=by) if by else first(names)))
    return planned(made.output("out").options(parallelism={"SQ1": 1, "SQ2": 1}, pre_aggregation="off", recover="on-commit").build())


def value_of(row: int, column: int) -> Any:
    type_ = TYPES[column % 5]
    if type_.endswith("?") and (row + column) % 4 == 0:
        return None
    return f"{row * 7 % 11} of {column}, a long text" if type_.startswith("string") else row * 7 % 11 + column


def rows_of_many(plan: PhysicalPlan, numbers: Sequence[int]) -> Batch:
    schema = Layout(plan).columns("s")
    values = {"t": list(numbers), "key": [i % 3 for i in numbers]}
    values |= {name: [value_of(i, k) for i in numbers] for k, name in enumerate(MANY)}
    table = pa.RecordBatch.from_pydict({name: values[name] for name in schema.names}, schema=schema.arrow)
    return Batch(columns_from_arrow(table, schema), np.array(numbers, np.int64) * 1000, np.array([[0, i] for i in numbers], np.int64))


@pytest.mark.parametrize("by", [None, "c0", "c1", "c3"])
def test_the_columns_of_a_row_are_found_in_any_order(by: str | None) -> None:
    before, after = of_many_columns(MANY, by), of_many_columns(MANY[20:][::-1] + MANY[:20], by)
    there, wanted, alone = state_of(before, "whole"), state_of(after, "whole"), state_of(after, "whole")
    there.add(rows_of_many(before, range(25)))
    for piece in as_read_by(before, after, [State("w", "groups", 0, made()) for made in there.snapshot()]):
        wanted.restore(piece.rows)
    wanted.add(rows_of_many(after, range(25, 40)))
    alone.add(rows_of_many(after, range(40)))
    assert (found := answers(wanted)) == answers(alone) and len(found) == 3 and set(MANY) <= found[0].keys()


@pytest.mark.parametrize("after", [plan_with(["n", "total"]), plan_with(["n"], by="i")], ids=["a function more", "another key"])
def test_an_operator_that_cannot_keep_its_state_finds_none_and_others_find_theirs(after: PhysicalPlan) -> None:
    before = plan_with(["n"])
    there = state_of(before, "whole")
    there.add(rows(before, range(40)))
    (part,) = (made() for made in there.snapshot())
    piece = [State(name, "groups", 0, part) for name in ("w", partial_name("w"), "other", "")]
    assert [state.operator for state in as_read_by(before, after, piece)] == ["other", ""]
