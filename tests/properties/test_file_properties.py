"""Text files through the whole engine: whatever lies in them and however they are cut and read, the reference's answer.

Broken records, either line end, a header, a last line without newline, empty files, records longer than a block, blocks of
1 KiB, event times that are computed, any number of readers.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep.dataflow.local import LocalRun
from cep.kernels.jit import interpreted
from cep.model.expr import ColumnRef
from cep.model.functions import count, first, last
from cep.model.operators import Aggregate, Sample
from cep.model.query import Options, Output, Query
from cep.model.schema import Schema
from cep.model.streams import Stream, TextFiles
from cep.model.windows import TimeWindow
from tests.reference import assert_same_answer, blocks
from tests.reference.rows import Partition
from tests.strategies import EPOCHS, Execution, FileCase, contents, executions, file_cases
from tests.strategies.files import WrittenCase, written_cases
from tests.strategies.seeded import read, read_cases
from tests.support.relocating import run_until_barrier
from tests.support.running import NOW_US, Ran, expected_of, outputs_of, plan_of, ran_of, run_files

pytestmark = pytest.mark.timeout(900)


def check(case: FileCase, execution: Execution, written: list[Partition] | None = None) -> Ran:
    parts = {case.stream.name: blocks(case.query, case.stream, case.files) if written is None else written}
    expected = expected_of(case.query, parts)
    with tempfile.TemporaryDirectory() as folder:
        ran = run_files(case, execution, Path(folder))
    assert_same_answer(outputs_of(case.query, expected), ran.outputs)
    assert ran.late == sum(map(len, expected.late.values()))
    assert ran.dead == expected.dead_counts()
    return ran


@given(file_cases(), executions())
def test_any_reading_of_files_answers_as_the_reference_does(case: FileCase, execution: Execution) -> None:
    with interpreted():
        check(case, execution)


@settings(max_examples=15)
@given(written_cases(), executions())
def test_files_of_other_formats_answer_as_the_reference_does(written: WrittenCase, execution: Execution) -> None:
    with interpreted():
        check(written.case, execution, written.partitions)


@read_cases()
def test_machine_code_answers_as_the_reference_does(number: int, way: int) -> None:
    check(*read(number, way))


# --- FIRST and LAST of ties: the number of a record in its block decides ------------------------------------------------

FILES = TextFiles(("a.txt", "b.txt"), block_bytes=1024)
LINES = Stream("s", Schema.of({"t": "timestamp[us]", "k": "bool", "v": "int64?", "w": "string"}), ColumnRef("t"), 3, FILES)


def edges() -> Query:
    functions = {"n": count(), "first": first("v"), "last": last("v"), "w": last("w")}
    return Query(
        "edges", (LINES,), (Aggregate("a", "s", TimeWindow(6, 3), ("k",), tuple(functions.items())),), (Output("out", "a"),), "late"
    )


@st.composite
def two_files(draw: st.DrawFn) -> FileCase:
    epoch = draw(st.sampled_from(EPOCHS))
    return FileCase(edges(), {path: draw(contents(LINES, epoch)) for path in FILES.paths})


@given(two_files(), executions())
def test_ties_in_files_as_machine_code(case: FileCase, execution: Execution) -> None:
    check(case, execution)


# --- the number of a block is in the origin of its rows -----------------------------------------------------------------


def test_where_no_record_begins_there_is_no_block() -> None:
    """A record of several blocks stands between others, and what is sampled shows the origin of each."""
    files = TextFiles(("a.txt",), block_bytes=1024)
    stream = Stream("s", Schema.of({"t": "timestamp[us]", "n": "int64", "text": "string"}), ColumnRef("t"), 0, files)
    query = Query("sampled", (stream,), (Sample("half", "s", 0.5, seed=1),), (Output("out", "half"),))
    data = "".join(f"{i},{i},{'x' * (5000 if i == 50 else 30)}\n" for i in range(200)).encode()
    for readers in (1, 2):
        ran = check(FileCase(query, {"a.txt": data}), Execution(Options(parallelism=readers), (2,), (), (0,), 1 << 20, 0))
        assert 60 < len(ran.outputs["out"]) < 140


# --- a file in event-time order, as in the large: few windows are open --------------------------------------------------

STEP, SIZE, ROWS = 100, 5_000, 5_000


def ordered() -> tuple[FileCase, list[tuple[int, tuple[int, int]]]]:
    """About 24 rows a block of 1 KiB, 50 rows a window: about two blocks. With the answer."""
    files = TextFiles(("a.txt",), block_bytes=1024)
    stream = Stream("s", Schema.of({"t": "timestamp[us]", "n": "int64", "text": "string"}), ColumnRef("t"), 0, files)
    windows = Aggregate("a", "s", TimeWindow(SIZE, SIZE), (), (("n", count()), ("first", first("n"))))
    data = "".join(f"{i * STEP},{i},{'x' * 30}\n" for i in range(ROWS)).encode()
    per_window = SIZE // STEP
    answer = [(start * STEP + SIZE - 1, (per_window, start)) for start in range(0, ROWS, per_window)]
    return FileCase(Query("ordered", (stream,), (windows,), (Output("out", "a"),)), {"a.txt": data}), answer


@pytest.mark.parametrize("pre_aggregation", ["on", "off"])
@pytest.mark.parametrize("readers", [1, pytest.param(2, marks=pytest.mark.long), 4])  # between the two that are left
def test_open_windows_are_at_most_those_spanned_by_2n_plus_1_blocks(readers: int, pre_aggregation: str, tmp_path: Path) -> None:
    case, answer = ordered()
    options = Options(parallelism=readers, pre_aggregation=pre_aggregation)
    for seed in range(2):
        execution = Execution(options, (2,), (), (0,), 1 << 20, seed)
        ran = run_files(replace(case), execution, tmp_path)
        assert_same_answer({"out": answer}, ran.outputs)
        rows_a_block = 1024 // 34  # no line is shorter
        spanned = (2 * readers + 1) * rows_a_block * STEP // SIZE + 2
        assert ran.outcome.open_panes_max <= spanned


# --- the long run ------------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.timeout(7200)
@given(file_cases(), executions())
def test_long_any_reading(case: FileCase, execution: Execution) -> None:
    with interpreted():
        check(case, execution)


@pytest.mark.long
@pytest.mark.timeout(7200)
@given(written_cases(3), executions())
def test_long_other_formats(written: WrittenCase, execution: Execution) -> None:
    with interpreted():
        check(written.case, execution, written.partitions)


@pytest.mark.long
@pytest.mark.timeout(7200)
@given(two_files(), executions())
def test_long_ties_in_files(case: FileCase, execution: Execution) -> None:
    check(case, execution)


# --- a run over files that goes on elsewhere ---------------------------------------------------------------------------


@settings(max_examples=10)
@given(written_cases(), executions(), executions(), st.integers(0, 12))
def test_a_run_over_files_goes_on_from_its_state_and_positions(
    written: WrittenCase, before: Execution, after: Execution, turns: int
) -> None:
    """With other parallelism, too; nothing is read twice."""
    case = written.case
    with interpreted(), tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "a").write_bytes(case.files["a"])
        found = {case.stream.name: [(str(Path(folder) / "a"), len(case.files["a"]))]}
        runs = [LocalRun(plan_of(case.query, each, found), None, each.credit_bytes, lambda: NOW_US) for each in (before, after)]
        first = ran_of(run_until_barrier(runs[0], turns, before.seed))
        runs[1].restore(runs[0])
        second = ran_of(runs[1].run(after.seed))
    expected = expected_of(case.query, {case.stream.name: written.partitions})
    whole = {name: [*first.outputs.get(name, ()), *rows] for name, rows in second.outputs.items()}
    assert_same_answer(outputs_of(case.query, expected), whole)
    assert first.late + second.late == sum(map(len, expected.late.values()))
