"""Parts of a cluster killed and stopped at random while queries run: a small one of what `python -m benchmarks kills` does."""

from __future__ import annotations

import pytest

from benchmarks.faults.kills import Answers, KillReport, expected, run


@pytest.mark.long
def test_counts_are_exact_and_everything_comes_back() -> None:
    result = run(kills=25, seed=11, instances=2, lives=8, say=print)
    assert not result.wrong and result.exact and result.done.total() == 25


def test_what_is_expected() -> None:
    """Rows are 10 ms apart, of seven groups, in windows of 30 s."""
    assert expected(0) == Answers()
    first = expected(3000)
    assert first.total() == 7 and sum(visits for _, visits, _, _ in first) == 3000
    assert expected(3001) - first == Answers({("10.0.0.4", 1, 1_700_000_010_000, 1_700_000_010_000): 1})


def test_what_is_wrong_is_said() -> None:
    result = KillReport()
    result.done["im: kill"] += 2
    result.back_s["im: kill"] += [1.0, 3.0]
    result.wrong.append("query 'q0' hangs")
    assert list(result.lines()) == [
        "2 kills and stops: im: kill 2",
        "  im: kill: all is back after 2.0 s in the middle, 3.0 s at most",
        "queries not hit: 0, all counts exact over 0 rows; queries hit, which said so: 0",
        "WRONG: query 'q0' hangs",
    ]
