"""Preparing with Spark, and the query on Spark; one session for all."""

import contextlib

import pyarrow as pa
import pytest

from hibench import prepare as preparing
from hibench.answers import ANSWER, difference
from hibench.cache import locked
from hibench.dataset import Dataset, Keys
from hibench.prepare import make, prepare
from hibench.reference import reference
from hibench.spark import local_spark
from hibench.spark_engine import CONF, run_in

SMALL = Dataset(events=12_345, record_bytes=0, file_events=1_000, event_rate=100, keys=Keys("zipf", 50), disorder_ms=900)


@pytest.fixture(scope="module")
def spark():
    with local_spark(2, CONF) as running:
        yield running


@pytest.fixture
def shared_spark(spark, monkeypatch):
    """`prepare` takes the module's session instead of a fresh one."""
    monkeypatch.setattr(preparing, "local_spark", lambda cores: contextlib.nullcontext(spark))


def test_the_bytes_do_not_depend_on_the_partitions(spark, tmp_path):
    made = []
    for partitions in (1, 2, 5):
        folder = tmp_path / str(partitions)
        folder.mkdir()
        made.append(make(spark, SMALL, folder, partitions))
    assert len(made[0].files) == 13
    assert made[0].files == made[1].files == made[2].files
    assert made[0].paths[7].read_bytes() == made[2].paths[7].read_bytes()


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
    expected = reference(prepared, 5_000)
    run, answers = run_in(spark, prepared, 5_000)
    assert difference(expected.rows(), answers) == ""
    run = run.checked(expected.answers, expected.rows, answers)
    assert run.equal
    assert answers.schema == ANSWER
    assert run.events == SMALL.events
    assert run.cpu_seconds > 0
    assert run.peak_anonymous_bytes > 50 << 20
    assert {process.name for process in run.processes} == {"spark jvm", "client"}
    assert isinstance(answers, pa.Table)


def test_the_lock_tells_who_holds_it(tmp_path):
    waits = []
    with locked(tmp_path, waits.append):
        assert "process" in (tmp_path / "lock").read_text()
    with locked(tmp_path, waits.append):
        assert waits == []
