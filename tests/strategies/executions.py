"""Ways to run a query."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from cep.model.query import BALANCERS, PRE_AGGREGATION, SPLITS, Options


@dataclass(frozen=True)
class Execution:
    """One way of running a query; none of it may change an answer (rule 5.8).

    `batch_rows` are the sizes into which input is cut, in turn. `table` sends bucket i to instance `table[i]`.
    `balancers` are tried before every operator, in turn, and taken where they are sound.
    `parts` numbers the operators in turn; those of one number are asked for as one subquery, if such a split is sound. Empty:
    none is asked for.
    `credit_bytes` is what a channel may have outstanding. `seed` orders the turns of sources and instances.
    """

    options: Options
    batch_rows: tuple[int, ...]
    balancers: tuple[str, ...]
    table: tuple[int, ...]
    credit_bytes: int
    seed: int
    parts: tuple[int, ...] = ()


@st.composite
def executions(draw: DrawFn) -> Execution:
    parallelism = draw(st.integers(1, 4))
    buckets = draw(st.sampled_from((1, 4, 16, 4096)))
    options = Options(
        split=draw(st.sampled_from(SPLITS)),
        parallelism=parallelism,
        pre_aggregation=draw(st.sampled_from(PRE_AGGREGATION[::-1])),
        buckets=buckets,
    )
    return Execution(
        options,
        tuple(draw(st.lists(st.sampled_from((1000, 1, 2, 3, 7)), min_size=1, max_size=3))),
        tuple(draw(st.lists(st.sampled_from(BALANCERS), max_size=2))),
        draw(_tables(buckets, parallelism)),
        draw(st.sampled_from((1 << 20, 4096, 1))),
        draw(st.integers(0, 2**16)),
        tuple(draw(st.lists(st.integers(0, 2), max_size=4))),
    )


@st.composite
def _tables(draw: DrawFn, buckets: int, instances: int) -> tuple[int, ...]:
    """Any table; of many buckets one that repeats, which is drawn and shrinks faster."""
    period = draw(st.lists(st.integers(0, instances - 1), min_size=1, max_size=min(buckets, 16)))
    return tuple(period[bucket % len(period)] for bucket in range(buckets))
