"""The files of a report for people, made from figures that were computed elsewhere: the page, and Markdown.

Tests `page.py`, `markdown.py`, `svg.py`.
"""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from hibench.numa.machine import MemoryNode
from hibench.report.completeness import CompletenessFigures, WindowFigures
from hibench.report.figures import RunFigures
from hibench.report.latency import CURVE, PERCENTILES, LatencySummary, Moment
from hibench.report.markdown import markdown
from hibench.report.page import page
from hibench.report.resources import PageFigures, ProcessFigures, StepFigures
from hibench.runs.record import Placed
from tests.support.run_records import MACHINE, PLAN, RESULT, record

NASTY = '<script>alert("1")</script>|`x`&\''
LATENCY = LatencySummary(
    answers=80,
    mean=20.5,
    stddev=11.6123456,
    least=1.0,
    most=40.0,
    percentiles={each: each * 0.4 for each in PERCENTILES},
    curve={each: 1 + each * 0.4 for each in CURVE if each <= 98},
    span_us=3_040_000,
    moments=(Moment(1.5, 40, 10.0, 19.0, 20.0), Moment(3.0, 40, 30.0, 39.0, 40.0)),
)
COMPLETE = CompletenessFigures(3, 2, 0.999, 2_999, 3_000, 40, 40, (WindowFigures(0.0, 0.999, 1.0), WindowFigures(1.0, 1.0, 1.0)))


def run(label="cep NUMA-aware", **changes):
    """A run with every figure there is."""
    return RunFigures(
        record=record(**changes),
        label=label,
        latency=LATENCY,
        completeness=COMPLETE,
        steps=(StepFigures("SQ1", "pick", "operator", 3_000, 0.1, 0.8), StepFigures("SQ1", "visits", "read", 0, 0.025, 0.2)),
        processes=(
            ProcessFigures("im-0", (0.5, 1.0), (0.9, 1.0), (1 << 20, 2 << 20)),
            ProcessFigures("client", (1.0,), (0.2,), (1 << 20,)),
        ),
        pages=(PageFigures("im-0", 0, {0: 900, 1: 100}), PageFigures("client", None, {0: 5})),
    )


SPARK = replace(
    run("spark", result=replace(RESULT, engine="spark", numa=None), plan=None, placed=(), tables={}, explanation="== Plan =="),
    steps=(),
    pages=(),
)


