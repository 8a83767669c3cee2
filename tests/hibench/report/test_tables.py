"""What Spark computes from run records, against NumPy, and the commands that show it.

Tests `tables.py`, `commands.py`, `compare.py`, `completeness.py`, `figures.py`, `latency.py`, `resources.py`.
"""

import contextlib
import json
from dataclasses import replace

import numpy as np
import pyarrow.compute as pc
import pytest

from hibench.report import tables as reading
from hibench.report.completeness import WINDOWS_SHOWN
from hibench.report.figures import labels, run_figures
from hibench.report.latency import CURVE, MOMENTS, PERCENTILES
from hibench.report.original import CSV_HEADER
from tests.support.hibench_command import hibench
from tests.support.run_records import RESULT, record, table, tables


@pytest.fixture(scope="module")
def spark(one_spark):
    return one_spark.session


@pytest.fixture(scope="module")
def seen(spark, tmp_path_factory):
    """A record with all tables, two with latencies alone, one without any, and the figures of all."""
    runs = tmp_path_factory.mktemp("runs") / "with space"
    random = np.random.default_rng(7)
    first, *others = [uneven(random, answers) for answers in (1, 50, 20_000)]
    records = [record(tables=each).write(runs) for each in (first, *({"latency": other["latency"]} for other in others))]
    records.append(record(tables={}).write(runs))
    return records, run_figures(spark, records)


def uneven(random, rows):
    """Tables with latencies of `rows` samples, each of which stands for 1 to 9 answers, and 1,000 windows."""
    latencies = random.lognormal(8, 1.5, rows).astype(np.int64)
    created = 1_700_000_000_000_000 + np.sort(random.integers(0, 10_000_000, rows))
    windows = np.arange(1_000)
    return tables() | {
        "latency": table("latency", created, created + latencies, random.integers(1, 10, rows)),
        "windows": table("windows", windows * 1_000_000, windows + 10, windows + 10 - (windows == 500), windows * 0 + 4, windows * 0 + 4),
    }


def test_latencies_are_numpys(seen):
    records, found = seen
    for written, figure in zip(records[:3], found, strict=False):
        rows = written.tables["latency"]
        every = np.repeat((rows["delivered_us"].to_numpy() - rows["created_us"].to_numpy()) / 1000, rows["answers"].to_numpy())
        latency = figure.latency
        assert latency.answers == len(every)
        assert [latency.mean, latency.least, latency.most] == pytest.approx([every.mean(), every.min(), every.max()])
        assert latency.stddev == pytest.approx(every.std(ddof=1) if len(every) > 1 else 0)
        assert list(latency.percentiles.values()) == pytest.approx(np.percentile(every, PERCENTILES).tolist())
        drawn = [each for each in CURVE if (100 - each) * len(every) >= 100]
        assert list(latency.curve.items()) == [(each, pytest.approx(np.percentile(every, each))) for each in drawn]


def test_latency_over_time_counts_every_answer_once(seen):
    for figure in seen[1][:3]:
        moments = figure.latency.moments
        assert sum(moment.answers for moment in moments) == figure.latency.answers
        assert max(moment.most for moment in moments) == figure.latency.most
        assert [moment.seconds for moment in moments] == sorted(moment.seconds for moment in moments)
        assert len(moments) <= MOMENTS
        assert moments[-1].seconds == pytest.approx(figure.latency.span_us / 1e6)


def test_windows_that_lack_something_are_found(seen):
    figure = seen[1][0].completeness
    assert (figure.windows, figure.complete, figure.least) == (1_000, 999, pytest.approx(509 / 510))
    assert (figure.events_expected - figure.events, figure.rows_expected - figure.rows) == (1, 0)
    assert 0 < len(figure.by_window) <= WINDOWS_SHOWN
    assert sum(window.events < 1 for window in figure.by_window) == 1
    assert all(window.rows == 1 for window in figure.by_window)


def test_steps_are_added_up_over_instances(seen):
    first, second = seen[1][0].steps
    assert (first.name, first.rows, first.cpu_seconds, first.ns_per_row) == ("SQ1 pick", 3_000, 0.1, pytest.approx(33_333.3, rel=1e-4))
    assert first.share + second.share == pytest.approx(1)


def test_processes_over_time(seen):
    one, other = seen[1][0].processes
    assert (one.process, other.process) == ("im-0", "im-1")
    assert (one.seconds, one.cores, one.anonymous_bytes) == ((1.5,), (pytest.approx(0.7 / 1.5),), (5 << 20,))


