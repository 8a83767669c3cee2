"""The grid of searches over hosts: its cells, and what is shown of them."""

import io

import pytest
from rich.console import Console

from cep.model.topology import Topology
from hibench.errors import OptionError
from hibench.numa.machine import Machine
from hibench.searching.host_grid import HostCell, host_cells
from hibench.searching.search import Limits, Tried, found
from hibench.searching.searching import Searched, SearchResult, show_search
from tests.hibench.searching.test_grid import OPTIONS

#: Three hosts; h2 has two NUMA nodes and the most instance managers.
MANAGERS = [("h1", 0), ("h1", 0), ("h2", 0), ("h2", 1), ("h2", 1), ("h3", 0)]


def test_the_cells_are_the_roomiest_hosts_spread_and_a_copy_for_each_node():
    grid = host_cells(MANAGERS, numa=True)
    assert [(cell.name, cell.hosts, cell.instance_managers, cell.replicas) for cell in grid] == [
        ("one host", ("h2",), 3, 1),
        ("one host, replicas", ("h2",), 3, 2),
        ("2 hosts, spread", ("h2", "h1"), 5, 1),
        ("2 hosts, replicas", ("h2", "h1"), 5, 3),
        ("3 hosts, spread", ("h2", "h1", "h3"), 6, 1),
        ("3 hosts, replicas", ("h2", "h1", "h3"), 6, 4),
    ]
    assert grid[0].options == {"hosts": 1} and grid[3].options == {"hosts": 2, "replicas": 3}


def test_hosts_whose_instance_managers_are_not_bound_count_as_a_node_each():
    grid = host_cells([("h1", None), ("h1", None), ("h2", None)], numa=False, counts=[2])
    assert [(cell.name, cell.replicas, cell.numa) for cell in grid] == [("2 hosts, spread", 1, False), ("2 hosts, replicas", 2, False)]


def test_a_cluster_of_one_machine_is_one_host():
    assert host_cells([("", 0), ("", 0)], numa=True) == [HostCell(("",), 2, 1, True)]


@pytest.mark.parametrize("counts", [[0], [4], [1, 9], []])
def test_hosts_that_are_not_there_are_refused(counts):
    with pytest.raises(OptionError, match="--hosts: expected numbers from 1 to 3"):
        host_cells(MANAGERS, True, counts)


def searched(cell, rate, failed=None):
    """A search that ended at `rate`; `failed`: the rate above it that did not hold."""
    tried = [Tried(rate, ""), *([Tried(failed, "too slow")] * 2 if failed else ())]
    return Searched(cell, found(tried, Limits(first=rate, most=failed or rate)))


def shown(*results):
    text = io.StringIO()
    options = OPTIONS.__class__(**{**vars(OPTIONS), "cluster": "http://10.0.0.1:8765"})
    result = SearchResult(options, Limits(), "series", Machine.here(), Topology.one_node([0]), results)
    show_search(result, Console(file=text, width=160))
    return " ".join(text.getvalue().split())


def test_what_is_shown_of_hosts():
    one, spread, _ = host_cells([("h1", 0), ("h2", 0)], numa=False)
    text = shown(searched(one, 100_000, 104_000), searched(spread, 170_000, 175_000))
    assert "hosts" in text and "against one host" in text and "+70%" in text
    assert "1: h1; 2: h1, h2" in text
    assert "one NUMA node" not in text and "Figure 13" not in text


def test_no_gain_is_claimed_where_a_search_ended_before_its_limit():
    one, spread, _ = host_cells([("h1", 0), ("h2", 0)], numa=False)
    assert "%" not in shown(searched(one, 100_000, 104_000), searched(spread, 170_000))
