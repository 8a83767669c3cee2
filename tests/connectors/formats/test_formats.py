"""Formats: what is written is read, what is no row is found among many that are, and nothing is taken for what it is not.

Tests `json_values.py`, `csv_values.py`, `connectors/formats/instants.py`, `connectors/documents.py`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.model.times.iso_instants import read_instant
from connectors.contract import ConnectorError, Decoded, ValueFormat
from connectors.documents import described
from connectors.formats.csv_values import CsvFormat
from connectors.formats.instants import instant, instants, names_of
from connectors.formats.json_values import JsonFormat
from connectors.formats.raw_values import RawFormat

INSTANT = pa.timestamp("us", "UTC")
SCHEMA = pa.schema([("t", INSTANT), ("i", pa.int64()), ("x", pa.float64()), ("s", pa.string()), ("b", pa.bool_()), ("d", pa.binary())])
LISTS = pa.schema([("l", pa.list_(pa.int64())), ("ts", pa.list_(INSTANT))])
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "t": st.none() | st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC)),
            "i": st.none() | st.integers(-(2**63), 2**63 - 1),
            "x": st.none() | st.floats(allow_nan=False),
            "s": st.none() | TEXTS,
            "b": st.none() | st.booleans(),
            "d": st.none() | st.binary(max_size=3),
        }
    ),
    min_size=1,
    max_size=6,
)


def rows_of(found: Decoded, schema: pa.Schema = SCHEMA) -> list[dict[str, Any]]:
    """Integers of a column of instants are µs here."""
    assert found.bad == []
    tables = [pa.table([c.cast(f.type) for c, f in zip(run.columns, schema, strict=True)], schema=schema) for _, run in found.runs]
    return [row for table in tables for row in table.to_pylist()]


@given(ROWS)
def test_json_that_was_written_is_read(rows: list[dict[str, Any]]) -> None:
    values = JsonFormat().encode(pa.RecordBatch.from_pylist(rows, SCHEMA))
    assert rows_of(JsonFormat().decode(values, SCHEMA)) == rows
    assert [json.loads(value)["s"] for value in values] == [row["s"] for row in rows]


@given(ROWS)
def test_csv_that_was_written_is_read(rows: list[dict[str, Any]]) -> None:
    """But that it has no NULL of a text or of bytes."""
    rows = [row | {"s": row["s"] or "", "d": row["d"] or b""} for row in rows]
    values = CsvFormat(separator=";").encode(pa.RecordBatch.from_pylist(rows, SCHEMA))
    found = rows_of(CsvFormat(separator=";").decode(values, SCHEMA))
    assert [row | {"s": row["s"].replace("\r", "\n")} for row in found] == [row | {"s": row["s"].replace("\r", "\n")} for row in rows]


def test_lists_and_numbers_that_json_has_not() -> None:
    rows = [{"l": [1, None, 3], "ts": [datetime(2024, 5, 1, tzinfo=UTC), None]}, {"l": None, "ts": []}]
    assert rows_of(JsonFormat().decode(JsonFormat().encode(pa.RecordBatch.from_pylist(rows, LISTS)), LISTS), LISTS) == rows
    batch = pa.RecordBatch.from_arrays([pa.array([[1], None, [None, 2**60]], pa.list_(INSTANT))], ["ts"])  # no date of Python's
    assert JsonFormat().encode(batch.slice(1)) == [b'{"ts": null}', b'{"ts": [null, "38504-08-17T21:30:06.846976+00:00"]}']
    floats = pa.schema([("x", pa.float64())])
    values = JsonFormat().encode(pa.RecordBatch.from_pylist([{"x": math.inf}, {"x": -math.inf}, {"x": math.nan}], floats))
    assert values == [b'{"x": "inf"}', b'{"x": "-inf"}', b'{"x": "nan"}']
    assert [str(row["x"]) for row in rows_of(JsonFormat().decode(values, floats), floats)] == ["inf", "-inf", "nan"]


FEW = pa.schema([("t", INSTANT), ("i", pa.int64())])
GOOD = [b'{"t": "2024-05-01T12:00:00Z", "i": 1}', b'{"i": 2, "other": {"a": []}}', b'{"t": 5, "i": 3}', b'{"t": "2024-05-01", "i": 4}']
BAD = [
    b"",
    b"nonsense",
    b"[1]",
    b'{"i": "x"}',
    b'{"i": 1.5}',
    b'{"i": true}',
    b'{"i": 9223372036854775808}',
    b'{"t": "soon"}',
    b'{"i": 1}{"i": 2}',
    b'{"i": 1',
    b"\xff",
]


@given(st.lists(st.sampled_from([*GOOD, *BAD, b'{"i":\n7}']), max_size=40))
def test_each_value_is_one_row_or_one_dead_letter(values: list[bytes]) -> None:
    """Whatever is beside it: two that make sense only together, or one that is two, are none."""
    found = JsonFormat().decode(values, FEW)
    assert [at for at, _ in found.bad] == [at for at, value in enumerate(values) if value in BAD]
    good = [at for first, run in found.runs for at in range(first, first + run.num_rows)]
    assert sorted([*good, *(at for at, _ in found.bad)]) == list(range(len(values)))
    numbers = {at: i for first, run in found.runs for at, i in enumerate(run.column("i").to_pylist(), first)}
    assert all(numbers[at] == (7 if b"\n" in values[at] else GOOD.index(values[at]) + 1) for at in good)


def test_halves_of_an_object_in_two_values_are_no_two_rows() -> None:
    found = JsonFormat().decode([b'{"i": 1', b'}\n{"i": 2}'], FEW)
    assert found.runs == [] and [at for at, _ in found.bad] == [0, 1]


def test_csv_values_are_one_record_each() -> None:
    values = [b"5,1", b'2024-05-01,"2"', b"a,b", b"5", b"5,1,2", b"", b"5,1\n6,2", b'5,"1', b",3"]
    found = CsvFormat().decode(values, FEW)
    assert [at for at, _ in found.bad] == [2, 3, 4, 5, 6, 7]
    assert [run.column("i").to_pylist() for _, run in found.runs] == [[1], [2], [3]]


TWO = pa.schema([("a", pa.string()), ("b", pa.string())])
MARKS = st.lists(st.text('a1,"\r\n\ufeff', max_size=8).map(str.encode), max_size=6)


def alone_and_together(format_: ValueFormat, values: list[bytes], schema: pa.Schema) -> tuple[list[Any], list[Any]]:
    """The row of each, or why it is none; read by itself, and with the others."""

    def read(values: list[bytes]) -> list[Any]:
        found = format_.decode(values, schema)
        rows = {at: row for first, run in found.runs for at, row in enumerate(run.to_pylist(), first)} | dict(found.bad)
        return [rows[at] for at in range(len(values))]

    return [row for value in values for row in read([value])], read(values)


@given(MARKS, st.sampled_from([TWO, TWO.remove(1)]))
def test_csv_is_the_same_record_whatever_is_beside_it(values: list[bytes], schema: pa.Schema) -> None:
    alone, together = alone_and_together(CsvFormat(), values, schema)
    assert alone == together


def test_a_quote_opens_only_at_the_beginning_of_a_field() -> None:
    values = [b'a 5" disk,3" disk', b'1,"open', b'"a"b"c,d', b'"say ""a,b""",c', b'x,y"', b"", b"1,2\r", b"1\r2,3"]
    alone, together = alone_and_together(CsvFormat(), values, TWO)
    assert alone == together
    read = [tuple(row.values()) if isinstance(row, dict) else row for row in alone]
    assert read[:4] == [('a 5" disk', '3" disk'), "a quote is open at its end", ('ab"c', "d"), ('say "a,b"', "c")]
    assert read[4:] == [("x", 'y"'), "it is empty", ("1", "2"), "it has several lines"]


