"""The n-th tuples of two streams side by side.

left      a0      a1 a2       stream order: time, then partition, then number
right        b0 b1         b2
pairs        0    1        2  at the later of both
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from cep.compile.join_rows import JoinSpec
from cep.dataflow.channel import batch_bytes
from cep.dataflow.joins.zip import ZipOperator
from cep.dataflow.movement.owners import everything
from cep.dataflow.operators.operator import Part, StatefulOperator
from cep.dataflow.state.hold import Hold
from cep.elements import MAX_TIME
from cep.errors import QueryError, StateLimitExceeded
from cep.kernels.jit import compilations, interpreted, warm
from cep.model.expr import col
from cep.model.operators import Filter, Union, Zip
from cep.model.query import Options, Output, Query
from cep.plan.needed import may_tie
from tests.reference import assert_same_answer
from tests.reference.engine import TimedRow
from tests.support.joining import Row, Sides, batch_of, execution, ran, sides
from tests.support.pausing import without_pauses
from tests.support.plans import planned
from tests.support.running import rows

JOINED = Zip("j", "l", "r", "r_")


def asked(given: Sides) -> Query:
    return Query("q", (given.left, given.right), (JOINED,), (Output("out", "j"),))


def oracle(given: Sides) -> list[TimedRow]:
    left, right = (in_order(given, name) for name in ("l", "r"))
    return [(max(a[0], b[0]), (*a, *b)) for a, b in zip(left, right, strict=False)]


def in_order(given: Sides, name: str) -> list[Row]:
    """By time, partition, and number in it."""
    placed = [(row[0], part, number, row) for part, of_part in enumerate(given.partitions[name]) for number, row in enumerate(of_part)]
    return [each[-1] for each in sorted(placed, key=lambda each: each[:3])]


class Bench:
    """One zip by hand; rows are (t, k, number), and come out as (time, number on the left, number on the right)."""

    def __init__(self, limit: int = 1 << 40) -> None:
        given = sides(random.Random(0))
        self.streams = given.left, given.right
        schemas = [stream.schema for stream in self.streams]
        spec = JoinSpec.of(JOINED, *schemas, JOINED.joined_schema(*schemas).names, True)
        self.zip = ZipOperator("j", spec, (Hold(schemas[0], 2, False), Hold(schemas[1], 2, False)), limit)

    def feed(self, port: int, *given: Row) -> None:
        assert list(self.zip.on_batch(batch_of(self.streams[port], given, port), port)) == []

    def advance(self, watermark: int) -> list[tuple[int, int, int]]:
        batches = list(without_pauses(self.zip.on_watermark(watermark)))
        found = rows(batches, JOINED.joined_schema(*(stream.schema for stream in self.streams)))
        return [(time, values[2], values[5]) for time, values in found]


@pytest.mark.parametrize("seed", range(12))
def test_any_streams_in_any_plan(seed: int) -> None:
    choose = random.Random(seed)
    given = sides(choose)
    with interpreted():
        out = ran(asked(given), given, execution(choose))
    assert_same_answer({"out": oracle(given)}, out.outputs)


@pytest.mark.parametrize("seed", range(3))
def test_machine_code_gives_the_same(seed: int) -> None:
    choose = random.Random(seed)
    given = sides(choose, "texts", rows_max=2_000, span=900)
    out = ran(asked(given), given, execution(choose))
    assert_same_answer({"out": oracle(given)}, out.outputs)


def test_pairs_come_as_soon_as_both_tuples_are_passed_and_in_order() -> None:
    bench = Bench()
    bench.feed(0, (9, 1, 3), (5, 1, 2), (5, 1, 1))
    assert bench.zip.next_end is None and bench.zip.last_end == 10
    bench.feed(1, (7, 1, 10))
    assert bench.zip.next_end == 8
    assert bench.advance(7) == []
    assert bench.zip.next_end == 8
    assert bench.advance(8) == [(7, 1, 10)]
    bench.feed(1, (8, 1, 11), (20, 1, 12), (30, 1, 13))
    assert bench.zip.next_end == 9 and bench.advance(9) == [(8, 2, 11)]
    assert bench.advance(MAX_TIME) == [(20, 3, 12)]
    assert (bench.zip.incomplete, bench.zip.state_bytes, bench.zip.next_end) == (1, 0, None)


@pytest.mark.parametrize("seed", range(30))
def test_state_is_taken_over_at_any_watermark(seed: int) -> None:
    choose = random.Random(seed)
    numbered = [[(choose.randint(0, 40), 1, number) for number in range(choose.randint(0, 12))] for _ in range(2)]
    bench, found, promised = Bench(), [], 0
    waiting = [sorted(given) for given in numbered]
    while promised < 50:
        for port, given in enumerate(waiting):
            for _ in range(min(len(given), choose.randint(0, 3))):
                bench.feed(port, given.pop(0))
        promised = min((given[0][0] for given in waiting if given), default=50)
        found += bench.advance(promised)
        waits = sum(batch_bytes(batch) for side in bench.zip._waiting for batch in side)
        assert bench.zip.state_bytes == waits + sum(hold.bytes for hold in bench.zip.holds)
        if choose.random() < 0.5:
            parts, bench = bench.zip.snapshot(), Bench()
            bench.zip.restore([Part(part.name, part.port, part.batch) for part in parts], everything)
    found += bench.advance(MAX_TIME)
    left, right = (sorted(given) for given in numbered)
    assert found == [(max(a[0], b[0]), a[2], b[2]) for a, b in zip(left, right, strict=False)]
    assert bench.zip.incomplete == abs(len(left) - len(right))


def test_a_stream_zipped_with_itself_and_one_that_ties() -> None:
    choose = random.Random(5)
    given = sides(choose)
    itself = Query("q", (given.left,), (Zip("j", "l", "l", "r_"),), (Output("out", "j"),))
    with interpreted():
        out = ran(itself, given, execution(choose))
    assert_same_answer({"out": [(row[0], (*row, *row)) for row in given.rows("l")]}, out.outputs)
    twice = (Filter("some", "l", col("a") >= 0), Filter("all", "l", col("a") >= 0), Union("both", ("some", "all")))
    assert may_tie(Query("q", (given.left, given.right), (*twice, Zip("j", "both", "r", "r_")), (Output("out", "j"),)), "j")


def test_one_instance_pairs_and_says_why() -> None:
    query = asked(sides(random.Random(1)))
    several = replace(query, options=Options(parallelism_of=(("SQ3", 2),)))
    with pytest.raises(QueryError, match="'j' counts the tuples of both sides, which one instance has to do"):
        planned(several)


def test_too_much_state_says_which_side_waits() -> None:
    bench = Bench(limit=20_000)
    assert isinstance(bench.zip, StatefulOperator)
    with pytest.raises(StateLimitExceeded, match=r"'j'.* 1000 left and 0 right rows, of which the one side waits"):
        bench.feed(0, *((3, 7, i) for i in range(1000)))


@pytest.mark.timeout(400)  # every kernel there is, where none is in the cache
def test_nothing_compiles_while_it_runs() -> None:
    bench = Bench()
    warm()
    before = compilations()
    for port in (0, 1):
        bench.feed(port, *((i, i % 3, i) for i in range(50)))
    assert len(bench.advance(MAX_TIME)) == 50
    assert compilations() == before
