"""The examples of the OpenAPI document: one for each operator and window, each a valid query by its schema and by the planner.

Tests `examples.py`, `cep/service/query_schema.py`.
"""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from cep.model import query as queries
from cep.model.operators import TYPES
from cep.model.windows import Window
from cep.plan.validate import validate
from cep.service import query_schema
from driver import (
    CUMULATE,
    SESSION,
    SIZE,
    TIME,
    TRAILING,
    TRANSACTION,
    UNBOUNDED,
    Query,
    arg_max,
    avg,
    col,
    count,
    event,
    files,
    format_time,
    lag,
    parse_time,
    row,
    stream,
    try_,
)
from orchestrator.rest.examples import EXAMPLES

PAGE_VIEWS = stream("page_views", ip=str, ts="timestamp[ms]", url=str, ms="int64", event_time="ts", disorder="2s")
SALES = stream("sales", ip=str, at="timestamp[ms]", price="float64", event_time="at", disorder="2s")
VIEWS = files(
    "page_view_files",
    {"ip": str, "ts": "timestamp[ms]", "url": str, "ms": int},
    paths="/data/views-*.jsonl",
    format="jsonl",
    event_time="ts",
    disorder="2s",
)
SLOW, QUICK = col("ms") > 100, col("ms") < 10


def _visits(name: str) -> Query:
    return Query(f"with-{name}").source(PAGE_VIEWS)


def _counted(name: str, window: Window) -> Query:
    return _visits(name).aggregate(name, window, by="ip", visits=count())


#: The same queries from Python.
BUILT = {
    "map": _visits("picked").map("picked", ip=col("ip"), s=col("ms") / 1000),
    "map, and all other columns": _visits("with_seconds").with_columns("with_seconds", s=col("ms") / 1000),
    "filter": _visits("slow").filter("slow", SLOW),
    "union": _visits("both").filter("slow", SLOW).at("page_views").filter("quick", QUICK).union("both", "slow", "quick"),
    "demux": _visits("route").demux("route", {"slow": SLOW}, otherwise="quick").at("route.slow").output("out_route_slow").at("route.quick"),
    "map, times as text": _visits("day_by_day").map(
        "day_by_day", day=format_time(col("ts"), "%Y-%m-%d"), said=try_(parse_time(col("url"), "/%Y/%m/%d"))
    ),
    "flat_map": _visits("words").flat_map("words", explode="word", ip=col("ip"), word=col("url").split("/")),
    "apply": _visits("applied").apply("applied", "my_functions:seconds", ["ip", "ms"], {"ip": str, "s": float}),
    "files": Query("with-files").source(VIEWS).filter("slow_views", SLOW),
    "delay": _visits("later").delay("later", "5s"),
    "sample": _visits("some").sample("some", 0.01, seed=7),
    "lookup": _visits("named").lookup("named", ("/data/owners.csv", {"ip": str, "owner": str}), on="ip", how="left"),
    "lookup, versions": _visits("named_as_of_then").lookup(
        "named_as_of_then", ("/data/owner_history.csv", {"ip": str, "owner": str, "since": "timestamp[ms]"}), on="ip", versions="since"
    ),
    "lookup, refreshed": _visits("named_each_minute").lookup(
        "named_each_minute", ("/data/owners.csv", {"ip": str, "owner": str}), on="ip", refresh="1m"
    ),
    "aggregate, time": _counted("windows", TIME("30s", "10s")),
    "aggregate, one row": _visits("slowest_view").aggregate("slowest_view", TIME("30s"), by="ip", **arg_max(["url", "ms"], by="ms")),
    "aggregate, size": _counted("hundreds", SIZE(100, 10)),
    "aggregate, partial": _visits("hundreds_and_the_rest").aggregate(
        "hundreds_and_the_rest", SIZE(100, emit_partial=True), by="ip", visits=count()
    ),
    "aggregate, offset": _counted("days_two_hours_east", TIME("1d", offset="-2h")),
    "aggregate, session": _counted("sessions", SESSION("5m")),
    "aggregate, transaction": _counted("transactions", TRANSACTION(col("ms") > 10, SLOW)),
    "aggregate, cumulate": _counted("today", CUMULATE("10m", "1h")),
    "aggregate, unbounded": _counted("so_far", UNBOUNDED(ttl="1h")),
    "join": _visits("joined").join("joined", SALES, TIME("30s"), on="ip", how="left"),
    "interval_join": _visits("soon_after").interval_join("soon_after", SALES, "0s", "10s", on="ip"),
    "interval_join, without a bound": _visits("ever_after").interval_join("ever_after", SALES, "0s", None, on="ip", how="left"),
    "as_of_join": _visits("as_of").as_of_join("as_of", SALES, on="ip", how="left", tolerance="1m"),
    "zip": _visits("paired").zip("paired", SALES, prefix="sale_"),
    "sort": _visits("sorted").sort("sorted", TIME("30s"), by="ip", order="-ms"),
    "sort, each hundred rows": _visits("slowest_of_hundred").sort("slowest_of_hundred", SIZE(100), by="ip", order="-ms"),
    "top_n": _visits("slowest").top("slowest", 3, TIME("30s"), by="ip", order="-ms"),
    "keep_last": _visits("latest").deduplicate("latest", keep="last", window=TIME("30s"), by="ip"),
    "sample_n": _visits("a_few").sample("a_few", n=3, window=TIME("30s"), by="ip"),
    "over": _visits("against_the_last").over("against_the_last", TRAILING("10m"), by="ip", mean=avg("ms"), before=lag("url"), ttl="1d"),
    "deduplicate": _visits("once").deduplicate("once", by=("ip", "url"), ttl="1h"),
    "stateful_map": _visits("numbered").stateful_map(
        "numbered", by="ip", ttl="1h", state={"n": 0}, update={"n": col("n") + 1}, fields={"ip": col("ip"), "n": col("n")}
    ),
    "pattern": _visits("slow_then_gone")
    .pattern(
        "slow_then_gone",
        event("slow", SLOW)
        .then(event("slower", col("ms") > row("slow")["ms"]).times(1, 3))
        .absent(event("any", col("ms") >= 0), for_="1m"),
        by="ip",
        within="10m",
        measures={"first_url": row("slow").first("url"), "slowest": row("slower").max("ms")},
        timed_out=True,
    )
    .output("out_slow_then_gone")
    .at("slow_then_gone.timed_out"),
}