class Read(HTMLParser):
    """What a page consists of."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.ids, self.links, self.words = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.ids += [value for name, value in attributes if name == "id"]
        self.links += [value for name, value in attributes if name in ("src", "href", "xlink:href", "action", "data", "srcset", "poster")]

    def handle_data(self, data):
        self.words.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def text():
    return page([run(), run("cep not NUMA-aware", explanation="other"), SPARK])


def test_the_page_asks_for_nothing_from_outside(text):
    read = Read(text)
    assert read.links
    assert [link for link in read.links if not link.startswith("#")] == []
    assert not {"script", "link", "iframe", "object", "embed", "img", "base"} & {tag for tag, _ in read.tags}
    assert re.findall(r"url\((?!#)|@import", text) == []


def test_names_within_the_page_are_unique_and_there(text):
    read = Read(text)
    assert len(read.ids) == len(set(read.ids))
    wanted = {link[1:] for link in read.links} | set(re.findall(r"url\(#([^)]*)\)", text))
    wanted |= {name for _, attributes in read.tags for name in (attributes.get("aria-labelledby") or "").split()}
    assert wanted <= set(read.ids)


def test_drawings_are_described_and_tables_have_headers(text):
    read = Read(text)
    drawings = read.all("svg")
    assert len(drawings) >= 9
    assert all(drawing["role"] == "img" and drawing["aria-labelledby"] for drawing in drawings)
    assert len(re.findall(r"<desc[^>]*>[^<]", text)) == len(drawings)
    assert all(header.get("scope") for header in read.all("th"))
    assert len(read.all("caption")) + len([table for table in read.all("table") if table.get("aria-label")]) == len(read.all("table"))


def test_colours_are_those_of_the_page(text):
    assert re.findall(r"#0[0-4]0[0-4]0\w", text[text.index("</style>") :]) == []
    assert "var(--series-1)" in text


def test_the_page_says_what_it_has_to(text):
    words = " ".join(" ".join(Read(text).words).split())
    for said in (
        "All answers are equal to the expected ones, computed apart from both engines",
        "on the paper's machine (Bullion S16",
        "6,170,000",
        "500 (÷ 2)",
        "2 of 3 windows complete",
        "SQ1: 2 instances, without state",
        "by ip",
        "NUMA node 1",
        "Bound to nothing",
        "hibench run fixed-window --events 3000 --rate 1000",
        "RssAnon",
        "numa-cep",
        "zipf:100",
    ):
        assert said in words
    assert "pinned" not in words.replace("unpinned", "")


def test_names_are_escaped_wherever_they_come_from():
    nasty = replace(
        run(
            NASTY,
            workload=NASTY,
            mode=NASTY,
            command=NASTY,
            explanation=NASTY,
            dataset={NASTY: NASTY},
            machine=replace(MACHINE, cpu=NASTY, libraries={NASTY: NASTY}),
            placed=(Placed(NASTY, 0, 0), Placed(NASTY, None, None)),
            result=replace(RESULT, settings={NASTY: NASTY}, checksum=NASTY, difference=NASTY),
            plan={**PLAN, "subqueries": [{**PLAN["subqueries"][0], "operators": [NASTY]}, PLAN["subqueries"][1]]},
        ),
        steps=(StepFigures("SQ1", NASTY, "operator", 1, 0.1, 1.0),),
        processes=(ProcessFigures(NASTY, (0.5, 1.0), (0.9, 1.0), (1 << 20, 2 << 20)),),
        pages=(PageFigures(NASTY, 0, {0: 1}),),
    )
    assert "script" not in {tag for tag, _ in Read(page([nasty])).tags}
    outside_code = re.sub(r"(?s)```.*?```", "", markdown([nasty]))
    assert "<script>" not in outside_code.replace(r"\<script\>", "")
    assert all(line.count("|") - line.count(r"\|") == 3 for line in outside_code.splitlines() if line.startswith("| records"))


@pytest.mark.parametrize("expected", [None, replace(RESULT.expected, checksum="another")])
def test_wrong_answers_are_said_first_and_in_red(expected):
    wrong = RunFigures(record(result=replace(RESULT, expected=expected, difference="1 row is missing")), "wrong")
    right = RunFigures(record(), "right")
    text, words = page([right, wrong]), markdown([right, wrong])
    assert text.index('class="banner wrong"') < text.index('class="tiles"')
    assert "1 row is missing" in text
    assert "All answers are equal" not in text
    assert words.index("ANSWERS DIFFER") < words.index("| records")


def test_one_node_is_said_to_show_no_numa_gain():
    one = RunFigures(record(machine=replace(MACHINE, numa_nodes=(MemoryNode(0, "0-3", (10,)),))), "cep pinned")
    for text in (page([one]), markdown([one])):
        assert "no NUMA gain can be shown here" in " ".join(text.split())


def test_a_run_without_tables_has_a_page():
    bare = RunFigures(record(tables={}, plan=None, placed=(), window_ms=None, rate=None, command="", dataset={}), "bare")
    assert "Latency" not in page([bare]).replace("latency", "")
    assert "| records | 3,000 |" in markdown([bare])


def test_workloads_stand_in_chapters_of_their_own():
    text = page([RunFigures(each, "cep") for each in (record(), record(workload="identity"), record(mode="faithful"))])
    assert len(re.findall("<article", text)) == 3
    assert text.count("The paper's Figure 13, as its text") == 2, "the paper measured the fixed window"
