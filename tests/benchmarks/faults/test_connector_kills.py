"""What is found in the topic is compared row by row; and a short run, in which each part is killed, and two are frozen."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from benchmarks.faults.connector_kills import KEYS, VICTIMS, WINDOW_MS, RowsKept, Tally, run


def answers(rows: int) -> np.ndarray:
    """Those that are right, of rows 0, 1, … and some beyond."""
    found: dict[tuple[int, int], list[int]] = {}
    for i in range(rows + WINDOW_MS):
        found.setdefault((i // WINDOW_MS, i % KEYS), []).append(i)
    return np.array([(window, key, len(numbers), sum(numbers)) for (window, key), numbers in found.items()])


def compared(found: np.ndarray, rows: int = 1000) -> tuple[int, int, int]:
    report, tally = RowsKept(rows), Tally()
    for part in np.array_split(found, 3):
        tally.add(part)
    report.compare(tally)
    return report.lost, report.twice, report.others


def test_what_is_lost_and_what_came_twice_is_counted() -> None:
    right = answers(1000)
    assert compared(right) == (0, 0, 0) and compared(right[::-1]) == (0, 0, 0)
    assert compared(right[1:]) == (right[0, 2], 0, 1)
    assert compared(np.concatenate([right, right[3:4]])) == (0, right[3, 2], 1)
    less, other = right.copy(), right.copy()
    less[5, 2] -= 2
    other[5, 3] += 1
    assert compared(less) == (2, 0, 0) and compared(other) == (0, 0, 1)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.skipif(not shutil.which("mvn"), reason="needs Maven")
def test_nothing_is_lost_and_nothing_comes_twice() -> None:
    report = run(500_000, len(VICTIMS), 1, print)
    assert (report.lost, report.twice, report.others) == (0, 0, 0), list(report.lines())
    assert report.done == dict.fromkeys(VICTIMS, 1) and report.answers == report.rows // WINDOW_MS * KEYS
