"""The reference's answers against a naive loop."""

import pytest

from hibench.records.dataset import AddressKeys, Dataset, FileFacts, Prepared
from hibench.records.records import addresses, event_times_ms, lines
from hibench.runs.answers import difference
from hibench.runs.reference import reference_answers
from hibench.workloads import WORKLOADS
from hibench.workloads.workload import RunTerms
from tests.hibench.runs.test_answers import FIXED_WINDOW, summarise, table


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
