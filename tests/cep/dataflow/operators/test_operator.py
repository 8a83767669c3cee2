"""What operators have in common: pieces of a batch, what becomes of its rows, wider origins, limits on state, incomplete answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from cep.compile.aggregate.window_state import AggregateSpec
from cep.compile.chain.chain import compile_chain
from cep.dataflow.dead_letters import DeadLetters
from cep.dataflow.operators.operator import (
    SLOW_ROWS,
    SLOW_US,
    AggregateOperator,
    ChainOperator,
    PassOperator,
    SlowChainOperator,
    check_state,
    put_overflows,
)
from cep.elements import MAX_TIME, MIN_TIME, Batch
from cep.errors import StateLimitExceeded
from cep.kernels.columns import columns_from_arrow, columns_to_arrow
from cep.model.expr import col
from cep.model.functions import count, sum_
from cep.model.operators import Aggregate, Filter, Map
from cep.model.schema import Schema
from cep.model.windows import TimeWindow
from tests.support.pausing import without_pauses

pytestmark = pytest.mark.usefixtures("as_python")

SCHEMA = Schema.of({"k": str, "n": "int64"})
WINDOW = TimeWindow(10, 10)


def batch_of(*rows: tuple[int, str, int]) -> Batch:
    """(event time, k, n): record i of partition 0 of source 0."""
    table = pa.record_batch({"k": [k for _, k, _ in rows], "n": [n for _, _, n in rows]})
    origin = np.stack([np.zeros(len(rows), np.int64), np.arange(len(rows))], axis=1)
    return Batch(columns_from_arrow(table, SCHEMA), np.array([t for t, _, _ in rows], np.int64), origin, source="a.csv", in_order=True)


def chain_of(letters: DeadLetters, clock: Iterator[int] | None = None) -> ChainOperator:
    """Of rows with n >= 0: 100 / n as a whole number."""
    operators = (Filter("f", "s", col("n") >= 0), Map("m", "f", (("k", col("k")), ("q", (100 / col("n")).cast("int64")))))
    times = iter(()) if clock is None else clock
    return ChainOperator("f+m", compile_chain(operators, SCHEMA), lambda: next(times, 0), letters)


def test_rows_that_fail_are_dead_letters_with_their_places() -> None:
    letters = DeadLetters()
    (out,) = chain_of(letters).on_batch(batch_of((1, "a", 10), (2, "b", -1), (3, "c", 0), (4, "d", 50)), 0)
    assert out.columns["q"].values.tolist() == [10, 2] and out.time.tolist() == [1, 4]
    assert out.origin is not None and out.origin[:, 1].tolist() == [0, 3] and out.in_order and out.source == "a.csv"
    (letter,) = letters.letters
    assert (letter.operator, letter.source) == ("m", "a.csv")
    assert letter.position == "event time 1970-01-01T00:00:00.000003Z, record 2"
    assert letter.record == "k='c', n=0"


def test_nothing_comes_out_of_no_rows() -> None:
    assert list(chain_of(DeadLetters()).on_batch(batch_of((1, "a", -1)), 0)) == []


@pytest.mark.parametrize(("took_us", "sizes"), [(0, [64, 128, 256, 52]), (3 * SLOW_US, [64, 32, 16, 8]), (SLOW_US, [64, 64, 64, 64])])
def test_pieces_are_as_long_as_they_may_take(took_us: int, sizes: list[int]) -> None:
    """Each piece takes so long by the clock, which is read before it, within it, and behind it."""
    clock = (took_us * (i // 3 + (i % 3 == 2)) for i in range(1000))
    slow = SlowChainOperator(chain_of(DeadLetters(), clock))
    rows = [(i, "a", 1 + i % 3) for i in range(500)]
    outs = list(slow.on_batch(batch_of(*rows), 0))
    assert SLOW_ROWS == 64
    assert [len(out) for out in outs][: len(sizes)] == sizes
    assert [t for out in outs for t in out.time.tolist()] == list(range(500))


def test_a_piece_of_which_nothing_comes_out_is_a_pause() -> None:
    slow = SlowChainOperator(chain_of(DeadLetters()))
    assert [len(out) for out in slow.on_batch(batch_of((1, "a", -1)), 0)] == [0]


def test_origins_are_made_as_wide_as_those_of_the_other_inputs() -> None:
    batch = batch_of((1, "a", 1), (2, "b", 2))
    assert PassOperator("u").apply(batch) is batch
    wider = PassOperator("u", 4).apply(batch)
    assert wider.origin is not None and wider.origin.tolist() == [[0, 0, -1, -1], [0, 1, -1, -1]]
    assert PassOperator("u", 4).apply(replace(batch, origin=None)).origin is None


def aggregate(limit: int = 1 << 30, since: int = MIN_TIME) -> AggregateOperator:
    described = Aggregate("w", "s", WINDOW, ("k",), (("rows", count()), ("total", sum_("n"))))
    made = AggregateOperator("w", AggregateSpec.of(described, SCHEMA, frozenset(), "whole"), limit, DeadLetters())
    made.since = since
    return made


def answers(operator: AggregateOperator, watermark: int) -> list[tuple[int, dict[str, object]]]:
    schema = operator.spec.output_schema
    batches = list(without_pauses(operator.on_watermark(watermark)))
    return [(t, row) for b in batches for t, row in zip(b.time.tolist(), columns_to_arrow(b.columns, schema).to_pylist(), strict=True)]


def test_windows_that_began_before_a_query_did_are_counted_and_not_given_out() -> None:
    operator = aggregate(since=10)
    assert list(operator.on_batch(batch_of((3, "a", 1), (12, "a", 2), (15, "b", 5)), 0)) == []
    assert answers(operator, 10) == [] and operator.incomplete == 1
    assert (operator.next_end, operator.last_end) == (20, 20)
    found = sorted(answers(operator, MAX_TIME), key=lambda each: str(each[1]["k"]))
    assert found == [(19, {"k": "a", "rows": 1, "total": 2}), (19, {"k": "b", "rows": 1, "total": 5})]
    assert operator.incomplete == 1


def test_a_sum_that_does_not_fit_is_a_dead_letter_of_its_group() -> None:
    operator = aggregate()
    list(operator.on_batch(batch_of((1, "a", 2**63 - 1), (2, "a", 1), (3, "b", 1)), 0))
    assert sorted(str(row["total"]) for _, row in answers(operator, MAX_TIME)) == ["1", "None"]
    (letter,) = operator.dead_letters.letters
    assert (letter.operator, letter.position) == ("w", "group k='a', event time 1970-01-01T00:00:00.000009Z")
    put_overflows("w", operator.dead_letters, (), 3)  # of which nothing is known any more
    assert operator.dead_letters.counts["w"] == 4


def test_state_over_its_limit_fails_with_what_there_is_most_of() -> None:
    operator = aggregate()
    list(operator.on_batch(batch_of(*((1, f"k{i % 3}", i) for i in range(9))), 0))
    check_state(operator, operator.state_bytes)
    with pytest.raises(StateLimitExceeded, match=r"operator 'w': its state of \d+ bytes is over the limit of 10 bytes, with 1 panes open"):
        check_state(operator, 10)
    with pytest.raises(StateLimitExceeded):
        list(aggregate(limit=10).on_batch(batch_of((1, "a", 1)), 0))