def test_pages_at_nodes(seen):
    client, bound, remote = seen[1][0].pages
    assert (client.process, client.node_bound, client.pages, client.local_share) == ("client", None, {0: 500}, None)
    assert (bound.process, bound.pages, bound.local_share) == ("im-0", {0: 1_000}, 1.0)
    assert (remote.pages, remote.local_share) == ({0: 250, 1: 750}, 0.75)


def test_a_record_without_tables_has_no_figures(seen):
    bare = seen[1][3]
    assert (bare.latency, bare.completeness, bare.steps, bare.processes, bare.pages) == (None, None, (), (), ())
    assert bare.to_json()["latency"] is None


def test_runs_are_called_by_what_tells_them_apart():
    spark, off = record(result=replace(RESULT, engine="spark", numa=None)), record(result=replace(RESULT, numa="off"))
    assert labels([record(), off, spark]) == ["cep NUMA-aware", "cep not NUMA-aware", "spark"]
    assert labels([record(), record(), spark]) == ["cep NUMA-aware #1", "cep NUMA-aware #2", "spark"]
    assert labels([record(rate=9), record(rate=5_000)]) == ["cep NUMA-aware at 9/s", "cep NUMA-aware at 5,000/s"]
    assert labels([record(rate=None), record(rate=5_000)]) == ["cep NUMA-aware"] * 2, "they do not stand side by side"


@pytest.fixture
def shared_spark(spark, monkeypatch):
    """The commands take the session of all tests instead of a fresh one."""
    monkeypatch.setattr(reading, "session", lambda: contextlib.nullcontext(spark))


def written(cache, seconds=3.0, latency=1.0, **changes):
    """The id of a record in `cache` whose latencies and time are those of others, times a factor."""
    rows = record().tables["latency"]
    slower = table("latency", rows["created_us"], pc.add(rows["created_us"], pc.multiply(_taken(rows), latency)), rows["answers"])
    result = replace(RESULT, seconds=seconds, events_per_second=3_000 / seconds)
    return record(result=result, tables=record().tables | {"latency": slower}, **changes).write(cache / "runs").id


def _taken(rows):
    return pc.subtract(rows["delivered_us"], rows["created_us"])


def test_reports_are_written_by_the_command(capsys, shared_spark, tmp_path):
    run = record(tables={"latency": record().tables["latency"]}).write(tmp_path / "runs").id
    files = {name: tmp_path / name for name in ("html", "markdown", "json", "csv", "hibench-report")}
    code, text = hibench(capsys, "report", "--cache", str(tmp_path), *(each for n, f in files.items() for each in (f"--{n}", str(f))))
    assert code == 0
    assert "throughput per NUMA node" in text
    assert run in files["html"].read_text()
    assert "| latency p99 |" in files["markdown"].read_text()
    assert json.loads(files["json"].read_text())["runs"][0]["latency"]["answers"] == 80
    assert files["csv"].read_text().splitlines()[0] == CSV_HEADER
    assert files["hibench-report"].read_text().splitlines()[2].startswith("CepFixWindow 2026-11-22 01:12:03 600000 ")


def test_runs_alike_are_not_worse(capsys, shared_spark, tmp_path):
    one, other = written(tmp_path), written(tmp_path, seconds=3.2, latency=1.2)
    code, text = hibench(capsys, "compare", one, other, "--cache", str(tmp_path))
    assert code == 0, text
    assert "records per CPU second" in text
    assert "worse" not in text


def test_what_became_worse_is_named(capsys, shared_spark, tmp_path):
    """Groups of two runs: the first differs by 4 % within itself, the second is 20 % slower, its latencies the same."""
    before = [written(tmp_path, seconds=seconds) for seconds in (2.94, 3.06)]
    after = [written(tmp_path, seconds=3.6, dataset={"events": 7}) for _ in range(2)]
    code, text = hibench(capsys, "compare", ",".join(before), ",".join(after), "--cache", str(tmp_path), "--json")
    assert code == 1
    found = json.loads(text[: text.rindex("}") + 1])
    assert found["regressed"]
    assert [each["figure"] for each in found["figures"] if each["worse"]] == ["throughput, records/s"]
    assert found["figures"][0]["noise"] == pytest.approx(0.04, rel=0.01)
    assert found["unlike"][0].startswith("records: ")
    assert "worse: throughput, records/s from 1,000.4 to 833.333, -16.7 %" in text
