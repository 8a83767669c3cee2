"""HiBench against a cluster of several hosts, `hibench --cluster URL`: the answers are those of one."""

import pytest

from driver import LocalCluster
from hibench.engines import cep_engine
from hibench.records.dataset import Prepared
from hibench.records.file import write_record_file
from hibench.runs.reference import reference_answers
from hibench.workloads import WORKLOADS
from tests.hibench.test_workloads import SMALL, terms
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
