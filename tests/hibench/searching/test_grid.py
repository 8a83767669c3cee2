"""The grid of searches: its cells, one search on a real cluster, and what is shown of it."""

import io
import json
import os
from dataclasses import replace

import pytest
from rich.console import Console

from cep.machine import available_cores, read_topology
from cep.model.topology import NumaNode, Topology
from hibench.errors import OptionError
from hibench.numa.machine import Machine
from hibench.numa.node_local import here
from hibench.records.dataset import AddressKeys
from hibench.runs.record import RunRecord, run_folders
from hibench.screen import Screen
from hibench.searching.grid import Cell, cells, confined, doublings, nearest_first, whole_machine
from hibench.searching.probing import Probe, ProbeOptions
from hibench.searching.search import Limits, Tried, found, next_rate
from hibench.searching.searching import Searched, SearchResult, run_searches, show_search
from hibench.searching.simulated import Simulated
from hibench.workloads import WORKLOADS

BULLION = Topology.bullion_s16()
ONE = Topology((NumaNode(0, (0, 1), 1 << 30),), ((10,),))
OPTIONS = ProbeOptions(
    WORKLOADS["fixed-window"], AddressKeys("zipf", 50), 7, window_ms=200, warm_up_ms=200, steady_ms=1_000, latency_limit_ms=5_000
)


class TestCells:
    def test_figure_13_on_its_machine(self):
        grid = cells(BULLION)
        assert [len(cell.nodes) for cell in grid[::2]] == [1, 2, 2, 4, 4, 8, 8, 16, 16]
        assert [cell.way for cell in grid[:6:2]] == ["one node", "spread", "replicas"]
        assert {len(cell.cores) for cell in grid if len(cell.nodes) == 8} == {144}
        assert [cell.numa for cell in grid[:4]] == [True, False, True, False]
        assert grid[2].name == "2 nodes, spread, NUMA on"
        assert grid[-1] == replace(grid[-2], numa=False)

    def test_an_off_cell_has_the_same_cores(self):
        grid = cells(BULLION, per_node=3, counts=[2, 16])
        assert [(cell.nodes, cell.cores) for cell in grid[::2]] == [(cell.nodes, cell.cores) for cell in grid[1::2]]
        assert grid[0].cores == (0, 1, 2, 18, 19, 20)
        assert grid[-1].replicas == 16

    def test_one_node_is_pinned_and_not_pinned(self):
        assert cells(ONE) == [Cell((0,), (0, 1), 1, True), Cell((0,), (0, 1), 1, False)]

    def test_no_more_than_a_quota_of_cores_allows(self):
        assert len(cells(BULLION, usable=64)[0].cores) == 4
        assert len(cells(BULLION, usable=2)[0].cores) == 1
        assert cells(BULLION, usable=288) == cells(BULLION)

    def test_near_nodes_come_first(self):
        nodes = tuple(NumaNode(id, (id,), 0) for id in range(3))
        topology = Topology((*nodes, NumaNode(3, (), 0)), ((10, 40, 15, 15), (40, 10, 40, 40), (15, 40, 10, 10), (15, 40, 10, 10)))
        assert [node.id for node in nearest_first(topology)] == [0, 2, 1]
        assert cells(topology, counts=[2])[0].nodes == (0, 2)

    @pytest.mark.parametrize(("most", "counts"), [(1, [1]), (2, [1, 2]), (6, [1, 2, 4, 6]), (8, [1, 2, 4, 8])])
    def test_doublings(self, most, counts):
        assert doublings(most) == counts

    @pytest.mark.parametrize(
        ("options", "message"), [({"per_node": 19}, "--instances: expected 1 to 18"), ({"counts": [17]}, "--nodes: expected")]
    )
    def test_what_the_machine_has_not_is_refused(self, options, message):
        with pytest.raises(OptionError, match=message):
            cells(BULLION, **options)

    def test_the_whole_machine_in_order_of_nodes(self):
        assert whole_machine(BULLION, 20, numa=True) == Cell((0, 1), tuple(range(20)), 1, True)
        with pytest.raises(OptionError, match="--instances: expected 1 to 2"):
            whole_machine(ONE, 3, numa=True)

    def test_confined_is_over_after_the_block(self):
        before = os.sched_getaffinity(0)
        with confined([min(before)]):
            assert os.sched_getaffinity(0) == {min(before)}
        assert os.sched_getaffinity(0) == before


