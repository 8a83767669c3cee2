"""Arrow, Parquet and Avro: all types with NULLs are read as they were written, in values and in files, and what cannot be read has a place.

Avro's messages are those of another implementation, of which a registry keeps the schemas.

Tests `tables.py`, `avro_values.py`, `connectors/formats/files.py`, `connectors/running/numbering.py`, `connectors/contract/formats.py`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from hypothesis import given, settings

from connectors.contract import ConnectorError, Decoded, FileFormat, Polled, ValueFormat
from connectors.documents import WrongDocument, described
from connectors.formats.avro_values import AvroFormat, record_of
from connectors.formats.csv_values import CsvFormat
from connectors.formats.files import GIVEN_UP, opened
from connectors.formats.json_values import JsonFormat
from connectors.formats.raw_values import RawFormat
from connectors.formats.tables import ArrowTables, ParquetTables
from connectors.running.numbering import numbered
from tests.connectors.formats.test_formats import LISTS, ROWS, SCHEMA, rows_of

ALL = pa.schema([*SCHEMA, *LISTS, ("n", pa.int32())])
LISTED = [{"l": [1, None, 3], "ts": [datetime(2024, 5, 1, tzinfo=UTC), None], "n": 7}, {"l": None, "ts": [], "n": None}]
MESSAGES: list[FileFormat] = [
    ArrowTables(),
    ParquetTables(),
    AvroFormat(record=record_of(ALL)),
    AvroFormat(record=record_of(ALL), schema_id=7),
]
FILES: list[FileFormat] = [ArrowTables(), ParquetTables(), AvroFormat()]


@given(ROWS)
@settings(max_examples=25)
def test_all_types_are_read_as_they_were_written(rows: list[dict[str, Any]]) -> None:
    rows = [row | LISTED[at % 2] for at, row in enumerate(rows)]
    batch = pa.RecordBatch.from_pylist(rows, ALL)
    for format_ in MESSAGES:
        assert rows_of(format_.decode(format_.encode(batch), ALL), ALL) == rows
    for format_ in FILES:
        pieces = list(format_.batches(BytesIO(format_.file_of(batch))))
        assert rows_of(Decoded([(0, each) for each in pieces]), ALL) == rows


@pytest.mark.parametrize("format_", FILES, ids=lambda each: type(each).__name__)
def test_a_file_is_read_on_at_any_row(format_: FileFormat) -> None:
    """However it was written: in pieces, of which few are written together."""
    written, wanted = BytesIO(), pa.schema([("i", pa.int64())])
    file = format_.rows_file(written, wanted)
    for first in range(0, 20, 5):
        file.write(pa.RecordBatch.from_pydict({"i": range(first, first + 5)}, wanted))
    file.finish()
    for taken in (0, 1, 4, 5, 17, 20):
        reading = opened(format_, BytesIO(written.getvalue()), "f", 0, taken + 1)
        found = list[int]()
        while (polled := reading.take(3)) is not None:
            assert polled.rows is not None and polled.called is not None and 0 < len(polled) <= 3
            assert polled.called(0) == f"f@{taken + len(found) + 1}" and polled.place == [0, taken + len(found) + len(polled) + 1]
            found += polled.rows.column("i").to_pylist()
        assert found == list(range(taken, 20))


@pytest.mark.parametrize("format_", FILES, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("content", [b"", b"nonsense", b"PAR1nonsensePAR1", b"Obj\x01", b"ARROW1\0\0"])
def test_a_file_that_cannot_be_read_is_one_bad_record_once(format_: FileFormat, content: bytes) -> None:
    reading = opened(format_, BytesIO(content), "f")
    polled = reading.take(5)
    assert polled is not None and polled.wrong is not None and polled.called is not None and reading.take(5) is None
    assert polled.wrong.startswith("the file cannot be read: ") and (polled.called(0), polled.place) == ("f@1", [GIVEN_UP, 1])
    assert opened(format_, BytesIO(content), "f", *polled.place).take(5) is None


def test_a_file_that_is_cut_off_has_the_rows_before() -> None:
    stream = BytesIO()
    one = pa.RecordBatch.from_pydict({"i": range(10)})
    with pa.ipc.new_stream(stream, one.schema) as writer:
        writer.write_batch(one)
        writer.write_batch(one)
    reading = opened(ArrowTables(), BytesIO(stream.getvalue()[:-100]), "f")
    first, second = reading.take(50), reading.take(50)
    assert first is not None and len(first) == 10 and second is not None and second.called is not None
    assert str(second.wrong).startswith("the file cannot be read any further: ") and second.called(0) == "f@11"


FEW = pa.schema([("i", pa.int64())])


def test_each_row_of_a_message_has_a_number_and_so_has_one_that_is_none() -> None:
    def message(*numbers: int) -> bytes:
        (value,) = ArrowTables().encode(
            pa.RecordBatch.from_pydict({"i": numbers, "other": [""] * len(numbers)}, pa.schema([*FEW, ("other", "string")]))
        )
        return value

    polled = Polled(None, [message(1, 2), b"nonsense", message(), message(3)], called=lambda at: f"t@{at}")
    found = numbered(polled, ArrowTables(), FEW, 100)
    assert [(at, rows.to_pylist()) for at, rows in found.runs] == [(0, [{"i": 1}, {"i": 2}]), (3, []), (3, [{"i": 3}])]
    assert [(at, value) for at, _, value in found.bad] == [(2, b"nonsense")] and found.numbers.tolist() == [100, 101, 102, 103]
    assert found.called is not None and [found.called(at) for at in range(4)] == ["t@0, row 0", "t@0, row 1", "t@1, row 0", "t@3, row 0"]


def twice(format_: FileFormat) -> bytes:
    return format_.file_of(pa.RecordBatch.from_arrays([pa.array([1, 2]), pa.array([3, 4])], ["i", "i"]))


NOT_UTF_8 = ArrowTables().file_of(pa.RecordBatch.from_pydict({"i": [1, 2], "zzzz": [3, 4]})).replace(b"zzzz", b"\xffzzz")


@pytest.mark.parametrize(
    ("format_", "content", "said"),
    [
        (ArrowTables(), twice(ArrowTables()), "column 'i' stands there twice"),
        (ParquetTables(), twice(ParquetTables()), "column 'i' stands there twice"),
        (
            ArrowTables(),
            NOT_UTF_8,
            "the name of a column is not UTF-8: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte",
        ),
    ],
)
def test_a_table_whose_columns_make_no_sense_is_bad_records(format_: FileFormat, content: bytes, said: str) -> None:
    """As many as it has rows, of a file; of a message one. They are of its place, and what follows is read."""
    polled = opened(format_, BytesIO(content), "f").take(50)
    assert polled is not None
    found = numbered(polled, format_, FEW, 100)
    assert (found.runs, found.bad, found.alike, found.numbers.tolist()) == ([], [(0, said, b"")], 2, [100, 101])
    found = numbered(Polled(None, [content, format_.file_of(pa.RecordBatch.from_pydict({"i": [5]}))]), format_, FEW, 100)
    assert [(at, rows.to_pylist()) for at, rows in found.runs] == [(1, [{"i": 5}])] and found.bad == [(0, said, content)]


@pytest.mark.parametrize("format_", [JsonFormat(), CsvFormat(), RawFormat(), AvroFormat(record=record_of(pa.schema([("s", pa.string())])))])
def test_a_record_without_a_value_is_no_row(format_: ValueFormat) -> None:
    """Though one that is empty may be."""
    one = pa.RecordBatch.from_pydict({"s": ["a"]})
    values = [None, *format_.encode(one), None, *format_.encode(one)]
    found = numbered(Polled(None, values), format_, one.schema, 7)
    assert [(at, rows.to_pylist()) for at, rows in found.runs] == [(1, [{"s": "a"}]), (3, [{"s": "a"}])]
    assert found.bad == [(0, "it has no value", b""), (2, "it has no value", b"")] and found.numbers.tolist() == [7, 8, 9, 10]


def test_values_of_many_rows_are_for_those_that_can_have_them() -> None:
    with pytest.raises(WrongDocument, match=r"expected one of json, csv, raw, avro, or an object with such a name, got 'arrow'") as refused:
        described({"name": "k", "stream": "s", "from": {"connector": "kafka", "servers": "x:1", "topic": "t", "format": "arrow"}})
    assert refused.value.pointer == "/from/format"


# Avro, of others


class Registry:
    """A schema registry: what is registered has a number."""

    def __init__(self) -> None:
        self.schemas: list[str] = []
        self.asked: list[tuple[str, str | None]] = []
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                schema = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["schema"]
                if schema not in registry.schemas:
                    registry.schemas.append(schema)
                self.answer(200, {"id": registry.schemas.index(schema) + 1})

            def do_GET(self) -> None:
                registry.asked.append((self.path, self.headers.get("Authorization")))
                asked, _, number = self.path.partition("?")[0].rpartition("/")
                if asked == "/schemas/ids" and int(number) <= len(registry.schemas):
                    self.answer(200, {"schema": registry.schemas[int(number) - 1]})
                else:
                    self.answer(404, {"error_code": 40403, "message": "Schema not found"})

            def answer(self, status: int, body: Any) -> None:
                content = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                """Nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    made = Registry()
    yield made
    made.server.shutdown()
    made.server.server_close()


