"""Window joins without equalities: one side everywhere, the other shared out among the instances.

left   a0 ──▶ instance 0 ─┐           right  b0 ─┬─▶ instance 0
       a1 ──▶ instance 1 ─┴─ pairs                └─▶ instance 1
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from cep.errors import QueryError
from cep.kernels.jit import interpreted
from cep.model.expr import col
from cep.model.functions import count
from cep.model.operators import Aggregate, Join
from cep.model.query import Output, Query
from cep.model.windows import TimeWindow
from tests.reference import assert_same_answer
from tests.reference.engine import TimedRow
from tests.support.joining import Sides, execution, moved_run, query, ran, sides
from tests.support.plans import one_node, planned

WINDOWS = {"tumbling": (TimeWindow(10, 10), TimeWindow(10, 10)), "sliding": (TimeWindow(12, 4), TimeWindow(8, 4))}
#: (how, broadcast): the side that is kept is shared out.
SHAPES = (("inner", "right"), ("inner", "left"), ("left", "right"), ("right", "left"), ("full", "right"))
SMALL = 25


def theta(windows: str, how: str, broadcast: str) -> Join:
    condition = (col("a") + col("r_b")) % 5 == 0
    return Join("j", "l", "r", *WINDOWS[windows], (), how, condition, "r_", broadcast)


def oracle(join: Join, given: Sides) -> list[TimedRow]:
    left, right = given.rows("l"), given.rows("r")
    advance, sizes = join.window.advance, (join.window.size, join.right_window.size)
    found: list[TimedRow] = []
    for end in range(-10 * advance, 40 * advance, advance):
        lefts, rights = ([row for row in rows if end - size <= row[0] < end] for rows, size in zip((left, right), sizes, strict=True))
        pairs = [(a, b) for a in lefts for b in rights if (a[2] + b[2]) % 5 == 0]
        found += [(end - 1, (*a, *b)) for a, b in pairs]
        if join.how in ("left", "full"):
            found += [(end - 1, (*a, None, None, None)) for a in lefts if a not in {p[0] for p in pairs}]
        if join.how in ("right", "full"):
            found += [(end - 1, (None, None, None, *b)) for b in rights if b not in {p[1] for p in pairs}]
    return found


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("shape", SHAPES)
def test_every_tuple_meets_every_other(shape: tuple[str, str], seed: int) -> None:
    choose = random.Random(f"{shape} {seed}")
    given, asked = sides(choose, rows_max=SMALL), theta(choose.choice(list(WINDOWS)), *shape)
    with interpreted():
        out = ran(query(asked, (given.left, given.right)), given, execution(choose))
    assert_same_answer({"out": oracle(asked, given)}, out.outputs)


@pytest.mark.parametrize("split", ["stateful", "single", "per-operator"])
@pytest.mark.parametrize("shape", SHAPES)
def test_however_the_query_is_split(shape: tuple[str, str], split: str) -> None:
    choose = random.Random(f"{shape} {split}")
    given, asked, how = sides(choose, rows_max=SMALL), theta("sliding", *shape), execution(choose, 3)
    with interpreted():
        out = ran(query(asked, (given.left, given.right)), given, replace(how, options=replace(how.options, split=split)))
    assert_same_answer({"out": oracle(asked, given)}, out.outputs)


@pytest.mark.parametrize("seed", range(40))
def test_state_moves_to_more_or_fewer_instances_that_were_at_different_watermarks(seed: int) -> None:
    choose = random.Random(seed)
    shape = SHAPES[seed % 4]
    given, asked = sides(choose, rows_max=SMALL), theta(choose.choice(list(WINDOWS)), *shape)
    with interpreted():
        assert_same_answer({"out": oracle(asked, given)}, {"out": moved_run(choose, asked, given)})


def test_without_a_condition_and_without_a_column_that_is_read() -> None:
    """Pairs are counted; of neither side any column travels."""
    choose = random.Random(3)
    given = sides(choose, rows_max=SMALL)
    join = Join("j", "l", "r", *WINDOWS["tumbling"], (), "inner", None, "r_")
    counted = Aggregate("n", "j", TimeWindow(10, 10), (), (("n", count()),))
    with interpreted():
        out = ran(Query("q", (given.left, given.right), (join, counted), (Output("out", "n"),)), given, execution(choose, 2))
    ends = range(-40, 100, 10)
    sizes = [[sum(end - 10 <= row[0] < end for row in given.rows(name)) for name in ("l", "r")] for end in ends]
    expected = [(end - 1, (left * right,)) for end, (left, right) in zip(ends, sizes, strict=True) if left * right]
    assert_same_answer({"out": expected}, out.outputs)


def edges(how: str, broadcast: str) -> dict[int, str]:
    given = sides(random.Random(0))
    made = planned(query(theta("tumbling", how, broadcast), (given.left, given.right)), one_node(3))
    return {edge.port: edge.balancer for edge in made.edges if edge.consumer == "j" and edge.is_inner}


def test_the_plan_shares_out_the_side_that_is_kept() -> None:
    assert edges("inner", "right") == {0: "round-robin", 1: "broadcast"}
    assert edges("right", "left") == {0: "broadcast", 1: "round-robin"}
    assert edges("full", "right") == {0: "point-to-point", 1: "point-to-point"}


def test_the_side_that_is_kept_cannot_be_everywhere() -> None:
    with pytest.raises(QueryError, match="broadcast the other one") as caught:
        theta("tumbling", "left", "left")
    assert caught.value.pointer == "/broadcast"
