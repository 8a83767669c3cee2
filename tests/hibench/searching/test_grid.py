"""The grid of searches: its cells, one search on a real cluster, and what is shown of it."""

import os
from dataclasses import replace

import pytest

from cep.model.topology import NumaNode, Topology
from hibench.errors import OptionError
from hibench.records.dataset import AddressKeys
from hibench.searching.grid import Cell, cells, confined, doublings, nearest_first, whole_machine
from hibench.searching.probing import ProbeOptions
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