TRADE = {
    "type": "record",
    "name": "Trade",
    "namespace": "shop",
    "fields": [
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "side", "type": {"type": "enum", "name": "Side", "symbols": ["BUY", "SELL"]}},
        {"name": "price", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}]},
        {"name": "who", "type": {"type": "record", "name": "Who", "fields": [{"name": "name", "type": "string"}]}},
        {"name": "count", "type": "int"},
    ],
}
COLUMNS = pa.schema(
    [("at", pa.timestamp("us", "UTC")), ("side", pa.string()), ("price", pa.float64()), ("count", pa.int64()), ("more", pa.bool_())]
)
WHERE = SerializationContext("trades", MessageField.VALUE)


def test_messages_of_another_writer_are_read(registry: Registry) -> None:
    """Whose schema has more than the stream, and less."""
    write = AvroSerializer(SchemaRegistryClient({"url": registry.url}), json.dumps(TRADE))
    at = datetime(2024, 5, 1, 12, tzinfo=UTC)
    trades = [{"at": at, "side": "BUY", "price": price, "who": {"name": "é"}, "count": 3} for price in (Decimal("1.25"), None)]
    good = [write(trade, WHERE) for trade in trades]
    format_ = AvroFormat(registry=registry.url, headers={"Authorization": "Bearer k"})
    row = {"at": at, "side": "BUY", "count": 3, "more": None}
    assert rows_of(format_.decode(good, COLUMNS), COLUMNS) == [row | {"price": 1.25}, row | {"price": None}]
    assert [login for path, login in registry.asked if login] == ["Bearer k"], "a schema is asked for once"
    bad = [b"", b"\0\0", b"{}", b"\0\0\0\1\0" + good[0][5:], good[0][:-1], good[0] + b"x"]
    found = format_.decode([bad[0], good[0], *bad[1:], good[1]], COLUMNS)
    assert [at for at, _ in found.bad] == [0, 2, 3, 4, 5, 6] and [at for at, _ in found.runs] == [1, 7]
    said = " ".join(reason for _, reason in found.bad)
    assert "no zero byte" in said and "knows no schema 256" in said and "1 bytes follow the record" in said
    other = format_.decode(good, pa.schema([("side", pa.int64())]))
    assert [reason for _, reason in other.bad] == ["field 'side': expected int64, got str"] * 2


