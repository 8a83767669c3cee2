"""HiBench against a cluster of several hosts, `hibench --cluster URL`: its answers are those of one, a grid is over hosts."""

import json

import pytest
from typer.testing import CliRunner

from driver import LocalCluster
from hibench.commands import app
from hibench.engines import cep_engine
from hibench.records.dataset import Prepared
from hibench.records.file import write_record_file
from hibench.runs.record import RunRecord, run_folders
from hibench.runs.reference import reference_answers
from hibench.workloads import WORKLOADS
from tests.hibench.workloads.test_workload import SMALL, terms
from tests.support.joined_hosts import joined


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("hibench")


@pytest.fixture(scope="module")
def url(folder):
    here = ("--address", "127.0.0.1", "--data", str(folder))
    with (
        LocalCluster(1, numa=False, data=[folder], address="127.0.0.1", host="h1") as cluster,
        joined(cluster.rest.url, "h2", *here),
        joined(cluster.rest.url, "h3", *here),
    ):
        yield cluster.rest.url


@pytest.mark.long  # a grid of searches below has right answers on three hosts, too
@pytest.mark.parametrize("name", ["fixed-window", "identity"])
def test_three_hosts_answer_as_one(url, folder, name):
    workload, made = WORKLOADS[name], folder / name
    made.mkdir()
    prepared = Prepared(SMALL, made, tuple(write_record_file(SMALL, made, None, index) for index in range(SMALL.files)))
    asked = terms(workload, folder)
    found = cep_engine.run_on_cep(workload, prepared, asked, 0, False, folder, url=url).checked(
        reference_answers(workload, prepared, asked)
    )
    assert found.result.equal, found.result.difference
    assert {placed.im.partition(".")[0] for placed in found.placed} == {"h1", "h2", "h3"}


def test_a_grid_of_searches_over_hosts(url, folder):
    """On one host and on all three, spread and as replicas: each probe is where its cell says, and its answers are right."""
    file, short = folder / "found.json", ("--seconds", "1", "--window", "200ms", "--warm-up", "200ms", "--latency-limit", "30s")
    few = ("--keys", "zipf:50", "--first", "500", "--most", "500", "--probes", "1", "--attempts", "1")
    asked = ("search", "fixed-window", "--cluster", url, "--grid", "--hosts", "1,3", "--cache", str(folder), "--json", str(file))
    ran = CliRunner().invoke(app, [*asked, *short, *few])
    assert ran.exit_code == 0, (ran.output, ran.exception)
    assert "1: h1; 3: h1, h2, h3" in ran.output
    searches = json.loads(file.read_text())["searches"]
    assert [each["name"] for each in searches] == ["one host", "3 hosts, spread", "3 hosts, replicas"]
    assert [each["instance_managers"] for each in searches] == [1, 3, 3]
    records = {record.result.settings["search"]: record for record in map(RunRecord.read, run_folders(folder / "runs"))}
    used = {name: {each["im"].partition(".")[0] for each in record.plan["workers"]} for name, record in records.items()}
    assert used == {"one host": {"h1"}, "3 hosts, spread": {"h1", "h2", "h3"}, "3 hosts, replicas": {"h1", "h2", "h3"}}
    assert len({each["replica"] for each in records["3 hosts, replicas"].plan["instances"]}) == 3
    assert all(record.result.equal for record in records.values())


def test_more_hosts_than_there_are_are_refused(url, folder):
    refused = CliRunner().invoke(app, ["search", "fixed-window", "--cluster", url, "--grid", "--hosts", "4"]).exception
    assert "--hosts: expected numbers from 1 to 3" in str(refused)
