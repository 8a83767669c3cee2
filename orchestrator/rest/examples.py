"""A query with each operator, as documents: what the OpenAPI document shows, and tests deploy.

All can be deployed in one cluster.
"""

from __future__ import annotations

from typing import Any

PAGE_VIEWS = {
    "name": "page_views",
    "schema": [
        {"name": "ip", "type": "string"},
        {"name": "ts", "type": "timestamp[ms]"},
        {"name": "url", "type": "string"},
        {"name": "ms", "type": "int64"},
    ],
    "event_time": "ts",
    "disorder": "2s",
}
SALES = {
    "name": "sales",
    "schema": [{"name": "ip", "type": "string"}, {"name": "at", "type": "timestamp[ms]"}, {"name": "price", "type": "float64"}],
    "event_time": "at",
    "disorder": "2s",
}


def _column(name: str) -> dict[str, Any]:
    return {"column": name}


def _over(column: str, value: Any) -> dict[str, Any]:
    return {"op": ">", "args": [_column(column), value]}


def _query(
    *operators: dict[str, Any], streams: tuple[dict[str, Any], ...] = (PAGE_VIEWS,), outputs: tuple[str, ...] = ()
) -> dict[str, Any]:
    last = operators[-1]["name"]
    found = outputs or (last,)
    return {
        "name": f"with-{last}",
        "streams": list(streams),
        "operators": list(operators),
        "outputs": [{"stream": f"out_{name.replace('.', '_')}", "input": name} for name in found],
    }


def _on_page_views(name: str, type_: str, **keys: Any) -> dict[str, Any]:
    return _query({"name": name, "type": type_, "input": "page_views", **keys})


def _with_sales(name: str, type_: str, **keys: Any) -> dict[str, Any]:
    return _query({"name": name, "type": type_, "left": "page_views", "right": "sales", "on": ["ip"], **keys}, streams=(PAGE_VIEWS, SALES))


def _aggregate(name: str, **window: Any) -> dict[str, Any]:
    return _on_page_views(name, "aggregate", window=window, by=["ip"], functions={"visits": {"function": "count"}})


_30S = {"type": "time", "size": "30s"}

_FILES = {
    "name": "with-files",
    "streams": [PAGE_VIEWS | {"name": "page_view_files", "files": {"format": "jsonl", "paths": ["/data/views-*.jsonl"]}}],
    "operators": [{"name": "slow_views", "type": "filter", "input": "page_view_files", "condition": _over("ms", 100)}],
    "outputs": [{"stream": "out_slow_views", "input": "slow_views", "files": {"format": "parquet", "folder": "/data/answers"}}],
}

