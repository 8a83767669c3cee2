"""Where in a text something is wrong."""

from __future__ import annotations

import pytest

from console.places import JSON, SQL, YAML, kind_of, place_of

DOCUMENT = "name: x\noperators:\n- {name: a, type: filter, condition: {op: '>', args: [{column: mss}, 3]}}\noutputs:\n- {stream: o}\n"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('{"name": 1}', JSON),
        ("name: x", YAML),
        ("# select\nname: x", YAML),
        ("", YAML),
        ("select 1", SQL),
        ("-- who\n\n  CREATE STREAM s", SQL),
        ("selected: 1", YAML),
    ],
)
def test_kinds(text: str, kind: str) -> None:
    assert kind_of(text) == kind


@pytest.mark.parametrize(
    ("text", "pointer", "line", "shown"),
    [
        (DOCUMENT, "/operators/0/condition/args/0/column", 3, "mss"),
        (DOCUMENT, "/operators/0/condition", 3, "condition"),
        (DOCUMENT, "/operators/0/nothing/there", 3, "{name: a, type: filter, condition: {op: '>', args: [{column: mss}, 3]}}"),
        (DOCUMENT, "/name", 1, "x"),
        (DOCUMENT, "/outputs/0/stream", 5, "o"),
        ('{"a~b": {"c/d": 7}}', "/a~0b/c~1d", 1, "7"),
    ],
)
def test_a_pointer(text: str, pointer: str, line: int, shown: str) -> None:
    place = place_of(text, "wrong", pointer)
    assert place is not None
    assert (place.line, text[place.start : place.end]) == (line, shown)


def test_a_place_in_sql_and_in_what_cannot_be_read() -> None:
    sql = "SELECT ip FROM visits\nWHERE mss > 3"
    place = place_of(sql, "SQL-COLUMN at 2:7: there is no column 'mss'", "")
    assert place is not None and (place.line, sql[place.start : place.end]) == (2, "mss")
    broken = 'in "<unicode string>", line 2, column 1'
    place = place_of("a: [\n}", broken, "")
    assert place is not None and (place.line, place.start, place.end) == (2, 5, 6)


@pytest.mark.parametrize(("text", "pointer"), [("a: [", "/a"), ("", "/a"), ("name: x", ""), ("[" * 1_000, "/0")])
def test_none(text: str, pointer: str) -> None:
    assert place_of(text, "it is wrong", pointer) is None
