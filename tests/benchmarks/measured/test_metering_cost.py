"""What metering costs is a difference of two runs that do the same."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from benchmarks.measured import metering_cost
from benchmarks.measured.metering_cost import alone_ns, fixed_window, interval, on, pairs, run_ns
from cep.dataflow.meter import Meter

pytestmark = pytest.mark.usefixtures("as_python")


def test_batches_pass_with_a_clock_and_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metering_cost, "BATCHES", 50)
    assert alone_ns(Meter()) > 0
    looks = count()
    assert alone_ns(Meter(lambda: next(looks))) > 0
    assert next(looks) > 50 * metering_cost.OPERATORS  # each operator reads the clock for each batch


def test_both_runs_take_the_same_batches(tmp_path: Path) -> None:
    file = tmp_path / "visits.csv"
    file.write_text("".join(f"{i * 500},10.0.0.{i % 3},rest\n" for i in range(200)))
    assert [each.parallelism for each in fixed_window(file, 2).subqueries] == [2, 2]
    planned = fixed_window(file, 1)
    (plain_ns, plain), (metered_ns, metered) = run_ns(planned, Meter()), run_ns(planned, on())
    assert plain == metered > 3 and plain_ns > 0 and metered_ns > 0


def test_pairs_alternate_and_their_interval_leaves_out_the_ends() -> None:
    seen: list[bool] = []

    def measure(meter: Meter) -> float:
        seen.append(meter.measures)
        return float(len(seen))

    assert pairs(measure, 2) == [(1.0, 2.0), (3.0, 4.0)] and seen == [False, True, False, True]
    assert interval([5.0, 1.0, 9.0, 3.0, 7.0]) == "5 [3, 7]"