#: operator (an aggregate once for each window) -> a query with it; and one over files
EXAMPLES: dict[str, dict[str, Any]] = {
    "map": _on_page_views("picked", "map", fields={"ip": _column("ip"), "s": {"op": "/", "args": [_column("ms"), 1000]}}),
    "map, and all other columns": _on_page_views(
        "with_seconds", "map", fields={"s": {"op": "/", "args": [_column("ms"), 1000]}}, keep_others=True
    ),
    "filter": _on_page_views("slow", "filter", condition=_over("ms", 100)),
    "union": _query(
        {"name": "slow", "type": "filter", "input": "page_views", "condition": _over("ms", 100)},
        {"name": "quick", "type": "filter", "input": "page_views", "condition": {"op": "<", "args": [_column("ms"), 10]}},
        {"name": "both", "type": "union", "inputs": ["slow", "quick"]},
    ),
    "demux": _query(
        {"name": "route", "type": "demux", "input": "page_views", "cases": {"slow": _over("ms", 100)}, "otherwise": "quick"},
        outputs=("route.slow", "route.quick"),
    ),
    "map, times as text": _on_page_views(
        "day_by_day",
        "map",
        fields={
            "day": {"call": "format_time", "args": [_column("ts"), "%Y-%m-%d"]},
            "said": {"call": "try", "args": [{"call": "parse_time", "args": [_column("url"), "/%Y/%m/%d"]}]},
        },
    ),
    "flat_map": _on_page_views(
        "words",
        "flat_map",
        fields={"ip": _column("ip"), "word": {"call": "split", "args": [_column("url"), "/"]}},
        explode="word",
    ),
    "apply": _on_page_views(
        "applied",
        "apply",
        function="my_functions:seconds",
        columns=["ip", "ms"],
        schema=[{"name": "ip", "type": "string"}, {"name": "s", "type": "float64"}],
    ),
    "delay": _on_page_views("later", "delay", by="5s"),
    "sample": _on_page_views("some", "sample", fraction=0.01, seed=7),
    "lookup": _on_page_views(
        "named",
        "lookup",
        table={"schema": [{"name": "ip", "type": "string"}, {"name": "owner", "type": "string"}], "path": "/data/owners.csv"},
        on=["ip"],
        how="left",
    ),
    "lookup, versions": _on_page_views(
        "named_as_of_then",
        "lookup",
        table={
            "schema": [{"name": "ip", "type": "string"}, {"name": "owner", "type": "string"}, {"name": "since", "type": "timestamp[ms]"}],
            "path": "/data/owner_history.csv",
        },
        on=["ip"],
        versions="since",
    ),
    "lookup, refreshed": _on_page_views(
        "named_each_minute",
        "lookup",
        table={"schema": [{"name": "ip", "type": "string"}, {"name": "owner", "type": "string"}], "path": "/data/owners.csv"},
        on=["ip"],
        refresh="1m",
    ),
    "aggregate, time": _aggregate("windows", type="time", size="30s", advance="10s"),
    "aggregate, one row": _on_page_views(
        "slowest_view",
        "aggregate",
        window={"type": "time", "size": "30s"},
        by=["ip"],
        functions={name: {"function": "arg_max", "column": name, "by": "ms"} for name in ("url", "ms")},
    ),
    "aggregate, size": _aggregate("hundreds", type="size", size=100, advance=10),
    "aggregate, partial": _on_page_views(
        "hundreds_and_the_rest",
        "aggregate",
        window={"type": "size", "size": 100},
        by=["ip"],
        functions={"visits": {"function": "count"}},
        emit_partial=True,
    ),
    "aggregate, offset": _aggregate("days_two_hours_east", type="time", size="1d", advance="1d", offset="22h"),
    "aggregate, session": _aggregate("sessions", type="session", gap="5m"),
    "aggregate, transaction": _aggregate("transactions", type="transaction", open=_over("ms", 10), close=_over("ms", 100)),
    "aggregate, cumulate": _aggregate("today", type="cumulate", step="10m", size="1h"),
    "aggregate, unbounded": _aggregate("so_far", type="unbounded", ttl="1h"),
    "join": _with_sales("joined", "join", window=_30S, how="left"),
    "interval_join": _with_sales("soon_after", "interval_join", lower="0s", upper="10s"),
    "interval_join, without a bound": _with_sales("ever_after", "interval_join", lower="0s", upper=None, how="left"),
    "as_of_join": _with_sales("as_of", "as_of_join", how="left", tolerance="1m"),
    "zip": _query(
        {"name": "paired", "type": "zip", "left": "page_views", "right": "sales", "prefix": "sale_"}, streams=(PAGE_VIEWS, SALES)
    ),
    "sort": _on_page_views("sorted", "sort", window=_30S, by=["ip"], order=[{"column": "ms", "descending": True}]),
    "sort, each hundred rows": _on_page_views(
        "slowest_of_hundred", "sort", window={"type": "size", "size": 100}, by=["ip"], order=[{"column": "ms", "descending": True}]
    ),
    "top_n": _on_page_views("slowest", "top_n", window=_30S, by=["ip"], order=[{"column": "ms", "descending": True}], n=3),
    "keep_last": _on_page_views("latest", "keep_last", window=_30S, by=["ip"]),
    "sample_n": _on_page_views("a_few", "sample_n", window=_30S, by=["ip"], n=3),
    "over": _on_page_views(
        "against_the_last",
        "over",
        window={"type": "trailing", "size": "10m"},
        by=["ip"],
        functions={"mean": {"function": "avg", "column": "ms"}, "before": {"function": "lag", "column": "url", "k": 1}},
        ttl="1d",
    ),
    "deduplicate": _on_page_views("once", "deduplicate", by=["ip", "url"], ttl="1h"),
    "stateful_map": _on_page_views(
        "numbered",
        "stateful_map",
        by=["ip"],
        ttl="1h",
        state={"n": {"literal": 0, "type": "int64"}},
        update={"n": {"op": "+", "args": [_column("n"), 1]}},
        fields={"ip": _column("ip"), "n": _column("n")},
    ),
    "pattern": _query(
        {
            "name": "slow_then_gone",
            "type": "pattern",
            "inputs": ["page_views"],
            "by": ["ip"],
            "define": {
                "slow": _over("ms", 100),
                "slower": {"op": ">", "args": [_column("ms"), {"row": "slow", "column": "ms"}]},
                "any": {"op": ">=", "args": [_column("ms"), 0]},
            },
            "pattern": {"seq": ["slow", {"repeat": "slower", "max": 3}, {"not": "any", "for": "1m"}], "by": "then"},
            "within": "10m",
            "measures": {
                "first_url": {"row": "slow", "function": "first", "column": "url"},
                "slowest": {"row": "slower", "function": "max", "column": "ms"},
            },
            "timed_out": True,
        },
        outputs=("slow_then_gone", "slow_then_gone.timed_out"),
    ),
    "files": _FILES,
}
