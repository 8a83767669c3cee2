"""Every workload on our engine, NUMA-aware and not, over files and in an open loop: the answers, the balancer, what a run leaves.

Tests `workload.py`, `broadcast.py`, `fixed_window.py`, `wordcount.py`, `hibench/engines/cep_engine.py`, `hibench/engines/clusters.py`,
`hibench/runs/outcome.py`.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from cep.model.topology import NumaNode, Topology
from cep.plan.physical import Worker
from cep.plan.planner import plan
from driver import LocalCluster
from hibench.engines import cep_engine
from hibench.options import Pace
from hibench.records.dataset import FIRST_EVENT_MS, AddressKeys, Dataset, Prepared
from hibench.records.file import write_record_file
from hibench.runs.outcome import windows_table
from hibench.runs.record import TABLES
from hibench.runs.reference import reference_answers
from hibench.searching import open_loop
from hibench.workloads import WORKLOADS
from hibench.workloads.workload import ANSWERS, RunTerms, visits_published

SMALL = Dataset(events=4_321, record_bytes=200, file_events=1_000, event_rate=100, keys=AddressKeys("zipf", 50), disorder_ms=900)
EVERY = pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("hibench")


@pytest.fixture(scope="module")
def prepared(folder):
    made = folder / SMALL.name
    made.mkdir()
    return Prepared(SMALL, made, tuple(write_record_file(SMALL, made, None, index) for index in range(SMALL.files)))


# Without NUMA the cluster is another and the queries are the same.
@pytest.fixture(scope="module", params=[True, pytest.param(False, marks=pytest.mark.long)], ids=["numa-on", "numa-off"])
def cluster(request, cluster, folder):
    """The one of all tests is aware of NUMA nodes."""
    with nullcontext(cluster) if request.param else LocalCluster(instances=2, numa=False, data=[folder]) as running:
        running.numa = request.param
        yield running


def terms(workload, folder, window_ms=5_000, slide_ms=None, disorder_ms=SMALL.disorder_ms, times=None):
    found = RunTerms(window_ms, slide_ms or window_ms, disorder_ms, SMALL.seed, folder / "side.txt")
    if workload.side is not None:
        first, last = times or (FIRST_EVENT_MS, FIRST_EVENT_MS + SMALL.events * 1000 // SMALL.event_rate)
        found.side.write_text(workload.side(found, first, last))
    return found


@EVERY
def test_the_answers_over_files(cluster, folder, prepared, workload):
    asked, done = terms(workload, folder), []
    found = cep_engine.run_on_cluster(cluster, workload, prepared, asked, cluster.numa, folder, done.append)
    found = found.checked(reference_answers(workload, prepared, asked))
    assert found.result.equal, found.result.difference
    assert found.result.numa == ("on" if cluster.numa else "off")
    assert balancer(found.plan, workload) == {workload.balancer}
    assert found.explanation.startswith(f"query {workload.name}")
    assert {name: table.schema for name, table in found.tables.items()} == {name: TABLES[name] for name in found.tables}
    assert found.tables.keys() == TABLES.keys() - {"latency"}
    read = [row["rows"] for row in found.tables["operators"].to_pylist() if (row["operator"], row["step"]) == ("visits", "read")]
    assert sum(read) == SMALL.events
    windows = found.tables["windows"]
    assert windows["events"] == windows["events_expected"]
    assert len(windows) >= SMALL.events // SMALL.event_rate // 5
    assert {placed.im for placed in found.placed} == {"im-0", "im-1"}
    assert cluster.queries() == []


def balancer(plan, workload):
    """What carries records into the operator that the workload is about."""
    return {edge["balancer"] for edge in plan["edges"] if edge["consumer"] == workload.behind} - (
        {"round-robin"} if workload.side else set()
    )


@EVERY
def test_the_answers_in_an_open_loop(cluster, folder, workload):
    dataset, pace = replace(SMALL, events=1_500, disorder_ms=0), Pace(1_500, burst=5, reports=not cluster.numa)
    asked = terms(workload, folder, 250, disorder_ms=0, times=open_loop.horizon_ms(dataset, pace))
    found, expected = open_loop.run_loop_on_cluster(cluster, open_loop.OpenLoop(workload, dataset, asked, pace), cluster.numa, folder)
    found = found.checked(expected)
    assert found.result.equal, found.result.difference
    assert found.tables["latency"].schema == TABLES["latency"]
    samples = sum(found.tables["latency"]["answers"].to_pylist())
    assert found.result.latency_ms.samples == samples
    if pace.reports and workload.name != "broadcast":
        assert samples == dataset.events, "a report for every record"
    assert found.result.latency_ms.p50 > 0


def test_windows_that_overlap(cluster, folder, prepared):
    workload = WORKLOADS["fixed-window"]
    asked = terms(workload, folder, 5_000, 2_000)
    found = cep_engine.run_on_cluster(cluster, workload, prepared, asked, cluster.numa, folder).checked(
        reference_answers(workload, prepared, asked)
    )
    assert found.result.equal, found.result.difference


@pytest.mark.parametrize("instances", [2, 5])
@EVERY
def test_the_balancer_carries_the_records_between_two_subqueries(workload, instances):
    topology = Topology((NumaNode(0, (0, 1, 2), 1 << 30), NumaNode(1, (3, 4, 5), 1 << 30)), ((10, 20), (20, 10)))
    workers = [Worker(f"im-{core}", core // 3, core, f"ipc://{core}") for core in range(instances)]
    visits = visits_published({**workload.columns}, 0)
    made = plan(workload.query(visits, RunTerms(1, 1, 0, 0, Path("/side.txt"))).output(ANSWERS).build(), {}, workers, topology)
    (edge,) = (edge for edge in made.edges if edge.consumer == workload.behind and edge.producer != "bands")
    source, target = made.subquery(edge.source), made.subquery(edge.target)
    assert (source.parallelism, target.parallelism) == (instances, instances)
    assert source.name != target.name
    if workload.side is None:
        assert edge.balancer == workload.balancer
    else:
        assert edge.balancer == "round-robin"
        assert {e.balancer for e in made.edges if e.producer == "bands" and e.is_inner} == {workload.balancer}


def test_a_small_part_of_the_records_is_in_a_band(prepared, folder):
    workload = WORKLOADS["broadcast"]
    expected = reference_answers(workload, prepared, terms(workload, folder))
    assert 0.005 * SMALL.events < expected.answers.rows < 0.02 * SMALL.events


def test_windows_that_only_one_side_has_are_shown():
    table = windows_table({0: (3, 2), 5: (1, 1)}, {5: (1, 1), 9: (2, 1)})
    assert list(zip(*table.to_pydict().values(), strict=True)) == [(0, 3, 0, 2, 0), (5_000, 1, 1, 1, 1), (9_000, 0, 2, 0, 1)]
