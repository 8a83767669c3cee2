"""What is no query says so: which part, and where in the document; what is one yields schemas, order and event times.

Tests `validate.py`, `cep/model/query.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from cep.errors import QueryError
from cep.model.expr import Expr, col, now
from cep.model.functions import count, last
from cep.model.operators import Aggregate, Filter, Map, Operator, Pattern, Union
from cep.model.patterns.parts import Definition, Var
from cep.model.query import Output, Query, from_json, to_json
from cep.model.schema import Schema
from cep.model.streams import Stream, TextFiles
from cep.model.windows import TIME
from cep.plan.validate import Validated, validate

SCHEMA = Schema.of({"ip": str, "ts": "timestamp[ms]", "n": "int64?"})
VISITS = Stream("visits", SCHEMA, col("ts"), 2_000_000)
CLICKS = Stream("clicks", SCHEMA)


def pick(name: str, input_: str, **fields: Expr) -> Map:
    return Map(name, input_, tuple(fields.items()))


def keep(name: str, input_: str) -> Filter:
    return Filter(name, input_, col("ip") != "")


def counted(name: str, input_: str) -> Aggregate:
    return Aggregate(name, input_, TIME("30s"), ("ip",), (("visits", count()), ("end", last("ts"))))


FOLLOWED = Pattern(
    "p",
    ("visits",),
    tuple((name, Definition(col("ip") == name)) for name in "AB"),
    Var("A").then(Var("B")),
    ("n",),
    within=1_000_000,
    timed_out=True,
)


def query(*operators: Operator, streams: tuple[Stream, ...] = (VISITS,), late: str | None = None, **outputs: str) -> Query:
    """`outputs` are stream=input."""
    return Query("q", streams, operators, tuple(Output(*pair) for pair in outputs.items()), late)


def check(asked: Query, *known: Stream) -> Validated:
    return validate(asked, {stream.name: stream for stream in known})


def refused(asked: Query, *known: Stream) -> tuple[str, Any]:
    """The message, and the part of the query's document that the pointer leads to."""
    with pytest.raises(QueryError) as raised:
        check(asked, *known)
    part: Any = to_json(asked)
    for step in raised.value.pointer.split("/")[1:]:
        part = part[int(step) if isinstance(part, list) else step.replace("~1", "/").replace("~0", "~")]
    return raised.value.message, part


# --- what holds ------------------------------------------------------------------------------------------------------


def test_schemas_order_and_event_time() -> None:
    asked = query(
        counted("window", "picked"),
        pick("picked", "kept", ip=col("ip"), ts=col("ts"), again=col("ts"), later=col("ts") + 1),
        keep("kept", "visits"),
        per_ip="window",
        raw="visits",
        picks="picked",
    )
    found = check(asked)
    assert found.order == ("kept", "picked", "window")
    assert {name: str(schema) for name, schema in found.schemas.items()} == {
        "visits": "(ip: string, ts: timestamp[ms], n: int64?)",
        "kept": "(ip: string, ts: timestamp[ms], n: int64?)",
        "picked": "(ip: string, ts: timestamp[ms], again: timestamp[ms], later: timestamp[ms])",
        "window": "(ip: string, visits: int64, end: timestamp[ms])",
        "per_ip": "(ip: string, visits: int64, end: timestamp[ms])",
        "raw": "(ip: string, ts: timestamp[ms], n: int64?)",
        "picks": "(ip: string, ts: timestamp[ms], again: timestamp[ms], later: timestamp[ms])",
    }
    assert {name: set(columns) for name, columns in found.event_time_columns.items()} == {
        "visits": {"ts"},
        "kept": {"ts"},
        "picked": {"ts", "again"},
        "window": set(),
        "per_ip": set(),
        "raw": {"ts"},
        "picks": {"ts", "again"},
    }


def test_a_union_keeps_the_event_time_that_all_its_inputs_have() -> None:
    asked = query(
        pick("a", "visits", x=col("ts"), y=col("ts")),
        pick("b", "visits", x=col("ts"), y=now().cast("timestamp[ms]")),
        Union("both", ("a", "b")),
        out="both",
    )
    assert check(asked).event_time_columns["both"] == {"x"}


def test_known_streams_are_read_and_sources_are_sorted() -> None:
    asked = query(Union("all", ("visits", "clicks")), out="all")
    found = check(asked, CLICKS, Stream("unused", SCHEMA))
    assert list(found.sources) == ["clicks", "visits"]
    assert found.event_time_columns["clicks"] == frozenset()
    assert "unused" not in found.schemas


