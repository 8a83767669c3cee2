"""A comparison from start to end, of our engine on a cluster that runs already: over files, and at a rate. Each run leaves a record."""

import json

import pytest

from hibench.records.dataset import AddressKeys, Dataset, Prepared
from hibench.records.file import write_record_file
from hibench.runs.record import RunRecord, run_folders
from tests.support.hibench_command import hibench

DATASET = Dataset(events=1_500, keys=AddressKeys("zipf", 50), event_rate=100)
ASKED = ("--events", "1500", "--keys", "zipf:50", "--event-rate", "100")


@pytest.fixture
def cache(tmp_path):
    """It has the records of DATASET."""
    made = tmp_path / "cache"
    folder = made / DATASET.name
    folder.mkdir(parents=True)
    files = tuple(write_record_file(DATASET, folder, None, index) for index in range(DATASET.files))
    Prepared(DATASET, folder, files).write_manifest()
    return made


@pytest.mark.parametrize(
    ("workload", "more"),
    [
        pytest.param("fixed-window", ("--window", "5s"), id="over files"),
        pytest.param("broadcast", ("--window", "5s"), id="with a side stream", marks=pytest.mark.long),
        pytest.param("fixed-window", ("--window", "200ms", "--rate", "1500"), id="at a rate", marks=pytest.mark.long),
    ],
)
def test_a_comparison(cluster, cache, tmp_path, capsys, workload, more):
    file = tmp_path / "report.json"
    given = ("--engine", "cep", "--cluster", cluster.rest.url, "--cache", str(cache), "--json", str(file))
    code, said = hibench(capsys, "run", workload, *ASKED, *more, *given)
    assert code == 0, said
    report, paced = json.loads(file.read_text()), "--rate" in more
    (run,) = report["runs"]
    assert report["answers_equal"] and report["workload"] == workload and run["engine"] == "cep"
    assert {step["name"] for step in report["steps"]} == (
        {"run cep at 1,500/s, numa on"} if paced else {"prepare", "read once", "expected answers", "run cep, numa on"}
    )
    (record,) = map(RunRecord.read, run_folders(cache / "runs"))
    assert record.result.equal and record.result.events == DATASET.events and record.rate == (1_500 if paced else None)
    assert record.series == report["series"] and record.command.startswith(f"hibench run {workload} --events 1500")
    assert paced or record.dataset["sha256"] == Prepared.read(cache / DATASET.name).sha256
    assert ({placed.im for placed in record.placed} == {"im-0", "im-1"} and "latency" in record.tables) or not paced
    assert [path.name for path in cache.iterdir() if path.name.startswith(".")] == []  # the scratch folder has gone
