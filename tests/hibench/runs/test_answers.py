"""Answers: the checksum, what tells them apart, the reference against a naive loop, and the report's verdict."""

import io
import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

from hibench.errors import AnswersDiffer
from hibench.numa.machine import Machine, MemoryNode
from hibench.records.dataset import AddressKeys, Dataset, FileFacts, Prepared
from hibench.records.records import addresses, event_times_ms, lines
from hibench.report import ComparisonReport, TimedStep, expect_equal, show
from hibench.runs.answers import AnswerSum, Expected, difference, folded, row_hashes, summed
from hibench.runs.meter import Use, metered
from hibench.runs.reference import reference_answers
from hibench.runs.result import LatencyPercentiles, RunResult
from hibench.workloads import WORKLOADS
from hibench.workloads.workload import RunTerms

FIXED_WINDOW = WORKLOADS["fixed-window"]
SHAPE = FIXED_WINDOW.shape(RunTerms(30_000, 30_000, 0, 0))
ROWS = [
    ("10.0.0.1", 1, 5, 3),
    ("10.0.0.2", 1, 1, 1),
    ("255.255.255.255", 0, 9, 2),
    ("a-much-longer-key-than-that", 2, 2, 1),
]


def table(rows, shape=SHAPE):
    columns = zip(*rows, strict=True)
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, shape.schema, strict=True)], schema=shape.schema)


def summarise(found, shape=SHAPE):
    return summed(shape, [found], 30_000).result()


def differing(expected, got):
    return difference(SHAPE, lambda: [expected], lambda: [got])


def prepared(folder, dataset):
    """The dataset's files without Spark."""
    folder.mkdir()
    facts = []
    for index in range(dataset.files):
        data = b"".join(map(bytes, lines(dataset, dataset.file_range(index))))
        (folder / dataset.file_name(index)).write_bytes(data)
        facts.append(FileFacts(dataset.file_name(index), len(dataset.file_range(index)), len(data), ""))
    return Prepared(dataset, folder, tuple(facts))


def naive_answers(dataset, terms):
    """Every record into every window that it lies in."""
    found = {}
    times = event_times_ms(dataset, range(dataset.events)).tolist()
    for ip, time in zip(addresses(dataset, range(dataset.events)).to_pylist(), times, strict=True):
        last_opens = time // terms.slide_ms * terms.slide_ms
        for opens in range(last_opens, time - terms.window_ms, -terms.slide_ms):
            first, last, visits = found.get((ip, opens), (time, time, 0))
            found[ip, opens] = min(first, time), max(last, time), visits + 1
    overlap = terms.slide_ms != terms.window_ms
    return [(ip, *values, opens) if overlap else (ip, *values) for (ip, opens), values in found.items()]


@pytest.mark.parametrize("record_bytes", [0, 200])
@pytest.mark.parametrize("disorder_ms", [0, 700])
@pytest.mark.parametrize(
    ("window_ms", "slide_ms"), [(500, 500), (30_000, 30_000), (3_600_000, 3_600_000), (30_000, 10_000), (9_000, 6_000)]
)
def test_the_reference_equals_a_naive_loop(tmp_path, record_bytes, disorder_ms, window_ms, slide_ms):
    dataset = Dataset(5_000, 3, AddressKeys("zipf", 40), record_bytes, event_rate=97, disorder_ms=disorder_ms, file_events=700)
    terms = RunTerms(window_ms, slide_ms, disorder_ms, dataset.seed)
    shape = FIXED_WINDOW.shape(terms)
    expected = table(naive_answers(dataset, terms), shape)
    done = []
    found = reference_answers(FIXED_WINDOW, prepared(tmp_path / "set", dataset), terms, progress=done.append)
    assert difference(shape, lambda: [expected], found.rows) == ""
    assert found.answers == summarise(expected, shape)
    assert window_ms != slide_ms or found.answers.events == dataset.events
    assert done[-1] == dataset.events


def test_the_sums_of_the_reference_are_kept(tmp_path):
    made, terms = prepared(tmp_path / "set", Dataset(1_000, file_events=1_000)), RunTerms(30_000, 30_000, 0, 7)
    first = reference_answers(FIXED_WINDOW, made, terms)
    made.paths[0].unlink()
    again = reference_answers(FIXED_WINDOW, made, terms)
    assert (again.answers, again.windows) == (first.answers, first.windows)


