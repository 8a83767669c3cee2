"""Whole plans with a join that pause at a Barrier and go on from their snapshot at another parallelism, split and table."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from cep.kernels.jit import interpreted
from cep.kernels.tables.hashing import fold_origins
from cep.model.expr import col
from cep.model.functions import first, last
from cep.model.operators import Aggregate, Join, Map
from cep.model.query import Options, Output, Query
from cep.model.windows import TimeWindow
from tests.cep.dataflow.joins import test_as_of_join as as_of
from tests.cep.dataflow.joins import test_interval_join as interval
from tests.cep.dataflow.joins import test_window_join as window
from tests.cep.dataflow.joins import test_window_join_theta as theta
from tests.reference import Partition, assert_same_answer
from tests.reference.engine import TimedRow
from tests.strategies import Case
from tests.support.joining import AnyJoin, Sides, execution, query, ran, sides
from tests.support.restarting import run_with_restart
from tests.support.running import expected_of, outputs_of


def drawn(kind: str, choose: random.Random, given: Sides) -> tuple[AnyJoin, list[TimedRow]]:
    """A join of that kind and its answers."""
    how = choose.choice(window.HOW)
    if kind == "window":
        joined = window.joined(choose.choice(list(window.WINDOWS)), how, "some")
        return joined, window.oracle(joined, given, False, window.CONDITIONS["some"][1])[0]
    if kind == "theta":
        spread = theta.theta(choose.choice(list(theta.WINDOWS)), *choose.choice(theta.SHAPES))
        return spread, theta.oracle(spread, given)
    if kind == "interval":
        within = interval.joined(choose.choice(interval.SPANS), how, "some")
        return within, interval.oracle(within, given, "some", False)[0]
    last_one = as_of.joined(choose.choice(("inner", "left")), choose.choice(as_of.TOLERANCES))
    return last_one, as_of.oracle(last_one, given, False)


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("kind", ["window", "theta", "interval", "as of"])
def test_the_same_answers(kind: str, seed: int) -> None:
    choose = random.Random(f"{kind} {seed}")
    given = sides(choose, rows_max=25 if kind == "theta" else 40)
    joined, expected = drawn(kind, choose, given)
    inputs = {name: [Partition(i, list(part)) for i, part in enumerate(parts)] for name, parts in given.partitions.items()}
    case = Case(query(joined, (given.left, given.right)), inputs)
    with interpreted():
        out = run_with_restart(case, execution(choose), execution(choose), choose.randrange(30))
    assert_same_answer({"out": expected}, out.outputs)


@pytest.mark.parametrize("seed", [3, 7, 14, 18])
@pytest.mark.parametrize("kind", ["window", "theta", "interval", "as of"])
def test_inputs_with_columns_that_the_join_does_not_need(kind: str, seed: int) -> None:
    """What is restored of a row is what is read of it: rows that come later bring more, and lie in one batch with it."""
    choose = random.Random(f"{kind} {seed} columns")
    given = sides(choose, span=30, disorder=25)
    joined = drawn(kind, choose, given)[0]
    if kind == "window":
        joined = window.joined("sliding", choose.choice(window.HOW), "none")
    some = Map("m", "j", (("k", col("k")),))
    asked = Query("q", (given.left, given.right), (joined, some), (Output("out", "m"),))
    inputs = {name: [Partition(i, list(part)) for i, part in enumerate(parts)] for name, parts in given.partitions.items()}
    one = replace(execution(choose), options=Options(split="single", parallelism=1), batch_rows=(2, 1, 3), table=(0,))
    with interpreted():
        out = run_with_restart(Case(asked, inputs), one, replace(one, seed=one.seed + 1), choose.randrange(3, 9))
        assert_same_answer(outputs_of(asked, expected_of(asked, inputs)), out.outputs)


@pytest.mark.parametrize("seed", range(8))
def test_what_reads_a_join_in_order_goes_by_the_fold_of_origins(seed: int) -> None:
    """All joined tuples of a window have one event time: which is first and last is said by their origins alone."""
    choose = random.Random(seed)
    given = sides(choose)
    join = Join("j", "l", "r", TimeWindow(10, 10), TimeWindow(10, 10), (("k", "k"),), "full", None, "r_")
    edges = Aggregate("w", "j", TimeWindow(10, 10), ("k",), (("first", first("a")), ("last", last("r_b"))))
    with interpreted():
        out = ran(Query("q", (given.left, given.right), (join, edges), (Output("out", "w"),)), given, execution(choose))
        expected = _edges(given)
    assert_same_answer({"out": expected}, out.outputs)


def _edges(given: Sides) -> list[TimedRow]:
    rows = [
        [(row, [source << 48 | part, number]) for part, rows in enumerate(given.partitions[name]) for number, row in enumerate(rows)]
        for source, name in enumerate(("l", "r"))
    ]
    found: list[TimedRow] = []
    for end in range(-20, 80, 10):
        lefts, rights = ([each for each in side if end - 10 <= each[0][0] < end] for side in rows)
        for k in {row[1] for row, _ in lefts + rights}:
            ls, rs = ([each for each in side if each[0][1] == k] for side in (lefts, rights))
            joined = [(a, b) for a in ls or [None] for b in rs or [None]]
            ordered = sorted((_fold(a, b), a, b) for a, b in joined)
            (_, a, _), (_, _, b) = ordered[0], ordered[-1]
            found.append((end - 1, (k, a and a[0][2], b and b[0][2])))
    return found


def _fold(a: tuple[object, list[int]] | None, b: tuple[object, list[int]] | None) -> list[int]:
    folded: list[int] = fold_origins(*(None if side is None else np.array([side[1]]) for side in (a, b)))[0].tolist()
    return folded
