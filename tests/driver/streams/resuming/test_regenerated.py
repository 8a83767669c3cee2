"""What a program has been given, and is not given once more when its query recovers."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pyarrow as pa
import pytest

from driver.streams.resuming import regenerated
from driver.streams.resuming.regenerated import RegeneratedRows


def rows(*values: int) -> pa.RecordBatch:
    """Each with itself as its event time."""
    return pa.record_batch({"v": pa.array(values, pa.int64()), "t": pa.array(values, pa.timestamp("us", tz="UTC"))})


def given(told: RegeneratedRows, mark: int, *values: int) -> list[int]:
    found: list[int] = told.new_of(mark, rows(*values)).column(0).to_pylist()
    return found


def test_what_came_behind_the_checkpoint_is_dropped_once() -> None:
    told = RegeneratedRows("s")
    assert given(told, 1, 1, 2) == [1, 2] and given(told, 2, 3, 3, 4) == [3, 3, 4]
    told.go_back(2)
    assert given(told, 2, 4, 3, 5, 3, 3) == [5, 3]
    assert not told.ahead


def test_what_came_twice_counts_twice_and_what_was_dropped_comes_again() -> None:
    told = RegeneratedRows("s")
    given(told, 1, 7, 7)
    told.go_back(1)
    assert given(told, 1, 7) == []
    told.go_back(1)  # before the other has come
    assert given(told, 1, 7, 7, 7) == [7]


def test_a_commit_frees_what_came_before_it_and_leaves_what_is_ahead() -> None:
    told = RegeneratedRows("s")
    given(told, 1, 1)
    told.go_back(1)
    given(told, 2, 2)
    told.committed(3)
    told.go_back(3)
    assert given(told, 3, 1, 2) == [2]


def test_rows_that_do_not_come_again_are_missed_when_nothing_so_old_can_come() -> None:
    told = RegeneratedRows("s")
    given(told, 1, 10, 20, 20)
    told.go_back(1)
    assert [told.missing(watermark) for watermark in (10, 11, 20, 21)] == [0, 1, 1, 3]
    given(told, 1, 20)
    assert told.missing(100) == 2


@pytest.mark.parametrize("ahead", [False, True])
def test_what_is_committed_does_not_stay_for_long(ahead: bool) -> None:
    """Though a row that should come again never does, as where rows were dropped."""
    told = RegeneratedRows("s")
    given(told, 1, -1)
    if ahead:
        told.go_back(1)
    for mark in range(2, 12):
        for value in range(1000):
            given(told, mark, value)
        told.committed(mark)
    assert len(told._freed) <= 2000


@pytest.mark.parametrize("most", [0, 100, regenerated.NOTED_BYTES_MAX], ids=["keys", "some of both", "batches"])
def test_any_schedule_of_cuts_commits_and_recoveries_gives_each_row_once(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Rows with few different values come through two outlets, in another order in each attempt; some marks are committed."""
    monkeypatch.setattr(regenerated, "NOTED_BYTES_MAX", most)
    for seed in range(150):
        choose = random.Random(seed)
        values = [choose.randint(0, 5) for _ in range(choose.randint(5, 60))]
        assert Counter(_received(choose, values)) == Counter(values), f"seed {seed}"


def _received(choose: random.Random, values: Sequence[int]) -> list[int]:
    told, received, committed, places, number = RegeneratedRows("s"), list[int](), 0, {0: 0}, 0
    while True:
        cuts = sorted({choose.randint(places[committed], len(values)) for _ in range(choose.randint(0, 3))})
        queues: list[list[tuple[str, int]]] = [[("mark", committed)], [("mark", committed)]]
        at = places[committed]
        for cut in (*cuts, len(values)):
            for value in choose.sample(values[at:cut], cut - at):
                choose.choice(queues).append(("row", value))
            at = cut
            number += 1
            places[number] = cut
            for queue in queues:
                queue.append(("mark", number))
        marks, left, last = [0, 0], choose.choice((choose.randint(0, 80), 1000)), number
        while any(queues) and left:
            left -= 1
            which = choose.choice([i for i in (0, 1) if queues[i]])
            kind, value = queues[which].pop(0)
            if kind == "row":
                received += given(told, marks[which], value)
                continue
            marks[which] = value
            if min(marks) == value < last and choose.random() < 0.7:
                committed = max(committed, value)
                told.committed(committed)
        if not any(queues):
            return received
        told.go_back(committed)