@pytest.mark.parametrize("disorder_ms", [0, 700])
def test_running_counts_equal_a_naive_loop(tmp_path, disorder_ms):
    wordcount, terms = WORKLOADS["wordcount"], RunTerms(30_000, 30_000, disorder_ms, 3)
    dataset = Dataset(3_000, 3, AddressKeys("zipf", 40), 0, event_rate=97, disorder_ms=disorder_ms, file_events=700)
    times = event_times_ms(dataset, range(dataset.events)).tolist()
    counts, rows = {}, []
    for time, _, ip in sorted(zip(times, range(dataset.events), addresses(dataset, range(dataset.events)).to_pylist(), strict=True)):
        counts[ip] = counts.get(ip, 0) + 1
        rows.append((ip, time, counts[ip]))
    shape, made = wordcount.shape(terms), prepared(tmp_path / "set", dataset)
    expected = table(rows, shape)
    assert difference(shape, lambda: [expected], reference_answers(wordcount, made, terms).rows) == ""
    last = reference_answers(wordcount, made, terms, last_only=True)
    assert (
        difference(shape, lambda: [table([(ip, max(t for i, t, _ in rows if i == ip), n) for ip, n in counts.items()], shape)], last.rows)
        == ""
    )
    assert last.answers.events == dataset.events
    assert last.answers.rows == len(counts)


def test_the_last_of_running_answers_is_taken_however_they_are_cut():
    shape = WORKLOADS["wordcount"].shape(RunTerms(1, 1, 0, 0))
    rows = [("a", 1, 1), ("b", 1, 1), ("a", 5, 2), ("a", 9, 3), ("b", 7, 2)]
    pieces = [table(rows[:2], shape), table(rows[2:], shape)]
    assert sorted(map(tuple, (row.values() for row in folded(shape, reversed(pieces)).to_pylist()))) == [("a", 9, 3), ("b", 7, 2)]


def test_the_checksum_knows_no_order_and_no_cutting():
    whole = summarise(table(ROWS))
    total = AnswerSum(SHAPE, 30_000)
    for row in reversed(ROWS):
        total.add(table([row]))
    assert total.result() == whole
    assert whole.rows == 4
    assert whole.events == 7


@pytest.mark.parametrize(
    "changed",
    [
        [*ROWS[1:]],
        [*ROWS, ROWS[0]],
        [("10.0.0.3", *ROWS[0][1:]), *ROWS[1:]],
        [("10.0.0.1", 2, 5, 3), *ROWS[1:]],
        [("10.0.0.1", 1, 6, 3), *ROWS[1:]],
        [("10.0.0.1", 1, 5, 4), *ROWS[1:]],
        [("10.0.0.1", 5, 1, 3), *ROWS[1:]],
        [("10.0.0.2", 1, 5, 3), ("10.0.0.1", 1, 1, 1), *ROWS[2:]],
        [*ROWS[:3], ("a-much-longer-key-than-thaT", 2, 2, 1)],
        [*ROWS, ROWS[0], ROWS[0]],
    ],
)
def test_the_checksum_and_the_difference_see_every_change(changed):
    assert summarise(table(changed)) != summarise(table(ROWS))
    assert summarise(table(changed)).checksum != summarise(table(ROWS)).checksum
    assert differing(table(ROWS), table(changed)) != ""


def test_random_answers_hardly_ever_collide():
    numbers = np.arange(100_000)
    rows = pa.table([pa.array(numbers.astype(str)), numbers, numbers, numbers], schema=SHAPE.schema)
    assert len(np.unique(row_hashes(rows))) == len(rows)


def test_texts_floats_and_nulls_count_too():
    shape = WORKLOADS["broadcast"].shape(RunTerms(1, 1, 0, 0))
    schema = pa.schema([("a", pa.string()), ("b", pa.string()), ("c", pa.float64()), ("d", pa.int64())])
    rows = [
        ("x", "y", 1.0, 1),
        ("xy", "", 1.0, 1),
        ("", "xy", 1.0, 1),
        (None, "xy", 1.0, 1),
        ("x", "y", 1.5, 1),
        ("x", "y", None, 1),
        ("x", "y", 1.0, None),
    ]
    found = row_hashes(
        pa.table([pa.array(column, type_) for column, type_ in zip(zip(*rows, strict=True), schema.types, strict=True)], schema=schema)
    )
    assert len(set(found.tolist())) == len(rows)
    zeros = [table([("1.2.3.4", 1, zero, 0)], shape) for zero in (0.0, -0.0)]
    assert row_hashes(zeros[0])[0] == row_hashes(zeros[1])[0]


