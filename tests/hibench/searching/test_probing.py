"""A probe: what makes none, and a search of some on a real cluster.

Tests `probing.py`, `searching.py`.
"""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from cep.machine import available_cores, read_topology
from hibench.errors import OptionError
from hibench.numa.node_local import here
from hibench.runs.record import RunRecord, run_folders
from hibench.screen import Screen
from hibench.searching.grid import Cell
from hibench.searching.search import Limits, Tried, next_rate
from hibench.searching.searching import run_searches
from tests.hibench.searching.test_grid import OPTIONS


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