def of_avro(kind: Any, *values: Any) -> tuple[AvroFormat, list[bytes], bytes]:
    """Of a record with one field, x: the format, messages, and a file."""
    schema = fastavro.parse_schema({"type": "record", "name": "R", "fields": [{"name": "x", "type": kind}]})
    messages, file = [], BytesIO()
    for value in values:
        message = BytesIO()
        fastavro.schemaless_writer(message, schema, {"x": value})
        messages.append(message.getvalue())
    fastavro.writer(file, schema, [{"x": value} for value in values])
    return AvroFormat(record=schema), messages, file.getvalue()


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}


def test_decimals_become_floats_wherever_they_are() -> None:
    for kind, value, wanted, expected in (
        (DECIMAL, Decimal("1.50"), pa.float64(), 1.5),
        ({"type": "array", "items": ["null", DECIMAL]}, [Decimal("1.50"), None], pa.list_(pa.float64()), [1.5, None]),
        ("long", 2**53 + 1, pa.float64(), 2.0**53),
    ):
        format_, messages, file = of_avro(kind, value)
        assert rows_of(format_.decode(messages, pa.schema([("x", wanted)])), pa.schema([("x", wanted)])) == [{"x": expected}]
        (batch,) = format_.batches(BytesIO(file))
        assert batch.column("x").cast(wanted, safe=False).to_pylist() == [expected]