NUMBERS = ["1", "9007199254740993", "123456789012345678901234567890", "1" * 400, "-1" + "0" * 5000, "-1e400", '"x"', "true"]


@given(st.lists(st.sampled_from(NUMBERS), min_size=1, max_size=4))
def test_a_number_of_json_is_the_same_whatever_is_beside_it(numbers: list[str]) -> None:
    for schema, form in (pa.schema([("x", pa.float64())]), '{"x": %s}'), (pa.schema([("x", pa.list_(pa.float64()))]), '{"x": [%s]}'):
        alone, together = alone_and_together(JsonFormat(), [(form % number).encode() for number in numbers], schema)
        assert alone == together


def test_csv_of_some_columns_in_another_order() -> None:
    format_ = CsvFormat(header=True).begun(b"\xef\xbb\xbfs,i")
    assert format_ is not None
    assert rows_of(format_.decode([b"a,7"], SCHEMA)) == [{"t": None, "i": 7, "x": None, "s": "a", "b": None, "d": None}]
    assert CsvFormat(columns=("s", "i"), header=True).file_of(pa.RecordBatch.from_pylist([{"i": 7, "s": "a"}], SCHEMA)) == b"s,i\na,7\n"
    assert CsvFormat(header=True).head(FEW) == b"t,i\n" and CsvFormat().begun(b"t,i") is None


