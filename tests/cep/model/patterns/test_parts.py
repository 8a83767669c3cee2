"""Patterns as they are described: parts and their documents, the automaton, and everything that is refused, with where it stands.

Tests `parts.py`, `automaton.py`, `checks.py`, `refs.py`, `rows.py`.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from cep.errors import QueryError
from cep.model import operator_documents
from cep.model.expr import col
from cep.model.operators import Filter, Pattern
from cep.model.patterns import parts
from cep.model.patterns.automaton import automaton_of
from cep.model.patterns.parts import Definition, PatternPart, all_of, bare, definitions, event
from cep.model.patterns.rows import prev, row
from cep.model.schema import Schema
from tests.strategies.patterns import patterns

SCHEMA = Schema.of({"t": "timestamp[us]", "k": "string", "v": "int64", "w": "string", "l": "list<int64>"})
A, B, C = (event(name, col("v") == number) for number, name in enumerate("ABC"))


def made(part: PatternPart, **more: Any) -> Pattern:
    """Of the one stream s."""
    given_: dict[str, Any] = {"by": ("k",), "ttl": None, "measures": (("n", row("A").count()),), **more}
    return Pattern("p", given_.pop("inputs", ("s",)), tuple(definitions(part).items()), bare(part), **given_)


@pytest.mark.parametrize(
    ("part", "document", "text"),
    [
        (A.then(B).then(C), {"seq": ["A", "B", "C"], "by": "then"}, "A -> B -> C"),
        (A.then(B).next(C), {"seq": [{"seq": ["A", "B"], "by": "then"}, "C"], "by": "next"}, "(A -> B) C"),
        (A.then_any(B), {"seq": ["A", "B"], "by": "any"}, "A ->> B"),
        (A.not_then(B).then(C), {"seq": ["A", {"not": "B"}, "C"], "by": "then"}, "A -> !B -> C"),
        (A.not_next(B).next(C), {"seq": ["A", {"not": "B", "next": True}, "C"], "by": "next"}, "A !B next C"),
        (A.then(B).not_then(C).then(A), {"seq": ["A", "B", {"not": "C"}, "A"], "by": "then"}, "A -> B -> !C -> A"),
        (A.then(B).absent(C, "3us"), {"seq": ["A", "B", {"not": "C", "for": "3us"}], "by": "then"}, "A -> B -> !C for 3us"),
        (A.times(2), {"repeat": "A", "min": 2, "max": 2}, "A{2}"),
        (A.times(2, None, by="next").reluctant(), {"repeat": "A", "min": 2, "greedy": False, "by": "next"}, "A{2,}?"),
        (A.one_or_more().gap("1s"), {"repeat": "A", "gap": "1s"}, "A+ [gap 1s]"),
        (A.optional(), {"repeat": "A", "min": 0, "max": 1}, "A?"),
        (A | B | C, {"any_of": ["A", "B", "C"]}, "A | B | C"),
        (all_of(A, B, by="then"), {"all_of": ["A", "B"], "by": "then"}, "all of (A, B)"),
    ],
)
def test_a_part_has_a_document_and_a_text(part: PatternPart, document: Any, text: str) -> None:
    assert parts.to_json(part) == document
    assert parts.from_json(document) == bare(part)
    assert parts.text_of(part) == text


@given(patterns(("s",), SCHEMA, "p", ("k",)))
def test_a_pattern_is_its_document(pattern: Pattern) -> None:
    document = operator_documents.to_json(pattern)
    assert operator_documents.to_json(operator_documents.from_json(document)) == document
    for full in pattern.in_full():
        planned = operator_documents.to_json(full)
        assert operator_documents.to_json(operator_documents.from_json(planned, planned=True)) == planned


def test_the_automaton_says_what_is_awaited_in_order() -> None:
    part = A.then(B.times(1, 2, by="next").reluctant()).not_then(A).then(C.optional()).absent(A, "5us")
    assert automaton_of(bare(part)).text.splitlines() == [
        "start: A 0",
        "0 A: B then 1",
        "1 B: C then 3 without A, ■ after no A for 5us, B next 2",
        "2 B: C then 3 without A, ■ after no A for 5us",
        "3 C: ■ after no A for 5us",
    ]


PLUS = A.then(B.one_or_more())


@pytest.mark.parametrize(
    ("make", "message", "pointer"),
    [
        (lambda: made(A.optional()), "may take no row", "/pattern"),
        (lambda: made(A.then(B.optional().times(2, by="then"))), "so that it could be repeated for ever", "/pattern/seq/1/repeat"),
        (lambda: made(PLUS), "would never be decided", "/pattern"),
        (lambda: made(PLUS.absent(C, "1s")), "would never be decided", "/pattern"),
        (lambda: made(A.then_any(B)), "by: any takes every later row", "/pattern/by"),
        (lambda: made(A.then(B), matches="all"), "say within", "/within"),
        (lambda: made(A.then(B), within=5, matches="all", after="to_next"), "there is none", "/after"),
        (lambda: made(A.then(B), within=5, matches="all", timed_out=True), "there is none", "/timed_out"),
        (lambda: made(A.then(B), ttl=-1), "expected within, or a ttl", "/ttl"),
        (lambda: made(A.then(B.optional()).then(C), after="to_first B"), "may have no row", "/after"),
        (lambda: made(A.then(B), after="to_first A"), "may have the first row", "/after"),
        (lambda: made(A.then(A.optional()).then(B), after="to_last A"), "may be the first of a match", "/after"),
        (lambda: made(A.then(B), after="to_last D"), "no variable 'D'", "/after"),
        (lambda: made(A.then(B), after="next"), "expected past_last", "/after"),
        (lambda: made(A.absent(B, "3us").then(C)), "a row follows it", "/pattern"),
        (lambda: made(A.absent(B, "3us"), ttl=2), "longer than ttl", "/pattern/seq/1/for"),
        (lambda: made(parts.Seq((A, parts.Not("A")), "then")), "for how long", "/pattern/seq/1"),
        (lambda: made(parts.Seq((parts.Not("A"), A), "then")), "nothing stands before it", "/pattern/seq/0"),
        (lambda: made(parts.AnyOf((A, parts.Not("A")))), "stands in a seq alone", "/pattern"),
        (lambda: made(parts.Seq((A, B), None)), "how near", "/pattern/by"),
        (lambda: made(A.times(2)), "how near", "/pattern/by"),
        (lambda: made(A.times(3, 2, by="next")), "1 ≤ max", "/pattern"),
        (lambda: made(all_of(*[A] * 9, by="then")), "at most 8", "/pattern"),
        (lambda: made(parts.Seq((A,) * 257, "then")), "at most 256", "/pattern"),
        (lambda: made(A.times(5000, by="then")), "more than 4,096", "/pattern"),
        (lambda: made(A.then(parts.Var("D"))), "no variable 'D'", "/pattern/seq/1"),
        (lambda: made(A.then(B), limit=0), "open starts", "/limit"),
        (lambda: made(A.then(B), on_limit="forget"), "on_limit", "/on_limit"),
        (lambda: made(A.then(B), rows="many"), "rows", "/rows"),
        (lambda: made(A.then(B), by=(), measures=()), "nothing would come out", "/measures"),
        (lambda: made(A.then(B), inputs=("s", "r")), "of which input", "/define/A/input"),
    ],
)
def test_what_is_refused_is_said_with_its_place(make: Any, message: str, pointer: str) -> None:
    with pytest.raises(QueryError) as caught:
        make()
    assert message in str(caught.value)
    assert caught.value.pointer == pointer


@pytest.mark.parametrize(
    ("pattern", "message", "pointer"),
    [
        (made(event("A", col("x") > 0).then(B)), "no column 'x'", "/define/A"),
        (made(event("A", col("v") + 1).then(B)), "expected bool", "/define/A"),
        (made(event("A", col("v") > row("D")["v"]).then(B)), "is no variable", "/define/A"),
        (made(A.not_then(B).then(event("C", col("v") > row("B")["v"]))), "is negated", "/define/C"),
        (made(A.then(event("B", row("A").max("w") == "x"))), "of texts there is no max", "/define/B"),
        (made(A.then(event("B", row("A")["w"].length() > 2))), "made of texts of the match", "/define/B"),
        (made(A.then(event("B", col("v") > prev("x")))), "no column 'x'", "/define/B"),
        (made(A.then(B), measures=(("m", row("B")["x"]),)), "no column 'x'", "/measures/m"),
        (made(A.then(B), measures=(("m", col("v")),)), "is of no row of the match", "/measures/m"),
        (made(A.then(B), measures=(("m", row("B").sum("w")),)), "measure 'm'", "/measures/m"),
        (made(A.then(B), measures=(("m", row("B")["v"] + row("B")["w"]),)), "'m': B.v + B.w: expected numbers", "/measures/m"),
        (made(A.then(B), by=("x",)), "no column 'x'", "/by/0"),
    ],
)
def test_what_does_not_fit_the_columns_is_refused(pattern: Pattern, message: str, pointer: str) -> None:
    """In the name of the pattern, not in that of what finds its matches."""
    with pytest.raises(QueryError) as caught:
        pattern.output_schema(SCHEMA)
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"operator {pattern.name!r}")
    assert caught.value.pointer.startswith(pointer)


def test_an_event_means_one_thing() -> None:
    with pytest.raises(QueryError, match="two conditions"):
        definitions(A.then(event("A", col("v") > 9)))
    assert definitions(event("A").then(A)) == {"A": A.definition}


def test_inputs_have_their_columns_in_one_type() -> None:
    other = Schema.of({"k": "string", "v": "float64"})
    pattern = Pattern("p", ("s", "r"), (("A", Definition(None, "s")), ("B", Definition(None, "r"))), bare(A.then(B)), ("k",), ttl=None)
    with pytest.raises(QueryError, match="column 'v' is int64"):
        pattern.output_schema(SCHEMA, other)


def test_rows_stand_in_patterns_alone() -> None:
    with pytest.raises(QueryError, match="in conditions and measures of a pattern"):
        Filter("f", "s", row("A")["v"] > 1).output_schema(SCHEMA)
