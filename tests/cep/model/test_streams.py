"""Declarations of streams: what is refused where one is made, and where its document is read."""

from __future__ import annotations

from typing import Any

import pytest

from cep.errors import QueryError
from cep.model import streams
from cep.model.expr import Expr, coalesce, col, now, to_json
from cep.model.schema import Schema
from cep.model.streams import Stream
from driver import udf

SCHEMA = Schema.of({"ip": str, "ts": "timestamp[ms]", "n": "int64?"})

#: An event time that is none, what is said of it, and where in its document.
NO_EVENT_TIMES: dict[str, tuple[Expr, str, str]] = {
    "no timestamp": (col("n"), "expected a timestamp, got int64; declare it as such, or cast it", ""),
    "a clock": (coalesce(col("ts"), now()), "now() is no part of a row", ""),
    "a user's function": (udf("mine:when", "timestamp[ms]")(col("ts")), "a user's function does not run in publishers", ""),
    "of no type": (col("ip") + 1, "ip + 1: expected numbers", ""),
    "of a column that is not there": (col("tss"), "no field 'tss' (did you mean 'ts'?)", ""),
}


@pytest.mark.parametrize("kind", NO_EVENT_TIMES)
def test_an_event_time_is_refused_where_the_stream_is_declared(kind: str) -> None:
    """By a program, and in the document of a stream or a query."""
    event_time, said, where = NO_EVENT_TIMES[kind]
    with pytest.raises(QueryError) as raised:
        Stream("s", SCHEMA, event_time, 0)
    assert raised.value.message.startswith("event_time of stream 's': " + said) and raised.value.pointer == "/event_time" + where
    document: dict[str, Any] = {"name": "s", "schema": SCHEMA.to_json(), "event_time": to_json(event_time), "disorder": "0s"}
    with pytest.raises(QueryError) as raised:
        streams.from_json(document, "/streams/3")
    assert raised.value.pointer == "/streams/3/event_time" + where


def test_an_expression_may_be_the_event_time() -> None:
    assert Stream("s", SCHEMA, coalesce(col("ts"), col("ts")), 0).event_time_column is None
