"""What is shown of searches, and one on a real cluster.

Tests `searching.py`, `probing.py`.
"""

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from cep.machine import available_cores, read_topology
from hibench.errors import OptionError
from hibench.numa.machine import Machine
from hibench.numa.node_local import here
from hibench.runs.record import RunRecord, run_folders
from hibench.screen import Screen
from hibench.searching.grid import Cell, cells
from hibench.searching.probing import Probe
from hibench.searching.search import Limits, Tried, found, next_rate
from hibench.searching.searching import Searched, SearchResult, run_searches, show_search
from hibench.searching.simulated import Simulated
from tests.hibench.searching.test_grid import BULLION, ONE, OPTIONS


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
