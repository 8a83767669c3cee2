"""What searches come to, and what is shown of them."""

import io
import json
from dataclasses import replace

from rich.console import Console

from hibench.numa.machine import Machine
from hibench.searching.grid import Cell, cells
from hibench.searching.probing import Probe
from hibench.searching.search import Found, Limits, Tried, found, next_rate
from hibench.searching.searching import Searched, SearchResult, _gain, show_search
from hibench.searching.simulated import Simulated
from hibench.searching.steady import SteadyVerdict
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


def test_the_best_probe_is_one_that_was_sustained():
    tries = [(100, ""), (200, "a hiccup"), (200, ""), (400, "too much")]
    probes = tuple(Probe(rate, SteadyVerdict(why_not), None) for rate, why_not in tries)
    searched = Searched(Cell((0,), (0,), 1, True), Found(200, 400, "too much"), probes)
    assert searched.best is probes[2]
    assert replace(searched, found=None).best is None and replace(searched, found=Found(0, 100, "")).best is None


def test_the_gain_is_over_the_same_cell_without_numa():
    on, off, fewer = Cell((0,), (0, 1), 1, True), Cell((0,), (0, 1), 1, False), Cell((0,), (0,), 1, False)
    first, *others = [Searched(cell, Found(rate, 500, "")) for cell, rate in ((on, 300), (fewer, 100), (off, 200))]
    assert _gain(first, [*others, first]) == "+50%"
    assert _gain(first, [first, others[0]]) == "" and _gain(others[1], [first, *others]) == ""
    assert _gain(first, [replace(others[1], found=Found(200, None, ""))]) == ""