def test_an_expression_may_be_the_event_time() -> None:
    stream = Stream("s", Schema.of({"t": int}), col("t").cast("timestamp[s]"), 0)
    assert check(query(streams=(stream,), out="s")).event_time_columns["s"] == frozenset()


def test_an_operator_hides_a_stream_that_others_declared() -> None:
    asked = query(keep("clicks", "visits"), keep("again", "clicks"), out="again")
    assert list(check(asked, CLICKS).sources) == ["visits"]


def test_an_output_that_exists_with_the_same_schema_may_be_written_again() -> None:
    assert check(query(out="visits"), Stream("out", SCHEMA)).schemas["out"] == SCHEMA


def test_a_stream_may_be_declared_again_as_it_is() -> None:
    again = Stream("visits", SCHEMA, col("ts"), 2_000_000)
    assert check(query(out="visits"), again).schemas["visits"] == SCHEMA


def test_the_late_stream_has_the_schema_of_the_sources_with_event_time() -> None:
    other = Stream("other", Schema.of({"x": int}))
    asked = query(keep("k", "visits"), streams=(VISITS, other), late="too_late", out="k", rest="other")
    assert check(asked).schemas["too_late"] == SCHEMA


def test_the_document_of_a_query_holds_too() -> None:
    asked = query(keep("k", "visits"), counted("w", "k"), out="w")
    assert check(from_json(to_json(asked))).order == ("k", "w")


# --- what does not ---------------------------------------------------------------------------------------------------

