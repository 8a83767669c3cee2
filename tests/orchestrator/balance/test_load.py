"""Which buckets move: as few as it takes, to within reach of the bound, and then none, whatever the noise.

Tests `load.py`, `buckets.py`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.balance.buckets import PlacedBuckets, Totals, totals_of
from orchestrator.balance.load import START, STOP, Load, rebalanced, weights_of

BUCKETS = 4096
Table = tuple[int, ...]


def planned(instances: int, buckets: int = BUCKETS) -> Table:
    return tuple(bucket * instances // buckets for bucket in range(buckets))


def load_of(rows: Sequence[int], table: Table, instances: int, noise: Callable[[], float] = lambda: 1.0) -> Load:
    """What is measured of a million rows of these shares that cost the same, one core's worth on average."""
    came = np.bincount(table, rows, instances) / sum(rows) * 1e6
    cpu = [float(each) / 1e6 * instances * noise() for each in came]
    return Load(cpu, came.astype(int).tolist(), (np.array(rows) / sum(rows) * 1e6).astype(int).tolist())


def imbalance(rows: Sequence[int], table: Table, instances: int) -> float:
    came = np.bincount(table, rows, instances)
    return float(came.max() / came.mean())


def bound(rows: Sequence[int], instances: int) -> float:
    return max(1.0, instances * max(rows) / sum(rows))


def settled(rows: Sequence[int], instances: int, looks: int = 10) -> tuple[Table, int]:
    """The table that is left, and after how many looks nothing moved any more."""
    table = planned(instances, len(rows))
    for look in range(looks):
        wanted = rebalanced(load_of(rows, table, instances), table)
        if wanted is None:
            return table, look
        table = wanted
    raise AssertionError("it never settles")


def zipf(s: float, keys: int = 100_000, seed: int = 7) -> list[int]:
    """Rows by bucket, of a million."""
    shares = 1 / np.arange(1, keys + 1) ** s
    buckets = np.random.default_rng(seed).integers(0, BUCKETS, keys)
    rows: list[int] = (np.bincount(buckets, shares / shares.sum(), BUCKETS) * 1e6).astype(int).tolist()
    return rows


THESIS = (0.513, 0.197, 0.066, 0.224)


