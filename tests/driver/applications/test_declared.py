"""What the parts of an application are as values: forms of queries, their order, and where errors point."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import FrameType

import pytest

from cep.errors import QueryError
from driver import stream
from driver.applications.declared import Application, _query, declared
from driver.applications.reading import read_application

VISITS = "streams: {visits: {schema: {ip: string, ts: 'timestamp[ms]'}, event_time: ts, disorder: 2s}}\n"
FILTER = (
    "{operators: [{name: f, type: filter, input: %s, condition: {op: '>', args: [{column: n}, 1]}}], outputs: [{stream: %s, input: f}]}"
)
WINDOW = "TABLE(TUMBLE(TABLE visits, DESCRIPTOR(ts), INTERVAL '1' SECOND))"
COUNTS = f'{{sql: "SELECT count(*) AS n FROM {WINDOW} GROUP BY window_start, window_end"}}'


def of(folder: Path, text: str, *known) -> Application:
    file = folder / "a.yaml"
    file.write_text("application: a\n" + text)
    return declared(read_application(file), {each.name: each for each in known})


def test_queries_stand_behind_those_that_they_read(tmp_path: Path) -> None:
    found = of(
        tmp_path, VISITS + f"queries:\n  last: {FILTER % ('more', 'out')}\n  more: {FILTER % ('first', 'more')}\n  first: {COUNTS}\n"
    )
    assert list(found.queries) == ["first", "more", "last"]
    assert found.streams["visits"] == stream("visits", ip="string", ts="timestamp[ms]", event_time="ts", disorder="2s")
    assert [output.stream for output in found.queries["first"].outputs] == ["first"]


def test_a_query_is_bound_again_only_when_what_it_names_has_come(tmp_path: Path) -> None:
    """Each reads the next one of the file. All were bound again for each that came: 80 took twenty times as long as 20."""
    bound: list[str] = []

    def count(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code is _query.__code__:
            bound.append(frame.f_locals["name"])

    (tmp_path / "q04.sql").write_text("SELECT n FROM Q05")
    texts = [f"{{sql: SELECT n FROM q{i + 1:02}}}" if i != 4 else "{file: q04.sql}" for i in range(30)]
    queries = "".join(f"  q{i:02}: {text}\n" for i, text in enumerate(texts))
    sys.setprofile(count)
    try:
        found = of(tmp_path, f"streams: {{q30: {{schema: {{n: int64}}}}}}\nqueries:\n{queries}")
    finally:
        sys.setprofile(None)
    assert list(found.queries) == [f"q{i:02}" for i in reversed(range(30))]
    assert sorted(bound) == sorted([f"q{i:02}" for i in range(30)] + [f"q{i:02}" for i in range(29)])


def test_a_name_that_is_written_with_escapes(tmp_path: Path) -> None:
    (tmp_path / "last.json").write_text(
        '{"operators": [{"name": "f", "type": "filter", "input": "m\\u006fre", "condition": {"op": ">", "args": [{"column": "n"}, 1]}}],'
        ' "outputs": [{"stream": "out", "input": "f"}]}'
    )
    text = f"queries:\n  last: {{file: last.json}}\n  more: {FILTER % ('numbers', 'more')}\n"
    assert list(of(tmp_path, text, stream("numbers", n="int64")).queries) == ["more", "last"]


def test_files_and_options(tmp_path: Path) -> None:
    (tmp_path / "first.sql").write_text(COUNTS.partition('"')[2].rpartition('"')[0])
    document = {"name": "else", "operators": [], "outputs": [{"stream": "out", "input": "first"}], "options": {"buckets": 64}}
    (tmp_path / "more.json").write_text(json.dumps(document))
    found = of(
        tmp_path,
        VISITS + "queries: {first: {file: first.sql, options: {recover: at-once}}, more: {file: more.json, options: {replicas: 2}}}",
    )
    assert found.queries["first"].options.recover == "at-once"
    assert (found.queries["more"].name, found.queries["more"].options.buckets, found.queries["more"].options.replicas) == ("more", 64, 2)


def test_streams_that_the_cluster_has(tmp_path: Path) -> None:
    assert of(tmp_path, f"queries: {{q: {FILTER % ('numbers', 'out')}}}", stream("numbers", n="int64")).queries.keys() == {"q"}


def test_connectors_have_their_streams_names_or_their_own(tmp_path: Path) -> None:
    text = (
        "streams: {s: {schema: {n: int64}, from: {connector: files, path: /in}}}\nsinks: {out: {stream: o, connector: files, path: /out}}"
    )
    found = of(tmp_path, text).connectors
    assert {name: each.document for name, each in found.items()} == {
        "s": {"name": "s", "stream": "s", "from": {"connector": "files", "path": "/in"}},
        "out": {"name": "out", "stream": "o", "to": {"connector": "files", "path": "/out"}},
    }
    assert found["out"].wrong(QueryError("no", "/to/path")).pointer == "/sinks/out/path"
    assert found["s"].wrong(QueryError("no", "/from/path")).pointer == "/streams/s/from/path"


OF_N = "streams: {s: {schema: {n: int64}}, o: {schema: {n: int64}}}\n"
WRONG = {
    "a sink of no stream": ("sinks: {out: {connector: files}}", "stream: expected the name of a stream, got None", "/sinks/out/stream"),
    "two connectors": ("streams: {s: {schema: {n: int64}, from: {}}}\nsinks: {s: {stream: o}}", "give the sink another one", "/sinks/s"),
    "two forms": ("queries: {q: {sql: x, file: y}}", "expected one of sql, file and a document's keys, got sql and file", "/queries/q"),
    "no form": ("queries: {q: {}}", "got none", "/queries/q"),
    "unknown key": ("queries: {q: {sqll: x}}", "unknown key 'sqll' (did you mean 'sql'?)", "/queries/q/sqll"),
    "no SQL": ("queries: {q: {sql: 3}}", "expected a text of SQL, got 3", "/queries/q/sql"),
    "wrong SQL": ("queries: {q: {sql: SELECT a FROM nothing}}", "nothing", "/queries/q/sql"),
    "an operator": ("queries: {q: {operators: [{name: f, type: filtre, input: s}], outputs: []}}", "filtre", "/queries/q/operators/0"),
    "an option": ("queries: {q: {outputs: [], options: {bucket: 3}}}", "unknown option 'bucket'", "/queries/q/options/bucket"),
    "options": ("queries: {q: {operators: [], outputs: [], options: 3}}", "expected options, got 3", "/queries/q/options"),
    "a type": ("streams: {s: {schema: {a: itn}}}", "itn", "/streams/s/schema/a"),
    "a column that is no text": (
        "streams: {s: {schema: {null: int64}}}",
        "the key null is no text; write it in quotes",
        "/streams/s/schema",
    ),
    "no schema": ("streams: {s: {disorder: 2s}}", "expected a mapping from columns to types", "/streams/s/schema"),
    "another name": ("streams: {s: {name: t, schema: {a: int64}}}", "the name is 't' here, and 's' as its key", "/streams/s/name"),
    "a key that is no text": (
        "queries: {q: {file: key.yaml}}",
        "key.yaml cannot be read as a query: the key '1' is no text",
        "/queries/q/file",
    ),
    "a key twice in a file": (
        "queries: {q: {file: twice.json}}",
        "twice.json cannot be read as a query: The key 'name' stands",
        "/queries/q/file",
    ),
    "no such file": ("queries: {q: {file: none.yaml}}", "none.yaml: No such file", "/queries/q"),
    "no query": ("queries: {q: {file: a.yaml}}", "unknown key", "/queries/q/file"),
    "reads what it puts out": (f"{OF_N}queries: {{q: {FILTER % ('s', 's')}}}", "both reads and writes the stream 's'", "/queries/q"),
    "puts out what is published": (f"{OF_N}queries: {{q: {FILTER % ('s', 'o')}}}", "which the application declares", "/queries/q"),
    "two of one output": (f"{OF_N}queries: {{q: {FILTER % ('s', 'p')}, r: {FILTER % ('s', 'p')}}}", "so does query 'q'", "/queries/r"),
    "another is wrong": (f"queries: {{q: {FILTER % ('r', 'o')}, r: {{sql: SELECT a FROM nothing}}}}", "nothing", "/queries/r/sql"),
    "in a circle": (f"queries: {{q: {FILTER % ('b', 'a')}, r: {FILTER % ('a', 'b')}}}", "'b'", "/queries/q/operators/0/input"),
}


@pytest.mark.parametrize("text, said, pointer", WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_named_with_its_place(tmp_path: Path, text: str, said: str, pointer: str) -> None:
    (tmp_path / "key.yaml").write_text("outputs: []\noperators: [{name: a, type: aggregate, functions: {1: {function: count}}}]\n")
    (tmp_path / "twice.json").write_text('{"name": "q", "operators": [], "outputs": [], "name": "r"}')
    with pytest.raises(QueryError, match=re.escape(said)) as error:
        of(tmp_path, text)
    assert error.value.pointer.startswith(pointer)
    assert str(tmp_path / "a.yaml") in str(error.value)
