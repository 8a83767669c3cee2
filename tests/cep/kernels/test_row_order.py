"""Whole rows as bytes: they sort as rows do, and give back their columns."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.compile.aggregate.ties import packed_column, rows_of
from cep.kernels.columns import Column, columns_from_arrow, to_arrow
from cep.kernels.jit import interpreted
from cep.model.schema import Field, Schema
from tests.reference import difference
from tests.reference.values import rank
from tests.strategies import TYPES, columns
from tests.support.running import values_of_array

Rows = list[tuple[Any, ...]]


@st.composite
def tables(draw: st.DrawFn) -> tuple[Schema, Rows]:
    fields = [Field(f"c{i}", type_, True) for i, type_ in enumerate(draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=3)))]
    cells = [draw(columns(field)) for field in fields]
    return Schema(tuple(fields)), draw(st.lists(st.tuples(*cells), max_size=8))


def encoded(schema: Schema, rows: Rows) -> Column:
    arrays = [pa.array([row[i] for row in rows], field.type.arrow) for i, field in enumerate(schema.fields)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema.arrow)
    return rows_of(columns_from_arrow(batch, schema), schema.fields, len(rows))


@pytest.mark.parametrize("machine_code", [True, False])
@given(tables())
def test_bytes_sort_as_rows_do_and_give_back_their_columns(machine_code: bool, table: tuple[Schema, Rows]) -> None:
    if machine_code:
        check(*table)
    else:
        with interpreted():
            check(*table)


def check(schema: Schema, rows: Rows) -> None:
    made = encoded(schema, rows)
    texts = to_arrow(made).to_pylist()
    by_bytes = sorted(range(len(rows)), key=lambda i: (texts[i], i))
    by_columns = sorted(range(len(rows)), key=lambda i: ([rank(value) for value in rows[i]], i))
    assert by_bytes == by_columns
    for i, field in enumerate(schema.fields):
        found = values_of_array(to_arrow(packed_column(made, schema.fields, field.name)))
        assert not difference([(0, (row[i],)) for row in rows], [(0, (value,)) for value in found])