def test_raw_values_are_one_column() -> None:
    text = pa.schema([("line", pa.string())])
    found = RawFormat().decode([b"one", "zw\u00f6lf".encode(), b"\xff"], text)
    assert rows_of(Decoded(found.runs), text) == [{"line": "one"}, {"line": "zwölf"}] and [at for at, _ in found.bad] == [2]
    assert RawFormat().encode(found.runs[0][1].slice(0, 1)) == [b"one"]


@pytest.mark.parametrize(
    ("format_", "schema", "said"),
    [
        (RawFormat(), FEW, "raw values are of one column"),
        (CsvFormat(), LISTS, "CSV has no lists, and column 'l' is one"),
        (CsvFormat(columns=("t", "z")), FEW, "the stream has no column 'z'"),
        (CsvFormat(columns=("t", "t")), FEW, "columns: 't' stands there twice"),
    ],
)
def test_what_a_format_cannot_hold_is_said(format_: ValueFormat, schema: pa.Schema, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        format_.check(schema)


def test_a_value_names_a_key_or_a_folder_by_the_same_text_whatever_is_beside_it() -> None:
    instants_ = pa.array([1_714_521_600_000_000, 1_714_521_600_000_001, 2**60, None], INSTANT)
    assert names_of(instants_) == [
        "2024-05-01T00:00:00+00:00",
        "2024-05-01T00:00:00.000001+00:00",
        "38504-08-17T21:30:06.846976+00:00",
        None,
    ]
    assert names_of(instants_[:1]) == names_of(instants_)[:1]
    assert names_of(pa.array([b"\0\xff", b"", None])) == ["00ff", "", None] and names_of(pa.array([7])) == ["7"]
    with pytest.raises(ConnectorError, match="of type list<"):
        names_of(pa.array([[1]]))


def test_a_format_holds_the_columns_that_are_written() -> None:
    """Not those that name folders; and that of the origin."""
    columns = pa.schema([("day", pa.string()), ("line", pa.string()), ("n", pa.int64())])
    files = {"connector": "files", "path": "/out", "format": "raw", "partition": ["day", "n"]}
    described({"name": "c", "stream": "s", "to": files}).check_rows(columns)
    socket = {"connector": "websocket", "url": "ws://x", "format": "raw", "origin": "o"}
    with pytest.raises(ValueError, match=r"the stream has \['line', 'o'\]"):
        described({"name": "c", "stream": "s", "to": socket}).check_rows(columns.remove(2).remove(0))
    with pytest.raises(ValueError, match="the stream has a column 'n'"):
        described({"name": "c", "stream": "s", "to": socket | {"origin": "n", "format": "json"}}).check_rows(columns)


FORMS = """2020-01-01|2020-01-01T09:30|2020-01-01t09:30:15.5z|2020-01-01 09:30:15.123456000+0930|0001-01-01|9999-12-31T23:59:59.999999Z
2020-01-01T00:00+23:59|2020-01-01T00:00-00:00|1900-01-01T00:00:00.1|2020-01-01T24:00|2020-02-30|2020-01-01T23:59:60Z|2020-01-01+09:00
2020-W01|20200101|2020-01-01T09|2020-01-01T09+09:00|2020-01-01T00:00:00+09|2020-01-01T00:00+24:00|2020-01-01T00:00+09:60|0000-01-01
2020-01-01T09:00:00.123456789Z|2020-01-01T09:00:00,5Z|2020-01-01T00:00:00.Z|2020-01-01T00:00:00 Z|+002020-01-01| 2020-01-01|٢٠٢٠-01-01|no"""


@pytest.mark.parametrize("text", [*FORMS.replace("\n", "|").split("|"), "2020-01-01\n"])
@pytest.mark.parametrize("beside", [(), ("2021-06-01T00:00Z", None), ("2021-06-01", None)])
def test_a_text_is_the_instant_that_the_engine_reads_or_none(text: str, beside: tuple[str | None, ...]) -> None:
    expected, found = (
        value_or_none(lambda: int(read_instant(text))),
        value_or_none(lambda: in_us(instants(pa.array([text, *beside]))[0].as_py())),
    )
    assert found == value_or_none(lambda: in_us(instant(text))) == expected


def in_us(found: datetime) -> int:
    return (found - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def value_or_none(of: Callable[[], int]) -> int | None:
    try:
        return of()
    except ValueError:
        return None
