"""Which declaration of a stream another one may follow (docs/features/streams_that_grow.md)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cep.errors import QueryError
from cep.model.expr import col
from cep.model.growth import wider
from cep.model.schema import Schema
from cep.model.streams import Stream, TextFiles

COLUMNS = {"ip": "string", "ts": "timestamp[ms]", "n": "int64?"}


def visits(**columns: str) -> Stream:
    return Stream("visits", Schema.of(columns), col("ts"), 2_000_000)


KNOWN = visits(**COLUMNS)


def test_the_same_declaration_gives_nothing_new() -> None:
    assert wider(KNOWN, visits(**COLUMNS)) is KNOWN


def test_nullable_columns_at_the_end_are_growth_in_whichever_order_they_come() -> None:
    """A query of before may be deployed again when the stream has grown, so what is known stays as wide as it was."""
    grown = visits(**COLUMNS, price="float64?", tags="list<string>?")
    assert wider(KNOWN, grown) is grown and wider(grown, KNOWN) is grown
    assert wider(grown, visits(ip="string", ts="timestamp[ms]")) is grown


@pytest.mark.parametrize(
    ("columns", "said", "pointer"),
    [
        (
            {**COLUMNS, "n": "int32?"},
            "a column keeps its type: declare n: int64?, and another one at the end if you need int32",
            "/schema/2",
        ),
        ({**COLUMNS, "ip": "string?"}, "a column keeps its type: declare ip: string, ", "/schema/0"),
        ({**COLUMNS, "ts": "timestamp[us]"}, "a column keeps its type: declare ts: timestamp[ms], ", "/schema/1"),
        ({**COLUMNS, "price": "float64"}, "has no value in older rows: declare price: float64?", "/schema/3"),
        ({**COLUMNS, "a": "int64?", "price": "float64"}, "has no value in older rows: declare price: float64?", "/schema/4"),
        ({"ts": "timestamp[ms]"}, "others stand behind cannot be left out: declare ip: string before 'ts'", "/schema/0"),
        ({"address": "string", "ts": "timestamp[ms]", "n": "int64?"}, "neither renamed nor removed: declare ip: string, ", "/schema/0"),
        (
            {"ip": "string", "ts": "timestamp[ms]", "m": "int64?"},
            "neither renamed nor removed: declare n: int64?, and 'm' behind",
            "/schema/2",
        ),
        (
            {"ip": "string", "a": "int64?", "ts": "timestamp[ms]"},
            "keep their order, and new ones stand behind them: declare ts: ",
            "/schema/1",
        ),
        ({"ts": "timestamp[ms]", "ip": "string"}, "columns keep their order, ", "/schema/0"),
    ],
)
def test_what_is_no_growth_says_which_column_and_what_to_do(columns: dict[str, str], said: str, pointer: str) -> None:
    with pytest.raises(QueryError) as refused:
        wider(KNOWN, visits(**columns))
    message = refused.value.message
    assert message.startswith("stream 'visits' exists already with another schema: (ip: string, ts: timestamp[ms], n: int64?), here (")
    assert said in message and message.endswith("name the new stream 'visits@2'")
    assert refused.value.pointer == pointer


def test_a_column_that_may_not_be_null_cannot_be_left_out() -> None:
    known = visits(ts="timestamp[ms]", n="int64?", ip="string", m="int64?")
    with pytest.raises(QueryError, match="a column that may not be NULL cannot be left out: declare ip: string, ") as refused:
        wider(known, visits(ts="timestamp[ms]", n="int64?"))
    assert refused.value.pointer == "/schema"


@pytest.mark.parametrize(
    ("changed", "key"),
    [
        ({"disorder": 3_000_000}, "disorder"),
        ({"event_time": None, "disorder": None}, "event_time"),
        ({"event_time": col("ts").cast("timestamp")}, "event_time"),
        ({"files": TextFiles(("/data/x.csv",))}, "files"),
        ({"idle_after": 5_000_000}, "idle_after"),
        ({"watermark": "clock"}, "watermark"),
    ],
)
def test_all_else_stays(changed: dict[str, object], key: str) -> None:
    grown = replace(visits(**COLUMNS, price="float64?"), **changed)
    for known, given in ((KNOWN, grown), (grown, KNOWN)):
        with pytest.raises(QueryError, match=f"stream 'visits' exists already with another {key}: .*'visits@2'"):
            wider(known, given)
