"""Rows held and let out: all that a watermark has passed, no other, in stream order, however they come.

Tests `hold.py`, `merging.py`.
"""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cep.dataflow.state.hold import RUNS_MORE, Hold
from cep.dataflow.state.merging import pieces_apart
from cep.elements import MAX_TIME, Batch
from cep.kernels.columns import Column
from cep.kernels.jit import interpreted
from cep.model.schema import INT64, Field, Schema

SCHEMA = Schema((Field("n", INT64),))
#: How far ahead of the watermark each row of a batch is, and how far the watermark rises behind it.
STEPS = st.lists(st.tuples(st.lists(st.integers(0, 3), max_size=5), st.integers(0, 2), st.booleans()), max_size=12)


def batch(times: list[int], first: int) -> Batch:
    numbers = np.arange(first, first + len(times), dtype=np.int64)
    origin = np.stack([numbers * 7 % 3, numbers], axis=1)  # three partitions
    return Batch({"n": Column(INT64, numbers)}, np.array(times, np.int64), origin)


@given(STEPS, st.integers(1, 4), st.integers(1, 4), st.integers(1, 4))
def test_what_a_watermark_has_passed_comes_out_in_stream_order(
    steps: list[tuple[list[int], int, bool]], few_rows: int, runs_more: int, apart_rows: int
) -> None:
    with interpreted():
        hold, watermark, count = Hold(SCHEMA, 2, False, few_rows, runs_more, apart_rows), 0, 0
        held: set[tuple[int, int, int]] = set()
        for ahead, rise, in_order in [*steps, ([], 0, True)]:
            made = batch([watermark + each for each in (sorted(ahead) if in_order else ahead)], count)
            count += len(made)
            assert made.origin is not None
            held |= {(int(t), int(p), int(n)) for t, (p, n) in zip(made.time, made.origin, strict=True)}
            hold.add(made)
            watermark += rise
            passed = sorted(row for row in held if row[0] < watermark)
            assert [n for each in hold.release(watermark) for n in each.columns["n"].values] == [n for _, _, n in passed]
            held -= set(passed)
            assert (len(hold), hold.first) == (len(held), min((time for time, _, _ in held), default=None))
        assert [n for each in hold.release(MAX_TIME) for n in each.columns["n"].values] == [n for _, _, n in sorted(held)]


def test_pieces_that_lie_apart_come_out_as_they_lie_there() -> None:
    """Blocks of a file that two senders read in turn: nothing is sorted, and nothing copied."""
    blocks = [batch(list(range(first, first + 10)), first) for first in range(0, 60, 10)]
    with interpreted():
        hold = Hold(SCHEMA, 2, ties=False, few_rows=1, apart_rows=5)
        for each in (1, 0, 3, 2, 5, 4):
            hold.add(blocks[each])
        came = list(hold.release(55))
        assert [each.time.tolist() for each in came] == [block.time.tolist() for block in (*blocks[:5], blocks[5].take(slice(0, 5)))]
        assert all(np.shares_memory(each.time, block.time) for each, block in zip(came, blocks, strict=True))
        assert len(hold) == 5


def test_runs_that_lie_between_each_other_are_sorted_whole() -> None:
    """To find many short pieces would take longer, and each would be a batch."""
    with interpreted():
        left, right = (batch(list(range(first, 64, 2)), 100 * first) for first in (0, 1))
        pieces, rest = pieces_apart([left, right], 16)
        assert not pieces and [each is run for each, run in zip(rest, (left, right), strict=True)] == [True, True]


def test_what_lies_apart_before_it_is_taken_first() -> None:
    with interpreted():
        left, right = batch([*range(60), *range(60, 80, 2)], 0), batch(list(range(61, 81, 2)), 200)
        pieces, rest = pieces_apart([left, right], 16)
        apart = [each for piece in pieces for each in piece.time.tolist()]
        assert apart == list(range(len(apart))) and len(apart) > 60
        assert sorted(each for run in rest for each in run.time.tolist()) == list(range(len(apart), 80))


def test_rows_that_tie_are_left_to_be_ordered_by_their_columns() -> None:
    with interpreted():
        pieces, rest = pieces_apart([batch(list(range(40)), 0), batch(list(range(39, 80)), 39)], 16)
        assert [piece.time.tolist() for piece in pieces] == [list(range(39))]
        assert sorted(run.time.tolist() for run in rest) == [[39], list(range(39, 80))]


def test_very_many_runs_of_few_rows_become_one() -> None:
    with interpreted():
        hold = Hold(SCHEMA, 2, ties=False)
        for first in range(1_000):
            hold.add(batch([1_000 - first], first))
        assert len(hold._runs) <= 2 * RUNS_MORE
        passed = [n for each in hold.release(501) for n in each.columns["n"].values]
        assert passed == list(range(999, 499, -1))
        assert (len(hold), hold.first) == (500, 501)
