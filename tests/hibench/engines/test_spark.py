"""Preparing with Spark, and the query on Spark.

Tests `spark.py`, `spark_engine.py`, `spark_loop.py`, `hibench/records/cache.py`, `hibench/records/prepare.py`,
`hibench/records/reader.py`.
"""

import contextlib
from dataclasses import replace

import pyarrow as pa
import pytest

from hibench.engines.spark_engine import run_on_spark, spark_at
from hibench.engines.spark_loop import run_at_rate_on_spark
from hibench.numa.node_local import here, homes_for, pages_at_home
from hibench.options import Pace
from hibench.records import prepare as preparing
from hibench.records.cache import locked
from hibench.records.dataset import FIRST_EVENT_MS, RECORD_FORMATS, AddressKeys, Dataset
from hibench.records.prepare import make, prepare_dataset
from hibench.records.reader import frame
from hibench.records.records import rows
from hibench.runs.reference import reference_answers
from hibench.searching.open_loop import OpenLoop
from hibench.workloads import WORKLOADS
from hibench.workloads.workload import RunTerms

SMALL = Dataset(events=12_345, record_bytes=0, file_events=3_000, event_rate=100, keys=AddressKeys("zipf", 50), disorder_ms=900)


@pytest.fixture(scope="module")
def engine(one_spark):
    with spark_at(one_spark.session.sparkContext.master, 2) as running:
        yield running


@pytest.fixture
def spark(engine):
    return engine.spark


@pytest.fixture
def shared_spark(spark, monkeypatch):
    """`prepare_dataset` takes the module's session instead of a fresh one."""
    monkeypatch.setattr(preparing, "local_spark", lambda cores: contextlib.nullcontext(spark))


@pytest.mark.parametrize("format", RECORD_FORMATS)
def test_the_bytes_do_not_depend_on_the_partitions(spark, tmp_path, format):
    made = []
    for partitions in (1, 5):
        folder = tmp_path / str(partitions)
        folder.mkdir()
        made.append(make(spark, replace(SMALL, format=format), folder, partitions))
    assert len(made[0].files) == 5
    assert made[0].files == made[1].files
    assert made[0].paths[3].read_bytes() == made[1].paths[3].read_bytes()
    assert frame(spark.session, made[1]).toArrow().sort_by([("creation_ms", "ascending"), ("dest_url", "ascending")]) == sorted_records()


def sorted_records():
    records = pa.Table.from_batches(rows(SMALL, range(SMALL.events)))
    return records.sort_by([("creation_ms", "ascending"), ("dest_url", "ascending")])


def test_each_block_is_written_at_its_home(spark, tmp_path):
    dataset = replace(SMALL, record_bytes=200)
    homes = homes_for(dataset, 3, here(), block_bytes=64 << 10)
    made = make(spark, dataset, tmp_path, homes=homes)
    made.verify()
    assert sum(end - start for _, start, end, _ in homes.blocks(made)) == dataset.bytes_expected
    found = pages_at_home(made, homes)
    assert found["home"] > 0
    assert found["away"] == 0


def test_the_second_time_it_comes_from_the_cache(shared_spark, tmp_path, monkeypatch):
    seen = []
    first = prepare_dataset(tmp_path, SMALL, cores=2, progress=seen.append)
    monkeypatch.setattr(preparing, "make", None)
    assert prepare_dataset(tmp_path, SMALL, cores=2) == first
    assert seen[-1] == SMALL.events
    assert [path.name for path in tmp_path.iterdir()] == [SMALL.name]


def test_what_another_run_left_half_made_is_swept_away(shared_spark, tmp_path):
    (tmp_path / ".making-something").mkdir()
    prepare_dataset(tmp_path, SMALL, cores=2)
    assert [path.name for path in tmp_path.iterdir()] == [SMALL.name]


def test_nothing_is_left_when_making_fails(shared_spark, tmp_path, monkeypatch):
    def fail(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(preparing, "make", fail)
    with pytest.raises(KeyboardInterrupt):
        prepare_dataset(tmp_path, SMALL, cores=2)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def prepared(engine, tmp_path_factory):
    return make(engine.spark, SMALL, tmp_path_factory.mktemp("prepared"))


SELDOM = ("identity", "broadcast", "repartition")


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.long if name in SELDOM else ()) for name in WORKLOADS])
def test_spark_gives_the_expected_answers(engine, prepared, tmp_path, name):
    workload = WORKLOADS[name]
    terms = RunTerms(5_000, 5_000, SMALL.disorder_ms, SMALL.seed, tmp_path / "side.txt")
    if workload.side is not None:
        terms.side.write_text(workload.side(terms, FIRST_EVENT_MS, FIRST_EVENT_MS + SMALL.events * 1000 // SMALL.event_rate))
    found = run_on_spark(workload, prepared, terms, engine, tmp_path, stages=("run",))
    run = found.checked(reference_answers(workload, prepared, terms, last_only=workload.name == "wordcount")).result
    assert run.equal, run.difference
    assert run.events == SMALL.events
    assert run.cpu_seconds > 0
    assert run.peak_anonymous_bytes > 50 << 20
    assert {process.name for process in run.processes} == {"spark jvm", "client"}
    assert ("Repartition 2, true" in found.explanation) == (workload.name == "repartition")


@pytest.mark.long
def test_spark_is_fed_at_a_pace(engine, tmp_path):
    workload, dataset, pace = WORKLOADS["fixed-window"], replace(SMALL, events=300, disorder_ms=0), Pace(300, burst=5, reports=True)
    found, expected = run_at_rate_on_spark(OpenLoop(workload, dataset, RunTerms(250, 250, 0, SMALL.seed), pace), engine, tmp_path)
    run = found.checked(expected).result
    assert run.equal, run.difference
    assert run.latency_ms.p50 > 0
    assert run.latency_ms.samples == dataset.events, "a report for every record"


def test_the_lock_tells_who_holds_it(tmp_path):
    waits = []
    with locked(tmp_path, waits.append):
        assert "process" in (tmp_path / "lock").read_text()
    with locked(tmp_path, waits.append):
        assert waits == []
