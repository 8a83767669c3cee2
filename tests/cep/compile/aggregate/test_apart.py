"""Aggregates of very many functions: the same answers as those of few, out of functions of a bounded size (`apart.py`)."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cep.compile.aggregate import apart as aggregate_apart
from cep.compile.aggregate.spec import AggregateSpec
from cep.compile.aggregate.window_state import WindowState
from cep.compile.windows.per_row import PerRowState
from cep.compile.windows.sequential import SequentialState
from cep.elements import MAX_TIME, Batch
from cep.kernels.columns import columns_from_arrow, columns_to_arrow
from cep.kernels.jit import interpreted
from cep.model.functions import Function, arg_max, avg, collect, count, count_distinct, first, last, max_, min_, quantile, stddev, sum_
from cep.model.operators import Aggregate
from cep.model.schema import Schema
from cep.model.windows import SIZE, TIME, UNBOUNDED, Window

NUMBERS = [f"n{i}" for i in range(6)]
SCHEMA = Schema.of(
    {"k": "int64", **{name: ("int64?", "float64", "int32")[i % 3] for i, name in enumerate(NUMBERS)}, "a": "string?", "b": "string"}
)
WINDOWS = {"tumbling": TIME("10us"), "sliding": TIME("12us", "4us"), "size": SIZE(7, 3), "each": UNBOUNDED(ttl=None)}


def functions() -> tuple[tuple[str, Function], ...]:
    made = [of(name) for name in NUMBERS for of in (sum_, avg, min_, max_, count, first, last)]
    made += [of(name) for name in NUMBERS[:3] for of in (count_distinct, stddev)] + [quantile(name, 0.5) for name in NUMBERS[:3]]
    made += [of(name) for name in "ab" for of in (min_, max_, first, last, count_distinct)]
    made += [collect("n0", 5), collect("a", 5), arg_max("b", "n2"), arg_max("n1", "n0"), count()]
    return tuple((f"f{i}", each) for i, each in enumerate(made))


def rows(n: int) -> Batch:
    choose = random.Random(n)

    def value(type_: str) -> Any:
        if type_.endswith("?") and choose.random() < 0.2:
            return None
        if type_.startswith("string"):
            return choose.choice(("", "a", "b", "a text of more than fifteen bytes", "another text of more than fifteen bytes"))
        return choose.choice((0.0, -0.5, 1e30, 0.1)) if type_ == "float64" else choose.randint(-5, 5)

    types = {field.name: f"{field.type}{'?' if field.nullable else ''}" for field in SCHEMA.fields}
    arrays = [pa.array([value(types[f.name]) if f.name != "k" else i % 3 for i in range(n)], f.type.arrow) for f in SCHEMA.fields]
    origin = np.stack([np.zeros(n, np.int64), np.arange(n)], axis=1)
    return Batch(columns_from_arrow(pa.RecordBatch.from_arrays(arrays, schema=SCHEMA.arrow), SCHEMA), np.arange(n), origin)


def answers(window: Window, asked: tuple[tuple[str, Function], ...]) -> list[str]:
    spec = AggregateSpec.of(Aggregate("w", "s", window, ("k",), asked), SCHEMA, frozenset(), "whole")
    if window in (WINDOWS["tumbling"], WINDOWS["sliding"]):
        windows = WindowState(spec, "w")
        windows.add(rows(40))
        out = list(windows.advance(MAX_TIME))
    else:
        sequential = PerRowState(spec, "w") if window == WINDOWS["each"] else SequentialState(spec, "w", 2)
        out = [*sequential.take(rows(40)), *sequential.close(MAX_TIME)]
    shown = [columns_to_arrow(batch.columns, spec.output_schema).to_pylist() for batch in out if len(batch)]
    return sorted(repr(row) for each in shown for row in each)


@pytest.mark.parametrize("window", WINDOWS)
def test_the_same_answers_whether_functions_are_apart(window: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for least in (10**9, 1):
        monkeypatch.setattr(aggregate_apart, "APART_FROM", least)
        with interpreted():
            found.append(answers(WINDOWS[window], functions()))
    assert found[0] == found[1] and len(found[0]) >= 9


@pytest.mark.parametrize("window", ["tumbling", "size", pytest.param("each", marks=pytest.mark.long)])  # a third kind of the same text
def test_compiled(window: str) -> None:
    asked = tuple(
        (f"f{i}", of(name)) for i, (name, of) in enumerate((name, of) for name in NUMBERS for of in (sum_, min_, max_, last, count))
    )
    with interpreted():
        expected = answers(WINDOWS[window], asked)
    assert answers(WINDOWS[window], asked) == expected


@pytest.mark.parametrize("window", WINDOWS)
def test_no_function_is_large(window: str) -> None:
    """What a compiler gets at a time does not grow with the functions that are asked for."""
    schema = Schema.of({f"c{i}": "float64" for i in range(200)})
    asked = tuple((f"f{i}", (sum_, min_, max_, last)[i % 4](f"c{i}")) for i in range(200))
    spec = AggregateSpec.of(Aggregate("w", "s", WINDOWS[window], (), asked), schema, frozenset(), "whole")
    apart = aggregate_apart.Apart(spec.states, list(spec.places.values()))
    lines = apart.merge()
    assert len(spec.states) == 150 + 4 and len(lines) <= 200 // aggregate_apart.STATES + 4
    assert apart.functions.count("def ") <= 8  # each kind has one, and perhaps one for the rest