REFUSED: Mapping[str, tuple[Query, str, Any]] = {
    "two operators of one name": (
        query(keep("k", "visits"), keep("k", "visits"), out="k"),
        "the name 'k' is given twice: to two operators",
        "k",
    ),
    "an operator named as a stream": (
        query(keep("visits", "visits"), out="visits"),
        "the name 'visits' is given twice: to a stream and to an operator",
        "visits",
    ),
    "an output named as an operator": (
        query(keep("k", "visits"), k="k"),
        "the name 'k' is given twice: to an operator and to an output stream",
        "k",
    ),
    "an output named as a declared stream": (
        query(keep("k", "visits"), visits="k"),
        "the name 'visits' is given twice: to a stream and to an output stream",
        "visits",
    ),
    "an output named as the known stream that is read": (
        query(keep("k", "clicks"), clicks="k"),
        "query 'q' both reads and writes the stream 'clicks'",
        "clicks",
    ),
    "a late stream named as an output": (
        query(late="out", out="visits"),
        "the name 'out' is given twice: to an output stream and to the late stream",
        "out",
    ),
    "an operator without a name": (query(keep("", "visits"), out=""), "an operator needs a name", ""),
    "an unknown input": (
        query(keep("k", "visit"), out="k"),
        "operator 'k' reads 'visit', which is no operator and no declared stream (did you mean 'visits'?); there are 'clicks', 'k', ",
        "visit",
    ),
    "an unknown input of a union": (
        query(Union("u", ("visits", "x")), out="u"),
        "operator 'u' reads 'x', which is no operator",
        "x",
    ),
    "an unknown input of an output": (query(out="x"), "output 'out' reads 'x', which is no operator", "x"),
    "an unknown column": (
        query(keep("k", "visits"), pick("m", "k", y=col("ip"), x=col("jp")), out="m"),
        "operator 'm', field 'x': no column 'jp'; there are ip, ts, n",
        "jp",
    ),
    "a type that does not fit": (
        query(pick("m", "visits", x=col("ip") + 1), out="m"),
        "operator 'm', field 'x': ip + 1: expected numbers, or a timestamp and integer µs; got string + int64",
        {"op": "+", "args": [{"column": "ip"}, {"literal": 1, "type": "int64"}]},
    ),
    "an aggregate of an unknown column": (
        query(Aggregate("a", "visits", TIME("1s"), ("ip",), (("m", last("x")),)), out="a"),
        "operator 'a', field 'm': no column 'x'",
        "x",
    ),
    "a cycle": (
        query(Union("a", ("visits", "c")), keep("b", "a"), keep("c", "b"), keep("d", "visits"), out="c", rest="d"),
        "form a cycle",
        {"name": "a", "type": "union", "inputs": ["visits", "c"]},
    ),
    "an operator that nobody reads": (
        query(keep("k", "visits"), keep("lost", "visits"), out="k"),
        "nothing reads operator 'lost'",
        to_json(query(keep("lost", "visits")))["operators"][0],
    ),
    "what is read of a pattern, and another branch is not": (
        query(replace(FOLLOWED, unmatched=True), out="p.timed_out"),
        "nothing reads operator 'p.unmatched'",
        to_json(query(replace(FOLLOWED, unmatched=True)))["operators"][0],
    ),
    "a pattern that nobody reads": (
        query(keep("k", "visits"), FOLLOWED, out="k"),
        "nothing reads operator 'p'",
        to_json(query(FOLLOWED))["operators"][0],
    ),
    "no outputs": (query(keep("k", "visits")), "query 'q' has no outputs", []),
    "a union of one": (query(Union("u", ("visits",)), out="u"), "a union needs at least two inputs", ["visits"]),
    "a union of different schemas": (
        query(pick("m", "visits", ip=col("ip")), Union("u", ("visits", "m")), out="u"),
        "operator 'u': the inputs of a union have one schema; 'visits' has (ip: string, ts: timestamp[ms], n: int64?), "
        "'m' has (ip: string)",
        "m",
    ),
    "a late stream of different sources": (
        query(
            streams=(VISITS, Stream("other", Schema.of({"t": "timestamp"}), col("t"), 0)),
            late="l",
            a="visits",
            b="other",
        ),
        "late stream 'l': late rows keep the schema of their source",
        "l",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_query_is_refused_for(name: str) -> None:
    asked, expected, where = REFUSED[name]
    message, part = refused(asked, CLICKS)
    assert expected in message
    assert part == where


def test_matches_need_not_be_read_where_another_branch_is() -> None:
    """They are not in the plan then."""
    found = check(query(FOLLOWED, out="p.timed_out"))
    assert found.order == ("p.relevant", "p.ways", "p.timed_out") == tuple(each.name for each in found.query.operators)
    assert check(found.query).order == found.order


def test_a_cycle_names_the_operators_on_it_and_no_others() -> None:
    message, _ = refused(REFUSED["a cycle"][0])
    assert all(repr(name) in message for name in "abc") and "'d'" not in message


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        (Stream("visits", Schema.of({"ip": int, "ts": "timestamp[ms]"}), col("ts"), 2_000_000), "exists already with another schema"),
        (Stream("visits", SCHEMA, col("ts"), 1_000_000), "exists already with another disorder: '1s', here '2s'"),
        (Stream("visits", SCHEMA), "exists already with another event_time: None"),
        (Stream("visits", SCHEMA, col("ts"), 2_000_000, TextFiles(("x.csv",))), "exists already with another files"),
    ],
)
def test_a_stream_that_differs_in_more_than_columns_is_another(known: Stream, expected: str) -> None:
    message, _ = refused(query(out="visits"), known)
    assert message.startswith("stream 'visits' " + expected) and "'visits@2'" in message


def test_an_output_that_exists_otherwise_is_refused() -> None:
    message, part = refused(query(out="visits"), Stream("out", Schema.of({"x": int})))
    assert (message.split(",")[0], part) == ("output 'out' exists already with the schema (x: int64)", "out")
    message, _ = refused(query(out="visits"), Stream("out", SCHEMA, col("ts"), 0))
    assert "fed from outside" in message


@pytest.mark.parametrize(
    ("key", "value", "pointer"),
    [
        ("a/b", 1, "/a~1b"),
        ("operators", [{"name": "m", "type": "map", "input": "s", "fields": {"a/b~": {"nothing": 1}}}], "/operators/0/fields/a~1b~0"),
        ("operators", [{"name": "m", "type": "map", "input": "s", "fields": {"a": {"column": "k"}}, "x/y": 1}], "/operators/0/x~1y"),
        ("streams", [{"name": "s", "schema": [], "x/y": 1}], "/streams/0/x~1y"),
        ("options", {"balancers": {"o/p": "any"}}, "/options/balancers/o~1p"),
        ("options", {"x/y": 1}, "/options/x~1y"),
    ],
)
def test_pointers_into_documents_escape_names(key: str, value: Any, pointer: str) -> None:
    with pytest.raises(QueryError) as raised:
        from_json({"name": "q", key: value})
    assert raised.value.pointer == pointer
