"""Preparing with Spark, and the query on Spark; one session for all."""

import contextlib
from dataclasses import replace

import pyarrow as pa
import pytest

from hibench import prepare as preparing
from hibench.cache import locked
from hibench.dataset import FORMATS, Dataset, Keys
from hibench.node_local import here, homes_for, pages_at_home
from hibench.prepare import make, prepare
from hibench.record_reader import frame
from hibench.records import rows
from hibench.reference import reference
from hibench.spark import local_spark
from hibench.spark_engine import CONF, run_in
from hibench.workloads import WORKLOADS
from hibench.workloads.workload import Terms

SMALL = Dataset(events=12_345, record_bytes=0, file_events=1_000, event_rate=100, keys=Keys("zipf", 50), disorder_ms=900)


@pytest.fixture(scope="module")
def spark():
    with local_spark(2, CONF) as running:
        yield running


@pytest.fixture
def shared_spark(spark, monkeypatch):
    """`prepare` takes the module's session instead of a fresh one."""
    monkeypatch.setattr(preparing, "local_spark", lambda cores: contextlib.nullcontext(spark))


@pytest.mark.parametrize("format", FORMATS)
def test_the_bytes_do_not_depend_on_the_partitions(spark, tmp_path, format):
    made = []
    for partitions in (1, 5):
        folder = tmp_path / str(partitions)
        folder.mkdir()
        made.append(make(spark, replace(SMALL, format=format), folder, partitions))
    assert len(made[0].files) == 13
    assert made[0].files == made[1].files
    assert made[0].paths[7].read_bytes() == made[1].paths[7].read_bytes()
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
    first = prepare(tmp_path, SMALL, cores=2, progress=seen.append)
    monkeypatch.setattr(preparing, "make", None)
    assert prepare(tmp_path, SMALL, cores=2) == first
    assert seen[-1] == SMALL.events
    assert [path.name for path in tmp_path.iterdir()] == [SMALL.name]


def test_what_another_run_left_half_made_is_swept_away(shared_spark, tmp_path):
    (tmp_path / ".making-something").mkdir()
    prepare(tmp_path, SMALL, cores=2)
    assert [path.name for path in tmp_path.iterdir()] == [SMALL.name]


def test_nothing_is_left_when_making_fails(shared_spark, tmp_path, monkeypatch):
    def fail(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(preparing, "make", fail)
    with pytest.raises(KeyboardInterrupt):
        prepare(tmp_path, SMALL, cores=2)
    assert list(tmp_path.iterdir()) == []


def test_spark_gives_the_reference_answers(spark, shared_spark, tmp_path):
    prepared = prepare(tmp_path, SMALL, cores=2)
    workload, terms = WORKLOADS["fixed-window"], Terms(5_000, 5_000, SMALL.disorder_ms, SMALL.seed)
    run = run_in(spark, workload, prepared, terms).checked(reference(workload, prepared, terms)).result
    assert run.equal, run.difference
    assert run.events == SMALL.events
    assert run.cpu_seconds > 0
    assert run.peak_anonymous_bytes > 50 << 20
    assert {process.name for process in run.processes} == {"spark jvm", "client"}


def test_the_lock_tells_who_holds_it(tmp_path):
    waits = []
    with locked(tmp_path, waits.append):
        assert "process" in (tmp_path / "lock").read_text()
    with locked(tmp_path, waits.append):
        assert waits == []