COMPONENTS = {"components": {"schemas": query_schema.query_components()}}
QUERY = {"$ref": "#/components/schemas/Query", **COMPONENTS}


def test_there_is_one_for_every_operator_and_window() -> None:
    operators = [operator for document in EXAMPLES.values() for operator in document["operators"]]
    assert {operator["type"] for operator in operators} == TYPES.keys()
    assert {o["window"]["type"] for o in operators if o["type"] == "aggregate"} == {
        "time",
        "cumulate",
        "size",
        "session",
        "transaction",
        "unbounded",
    }


@pytest.mark.parametrize(
    "said",
    [
        '"offset"',
        '"versions"',
        '"refresh"',
        '"emit_partial"',
        '"format_time"',
        '"parse_time"',
        '"arg_max"',
        '"lag"',
        '"ttl"',
        '"cumulate"',
        '"upper": null',
    ],
)
def test_one_says(said: str) -> None:
    assert said in json.dumps(EXAMPLES)


@pytest.mark.parametrize("document", EXAMPLES.values(), ids=EXAMPLES)
def test_an_example_is_a_query(document: dict[str, Any]) -> None:
    jsonschema.validate(document, QUERY)
    query = queries.from_json(document)
    assert queries.to_json(queries.from_json(queries.to_json(query))) == queries.to_json(query)
    jsonschema.validate(queries.to_json(query), QUERY)
    assert validate(query, {}).schemas


@pytest.mark.parametrize("name", EXAMPLES)
def test_python_builds_the_same_query(name: str) -> None:
    query = queries.from_json(EXAMPLES[name])
    stream, files_ = query.outputs[-1].stream, query.outputs[-1].files
    built = (BUILT[name].output(stream, folder=files_.folder, format=files_.format) if files_ else BUILT[name].output(stream)).build()
    assert queries.to_json(built) == queries.to_json(query)


@pytest.mark.parametrize(
    "operator",
    [
        {"name": "f", "type": "filter", "input": "visits"},
        {"name": "f", "type": "delay", "input": "visits", "by": "5s", "to": "x"},
        {"name": "f", "type": "nothing", "input": "visits"},
    ],
)
def test_the_schema_refuses_what_the_reader_refuses(operator: dict[str, Any]) -> None:
    document = {"name": "q", "streams": [], "operators": [operator], "outputs": [{"stream": "out", "input": "f"}]}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, QUERY)
    with pytest.raises(Exception, match=operator["name"]):
        queries.from_json(document)
