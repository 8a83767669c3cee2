"""Samples: the same tuples in every run and plan, about as many as were asked for."""

from __future__ import annotations

import random

import numpy as np
import pytest

from cep.dataflow.operators.sample import SampleOperator, hashes
from cep.elements import Batch
from cep.errors import QueryError
from cep.kernels.jit import interpreted
from cep.kernels.tables.hashing import hash_origins
from cep.model.operators import Filter, Operator, Sample, SampleN
from cep.model.query import Output, Query
from cep.model.windows import TimeWindow
from driver import TIME, col, stream
from driver import Query as Builder
from tests.reference import assert_same_answer
from tests.reference.hashing import hash_of_origin
from tests.support.joining import execution, ran, sides

S = stream("s", t="timestamp[us]", k=int, event_time="t", disorder="0s")


def batch(n: int) -> Batch:
    return Batch({}, np.arange(n), np.stack((np.full(n, 1 << 48), np.arange(n)), axis=1))


@pytest.mark.parametrize("seed", [0, 1, 2**62])
def test_the_hash_is_the_one_that_is_specified_and_knows_no_padding(seed: int) -> None:
    choose = random.Random(seed)
    origins = [[choose.choice((-1, 0, 5, -(2**63), choose.getrandbits(62))) for _ in range(3)] for _ in range(50)]
    out = np.empty(len(origins), np.int64)
    hash_origins(np.array(origins, np.int64), seed, out)
    assert out.tolist() == [hash_of_origin(origin, seed) for origin in origins]
    assert hash_of_origin((3, 4, -1), seed) == hash_of_origin((3, 4), seed)


@pytest.mark.parametrize("fraction", [0.01, 0.5, 0.9])
def test_about_the_fraction_is_chosen_evenly_and_otherwise_with_another_seed(fraction: float) -> None:
    """The choices of two seeds know nothing of each other."""
    n, chosen = 100_000, []
    for seed in (1, 2):
        times = SampleOperator(Sample("o", "s", fraction, seed)).apply(batch(n)).time
        for part, of in ((times, n), (times[times < n // 2], n // 2)):
            assert abs(len(part) - of * fraction) < 6 * np.sqrt(of * fraction * (1 - fraction))
        chosen.append(set(times.tolist()))
    both = len(chosen[0] & chosen[1])
    assert abs(both - n * fraction**2) < 8 * np.sqrt(n * fraction**2)


def test_all_of_them_and_what_is_no_sample() -> None:
    assert len(SampleOperator(Sample("o", "s", 1.0)).apply(batch(1_000))) == 1_000
    assert (hashes(batch(1_000), 3) >= 0).all()
    for wrong in (0.0, -1.0, 1.5):
        with pytest.raises(QueryError, match="fraction: expected more than 0 and at most 1"):
            Sample("o", "s", wrong)
    with pytest.raises(QueryError, match="n: expected 1 to 1000000, got 0"):
        SampleN("o", "s", TimeWindow(1, 1), (), 0)
    with pytest.raises(QueryError, match="seed"):
        Sample("o", "s", 0.5, -1)


@pytest.mark.parametrize("seed", range(8))
def test_any_plan_chooses_the_same(seed: int) -> None:
    choose = random.Random(seed)
    given = sides(choose)
    window = TimeWindow(20, choose.choice((5, 20)))
    operators: tuple[Operator, ...] = (
        Filter("f", "l", col("a") % 7 != 0),
        Sample("some", "f", 0.4, seed),
        SampleN("few", "f", window, choose.choice(((), ("k",))), 2, seed),
    )
    asked = Query("q", (given.left,), operators, (Output("some out", "some"), Output("few out", "few")))
    how = execution(choose)
    with interpreted():
        out = ran(asked, given, how)
        again = ran(asked, given, execution(choose))
    assert_same_answer(out.outputs, again.outputs)
    assert len(out.outputs["few out"]) > 0 or not given.rows("l")


def test_the_builder_takes_one_or_the_other() -> None:
    begun = Builder("q").source(S)
    assert begun.sample("o", 0.25, seed=3).output("out").build().operators[-1] == Sample("o", "s", 0.25, 3)
    a_few = begun.sample("o", n=5, window=TIME("1m"), by="k").output("out").build().operators[-1]
    assert a_few == SampleN("o", "s", TIME("1m"), ("k",), 5)
    for wrong in ({}, {"n": 3}, {"window": TIME("1m")}):
        with pytest.raises(QueryError, match="operator 'o': a sample is a fraction"):
            begun.sample("o", **wrong)
