"""As-of joins against the last of all right rows that are not later.

right     b0 b1      b2        b3            stream order, key by key
left            a0   a1   a2                 a0 sees b1, a1 sees b2 (equal times count), a2 sees b2
"""

from __future__ import annotations

import random

import pytest

from cep.dataflow.joins.as_of_join import AsOfJoinOperator
from cep.elements import MAX_TIME, Batch
from cep.errors import StateLimitExceeded
from cep.kernels.jit import compilations, interpreted, warm
from cep.model.expr import col
from cep.model.operators import AsOfJoin, Filter, Union
from cep.model.query import Output, Query
from cep.plan.needed import may_tie
from tests.reference import assert_same_answer
from tests.reference.engine import TimedRow
from tests.support.joining import KEYS, Row, Sides, batch_of, equal, execution, is_float, made, moved_run, pair, query, ran, sides
from tests.support.pausing import without_pauses

TOLERANCES = (None, 1, 6, 25)


def joined(how: str = "left", tolerance: int | None = None) -> AsOfJoin:
    return AsOfJoin("j", "l", "r", (("k", "k"),), how, tolerance, "r_")


def oracle(join: AsOfJoin, given: Sides, floats: bool) -> list[TimedRow]:
    """Stream order of the right is (time, partition, number within it)."""
    rights = [(row[0], part, number, row) for part, rows in enumerate(given.partitions["r"]) for number, row in enumerate(rows)]
    ordered = [each[-1] for each in sorted(rights, key=lambda each: each[:3])]
    found: list[TimedRow] = []
    for a in given.rows("l"):
        earliest = -(2**62) if join.tolerance is None else a[0] - join.tolerance
        seen = [b for b in ordered if earliest <= b[0] <= a[0] and equal(a[1], b[1])]
        if seen or join.how == "left":
            found.append((a[0], pair(a, seen[-1] if seen else None, floats)))
    return found


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", KEYS)
def test_any_keys(kind: str, seed: int) -> None:
    choose = random.Random(f"{kind} {seed}")
    given, asked = sides(choose, kind), joined(("inner", "left")[seed % 2], choose.choice(TOLERANCES))
    with interpreted():
        out = ran(query(asked, (given.left, given.right)), given, execution(choose))
    assert_same_answer({"out": oracle(asked, given, is_float(kind))}, out.outputs)


@pytest.mark.parametrize("seed", range(12))
def test_machine_code_gives_the_same(seed: int) -> None:
    choose = random.Random(seed)
    kind = choose.choice(list(KEYS))
    given, asked = sides(choose, kind, rows_max=500, span=300), joined(choose.choice(("inner", "left")), choose.choice(TOLERANCES))
    out = ran(query(asked, (given.left, given.right)), given, execution(choose))
    assert_same_answer({"out": oracle(asked, given, is_float(kind))}, out.outputs)


@pytest.mark.parametrize("seed", range(60))
def test_state_moves_to_more_or_fewer_instances_that_were_at_different_watermarks(seed: int) -> None:
    choose = random.Random(seed)
    kind = choose.choice(list(KEYS))
    given, asked = sides(choose, kind), joined(choose.choice(("inner", "left")), choose.choice(TOLERANCES))
    whole = Sides(given.left, given.right, {name: [given.rows(name)] for name in ("l", "r")})  # origins are the numbers of the rows
    ordered = Sides(given.left, given.right, {name: [sorted(given.rows(name), key=lambda row: row[2])] for name in ("l", "r")})
    with interpreted():
        answers = moved_run(choose, asked, whole)
    assert_same_answer({"out": oracle(asked, ordered, is_float(kind))}, {"out": answers})


def test_without_equalities_the_last_of_all_is_seen() -> None:
    choose = random.Random(1)
    given, asked = sides(choose, "one hot key"), AsOfJoin("j", "l", "r", (), "inner", None, "r_")
    with interpreted():
        out = ran(query(asked, (given.left, given.right)), given, execution(choose, 3))
    expected = [(at, (t, 7, a, r_t, 7, b)) for at, (t, _, a, r_t, b) in oracle(joined("inner"), given, False)]
    assert_same_answer({"out": expected}, out.outputs)