def searched(cell, capacity, limits):
    """The cell searched on a system that can do so much."""
    system, probes = Simulated(capacity), []
    while (rate := next_rate([Tried(probe.rate, probe.verdict.why_not) for probe in probes], limits)) is not None:
        probes.append(Probe(rate, system.probe(rate, 2, 10, 1000), None))
    return Searched(cell, found([Tried(probe.rate, probe.verdict.why_not) for probe in probes], limits), tuple(probes))


def shown(result):
    text = io.StringIO()
    show_search(result, Console(file=text, width=160))
    return " ".join(text.getvalue().split())


def result_on(topology, results):
    return SearchResult(OPTIONS, Limits(), "series", Machine.here(), topology, tuple(results))


class TestShown:
    def test_a_gain_is_of_two_searches_that_met_their_limit(self):
        on, off, *rest = cells(BULLION, counts=[1, 2])
        results = [
            searched(on, 670_000, Limits()),
            searched(off, 570_000, Limits()),
            *(Searched(cell, None, impossible="no key") for cell in rest),
        ]
        text = shown(result_on(BULLION, results))
        gain = results[0].found.rate / results[1].found.rate - 1
        assert f"{gain:+.0%}" in text
        assert 0.1 < gain < 0.25
        assert "2 nodes, replicas, NUMA off: no key" in text
        assert "1 node 570,000 → 670,000 (+18%)" in text, "the paper's own, called so"
        assert "one NUMA node" not in text

    def test_no_gain_is_claimed_where_a_search_ended_before_its_limit(self):
        on, off = cells(ONE)
        few = Limits(most=200_000)
        text = shown(result_on(ONE, [searched(on, 670_000, few), searched(off, 570_000, few)]))
        assert "was the most to be tried" in text
        assert "%" not in text
        assert "This machine has one NUMA node, so no gain by NUMA awareness can be measured" in text

    def test_json_has_every_probe(self):
        (on, *_) = cells(ONE)
        result = result_on(ONE, [searched(on, 300_000, Limits())])
        document = json.loads(json.dumps(result.to_json()))
        (search,) = document["searches"]
        assert search["rate"] == result.searched[0].found.rate
        assert [probe["rate"] for probe in search["probes"]] == [probe.rate for probe in result.searched[0].probes]
        assert document["settings"]["latency_limit_ms"] == 5_000


def test_few_windows_are_refused():
    with pytest.raises(OptionError, match="--seconds: expected at least three windows, 600 ms, got 500 ms"):
        replace(OPTIONS, steady_ms=500)


@pytest.mark.long  # over hosts, one is in tests/hibench/test_hosts.py
def test_a_search_on_a_real_cluster(tmp_path):
    """One cell, bound to one core: each probe with its record, right answers, and instance managers where they should be.

    Which rates a busy machine sustains is not ours to say; which are tried follows from it.
    """
    core = min(available_cores())
    cell = Cell((read_topology().node_of(core),), (core,), 1, True)
    limits = Limits(first=1_000, most=2_000, attempts=1, probes=3)
    screen = Screen(Console(file=io.StringIO()))
    result = run_searches([cell], OPTIONS, limits, here(), tmp_path / "runs", tmp_path, screen)
    (search,) = result.searched
    rates, tried = [probe.rate for probe in search.probes], [Tried(probe.rate, probe.verdict.why_not) for probe in search.probes]
    assert rates == [next_rate(tried[:i], limits) for i in range(len(tried))]
    assert next_rate(tried, limits) is None
    assert search.found.rate == max((each.rate for each in tried if each.sustained), default=0)
    records = [RunRecord.read(folder) for folder in run_folders(tmp_path / "runs")]
    assert [record.rate for record in records] == rates
    for record, each in zip(records, tried, strict=True):
        assert record.result.equal
        assert record.series == result.series
        assert record.result.settings["search"] == "one node, NUMA on"
        assert record.result.settings["verdict"] == (each.why_not or "sustained")
        assert [(placed.im, placed.core) for placed in record.placed] == [("im-0", core)]
    assert all(probe.verdict.p99_ms > 0 for probe in search.probes)
    assert result.evidence()["searches"][0]["placed"][0]["core"] == core
