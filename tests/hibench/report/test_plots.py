"""The plots of a report: each says in words what it shows, in the page's own colours, or is left out where there is nothing to show.

Tests `plots.py`, `svg.py`.
"""

import re
from dataclasses import replace

from hibench.report import plots
from hibench.report.completeness import CompletenessFigures, WindowFigures
from hibench.report.latency import LatencySummary, Moment
from hibench.report.paper import FIGURE_13
from hibench.report.resources import ProcessFigures, StepFigures
from hibench.report.svg import colour, drawn, inline
from tests.hibench.report.test_page import LATENCY, run
from tests.support.run_records import RESULT


def words(svg):
    return re.search(r"<desc[^>]*>([^<]*)</desc>", svg)[1]


def test_throughput_stands_beside_the_papers_for_the_papers_workload_alone():
    slow = run("spark", result=replace(RESULT, events_per_second=500.4))
    said = words(plots.throughput([run("cep"), slow], "a")).split("; ")
    assert said[:2] == ["cep: 1,000 a second", "spark: 500 a second"]
    assert len(said) == 2 + 2 * len(FIGURE_13) and said[2].startswith("paper, ") and "NUMA-aware: " in said[2]
    alone = plots.throughput([run("cep", workload="identity")], "a")
    assert words(alone) == "cep: 1,000 a second" and ">1,000<" in alone and ">cep<" in alone and ">records a second<" in alone


def test_latencies_by_percentile():
    few = LatencySummary(1, 1.0, 0.0, 1.0, 7.125, {50.0: 1.5, 99.0: 6.0}, {0.0: 1.0}, 1, ())
    found = plots.latency_curve([replace(run("a"), latency=None), replace(run("b"), latency=few)], "x")
    assert words(found) == "b: p50 1.5 ms, p99 6 ms, largest 7.12 ms"
    assert ">b<" in found and ">latency, ms<" in found and ">share of answers that were no later<" in found
    assert plots.latency_curve([replace(run(), latency=None)], "x") is None


def test_latencies_over_time():
    moments = (Moment(1.0, 2, 10.0, 11.0, 12.0), Moment(2.0, 2, 4.0, 90.0, 91.0), Moment(3.0, 2, 5.0, 6.0, 7.0))
    found = plots.latency_over_time([replace(run("a"), latency=replace(LATENCY, moments=moments))], "x")
    p50, p99 = zip(*((each.p50, each.p99) for each in moments), strict=True)
    assert words(found) == f"a: median between {min(p50):.3g} and {max(p50):.3g} ms, 99th percentile up to {max(p99):.3g} ms"
    assert ">a, median<" in found and ">a, 99 %<" in found
    assert plots.latency_over_time([replace(run(), latency=None)], "x") is None


def test_the_most_expensive_steps_come_first():
    def steps(**costs):
        return tuple(StepFigures("SQ1", name, "operator", 1, cost, 0.1) for name, cost in costs.items())

    found = plots.cpu_by_step([replace(run("a"), steps=steps(x=1.0, y=2.0)), replace(run("b"), steps=steps(z=1.5))], "x")
    assert words(found) == "a: SQ1 y 2 s, SQ1 z 0 s, SQ1 x 1 s; b: SQ1 y 0 s, SQ1 z 1.5 s, SQ1 x 0 s"
    assert found.index(">SQ1 y<") < found.index(">SQ1 z<") < found.index(">SQ1 x<")
    many = steps(**{f"s{i}": float(i) for i in range(20)})
    assert words(plots.cpu_by_step([replace(run("a"), steps=many)], "x")).count(" s") == 2 * plots.STEPS_SHOWN  # "s19 19 s"
    assert plots.cpu_by_step([replace(run(), steps=())], "x") is None


def test_processes_over_time():
    processes = (ProcessFigures("im-0", (0.5, 1.5), (0.25, 0.75), (3 << 20, 1 << 20)), ProcessFigures("client", (1.0,), (0.5,), (5 << 20,)))
    one = replace(run("a"), processes=processes)
    assert words(plots.process_use(one, [one], "x")) == "im-0: up to 0.75 cores, 3 MiB; client: up to 0.5 cores, 5 MiB"
    assert plots.process_use(replace(one, processes=()), [one], "x") is None
    seconds, rows = plots._stacked(one, plots._cores)
    assert (seconds, rows) == ([0.5, 1.0, 1.5], [[0.25, 0.25, 0.75], [0.0, 0.5, 0.5]])
    assert plots._top([one], plots._cores) == 1.25 and plots._top([one], plots._mebibytes) == 8.0


def test_completeness():
    figures = CompletenessFigures(3, 2, 0.999, 2_999, 3_000, 40, 40, (WindowFigures(0.0, 0.999, 1.0),))
    assert words(plots.windows_complete([replace(run("a"), completeness=figures)], "x")) == "a: 2 of 3 windows complete"
    assert plots.windows_complete([replace(run(), completeness=None)], "x") is None


def test_what_is_drawn_has_the_colours_of_the_page_and_is_the_same_each_time():
    def draw(axes):
        axes.barh([0, 1], [1.0, 3.0], color=[colour(0), colour(2)])
        axes.set_xlabel("a & b")

    once, again = drawn(draw, 1.0), drawn(draw, 1.0)
    assert once == again
    shown = inline(once, "throughput", "T<itle", 'said "so"')
    assert "var(--series-0)" in shown and "var(--series-2)" in shown and "#0400" not in shown
    assert "T&lt;itle" in shown and "a &amp; b" in shown and 'role="img"' in shown
    assert "<?xml" not in shown and set(re.findall(r' id="([^"]*)"', shown)) >= set(re.findall(r"url\(#([^)]*)\)", shown))