@pytest.mark.parametrize("seed", range(5))
def test_a_stream_that_comes_on_two_ways_ties_with_itself(seed: int) -> None:
    """What ties on event time and origin is ordered by its columns, all of them; here they are equal, so any of them will do."""
    choose = random.Random(seed)
    given = sides(choose, "floats")
    operators = (
        Filter("some", "r", col("b") % 2 == 0),
        Filter("more", "r", col("b") % 3 == 0),
        Union("both", ("some", "more")),
        AsOfJoin("j", "l", "both", (("k", "k"),), "left", None, "r_"),
    )
    asked = Query("q", (given.left, given.right), operators, (Output("out", "j"),))
    assert may_tie(asked, "both") and may_tie(asked, "j")
    with interpreted():
        out = ran(asked, given, execution(choose))
    parts = [[row for row in part if row[2] % 2 == 0 or row[2] % 3 == 0] for part in given.partitions["r"]]
    known = Sides(given.left, given.right, {"l": given.partitions["l"], "r": parts})
    assert_same_answer({"out": oracle(joined(), known, True)}, out.outputs)


# --- by hand ---------------------------------------------------------------------------------------------------------


class Bench:
    def __init__(self, how: str = "left", tolerance: int | None = None, limit: int = 1 << 40) -> None:
        given = sides(random.Random(0))
        self.streams = given.left, given.right
        operator = made(joined(how, tolerance), self.streams, limit=limit)
        assert isinstance(operator, AsOfJoinOperator)
        self.join = operator

    def feed(self, port: int, *given: Row) -> None:
        assert list(self.join.on_batch(batch_of(self.streams[port], given, port), port)) == []

    def advance(self, watermark: int) -> list[Batch]:
        return list(without_pauses(self.join.on_watermark(watermark)))


def test_tuples_come_in_stream_order_whatever_the_order_in_which_they_came() -> None:
    bench = Bench()
    bench.feed(0, (9, 1, 3), (5, 1, 2), (5, 1, 1), (7, 2, 4))
    bench.feed(1, (5, 1, 8), (5, 1, 9), (9, 1, 10))
    assert bench.join.next_end == 6
    (early,) = bench.advance(9)
    assert early.columns["a"].values.tolist() == [1, 2, 4]
    assert early.columns["r_b"].values[:2].tolist() == [9, 9]
    assert early.columns["r_b"].valid is not None and early.columns["r_b"].valid.tolist() == [1, 1, 0]
    (late,) = bench.advance(MAX_TIME)
    assert (late.time.tolist(), late.columns["r_b"].values.tolist(), bench.join.next_end) == ([9], [10], None)


def test_a_watermark_costs_what_it_lets_out_not_what_there_is() -> None:
    """The last rows of 20,000 keys lie in few runs; those that come after are not merged with them each time."""
    bench = Bench()
    bench.feed(1, *((0, key, key) for key in range(20_000)))
    bench.advance(1)
    for t in range(1, 200):
        bench.feed(1, (t, t, -t))
        bench.feed(0, (t, t, t), (t, 20_000 - t, t))
        (out,) = bench.advance(t + 1)
        assert out.columns["r_b"].values.tolist() == [-t, 20_000 - t]
    sizes = [len(run.batch) for run in bench.join._runs]
    assert sizes[0] == 20_000 and len(sizes) < 10


def test_rows_too_old_for_the_tolerance_are_swept() -> None:
    bench = Bench(tolerance=100)
    for t in range(0, 20_000, 50):
        bench.feed(1, *((t, t + key, key) for key in range(50)))
        bench.advance(t + 1)
    assert bench.join.state_bytes < 1_000_000 / 4


def test_too_much_state_says_what_waits() -> None:
    bench = Bench(limit=20_000)
    with pytest.raises(StateLimitExceeded, match=r"'j'.*1000 left and 0 right rows wait from the watermark 4 on.*k=7 \(1000 rows\)"):
        bench.feed(0, *((3, 7, i) for i in range(1000)))


@pytest.mark.timeout(400)  # every kernel there is, where none is in the cache
def test_nothing_compiles_while_it_runs() -> None:
    bench = Bench()
    warm()
    before = compilations()
    for port in (0, 1):
        bench.feed(port, *((i, i % 3, i) for i in range(50)))
    assert sum(map(len, bench.advance(MAX_TIME))) == 50
    assert compilations() == before