def thesis() -> list[int]:
    """Four parts of the buckets, with these shares of the rows."""
    return [int(1e6 * share / (BUCKETS // 4)) for share in THESIS for _ in range(BUCKETS // 4)]


@pytest.mark.parametrize("instances", [4, 8])
@pytest.mark.parametrize("rows", [thesis(), *map(zipf, (1.0, 1.25, 1.5))], ids=["thesis", "zipf 1.0", "zipf 1.25", "zipf 1.5"])
def test_one_move_comes_within_reach_of_the_bound(rows: list[int], instances: int) -> None:
    before = planned(instances)
    table, looks = settled(rows, instances)
    least = bound(rows, instances)
    assert looks <= 1 + (imbalance(rows, before, instances) > START)
    assert least <= imbalance(rows, table, instances) <= max(least * STOP, START)


def test_as_few_as_it_takes() -> None:
    """Six parts of the load lie on the first and two on the second: of the buckets a single one of two parts is enough."""
    assert rebalanced(Load([0.6, 0.2], [60_000, 20_000], [10_000, 10_000, 20_000, 20_000, 20_000]), (0, 0, 0, 0, 1)) == (0, 0, 1, 0, 1)


def test_rows_that_cost_more_weigh_more() -> None:
    """As many rows of the first instance cost three times as much."""
    assert rebalanced(Load([0.6, 0.2], [40_000, 40_000], [20_000] * 4), (0, 0, 1, 1)) == (1, 0, 0, 1)


def test_an_instance_without_rows_is_taken_for_an_average_one() -> None:
    """The second has taken none of its rows yet; they are on their way, and will cost what the first's do."""
    load = Load([0.6, 0.0], [30_000, 0], [30_000, 30_000])
    assert weights_of(load, (0, 1)).tolist() == pytest.approx([0.6, 0.6])
    assert rebalanced(load, (0, 1)) is None


def test_what_is_sent_counts_and_not_what_is_worked_off() -> None:
    """The first is still busy with rows of buckets that it has no more."""
    assert rebalanced(Load([0.9, 0.3], [90_000, 30_000], [40_000, 40_000]), (0, 1)) is None


def test_what_cannot_be_helped_is_let_be() -> None:
    assert rebalanced(Load([0.9, 0.1], [90_000, 10_000], [90_000, 10_000]), (0, 1)) is None


def test_nothing_to_do_is_no_reason() -> None:
    rows = [40_000, 10_000, 10_000]
    assert rebalanced(Load([0.004, 0.001], [50_000, 10_000], rows), (0, 0, 1)) is None
    assert rebalanced(Load([0.5], [60_000], rows), (0, 0, 0)) is None
    assert rebalanced(Load([0.5, 0.1], [50, 10], [40, 10, 10]), (0, 0, 1)) is None


def test_steps_that_only_rounding_makes_come_to_an_end() -> None:
    """A bucket that weighs what two instances differ by, but for rounding, would go to and fro between them."""
    rows, table = [78, 77, 77, 850, 256, 322, 850, 718, 322, 850], (1, 1, 2, 4, 4, 3, 4, 2, 1, 1)
    wanted = rebalanced(load_of(rows, table, 5), table)
    assert wanted is not None
    assert imbalance(rows, wanted, 5) < imbalance(rows, table, 5)


@given(
    st.lists(st.integers(0, 1000), min_size=8, max_size=64),
    st.integers(2, 8),
    st.randoms(use_true_random=False),
)
def test_any_load_settles_and_no_step_makes_it_worse(rows: list[int], instances: int, choose: random.Random) -> None:
    rows[0] += 1
    table: Table = tuple(choose.randrange(instances) for _ in rows)
    for _ in range(8):
        before = imbalance(rows, table, instances)
        wanted = rebalanced(load_of(rows, table, instances), table)
        if wanted is None:
            return
        assert imbalance(rows, wanted, instances) < before
        table = wanted
    raise AssertionError("it never settles")


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("s", [0.5, 1.0, 1.5])
def test_noise_moves_nothing_for_long(s: float, seed: int) -> None:
    """Stationary load, each measurement off by 2 %: after the first moves hardly anything, and no bucket to and fro."""
    choose, rows = random.Random(seed), zipf(s, seed=seed)
    table, moved = planned(8), []
    for _ in range(100):
        wanted = rebalanced(load_of(rows, table, 8, lambda: choose.gauss(1, 0.02)), table)
        if wanted is not None:
            moved.append(sum(a != b for a, b in zip(table, wanted, strict=True)))
            table = wanted
    assert len(moved) <= 3


def test_it_follows_a_load_that_shifts() -> None:
    """The hot buckets are others after every ten looks; each time two looks are enough."""
    table = planned(4)
    for phase in range(6):
        rows = np.roll(thesis(), phase * 700).tolist()
        moves = 0
        for _ in range(10):
            wanted = rebalanced(load_of(rows, table, 4), table)
            moves += wanted is not None
            table = wanted or table
        assert moves <= 2
        assert imbalance(rows, table, 4) <= START


def totals(version: int, instances: int = 2) -> Totals:
    each = np.ones(instances)
    return Totals(version, each, each, each, each)


def test_load_is_measured_while_the_buckets_stay_and_the_same_instances_report() -> None:
    assert totals(3).follows(totals(3))
    assert not totals(3).follows(totals(2)) and not totals(2).follows(totals(3))
    assert not totals(3, 4).follows(totals(3)) and not totals(3).follows(totals(3, 4))


def test_instances_of_one_number_in_two_replicas_count_as_one() -> None:
    first = Totals(0, np.array([0, 0, 0, 0.0]), np.array([0, 0, 5, 5.0]), np.array([0.0, 1, 0, 1]), np.array([1, 1]))
    last = Totals(0, np.array([0, 0, 0, 0.0]), np.array([0, 0, 0, 0.0]), np.array([5.0] * 4), np.array([11, 21]))
    now = Totals(0, np.array([1e9, 2e9, 4e9, 8e9]), np.array([10, 20, 35, 45.0]), np.array([10.0, 11, 10, 11]), np.array([31, 51]))
    assert now.since(first, last, 2) == Load([0.25, 0.5], [40, 60], [20, 30])


def test_what_an_earlier_deployment_reports_is_not_counted() -> None:
    placed = PlacedBuckets(("q", 2, "SQ2"), 1, (0, 1), 2)
    found = totals_of(placed, [report(epoch, instance) for epoch in (1, 2) for instance in (1, 0)])
    assert found is not None and (found.taken.tolist(), found.sent.tolist()) == ([20, 21], [2, 4])
    assert totals_of(placed, [report(2, 0), report(1, 1)]) is None


def report(epoch: int, instance: int) -> dict[str, Any]:
    """Of an instance, and of what it has sent to itself and the other."""
    figures = {"cpu_ns": 1, "rows_in": 10 * epoch + instance, "reported": 1.0, "buckets": {"SQ2": [1, 2]}}
    return {"epoch": epoch, "subquery": "SQ2", "instance": instance, **figures}