def test_one_value_of_another_kind_is_one_record() -> None:
    format_, messages, file = of_avro(["null", "long", "string", {"type": "array", "items": "long"}], 1, "a", None, 3, [4])
    for wanted, bad in (pa.int64(), [1, 4]), (pa.list_(pa.int64()), [0, 1, 3]):
        found = format_.decode(messages, pa.schema([("x", wanted)]))
        assert [at for at, _ in found.bad] == bad and all("field 'x': expected " in reason for _, reason in found.bad)
    batches = list(format_.batches(BytesIO(file)))
    assert [value for each in batches for value in each.column("x").to_pylist()] == [1, "a", None, 3, [4]]
    kinds = [each.schema.field("x").type for each in batches]
    assert kinds == [pa.int64(), pa.string(), pa.null(), pa.int64(), pa.list_(pa.int64())]


def test_messages_of_ours_are_read_by_another_reader(registry: Registry) -> None:
    format_ = AvroFormat(registry=registry.url, subject="rows-value")
    rows = [{"at": datetime(2024, 5, 1, tzinfo=UTC), "count": 3}, {"side": "x"}]
    values = format_.encode(pa.RecordBatch.from_pylist(rows, COLUMNS))
    read = AvroDeserializer(SchemaRegistryClient({"url": registry.url}))
    nothing = dict.fromkeys(COLUMNS.names)
    assert [read(value, WHERE) for value in values] == [
        nothing | {"at": datetime(2024, 5, 1, tzinfo=UTC), "count": 3},
        nothing | {"side": "x"},
    ]


def test_what_is_missing_for_avro_is_said(registry: Registry) -> None:
    row = pa.RecordBatch.from_pydict({"i": [1]})
    with pytest.raises(ConnectorError, match="name a registry, or the record"):
        AvroFormat().decode([b"\0"], FEW)
    with pytest.raises(ConnectorError, match="say the subject"):
        AvroFormat(registry=registry.url).encode(row)
    with pytest.raises(ConnectorError, match=r"column 'a\.b' cannot be a field's name"):
        AvroFormat().file_of(row.rename_columns(["a.b"]))
    with pytest.raises(ConnectorError, match="ConnectError"):
        AvroFormat(registry="http://127.0.0.1:1").decode([b"\0\0\0\0\1"], FEW)
    document = {"name": "k", "stream": "s", "to": {"connector": "kafka", "servers": "x:1", "topic": "t"}}
    document["to"]["format"] = {"name": "avro", "schema_id": 7}  # type: ignore[index]
    with pytest.raises(WrongDocument, match="the number of `record`"):
        described(document)
