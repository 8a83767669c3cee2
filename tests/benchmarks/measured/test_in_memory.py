"""What runs over batches in memory: on few rows its sums are those of a plain loop. Nothing here asserts a speed.

Tests `maps.py`, `pattern.py`, `trailing.py`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable

import numpy as np
import pytest

from benchmarks.measured import maps, pattern, trailing
from cep.elements import Batch
from instance_manager import own_memory

pytestmark = pytest.mark.usefixtures("as_python")


def said(main: Callable[[], None], words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> dict[str, float]:
    """The figures in which the command ends."""
    monkeypatch.setattr(own_memory, "take", lambda: None)  # it would be for all tests of this process
    monkeypatch.setattr("sys.argv", ["command", *words.split()])
    main()
    found: dict[str, float] = json.loads(capsys.readouterr().out.splitlines()[-1])
    return found


@pytest.mark.parametrize("kind", maps.KINDS)
def test_fifty_maps_are_one_loop(kind: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(maps, "BATCH_ROWS", 7)
    values = [float(i) for i in range(20)]
    for _ in range(maps.MAPS):
        values = [x * 0.5 + 1.0 if kind == "multiply-add" else x + 1 for x in values]
    found = said(maps.main, f"--maps {kind} --records 20", monkeypatch, capsys)
    assert (found["records"], found["loops"]) == (20, 1)
    assert found["sum"] == sum(int(x * (1024 if kind == "multiply-add" else 1)) for x in values)
    assert found["records_per_cpu_s"] > 0


def test_numbers_are_drawn_as_the_c_programs_do() -> None:
    """The first of splitmix64's finalizer, as C computes it."""

    def c(x: int) -> int:
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) % 2**64
        return x ^ (x >> 31)

    numbers = [0, 1, 2, 12_345_678_901]
    assert trailing.drawn(np.array(numbers, np.uint64)).tolist() == [c(x) for x in numbers]


def test_trailing_windows_add_up_what_is_in_them(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Few keys and steps of minutes, so that rows leave their windows."""
    for name, value in {"KEYS": 3, "STEP_US": 200_000_000, "BATCH_ROWS": 50}.items():
        monkeypatch.setattr(trailing, name, value)
    times, keys, values = columns(trailing.batches(120), "k", "v")
    total = 0
    for i, (time, key) in enumerate(zip(times, keys, strict=True)):
        window = [values[j] for j in range(i + 1) if keys[j] == key and time - times[j] < 600_000_000]
        total += len(window) + 3 * sum(window) + 5 * min(window) + 7 * max(window)
        assert i < 110 or len(window) < keys[: i + 1].count(key)
    found = said(trailing.main, "--records 120", monkeypatch, capsys)
    assert found["sum"] == total % 2**64


def columns(batches: list[Batch], *names: str) -> list[list[int]]:
    return [
        [t for batch in batches for t in batch.time.tolist()],
        *([v for batch in batches for v in batch.columns[name].values.tolist()] for name in names),
    ]


@pytest.mark.parametrize("ways", ["", " --ways"])
def test_a_pattern_is_found_wherever_it_is(ways: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """An `a`, behind it a `b` with more than twice its value, within the time; begun at every `a`, ended by the first such `b`."""
    for name, value in {"KEYS": 4, "WITHIN_US": 90, "BATCH_ROWS": 64}.items():
        monkeypatch.setattr(pattern, name, value)
    times, keys, kinds, values = columns(pattern.batches(150), "k", "e", "v")
    by_key: dict[int, list[int]] = defaultdict(list)
    for i, key in enumerate(keys):
        by_key[key].append(i)
    matches = [
        (i, next((j for j in rows if j > i and kinds[j] == 1 and values[j] > 2 * values[i] and times[j] - times[i] <= 90), None))
        for rows in by_key.values()
        for i in rows
        if kinds[i] == 0
    ]
    ends = [(i, j) for i, j in matches if j is not None]
    found = said(pattern.main, "apart --records 150" + ways, monkeypatch, capsys)
    assert (found["answers"], found["sum"]) == (len(ends), sum(values[i] + values[j] for i, j in ends))
    assert 10 < len(ends) < len(matches)


def test_absences_come_out_when_their_time_is_over(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Of all rows, whose keys are drawn as C draws skewed ones."""
    found = said(pattern.main, "absent --records 300 --skewed", monkeypatch, capsys)
    keys, values = (list(each) for each in columns(pattern.batches(300, skewed=True), "k", "v")[1:])
    numbers = [int(x) for x in trailing.drawn(np.arange(300, dtype=np.uint64) * np.uint64(3))]
    assert keys == [2 ** (x % 14) - 1 + (x >> 8) % 2 ** (x % 14) for x in numbers]
    assert (found["answers"], found["sum"]) == (300, sum(values))
    assert found["fired_per_cpu_s"] > 0


def test_starts_that_go_on_together_find_what_each_way_finds(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(pattern, "KEYS", 4)
    one, other = (said(pattern.main, f"together --records 200{ways}", monkeypatch, capsys) for ways in ("", " --ways"))
    assert (one["answers"], one["sum"]) == (other["answers"], other["sum"])
    assert one["answers"] > 10
