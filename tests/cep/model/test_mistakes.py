"""Sixty mistakes made on purpose, and what is answered: the operator, what was expected, what was got, what to do.

Tests `checked.py`, `contract/columns.py`, `contract/matching.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from cep.errors import QueryError
from driver import (
    SESSION,
    SIZE,
    TIME,
    TRANSACTION,
    UNBOUNDED,
    Query,
    arg_max,
    col,
    collect,
    count,
    files,
    lit,
    quantile,
    stream,
    sum_,
    when,
)

VISITS = stream("visits", ip=str, n=int, bytes="float64?", tags=list[str], ts="timestamp[ms]", event_time="ts", disorder="2s")
OTHERS = stream("others", ip=str, m=int, ts="timestamp[ms]", event_time="ts", disorder="2s")
q = Query("q").source(VISITS)
untyped: Any = q  # what a type checker would see is written here on purpose

#: what is wrong -> (how it is made, what the message says, its pointer)
MISTAKES: dict[str, tuple[Callable[[], Any], str, str]] = {
    # --- windows
    "a duration for a window": (
        lambda: untyped.aggregate("a", "30s", n=count()),
        "operator 'a': window: expected TIME(\"30s\") or",
        "/window",
    ),
    "no unit": (lambda: TIME("30"), "window size: expected a whole number and a unit of us, ms, s, m, h, d such as '30s', got '30'", ""),
    "a unit that is none": (lambda: TIME("30 sec"), "got '30 sec'", ""),
    "a fraction": (lambda: TIME("1.5s"), "expected a whole number", ""),
    "a number for a duration": (lambda: TIME(30), "got 30", ""),  # type: ignore[arg-type]
    "a window of nothing": (lambda: TIME("0s"), "window size must be greater than zero", "/size"),
    "a negative window": (lambda: TIME(timedelta(seconds=-1)), "window size must be greater than zero", "/size"),
    "a negative window in words": (
        lambda: TIME("-30s"),
        "window size must be greater than zero and at most 72057594037927936 µs, got -30s",
        "/size",
    ),
    "a negative advance": (
        lambda: TIME("30s", "-5s"),
        "window advance must be greater than zero and at most the size (30s), got -5s",
        "/advance",
    ),
    "a negative gap": (lambda: SESSION("-5m"), "session gap must be greater than zero", "/gap"),
    "a negative ttl": (lambda: UNBOUNDED(ttl="-5m"), "ttl must be greater than zero", "/ttl"),
    "an offset without a unit": (lambda: TIME("10s", offset="3"), "window offset: expected a whole number and a unit", ""),
    "an advance above the size": (lambda: TIME("10s", "30s"), "at most the size (10s)", "/advance"),
    "rows for a duration": (
        lambda: untyped.aggregate("a", 100, n=count()),
        'expected TIME("30s") or CUMULATE("10m", "1h") or SIZE(100)',
        "/window",
    ),
    "half a row": (lambda: SIZE(1.5), "window size: expected 1 to", "/size"),  # type: ignore[arg-type]
    "no rows": (lambda: SIZE(0), "window size: expected 1 to", "/size"),
    "sort by session": (
        lambda: untyped.sort("s", SESSION("5m"), order="n"),
        "operator 's': window: expected TIME(\"30s\") or SIZE(100) or None, got SESSION('5m')",
        "/window",
    ),
    "top by session": (
        lambda: untyped.top("t", 3, SESSION("5m"), order="n"),
        "operator 't': window: expected TIME(\"30s\"), got SESSION('5m')",
        "/window",
    ),
    "join by rows": (
        lambda: untyped.join("j", OTHERS, SIZE(10), on="ip"),
        "operator 'j': window: expected TIME(\"30s\"), got SIZE(10)",
        "/window",
    ),
    "join by a text": (
        lambda: untyped.join("j", OTHERS, "30s", on="ip"),
        "operator 'j': window: expected TIME(\"30s\"), got '30s'",
        "/window",
    ),
    "two advances": (
        lambda: q.join("j", OTHERS, TIME("1m", "10s"), right_window=TIME("1m"), on="ip", prefix="r_"),
        "operator 'j': both windows of a join have one advance",
        "/right_window/advance",
    ),
    "ttl below the advance": (lambda: UNBOUNDED("1m", ttl="1s"), "ttl: expected at least the advance (1m)", "/ttl"),
    "partial windows of time": (
        lambda: q.aggregate("a", TIME("1m"), n=count(), emit_partial=True),
        "emit_partial is for SIZE and TRANS",
        "/emit_partial",
    ),
    "a transaction of texts": (
        lambda: q.aggregate("a", TRANSACTION("begin", "end"), n=count()).output("o"),
        "operator 'a', window/open: expected bool",
        "/operators/0/window/open",
    ),  # type: ignore[arg-type]
    # --- functions
    "a function not called": (
        lambda: untyped.aggregate("a", TIME("1m"), n=count),
        "operator 'a': functions, n: expected a function such as count()",
        "/functions/n",
    ),
    "an expression for a function": (
        lambda: untyped.aggregate("a", TIME("1m"), n=col("n") * 2),
        "functions, n: expected a function such as count()",
        "/functions/n",
    ),
    "no functions": (
        lambda: q.aggregate("a", TIME("1m"), by="ip").output("o"),
        "operator 'a', functions: expected an object with at least one entry",
        "/operators/0/functions",
    ),
    "a column that is not there": (
        lambda: q.aggregate("a", TIME("1m"), n=sum_("bites")).output("o"),
        "no column 'bites' (did you mean 'bytes'?)",
        "/operators/0/functions/n/column",
    ),
    "the sum of texts": (
        lambda: q.aggregate("a", TIME("1m"), n=sum_("ip")).output("o"),
        "operator 'a', field 'n': ",
        "/operators/0/functions/n/column",
    ),
    "a quantile of 95": (lambda: quantile("n", 95), "quantile: q: expected", "/q"),
    "collect no bound": (lambda: collect("n", 0), "collect: at_most: expected", "/at_most"),
    "arg_max by nothing": (
        lambda: q.aggregate("a", TIME("1m"), n=arg_max("n", "ipp")).output("o"),
        "no column 'ipp' (did you mean 'ip'?)",
        "/operators/0/functions/n/by",
    ),
    "an unknown group": (
        lambda: q.aggregate("a", TIME("1m"), by="ipp", n=count()).output("o"),
        "operator 'a', by: no column 'ipp' (did you mean 'ip'?)",
        "/operators/0/by/0",
    ),
    "a group that is a number": (
        lambda: untyped.aggregate("a", TIME("1m"), by=5, n=count()),
        "operator 'a': by: expected names of columns such as 'a' or ['a', 'b'], got 5",
        "/by",
    ),
    "a group that is computed": (
        lambda: untyped.aggregate("a", TIME("1m"), by=col("n") + 1, n=count()),
        "operator 'a': by: expected names of columns",
        "/by",
    ),
    "a group of 65 fields": (
        lambda: (
            q.map("m", {f"k{i}": col("n") for i in range(65)})
            .aggregate("a", TIME("1m"), by=[f"k{i}" for i in range(65)], n=count())
            .output("o")
        ),
        "operator 'a', by: expected at most 64 columns of a key, got 65",
        "/operators/1/by",
    ),
    # --- expressions
    "a condition as a text": (
        lambda: untyped.filter("f", "n > 3").output("o"),
        "operator 'f', condition: expected bool, got string",
        "/operators/0/condition",
    ),
    "a condition of Python": (lambda: untyped.filter("f", lambda row: row.n > 3), "operator 'f': condition: literal", ""),
    "and": (lambda: q.filter("f", (col("n") > 1) and (col("n") < 3)), "use &, | and ~ instead of and, or and not", ""),
    "an unknown column": (
        lambda: q.map("m", x=col("ipp")).output("o"),
        "operator 'm', field 'x': no column 'ipp' (did you mean 'ip'?)",
        "/operators/0/fields/x/column",
    ),
    "text plus number": (lambda: q.map("m", x=col("ip") + 1).output("o"), "operator 'm', field 'x': ", "/operators/0/fields/x"),
    "a list for a constant": (
        lambda: untyped.map("m", x=[1, 2]),
        "operator 'm', field 'x': literal [1, 2]: expected bool, int, float or str",
        "",
    ),
    "a NULL of no type": (lambda: untyped.map("m", x=None), "lit(None, 'int64')", ""),
    "an unknown type": (lambda: col("n").cast("int46"), "unknown type 'int46' (did you mean 'int64'?)", ""),
    "when of a text": (
        lambda: q.map("m", x=when(col("ip"), 1).otherwise(2)).output("o"),
        "operator 'm', field 'x': ",
        "/operators/0/fields/x/args/0",
    ),
    "a regular expression that is none": (
        lambda: q.filter("f", col("ip").matches("(")).output("o"),
        "operator 'f', condition: ",
        "/operators/0/condition/args/1",
    ),
    "explode what is no list": (
        lambda: q.flat_map("f", explode="ip", ip=col("ip")).output("o"),
        "expected a list, got string",
        "/operators/0/fields/ip",
    ),
    "too many operations": (
        lambda: q.map("m", x=sum((col("n") for _ in range(150)), lit(0))).output("o"),
        "more than 100 operations inside each other",
        "/operators/0",
    ),
    # --- joins, order, state
    "a right side that is none": (
        lambda: untyped.join("j", 5, TIME("1m"), on="ip"),
        "operator 'j': right: expected a stream, declared by stream(...) or files(...)",
        "/right",
    ),
    "an equality of one": (
        lambda: untyped.join("j", OTHERS, TIME("1m"), on=[("ip",)]),
        'operator \'j\': on: expected "k", ["k", ("a", "b")] or',
        "/on",
    ),
    "how that is none": (
        lambda: q.join("j", OTHERS, TIME("1m"), on="ip", how="outer"),
        "how: expected one of inner, left, right, full, got 'outer'",
        "/how",
    ),
    "two columns of a name": (
        lambda: q.join("j", OTHERS, TIME("1m"), on="ip").output("o"),
        "both sides have a column 'ts'; give a prefix",
        "/operators/0/prefix",
    ),
    "an equality of kinds": (
        lambda: q.join("j", OTHERS, TIME("1m"), on=[("ip", "m")], prefix="r_").output("o"),
        "'ip' is string, 'm' is int64",
        "/operators/0/on/0",
    ),
    "no such column there": (
        lambda: q.join("j", OTHERS, TIME("1m"), on=[("n", "mm")], prefix="r_").output("o"),
        "no column 'mm' on the right",
        "/operators/0/on/0",
    ),
    "bounds the wrong way": (
        lambda: q.interval_join("j", OTHERS, "5s", "-5s", on="ip"),
        "operator 'j': lower: expected at most upper",
        "/lower",
    ),
    "ttl that is a number": (lambda: untyped.deduplicate("d", by="ip", ttl=5), "operator 'd': ttl: expected a whole number and a unit", ""),
    "nothing to sort by": (lambda: q.sort("s", TIME("1m")), "operator 's': expected at least one column to order by", "/order"),
    "top of a text": (lambda: untyped.top("t", "3", TIME("1m"), order="n"), "operator 't': n: expected a whole number, got '3'", "/n"),
    "updates that are none": (
        lambda: untyped.stateful_map("m", ttl=None, state={"c": 0}, update=5, fields={"c": col("c")}),
        "operator 'm': update: expected",
        "/update",
    ),
    # --- shape, names, options, declarations
    "nothing read": (lambda: Query("q").map("m", n=lit(1)), "operator 'm': query 'q' reads nothing: call source(...) first", ""),
    "a source that is a number": (lambda: untyped.source(5), "source: expected a stream", "/source"),
    "a negative disorder": (
        lambda: stream("s", ts="timestamp[ms]", event_time="ts", disorder="-2s"),
        "disorder: expected zero or more, got '-2s'",
        "",
    ),
    "a window of another kind": (
        lambda: untyped.over("w", TIME("10s"), by="ip", n=count()),
        "operator 'w': window: expected TRAILING(\"10m\"), got TIME('10s')",
        "/window",
    ),
    "two operators of one name": (
        lambda: q.map("m", n=col("n")).map("m", n=col("n")).output("o"),
        "the name 'm' is given twice: to two operators",
        "/operators/1/name",
    ),
    "nothing put out": (lambda: q.map("m", n=col("n")), "query 'q' has no outputs", "/outputs"),
    "an input of another name": (
        lambda: q.map("pick", n=col("n")).at("pikc").output("o"),
        "reads 'pikc', which is no operator and no declared stream (did you mean 'pick'?)",
        "/outputs/0/input",
    ),
    "a name twice": (lambda: q.map("m", n=col("n")).map("m", n=col("n")).output("o"), "the name 'm' is given twice", "/operators/1/name"),
    "a name with a slash": (
        lambda: Query("a/b").source(VISITS).output("o"),
        "the name of a query is part of an address: expected no '/'",
        "/name",
    ),
    "an output with a slash": (lambda: q.output("a/b"), "the name of an output stream is part of an address", "/outputs/0/stream"),
    "an option misspelt": (lambda: q.options(paralelism=2), "unknown option 'paralelism' (did you mean 'parallelism'?)", "/paralelism"),
    "half an instance": (lambda: q.options(parallelism=0.5), "parallelism: expected", "/parallelism"),
    "an unknown split": (lambda: q.options(split="no"), "split: expected one of stateful, single, per-operator, got 'no'", "/split"),
    "replicas of one group": (
        lambda: q.aggregate("a", TIME("1m"), n=count()).output("o").options(replicas=2),
        "replicas=2: operator 'a' has no group-by",
        "/options/replicas",
    ),
    "no disorder": (lambda: stream("s", ts="timestamp[ms]", event_time="ts"), "declares event_time but no disorder", "/disorder"),
    "an event time that is not there": (
        lambda: stream("s", ts="timestamp[ms]", event_time="tss", disorder="1s"),
        "no field 'tss' (did you mean 'ts'?)",
        "/event_time",
    ),
    "an event time of integers": (
        lambda: stream("s", ts=int, event_time="ts", disorder="1s"),
        "event_time of stream 's': expected a timestamp, got int64; declare it as such, or cast it",
        "/event_time",
    ),
    "files of lists": (lambda: files("f", tags=list[str], paths="/data/f.csv"), "files of text hold no lists", "/schema/0/type"),
    "files somewhere": (lambda: files("f", n=int, paths=[]), "paths: expected at least one", "/paths"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_answered(mistake: str) -> None:
    """Where the value is made, or at the latest by `build()`; never as an error of Python's from inside."""
    make, said, where = MISTAKES[mistake]
    expected: tuple[type[Exception], ...] = (TypeError,) if mistake == "and" else (QueryError,)
    with pytest.raises(expected) as raised:
        made = make()
        if isinstance(made, Query):
            made.build()
    assert said in str(raised.value)
    assert getattr(raised.value, "pointer", "") == where


def test_there_are_sixty() -> None:
    assert len(MISTAKES) >= 60


def test_columns_are_named_by_text_or_by_col() -> None:
    by_text = q.aggregate("a", TIME("1m"), by=["ip"], n=count()).sort("s", TIME("1m"), by="ip", order="n").output("o")
    by_column = q.aggregate("a", TIME("1m"), by=col("ip"), n=count()).sort("s", TIME("1m"), by=[col("ip")], order=col("n")).output("o")
    assert by_text.to_json() == by_column.to_json()


def test_incomplete_windows_can_come_out() -> None:
    made = q.aggregate("a", SIZE(100), by="ip", n=count(), emit_partial=True).output("o").build()
    assert made.operators[0].emit_partial  # type: ignore[union-attr]
