"""Composed columns against the same rows copied out: whatever is done to both, they are the same rows."""

from __future__ import annotations

import random
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pytest

from cep.dataflow.channel import batch_bytes, row_bytes
from cep.dataflow.joins.held_rows import HeldRows
from cep.dataflow.outputs.output import compacted, concatenated
from cep.elements import Batch
from cep.kernels.columns import columns_from_arrow, columns_to_arrow
from cep.kernels.composed import Columns, Composed, distinct, put_together, selected, with_columns
from cep.model.schema import Schema
from cep.transport.wire import Format

SIDES = Schema.of({"n": "int64", "s": "string", "b": "bool"}), Schema.of({"t": "timestamp[us]", "u": "string?", "x": "float64"})
JOINED = Schema.of({"s": "string", "k": "int64", "x": "float64", "u": "string?", "t": "timestamp[us]"})
PLAIN = Schema.of({"s": "string", "k": "int64", "x": "float64", "t": "timestamp[us]"})
#: Of each side, joined column: its own.
NAMES: tuple[Mapping[str, str], ...] = ({"s": "s", "k": "n"}, {"x": "x", "u": "u", "t": "t"})


def tuples(choose: random.Random, schema: Schema, count: int) -> Columns:
    """Cut out of a larger batch, so that offsets are not 0."""
    values = {
        "int64": lambda: choose.randint(-9, 9),
        "string": lambda: choose.choice(["", "short", "ö" * choose.randint(1, 40)]),
        "bool": lambda: choose.random() < 0.5,
        "timestamp": lambda: choose.randint(0, 10**6),
        "float64": choose.random,
    }
    rows = [
        {field.name: None if field.nullable and choose.random() < 0.3 else values[field.type.name]() for field in schema.fields}
        for _ in range(count + 5)
    ]
    return columns_from_arrow(pa.RecordBatch.from_pylist(rows, schema.arrow).slice(5), schema)


