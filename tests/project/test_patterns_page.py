"""The examples of docs/features/patterns.md run as written, on the rows that stand there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest

from cep.kernels.jit import interpreted
from cep.model.query import Options
from cep.model.schema import Field, Schema
from cep.model.streams import Stream
from cep.plan.validate import validate
from driver import Query
from tests.reference import Partition, assert_same_answer
from tests.strategies import Case, Execution
from tests.support.paths import ROOT
from tests.support.running import expected_of, run_case

PAGE = (ROOT / "docs" / "features" / "patterns.md").read_text()
ROWS = re.findall(r"```rows\n(.*?)```", PAGE, re.DOTALL)
SECOND = 1_000_000

Rows = list[tuple[Any, ...]]


@cache
def names() -> Mapping[str, Any]:
    """What the page defines."""
    found: dict[str, Any] = {}
    for code in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(code, found)
    return found


@pytest.mark.parametrize("text", ROWS, ids=[text.splitlines()[-1].partition(":")[0] for text in ROWS])
def test_an_example_finds_what_the_page_says(text: str) -> None:
    lines = dict(line.split(": ", 1) for line in text.splitlines())
    inputs = {name: [Partition(0, _rows(rows, names()[name].schema))] for name, rows in lines.items() if isinstance(names()[name], Stream)}
    ((name, said),) = ((name, rows) for name, rows in lines.items() if name not in inputs)
    query = names()[name]
    assert isinstance(query, Query)
    built = query.output("out").build()
    schema = validate(built, {}).schemas["out"]
    expected = [
        (int(row[0]) * SECOND, tuple(_value(text, field) for text, field in zip(row[1:], schema.fields, strict=True))) for row in _cut(said)
    ]
    assert_same_answer({"out": expected}, expected_of(built, inputs).outputs)
    with interpreted():
        ran = run_case(Case(built, inputs), Execution(Options(parallelism=2), (2,), (), (0, 1), 1 << 20, 0))
    assert_same_answer({"out": expected}, ran.outputs)


def _cut(text: str) -> list[list[str]]:
    return [row.split() for row in text.split(" | ")]


def _rows(text: str, schema: Schema) -> Rows:
    return [tuple(_value(each, field) for each, field in zip(row, schema.fields, strict=True)) for row in _cut(text)]


def _value(text: str, field: Field) -> Any:
    match field.type.name:
        case "string":
            return text
        case "float64":
            return float(text)
        case "timestamp":
            return int(text) * SECOND
    return int(text)


def test_there_are_eight() -> None:
    assert len(ROWS) == 8
