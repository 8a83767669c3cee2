"""Texts and lists that are too long: the row is a dead letter, a batch is cut, and how rows come changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cep.compile.chain import text_room
from cep.compile.chain.chain import compile_chain
from cep.dataflow.dead_letters import DeadLetters
from cep.dataflow.operators.flat_map import FlatMapOperator, as_map
from cep.dataflow.operators.operator import AggregateOperator, TextChainOperator, without_long_values
from cep.dataflow.operators.sequential_aggregate import SequentialAggregate
from cep.dataflow.operators.user_aggregate import UserAggregateOperator, UserSequentialAggregate
from cep.elements import Batch
from cep.kernels.columns import columns_from_arrow, to_arrow
from cep.model.expr import col
from cep.model.limits import VALUE_BYTES_MAX
from cep.model.operators import Filter, FlatMap, Map
from cep.model.schema import Schema
from driver import concat

SCHEMA = Schema.of({"n": int, "s": str})


def batch_of(texts: Sequence[str]) -> Batch:
    rows = pa.record_batch({"n": list(range(len(texts))), "s": pa.array(texts)})
    return Batch(columns_from_arrow(rows, SCHEMA), np.arange(len(texts)))


def run(texts: Sequence[str], *operators: Map | Filter, rows: int = 0) -> tuple[list[dict[str, Any]], DeadLetters]:
    """What comes out, as rows of numbers and lengths, where `rows` come at a time."""
    letters, chain = DeadLetters(), compile_chain(operators, SCHEMA)
    operator, found = TextChainOperator("m", chain, lambda: 0, letters), []
    whole = batch_of(texts)
    for start in range(0, len(texts), rows or len(texts)):
        for out in operator.on_batch(whole.take(slice(start, start + (rows or len(texts)))), 0):
            found += [
                {"n": n, "bytes": size} for n, size in zip(out.columns["n"].values.tolist(), out.columns["s"].values.tolist(), strict=True)
            ]
    return found, letters


def mapped(expr: Any) -> Map:
    return Map("m", "in", (("n", col("n")), ("s", expr)))


@pytest.mark.long  # 2.6 GB are written
def test_more_than_two_gibibytes_in_a_batch() -> None:
    """Before, 40,000 rows in one batch failed the query, and in ten batches they did not."""
    found, letters = run(["x"] * 40_000, mapped(col("s").pad_left(65_536)))
    assert found == [{"n": n, "bytes": 65_536} for n in range(40_000)]
    assert not letters.counts


@pytest.mark.parametrize(
    "expr",
    [
        concat(col("s"), col("s"), col("s")),
        col("s").replace("a", "bcdefg"),
        col("s").pad_left(300),
        concat(col("s").replace("a", "bb"), col("s").pad_left(150)),
        col("s").upper(),
    ],
    ids=["concat", "replace", "pad", "nested", "upper"],
)
@pytest.mark.parametrize("rows", [1, 7, 0])
def test_the_cut_changes_nothing(monkeypatch: pytest.MonkeyPatch, expr: Any, rows: int) -> None:
    """With bounds as small as texts in a test."""
    monkeypatch.setattr("cep.compile.chain.chain.PIECE_BYTES", 500)
    for module in ("cep.compile.chain.text_room",):
        monkeypatch.setattr(f"{module}.VALUE_BYTES_MAX", 200)
    texts = ["a" * (k % 90) for k in range(100)]
    whole, few = run(texts, mapped(expr)), run(texts, mapped(expr), rows=rows)
    assert whole[0] == few[0]
    assert whole[1].counts == few[1].counts
    assert [letter.reason for letter in whole[1].letters] == [letter.reason for letter in few[1].letters]


def test_a_value_that_is_too_long_is_a_dead_letter() -> None:
    """Before, concat gave out what no file and no publisher may send."""
    texts = ["a", "b" * (VALUE_BYTES_MAX // 2 + 1), "c" * (VALUE_BYTES_MAX // 2)]
    found, letters = run(texts, mapped(concat(col("s"), col("s"))))
    assert found == [{"n": 0, "bytes": 2}, {"n": 2, "bytes": VALUE_BYTES_MAX}]
    (letter,) = letters.letters
    assert (letter.operator, letter.reason) == ("m", f"a value of {VALUE_BYTES_MAX + 2} bytes; expected at most {VALUE_BYTES_MAX}")


def test_it_is_the_operator_that_makes_it_and_not_its_neighbours() -> None:
    """A text that is too long fails in its Map, also where another one in the same chain would cut it: so a split changes nothing."""
    longer = Map("longer", "in", (("n", col("n")), ("s", concat(col("s"), col("s")))))
    shorter = Map("shorter", "longer", (("n", col("n")), ("s", col("s").substring(0, 3))))
    found, letters = run(["a", "b" * (VALUE_BYTES_MAX // 2 + 1)], longer, shorter)
    assert found == [{"n": 0, "bytes": 2}]
    assert dict(letters.counts) == {"longer": 1}


def test_a_row_that_does_not_need_it() -> None:
    """A filter before it lets no long one pass."""
    few = Filter("few", "in", col("s").length() < 10)
    found, letters = run(["a", "b" * (VALUE_BYTES_MAX // 2 + 1)], few, mapped(concat(col("s"), col("s"))))
    assert found == [{"n": 0, "bytes": 2}] and not letters.counts


def test_flat_maps_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cep.compile.chain.chain.PIECE_BYTES", 300)
    operator: FlatMap = FlatMap("f", "in", (("n", col("n")), ("s", col("s").split(","))), "s")
    letters = DeadLetters()
    made = FlatMapOperator(operator, compile_chain((as_map(operator),), SCHEMA), lambda: 0, letters)
    out = list(made.on_batch(batch_of(["a,b", "c", "d,e,f"] * 20), 0))
    assert len(out) > 5
    assert [text for batch in out for text in to_arrow(batch.columns["s"]).to_pylist()] == ["a", "b", "c", "d", "e", "f"] * 20


def test_answers_are_cut_likewise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, collect gave out lists of any length. What a user's aggregate collects before it folds it is no answer."""
    monkeypatch.setattr("cep.compile.chain.text_room.VALUE_BYTES_MAX", 100)
    letters = DeadLetters()
    fits = without_long_values(batch_of(["a" * 100, "b" * 101, "c" * 20]), "w", letters)
    assert fits.columns["n"].values.tolist() == [0, 2]
    assert dict(letters.counts) == {"w": 1}
    assert (AggregateOperator.gives_out, UserAggregateOperator.gives_out) == (True, False)
    assert (SequentialAggregate.gives_out, UserSequentialAggregate.gives_out) == (True, False)


def test_a_piece_is_small() -> None:
    assert text_room.PIECE_BYTES < 1 << 30