def composed(choose: random.Random, rows: int) -> Composed:
    """Rows of sides with few tuples, or with more than there are rows."""
    sides = []
    for schema, names in zip(SIDES, NAMES, strict=True):
        count = choose.choice((1, 3, rows // 3 + 1, 3 * rows))
        sides.append((tuples(choose, schema, count), names, np.array([choose.randrange(count) for _ in range(rows)], np.int64)))
    return put_together(sides, rows)


def copied(columns: Columns, schema: Schema = JOINED) -> pa.RecordBatch:
    return columns_to_arrow({field.name: columns[field.name] for field in schema.fields}, schema)


def batch_of(columns: Columns, rows: int) -> Batch:
    return Batch(columns, np.arange(rows), np.stack([np.arange(rows), -np.arange(rows)], axis=1))


@pytest.mark.parametrize("seed", range(30))
def test_they_are_the_rows_that_they_stand_for(seed: int) -> None:
    choose = random.Random(seed)
    rows = choose.choice((1, 7, 200))
    found = composed(choose, rows)
    there = copied(found)
    assert list(found) == ["s", "k", "x", "u", "t"] and len(found) == 5 and "n" not in found
    some = np.array([choose.randrange(rows) for _ in range(choose.randint(1, 2 * rows))], np.int64)
    assert copied(found.take(some)).equals(there.take(pa.array(some)))
    assert copied(found.take(slice(rows // 3, rows))).equals(there.slice(rows // 3))
    assert copied(found.take(some).compacted().take(slice(1, None))).equals(there.take(pa.array(some[1:])))
    fewer = found.renamed({"a": "u", "s": "s"})
    assert list(fewer) == ["a", "s"] and copied({"u": fewer["a"], "s": fewer["s"]}, Schema((JOINED["s"], JOINED["u"]))).equals(
        there.select(["s", "u"])
    )
    more = with_columns(found, {"k": found["k"].take(np.arange(rows)[::-1].copy())})
    assert copied(more).column(1).to_pylist() == there.column(1).to_pylist()[::-1]
    assert copied(more).drop_columns(["k"]).equals(there.drop_columns(["k"]))


@pytest.mark.parametrize("seed", range(20))
def test_a_batch_of_them_is_moved_as_any_other(seed: int) -> None:
    """Sizes, one batch of several, a message of it, and rows that a join holds."""
    choose = random.Random(seed)
    parts, held = list[Batch](), None
    for rows in (choose.choice((1, 90)), choose.choice((2, 150)), 80):
        parts.append(batch_of(composed(choose, rows), rows))
        plain = batch_of(columns_from_arrow(copied(parts[-1].columns), JOINED), rows)
        assert row_bytes(parts[-1]).tolist() == row_bytes(plain).tolist() and batch_bytes(parts[-1]) == batch_bytes(plain)
        held = held or HeldRows(parts[-1])
        held.add(choose.choice((parts[-1], plain)), np.zeros(rows, np.uint8))
    expected = pa.Table.from_batches([copied(part.columns) for part in parts]).combine_chunks().to_batches()[0]
    whole = concatenated(parts)
    assert isinstance(whole.columns, Composed)
    assert held is not None and copied(whole.columns).equals(expected) and copied(held.batch.columns).equals(expected)
    assert row_bytes(whole).tolist() == row_bytes(batch_of(dict(whole.columns), len(whole))).tolist()
    assert copied(concatenated([whole, batch_of(dict(whole.columns), len(whole))]).columns).slice(0, len(whole)).equals(expected)
    sent = Format(PLAIN, 2)
    message = sent.encode(batch_of(selected(whole.columns, PLAIN.names), len(whole)))
    assert bytes(message) == bytes(sent.encode(batch_of(columns_from_arrow(expected.select(PLAIN.names), PLAIN), len(whole))))
    assert copied(sent.decode(message).columns, PLAIN).equals(expected.select(PLAIN.names))
    with_nulls = Format(JOINED, 2)
    assert copied(with_nulls.decode(with_nulls.encode(whole)).columns).equals(expected)


def test_what_repeats_is_there_once() -> None:
    choose = random.Random(1)
    long = tuples(choose, SIDES[0], 1000)
    rows = np.repeat(np.array([900, 3, 900, 77]), 50)
    found = put_together([(long, {"s": "s"}, rows)], 200)
    (component,) = found.compacted().components
    assert component.tuples == 3 and component.columns["s"].data is not None
    assert len(component.columns["s"].data) <= max(16, sum(component.columns["s"].values))
    assert found["s"].values.tolist() == long["s"].values[rows].tolist()
    assert compacted(batch_of(found, 200)).columns["s"].values.tolist() == found["s"].values.tolist()


def test_what_is_dense_has_no_tuple_that_no_row_has() -> None:
    choose = random.Random(2)
    many = [composed(choose, 80) for _ in range(20)]
    many += [each.take(slice(3, 9)) for each in many] + [each.take(slice(3, 9)).compacted() for each in many]
    many += [each.renamed({"s": "s", "x": "x"}) for each in many]
    many += [
        whole.columns for whole in (concatenated([batch_of(each, each.rows)] * 2) for each in many) if isinstance(whole.columns, Composed)
    ]
    components = [component for each in many for component in each.components]
    assert {component.is_dense for component in components} == {False, True}
    for component in components:
        if component.is_dense and component.index is not None:
            assert set(component.index) == set(range(component.tuples))


def test_the_different_ones_are_in_the_order_in_which_they_come() -> None:
    seen, index = distinct(np.array([5, 5, 2**40, 0, 5, 2**40, 7]))
    assert seen.tolist() == [5, 2**40, 0, 7] and index.tolist() == [0, 0, 1, 2, 0, 1, 3]
    assert [len(each) for each in distinct(np.zeros(0, np.int64))] == [0, 0]
