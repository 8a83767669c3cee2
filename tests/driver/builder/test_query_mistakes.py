"""What the builder answers to mistakes with windows, tables and functions of several columns: what is wrong, where, and how it is written.
More of them: `tests/cep/model/test_mistakes.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cep.errors import QueryError
from driver import SIZE, TIME, TRAILING, Query, arg_max, col, first, parse_time, stream, sum_

LEFT = stream("left", t="timestamp", a=int, b=str, l=list[int], event_time="t", disorder="0s")
RIGHT = stream("right", t="timestamp", a=int, event_time="t", disorder="0s")
q = Query("q").source(LEFT)
untyped: Any = q

MISTAKES: dict[str, tuple[Callable[[], Any], str, str]] = {
    "a greatest by lists": (
        lambda: q.aggregate("w", TIME("1s"), x=arg_max("a", by="l")),
        "operator 'w', field 'x': arg_max: by l: lists are not comparable",
        "/operators/0/functions/x/by",
    ),
    "the same of over": (
        lambda: q.over("w", TRAILING("1s"), x=arg_max("a", by="l")),
        "operator 'w', field 'x': arg_max: by l: lists are not comparable",
        "/operators/0/functions/x/by",
    ),
    "several columns under one name": (
        lambda: untyped.aggregate("w", TIME("1s"), x=arg_max(["a", "b"], by="a")),
        "write **arg_max([...], by=...) in place of x=arg_max([...], by=...)",
        "",
    ),
    "several first columns": (lambda: untyped.over("w", TRAILING("1s"), x=first(["a", "b"])), "write **first([...]) in place of", ""),
    "an expression of over": (
        lambda: q.over("w", TRAILING("1s"), x=sum_(col("a") * 2)),
        'compute the expression before, such as .with_columns("values", x_of=a * 2), and write sum("x_of")',
        "/functions/x",
    ),
    "a stream for a table": (lambda: untyped.lookup("l", RIGHT, on="a"), "got stream 'right'; a table that a stream feeds is", "/table"),
    "a table of no format": (
        lambda: q.lookup("l", ("/a/b.json", {"a": int}), on="a"),
        "expected a name that ends with .parquet, .arrow, .feather, .csv",
        "/path",
    ),
    "two offsets": (
        lambda: q.join("j", RIGHT, TIME("10s"), right_window=TIME("10s", offset="3s"), on="a", prefix="r_"),
        "both windows of a join have one offset, got 0s and 3s",
        "/right_window/offset",
    ),
    "bounds the wrong way": (
        lambda: q.interval_join("j", RIGHT, "5s", "-2m", on="a"),
        "lower: expected at most upper (-2m), got 5s",
        "/lower",
    ),
    "a window of trailing nothing": (lambda: TRAILING(), 'TRAILING("10m") or TRAILING(rows=100); got neither', "/size"),
    "a window of both": (lambda: TRAILING("1m", rows=3), 'TRAILING("10m") or TRAILING(rows=100); got both', "/rows"),
    "a partial window of a join": (lambda: untyped.join("j", RIGHT, SIZE(3, emit_partial=True), on="a"), "with emit_partial", "/window"),
    "a text that says no instant": (
        lambda: q.map("m", x=parse_time(col("b"), "abc")),
        "expected a format with a directive, such as '%Y-%m-%d'",
        "/operators/0/fields/x/args/1",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_answered(mistake: str) -> None:
    make, said, where = MISTAKES[mistake]
    with pytest.raises(QueryError) as raised:
        make().output("o").build()
    assert said in str(raised.value)
    assert raised.value.pointer == where


def test_partial_windows_are_said_in_either_place() -> None:
    one = q.aggregate("w", SIZE(3, 2, emit_partial=True), by="a", x=sum_("a")).output("o")
    assert one == q.aggregate("w", SIZE(3, 2), by="a", x=sum_("a"), emit_partial=True).output("o")
    assert one.to_json()["operators"][0]["emit_partial"] is True and SIZE(3, 2, emit_partial=False) == SIZE(3, 2)


def test_a_table_of_feathers_is_arrow() -> None:
    built = q.lookup("l", ("/a/b.feather", {"a": int, "c": int}), on="a").output("o").build()
    assert built.operators[0].table.format == "arrow"  # type: ignore[union-attr]  # it is a lookup


def test_a_fraction_may_be_named() -> None:
    assert q.sample("s", fraction=0.5) == q.sample("s", 0.5)
