"""Interval joins against every pair of rows held against each other.

lower -3, upper 5:      time   0    5    10   15
a left row at 8                     [---x----)      right rows from 5 to 13, both included
unmatched, it comes out at 13 once W > 13; an unmatched right row at 8 at 11 once W > 11
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence

import pytest

from cep.dataflow.joins.interval_join import IntervalJoinOperator
from cep.elements import MAX_TIME, Batch
from cep.errors import StateLimitExceeded
from cep.kernels.jit import compilations, interpreted, warm
from cep.model.expr import Expr, col
from cep.model.operators import IntervalJoin
from tests.reference import assert_same_answer
from tests.reference.engine import TimedRow
from tests.support.joining import KEYS, Row, Sides, batch_of, equal, execution, is_float, made, moved_run, pair, query, ran, sides
from tests.support.pausing import without_pauses
from tests.support.running import rows

#: The end of event time, µs.
END = 2**61
HOW = ("inner", "left", "right", "full")
#: (lower, upper): around, only after, only before, at the same time, wide, without bounds, without one.
SPANS = ((-3, 5), (2, 7), (-9, -4), (0, 0), (-100, 100), (None, None), (2, None), (None, -1))
Span = tuple[int | None, int | None]
CONDITIONS: dict[str, tuple[Expr | None, Callable[[Row, Row], bool | None]]] = {
    "none": (None, lambda a, b: True),
    "some": ((col("a") + col("r_b")) % 3 != 0, lambda a, b: (a[2] + b[2]) % 3 != 0),
    "fails": (col("r_b") // (col("a") - 2) < 1, lambda a, b: None if a[2] == 2 else int(b[2] / (a[2] - 2)) < 1),
}


def joined(span: Span = (-3, 5), how: str = "inner", condition: str = "none", on: Sequence[str] = ("k",)) -> IntervalJoin:
    return IntervalJoin("j", "l", "r", *span, tuple((name, name) for name in on), how, CONDITIONS[condition][0], "r_")


def oracle(join: IntervalJoin, given: Sides, condition: str, floats: bool) -> tuple[list[TimedRow], int]:
    """(answers, dead letters)."""
    left, right, holds = given.rows("l"), given.rows("r"), CONDITIONS[condition][1]
    lower, upper = -math.inf if join.lower is None else join.lower, math.inf if join.upper is None else join.upper
    near = [(a, b) for a in left for b in right if equal(a[1], b[1]) and lower <= b[0] - a[0] <= upper]
    pairs = [(a, b) for a, b in near if holds(a, b)]
    found = [(max(a[0], b[0]), pair(a, b, floats)) for a, b in pairs]
    if join.how in ("left", "full"):
        found += [
            (END if join.upper is None else max(a[0], a[0] + join.upper), pair(a, None, floats))
            for a in left
            if a not in {p[0] for p in pairs}
        ]
    if join.how in ("right", "full"):
        found += [
            (END if join.lower is None else max(b[0], b[0] - join.lower), pair(None, b, floats))
            for b in right
            if b not in {p[1] for p in pairs}
        ]
    return found, sum(holds(a, b) is None for a, b in near)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", KEYS)
def test_any_keys(kind: str, seed: int) -> None:
    choose = random.Random(f"{kind} {seed}")
    given, asked = sides(choose, kind), joined(choose.choice(SPANS), HOW[seed])
    with interpreted():
        out = ran(query(asked, (given.left, given.right)), given, execution(choose))
    assert_same_answer({"out": oracle(asked, given, "none", is_float(kind))[0]}, out.outputs)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("span", SPANS)
def test_any_spans(span: Span, condition: str, how: str, seed: int) -> None:
    choose = random.Random(f"{span} {condition} {how} {seed}")
    given, asked = sides(choose), joined(span, how, condition)
    with interpreted():
        out = ran(query(asked, (given.left, given.right)), given, execution(choose))
    expected, dead = oracle(asked, given, condition, False)
    assert_same_answer({"out": expected}, out.outputs)
    assert out.dead["j"] == dead


@pytest.mark.parametrize("seed", range(12))
def test_machine_code_gives_the_same(seed: int) -> None:
    choose = random.Random(seed)
    kind, condition = choose.choice(list(KEYS)), choose.choice(list(CONDITIONS))
    given, asked = sides(choose, kind, rows_max=300, span=400), joined(choose.choice(SPANS), choose.choice(HOW), condition)
    expected, dead = oracle(asked, given, condition, is_float(kind))
    out = ran(query(asked, (given.left, given.right)), given, execution(choose))
    assert_same_answer({"out": expected}, out.outputs)
    assert out.dead["j"] == dead


@pytest.mark.parametrize("seed", range(60))
def test_state_moves_to_more_or_fewer_instances_that_were_at_different_watermarks(seed: int) -> None:
    choose = random.Random(seed)
    kind = choose.choice(list(KEYS))
    given, asked = sides(choose, kind), joined(choose.choice(SPANS), choose.choice(HOW))
    with interpreted():
        assert_same_answer({"out": oracle(asked, given, "none", is_float(kind))[0]}, {"out": moved_run(choose, asked, given)})


def test_without_equalities_every_tuple_may_meet_every_other() -> None:
    choose = random.Random(1)
    given, asked = sides(choose, "one hot key"), IntervalJoin("j", "l", "r", -3, 5, (), "full", None, "r_")
    with interpreted():
        out = ran(query(asked, (given.left, given.right)), given, execution(choose, 3))
    key = {True: 7, False: None}
    answers, _ = oracle(joined(how="full"), given, "none", False)
    expected = [(at, (t, key[t is not None], a, r_t, key[r_t is not None], b)) for at, (t, _, a, r_t, b) in answers]
    assert_same_answer({"out": expected}, out.outputs)


def test_a_stream_is_joined_with_itself() -> None:
    choose = random.Random(5)
    given, asked = sides(choose), IntervalJoin("j", "l", "l", 1, 5, (("k", "k"),), "left", None, "r_")
    twice = Sides(given.left, given.left, {"l": given.partitions["l"], "r": given.partitions["l"]})
    with interpreted():
        out = ran(query(asked, (given.left,)), given, execution(choose, 3))
    assert_same_answer({"out": oracle(asked, twice, "none", False)[0]}, out.outputs)


# --- by hand ---------------------------------------------------------------------------------------------------------


class Bench:
    """One operator, and what it is fed."""

    def __init__(self, how: str = "inner", span: tuple[int, int] = (-3, 5), limit: int = 1 << 40) -> None:
        given = sides(random.Random(0))
        self.streams = given.left, given.right
        operator = made(joined(span, how), self.streams, limit=limit)
        assert isinstance(operator, IntervalJoinOperator)
        self.join = operator

    def feed(self, port: int, *given: Row) -> list[tuple[int, object, object]]:
        return self.shown(self.join.on_batch(batch_of(self.streams[port], given, port), port))

    def advance(self, watermark: int) -> list[tuple[int, object, object]]:
        return self.shown(self.join.on_watermark(watermark))

    def shown(self, batches: Iterable[Batch]) -> list[tuple[int, object, object]]:
        """(event time, a, r_b)."""
        schema = self.join.join.joined_schema(*(stream.schema for stream in self.streams))
        return [(time, values[2], values[4]) for time, values in rows(list(without_pauses(batches)), schema)]


def test_pairs_come_at_once_and_unmatched_rows_when_nobody_can_come_any_more() -> None:
    bench = Bench("full")
    assert bench.feed(0, (8, 1, 0)) == []
    assert bench.feed(1, (13, 1, 0), (14, 1, 1)) == [(13, 0, 0)]
    assert bench.feed(0, (10, 2, 1)) == []
    assert bench.join.next_end == 8 + 5 + 1
    assert bench.advance(15) == []
    assert bench.advance(16) == [(15, 1, None)]
    assert bench.feed(0, (17, 1, 2)) == [(17, 2, 1)]
    assert bench.advance(MAX_TIME) == []
    assert (bench.join.state_bytes, bench.join.next_end) == (0, None)


def test_rows_are_dropped_when_nobody_can_meet_them() -> None:
    bench = Bench()
    for t in range(0, 5000, 10):
        for port in (0, 1):
            bench.feed(port, *((t, key, key) for key in range(20)))
        bench.advance(t)
        assert bench.join.state_bytes < 100_000
        assert all(len(side.blocks) < 8 for side in bench.join.sides)


@pytest.mark.parametrize("seed", range(8))
def test_what_was_taken_stays_as_it_was_whatever_comes_and_goes_before_it_is_written(seed: int) -> None:
    choose, bench = random.Random(seed), Bench("full")

    def works(first: int, goes: bool = True) -> None:
        for t in range(first, first + 100):
            for port in (0, 1):
                bench.feed(port, *((t + choose.randrange(3), choose.randrange(5), i) for i in range(choose.randrange(3))))
            if goes:
                bench.advance(t - choose.randrange(9))

    works(0, goes=seed % 2 > 0)  # in every other one nothing is over
    taken = bench.join.snapshot()
    then = [part.batch.to_pylist() for part in taken]
    works(100)
    assert {part.port for part in taken} == {0, 1} and all(then)
    assert [part.batch.to_pylist() for part in taken] == then


def test_a_hot_key_comes_out_in_portions_that_are_made_when_they_are_asked_for() -> None:
    bench = Bench()
    hot = [(0, 7, i) for i in range(100_000)]
    bench.feed(0, *hot)
    emission = bench.join.on_batch(batch_of(bench.streams[1], hot, 1), 1)
    assert [len(next(emission)) for _ in range(3)] == [65_536] * 3


def test_too_much_state_names_the_rows_and_the_largest_keys() -> None:
    bench = Bench(limit=20_000)
    with pytest.raises(StateLimitExceeded, match=r"'j'.*rows from 1970-01-01T00:00:00.000003Z on.*the right.*k=7 \(1000 rows\)"):
        bench.feed(1, *((3, 7, i) for i in range(1000)))


@pytest.mark.timeout(400)  # every kernel there is, where none is in the cache
def test_nothing_compiles_while_it_runs() -> None:
    bench = Bench("full")
    warm()
    before = compilations()
    assert len(bench.feed(0, *((0, 1, i) for i in range(50))) + bench.feed(1, *((0, 1, i) for i in range(50)))) == 2_500
    bench.advance(MAX_TIME)
    assert compilations() == before
