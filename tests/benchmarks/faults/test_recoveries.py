"""Recoveries under kills: what is expected of the rows is what the query answers, and what is wrong is counted and said.

Tests `recoveries.py`, `changes.py`, `counted_query.py`, `programs.py`.
"""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.faults import counted_query, programs
from benchmarks.faults.counted_query import FILES, expected, query, rows_of, write_files
from benchmarks.faults.programs import NONSENSE, Programs, declared, is_bad, is_late, records_of
from benchmarks.faults.recoveries import KillRounds, RecoveryReport
from numa_cep import testing

ROWS = 6_000


@pytest.fixture(autouse=True)
def short_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that few rows are many windows, with late rows and nonsense among them."""
    for module in (programs, counted_query):
        monkeypatch.setattr(module, "WINDOW_MS", 1_000)
        monkeypatch.setattr(module, "GROUPS", 5)


def test_the_query_answers_what_is_counted_apart(tmp_path: Path) -> None:
    i = np.arange(ROWS)
    rows = records_of(i)
    late, bad = int(is_late(i).sum()), int(is_bad(i).sum())
    assert late == 4 and bad == 3 and not (is_late(i) & is_bad(i)).any()
    with testing.run(query("r", declared("r.in"), tmp_path, "1s", "at-once")) as run:
        for start in range(0, ROWS, 500):
            piece = rows.slice(start, 500)
            run.send("r.in", piece.set_column(0, "t", piece["t"].cast(pa.timestamp("ms"))))
        run.close()
        found = rows_of(pa.Table.from_pylist(run.answers("r.out")))
        assert (run.late_rows, len(run.dead_letters())) == (late, bad)
    assert np.array_equal(found, expected(ROWS))
    assert found["n"].sum() == ROWS - late - bad and len(set(found["window"])) == 6


def test_files_hold_the_same_rows(tmp_path: Path) -> None:
    assert write_files(tmp_path, ROWS) == str(tmp_path / "records-*.txt")
    lines = [line.split(",") for part in range(FILES) for line in (tmp_path / f"records-{part}.txt").read_text().splitlines()]
    wanted = [
        [NONSENSE if t is None else t, key, value] for t, key, value in zip(*records_of(np.arange(ROWS)).to_pydict().values(), strict=True)
    ]
    assert sorted([int(x) for x in line] for line in lines) == sorted(wanted)
    assert sum(int(t) == NONSENSE for t, _, _ in lines) == 3


def test_what_is_lost_and_what_came_twice() -> None:
    wanted, report = expected(ROWS), RecoveryReport()
    report.compare("all", wanted, wanted)
    assert (report.rows, report.lost, report.twice, report.wrong) == (len(wanted), 0, 0, [])
    report.compare("some", np.sort(np.concatenate([wanted[2:], wanted[-1:]])), wanted)
    assert (report.lost, report.twice) == (2, 1)
    assert report.wrong == [f"some: of {len(wanted):,} rows 2 are missing, 1 came twice or are others"]


def test_a_report_says_what_was_done_and_what_is_wrong() -> None:
    report = RecoveryReport(recovered_s=[1.0, 2.0, 9.0], rounds=2, rows=1_000, lost=3, counts=7, wrong=["it hangs"])
    report.done.update(im=2, gateway=1)
    report.besides.update({"scaled": 2, "scaled: refused": 1, "freeze": 1})
    report.during.update(change=2)
    assert list(report.lines()) == [
        "3 kills: gateway 1, im 2",
        "besides: freeze 1, scaled 2, scaled: refused 1",
        "kills meanwhile: change 2",
        "2 rounds, 1,000 rows compared: lost 3, twice 0",
        "7 late rows and dead letters, counted exactly in each round but for what is said below",
        "3 recoveries, from kill to first row: p50 2.00 s, p95 8.30 s, worst 9.00 s",
        "WRONG: it hangs",
    ]


def test_without_a_rate_there_are_no_programs() -> None:
    none = Programs("http://nowhere", "x", 10, 0)
    none.keep_up()
    assert none.victim(random.Random(1)) is None
    none.close()


@pytest.mark.long
@pytest.mark.parametrize("rate", [0, 100_000])
def test_processes_are_killed_and_nothing_is_wrong(rate: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of files, and of programs, which are killed too."""
    monkeypatch.undo()  # programs are processes of their own
    found = KillRounds(tmp_path, 500_000, 7, 2, "500ms", print, rate).run(4)
    assert (found.wrong, found.lost, found.twice) == ([], 0, 0)
    assert found.done.total() >= 4 and found.rounds >= 1 and found.rows > 0
