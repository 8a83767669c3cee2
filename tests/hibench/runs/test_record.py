"""Records of runs: what is written is read again, appears whole, and says what is wrong with it."""

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from hibench.errors import CacheError, RecordError
from hibench.runs.record import TABLES, RunRecord, reduced_plan, run_folders, without_paths
from tests.support.run_records import record


def test_what_is_written_is_read_again(tmp_path):
    made = record()
    written = made.write(tmp_path / "runs")
    assert written.id == "2026-11-22T011203-fixed-window-cep-1"
    assert written == RunRecord.read(written.folder)
    assert replace(written, tables=made.tables, folder=None) == made
    assert set(made.tables) == set(TABLES)
    assert all(written.tables[name].equals(made.tables[name]) for name in TABLES)


def test_runs_of_one_second_are_numbered(tmp_path):
    ids = [record().write(tmp_path).id for _ in range(3)]
    assert [id[-1] for id in ids] == ["1", "2", "3"]
    assert [folder.name for folder in run_folders(tmp_path)] == ids


def test_runs_sort_by_time_wherever_the_clock_stood(tmp_path):
    for began in ("2026-11-22T02:00:00+02:00", "2026-11-22T00:30:00+00:00", "2026-11-21T23:59:59+00:00"):
        record(began=began).write(tmp_path)
    assert [RunRecord.read(folder).began[11:16] for folder in run_folders(tmp_path)] == ["23:59", "02:00", "00:30"]


def test_a_run_may_have_no_tables(tmp_path):
    written = record(tables={}).write(tmp_path)
    assert len(written.tables) == 0
    assert [path.name for path in written.folder.iterdir()] == ["run.json"]


def test_nothing_is_left_of_a_record_that_could_not_be_written(tmp_path):
    unwritable = record(dataset={"rate": object()})
    with pytest.raises(TypeError):
        unwritable.write(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_named():
    with pytest.raises(CacheError, match=r"cannot write in '/proc/runs'"):
        record().write(Path("/proc/runs"))


def test_columns_are_checked_before_anything_is_written(tmp_path):
    with pytest.raises(RecordError, match=r"table 'pages' of a record: expected columns process string.*got columns node int64"):
        record(tables={"pages": pa.table({"node": [1]})}).write(tmp_path)
    with pytest.raises(RecordError, match="table 'page' of a record: expected one of latency, windows"):
        record(tables={"page": pa.table({"node": [1]})}).write(tmp_path)


def test_no_path_of_the_machine_is_written(tmp_path):
    written = record(command="hibench run x --cache /home/me/cache", dataset={"files": ["file:///data/me/part-0.txt"]}).write(tmp_path)
    assert (written.command, written.dataset) == ("hibench run x --cache cache", {"files": ["part-0.txt"]})


@pytest.mark.parametrize("text", ["events/CPU second", "5 / 3", "https://example.org/a/b", "SQ1/0", "a/b/c", "/", "no path"])
def test_what_is_no_path_stays(text):
    assert without_paths(text) == text


def damage_json(folder):
    (folder / "run.json").write_text('{"version": 1')


def damage_version(folder):
    (folder / "run.json").write_text(json.dumps({"version": 7}))


def damage_field(folder):
    document = json.loads((folder / "run.json").read_text())
    del document["machine"]
    (folder / "run.json").write_text(json.dumps(document))


def damage_rows(folder):
    file = folder / "latency.parquet"
    file.write_bytes(file.read_bytes()[:-5])


def damage_columns(folder):
    (folder / "latency.parquet").write_bytes((folder / "windows.parquet").read_bytes())


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        (damage_json, "run.json: Expecting"),
        (damage_version, "expected version 1, got 7"),
        (damage_field, "'machine'"),
        (damage_rows, "latency.parquet: "),
        (damage_columns, "expected columns created_us int64"),
    ],
)
def test_a_damaged_record_is_named(tmp_path, damage, what):
    folder = record().write(tmp_path).folder
    damage(folder)
    with pytest.raises(RecordError, match=what) as raised:
        RunRecord.read(folder)
    assert repr(str(folder)) in str(raised.value)


def test_what_is_no_record_is_named(tmp_path):
    with pytest.raises(RecordError, match=r"is no record of a run: expected a folder with 'run.json' in it"):
        RunRecord.read(tmp_path)


def test_a_plan_is_kept_without_endpoints_and_files():
    plan = {key: [] for key in ("subqueries", "edges", "instances", "buckets", "numa", "cost", "notes")}
    worker = {"im": "im-0", "node": 0, "core": 1, "endpoint": "ipc:///tmp/x", "capacity": 1.0}
    reduced = reduced_plan({**plan, "workers": [worker], "files": {"visits": [["/data/a", 1]]}})
    assert reduced == {**plan, "workers": [{"im": "im-0", "node": 0, "core": 1}]}


def test_nodes_are_those_that_are_used():
    assert record().nodes == 2
    assert record(placed=record().placed[:1]).nodes == 1
    assert record(placed=()).nodes == 2
