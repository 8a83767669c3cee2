"""The picture of a pattern's automaton: all that its text says, each in a place of its own, and within the frame."""

from __future__ import annotations

from itertools import combinations
from xml.etree import ElementTree

import pytest
from hypothesis import given

from cep.model.expr import col
from cep.model.operators import Pattern
from cep.model.patterns.automaton import automaton_of
from cep.model.patterns.parts import PatternPart, bare, event
from cep.model.schema import Schema
from cep.plan.pictures import PLACES_MAX, drawn, pictures
from driver import Query, stream
from tests.strategies.patterns import patterns
from tests.support.plans import planned

SCHEMA = Schema.of({"k": "int64", "v": "int64?", "w": "string"})
SVG = "{http://www.w3.org/2000/svg}"
A, B, C = (event(name) for name in "ABC")


def shapes(svg: str, kind: str) -> list[ElementTree.Element]:
    root = ElementTree.fromstring(svg)
    return [each for each in root.findall(f"{SVG}{kind}")]


def labels(svg: str) -> list[str]:
    return [each.text or "" for each in shapes(svg, "text")]


@pytest.mark.parametrize(
    ("part", "said", "rings"),
    [
        (A.then(B), ["then", "0", "A", "1", "B", "■"], 3),
        (A.not_then(C).next(B).gap("5s"), ["next without C within 5s", "0", "A", "1", "B", "■"], 3),
        (A.then(B.times(1, 2, by="next")), ["then", "1 next", "0", "A", "1", "B", "2 ■", "2", "B", "■"], 5),
        (A | B, ["1", "2", "0", "B", "■", "1", "A", "■"], 4),
        (A.absent(B, for_="3s"), ["0", "A", "■ after no B for 3s"], 2),
    ],
)
def test_it_says_what_the_text_says(part: PatternPart, said: list[str], rings: int) -> None:
    svg = drawn(automaton_of(bare(part)), "p")
    assert labels(svg) == said
    assert len(shapes(svg, "circle")) == rings


def test_names_are_written_as_they_are() -> None:
    svg = drawn(automaton_of(bare(event("<a>&").then(B))), 'a "name" <of> it')
    assert ElementTree.fromstring(svg).findtext(f"{SVG}title") == 'a "name" <of> it'
    assert "<a>&" in labels(svg)


@given(patterns(("s",), SCHEMA, "p", ("k",)))
def test_any_automaton_is_drawn_whole_within_the_frame(pattern: Pattern) -> None:
    automaton = pattern.automaton
    svg = drawn(automaton, "p")
    edges = sum(len(automaton.states[state].edges) for items in automaton.arrive for state in items if state >= 0)
    assert len(shapes(svg, "path")) == len(automaton.initial) + edges
    _, _, width, height = map(float, ElementTree.fromstring(svg).attrib["viewBox"].split())
    places = [(float(each.attrib["x"]), float(each.attrib["y"]), each.text or "") for each in shapes(svg, "text")]
    assert all(0 <= x <= width and 0 <= y <= height for x, y, _ in places)
    middles = {(float(each.attrib["cx"]), float(each.attrib["cy"])) for each in shapes(svg, "circle")}
    assert len(middles) == len(automaton.variables)
    assert all(abs(one[0] - other[0]) >= 44 for one, other in combinations(middles, 2))


def test_a_pattern_with_too_many_places_has_no_picture() -> None:
    tags = stream("tags", k="int64", v="int64", ts="timestamp[us]", event_time="ts", disorder="0s")
    for times, there in ((PLACES_MAX - 1, ["p"]), (PLACES_MAX, [])):
        part = event("A", col("v") > 1).then(event("B", col("v") > 2).times(times, times))
        asked = Query("q").source(tags).pattern("p", part, by="k", within="1h").output("out")
        assert list(pictures(planned(asked.build()))) == there
