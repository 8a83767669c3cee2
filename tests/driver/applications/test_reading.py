"""Files of applications: what they include, variables, and that an error names the file and the place."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cep.errors import QueryError
from driver.applications.reading import read_application


@pytest.fixture
def write(tmp_path: Path):
    def write(**files: str) -> Path:
        for name, text in files.items():
            (tmp_path / f"{name}.yaml").write_text(text)
        return tmp_path / f"{next(iter(files))}.yaml"

    return write


def test_what_is_included_comes_with_its_variables_and_the_nearest_to_the_user_counts(write) -> None:
    main = write(
        main="application: a\ninclude: [more.yaml]\nvariables: {x: 2}\nstreams: {s: {schema: '${x}', t: 'a${x}${y}${z}'}}",
        more="variables: {x: 1, y: three, z: true}\nqueries: {q: {sql: '${x} $${x} ${env:X}'}}",
    )
    found = read_application(main, {"y": "four"})
    assert found.streams["s"].document == {"schema": 2, "t": "a2fourtrue"}
    assert found.queries["q"].document == {"sql": "2 ${x} ${env:X}"}
    assert found.queries["q"].file.name == "more.yaml"


WRONG = {
    "no name": ("streams: {}", "an application needs a name, such as `application: shop`; got None", "/application"),
    "a bad name": ("application: a/b", "is part of an address", "/application"),
    "unknown key": ("application: a\nstream: {}", "unknown key 'stream' (did you mean 'streams'?)", "/stream"),
    "no mapping": ("[1]", "expected a mapping with application, include, variables, streams, queries, sinks; got list", ""),
    "no YAML": ("a: [", "cannot be read: ", ""),
    "no part": ("application: a\nqueries: {q: 3}", "expected a mapping, got 3", "/queries/q"),
    "no list": ("application: a\ninclude: b.yaml", "include: expected a list of files, got 'b.yaml'", "/include"),
    "no file": ("application: a\ninclude: [3]", "expected the name of a file, got 3", "/include/0"),
    "no variable": (
        "application: a\nqueries: {q: {sql: ['${sise}']}}\nvariables: {size: 3}",
        "no variable 'sise' (did you mean 'size'?)",
        "/queries/q/sql/0",
    ),
    "a name that is no text": ("application: a\nqueries: {1: {sql: x}}", "the key 1 is no text; write it in quotes", "/queries"),
    "a key below": ("application: a\nqueries: {q: {outputs: [{true: x}]}}", "the key true is no text", "/queries/q/outputs/0"),
    "a list for a variable": ("application: a\nvariables: {x: [1]}", "variable 'x': expected a text, a number or a bool", "/variables/x"),
}


@pytest.mark.parametrize("text, said, pointer", WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_named_with_its_place(write, text: str, said: str, pointer: str) -> None:
    main = write(main=text)
    with pytest.raises(QueryError, match=re.escape(said)) as error:
        read_application(main)
    assert error.value.pointer == pointer
    assert str(main) in str(error.value)


def test_files_that_do_not_go_together(write, tmp_path: Path) -> None:
    with pytest.raises(QueryError, match=r"main\.yaml: 's' stands in .*more\.yaml already"):
        read_application(write(main="application: a\ninclude: [more.yaml]\nstreams: {s: {schema: []}}", more="streams: {s: {schema: []}}"))
    with pytest.raises(QueryError, match=r"main\.yaml: it includes itself, by .*more\.yaml"):
        read_application(write(main="application: a\ninclude: [more.yaml]", more="include: [main.yaml]"))
    with pytest.raises(QueryError, match=r"more\.yaml: a file that is included names no application"):
        read_application(write(main="application: a\ninclude: [more.yaml]", more="application: b"))
    with pytest.raises(QueryError, match=r"none\.yaml: No such file or directory"):
        read_application(write(main="application: a\ninclude: [none.yaml]"))
    with pytest.raises(QueryError, match=r"there is no variable 'sise' \(did you mean 'size'\?\); .*main\.yaml has size"):
        read_application(write(main="application: a\nvariables: {size: 3}"), {"sise": 4})


def test_a_file_that_two_include_is_the_same(write) -> None:
    """It is read once, so that its variables come before those of both."""
    main = write(
        main="application: a\ninclude: [one.yaml, two.yaml]",
        one="include: [both.yaml]\nvariables: {x: 1}",
        two="include: [./both.yaml]",
        both="streams: {s: {schema: ['${x}']}}\nvariables: {x: 0}",
    )
    assert {name: part.document for name, part in read_application(main).streams.items()} == {"s": {"schema": [1]}}