def test_no_answers_at_all():
    nothing = SHAPE.schema.empty_table()
    assert summarise(nothing).rows == 0
    assert differing(nothing, nothing) == ""


def test_the_difference_names_rows_of_both_sides():
    text = differing(table(ROWS), table([("10.0.0.1", 1, 5, 4), *ROWS[1:]]))
    assert "expected but missing: 1 different rows\n  ip '10.0.0.1', start 1, end 5, visits 3" in text
    assert "got but not expected: 1 different rows\n  ip '10.0.0.1', start 1, end 5, visits 4" in text


def result(rows=ROWS, numa="on", **changes):
    expected = table(ROWS)
    use = Use(seconds=2.0, peak_anonymous_bytes=3 << 20)
    run = RunResult.measured("cep", numa, 7, use, summarise(table(rows)), {"instance managers": 2})
    checked = run.checked(Expected(SHAPE, summarise(expected), {}, lambda: [expected]), lambda: [table(rows)])
    return replace(checked, **changes)


def report(*runs, nodes=1, rate=None):
    machine = replace(Machine.here(), numa_nodes=tuple(MemoryNode(node, str(node), (10,)) for node in range(nodes)))
    return ComparisonReport("fixed-window", 7, 30_000, {"seed": 7}, runs, (TimedStep("prepare", 1.0),), machine, rate)


def shown(the_report):
    console = Console(width=100, record=True, file=io.StringIO())
    show(the_report, console)
    return console.export_text()


def test_equal_answers_pass():
    expect_equal(report(result(), result(numa="off")))


def test_unequal_answers_fail_loudly():
    bad = report(result(), result([*ROWS[1:]], numa="off"))
    assert not bad.answers_equal
    with pytest.raises(AnswersDiffer, match=r"(?s)ANSWERS DIFFER.*cep unpinned: 3 answers.*missing.*'10\.0\.0\.1'") as failure:
        expect_equal(bad)
    assert failure.value.exit_code == 1


def test_nothing_run_is_not_equal():
    with pytest.raises(AnswersDiffer, match="no engine ran"):
        expect_equal(report())


def test_one_node_promises_no_numa_gain():
    text = shown(report(result(), result(numa="off")))
    assert "cep pinned" in text
    assert "cep unpinned" in text
    assert "no NUMA gain can be shown" in " ".join(text.split())
    assert "latency" not in text


def test_several_nodes_are_called_by_their_name():
    text = " ".join(shown(report(result(), nodes=2)).split())
    assert "NUMA-aware" in text
    assert "no NUMA gain" not in text


def test_latency_is_shown_with_a_rate():
    text = shown(report(result(latency_ms=LatencyPercentiles(1.25, 2.5, 3.75, 10)), rate=1000))
    assert "1.25 ms" in text
    assert "3.75 ms" in text
    assert "latency: from the scheduled creation" in text


def test_the_json_has_what_programs_look_for(tmp_path):
    file = tmp_path / "report.json"
    report(result()).write_json(file)
    document = json.loads(file.read_text())
    assert {"workload", "events", "answers_equal", "runs"} <= document.keys()
    wanted = {"engine", "numa", "seconds", "events_per_second", "cpu_seconds", "answers", "checksum", "latency_ms"}
    assert wanted <= document["runs"][0].keys()
    assert document["answers_equal"] is True


def test_the_meter_sees_cpu_and_memory_of_this_process():
    with metered([("gone", 2**22 - 1)]) as use:
        assert np.ones(4 << 20).sum() > 0
    assert [process.name for process in use.processes] == ["client"]
    assert use.peak_anonymous_bytes > 10 << 20
    assert use.seconds > 0
    assert use.samples[-1].process == "client"
    assert use.samples[-1].cpu_seconds == use.processes[0].cpu_seconds
