"""What pairs of runs say."""

from __future__ import annotations

import pytest

from benchmarks.pairs import Bar, Measured, change, measured, ratios


def test_the_interval_leaves_out_one_value_at_each_end() -> None:
    assert measured([5, 1, 9, 3, 7, 2, 8, 4]) == Measured(median=4.5, lower=2, upper=8)
    assert measured([2, 1, 3]) == Measured(median=2, lower=1, upper=3)
    with pytest.raises(ValueError, match="nothing to take the median of"):
        measured([])


def test_a_ratio_is_taken_within_its_pair() -> None:
    assert ratios([2, 9], [4, 3]) == [0.5, 3]
    with pytest.raises(ValueError):
        ratios([1, 2], [1])


@pytest.mark.parametrize(
    ("bar", "lower", "upper", "met"),
    [
        (Bar("rate", ">=", 0.8), 0.76, 9, True),
        (Bar("rate", ">=", 0.8), 0.759, 9, False),
        (Bar("p50_ms", "<=", 2.0), 0, 2.1, True),
        (Bar("p50_ms", "<=", 2.0), 0, 2.11, False),
    ],
)
def test_a_bar_is_met_by_the_unfavourable_end_with_five_percent(bar: Bar, lower: float, upper: float, met: bool) -> None:
    assert bar.met(Measured((lower + upper) / 2, lower, upper)) is met


def test_a_bar_has_a_direction() -> None:
    with pytest.raises(ValueError, match="sign: expected '>=' or '<=', got '>'"):
        Bar("rate", ">", 1)


def test_what_is_within_the_noise_is_no_change() -> None:
    narrow, wide = Measured(1.0, 0.99, 1.01), Measured(1.0, 0.8, 1.2)
    assert change(narrow, Measured(1.02, 1.01, 1.03)) == (pytest.approx(0.02), False)
    assert change(narrow, Measured(1.1, 1.09, 1.11)) == (pytest.approx(0.1), True)
    assert change(wide, Measured(1.1, 1.09, 1.11)) == (pytest.approx(0.1), False)
