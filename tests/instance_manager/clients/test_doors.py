"""How batches come in that a publisher sends by another declaration of the stream than the query's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cep.elements import Batch, Element, Watermark
from cep.errors import ProtocolError
from cep.kernels.columns import columns_from_arrow, columns_to_arrow
from cep.model.expr import col
from cep.model.schema import Schema
from cep.model.streams import Stream
from cep.transport import wire
from cep.transport.wire import Format, Header
from instance_manager.clients.doors import StreamDoor, door_of

COLUMNS: dict[str, Any] = {
    "ip": ["a", "bc"],
    "at": [1, 2],
    "n": [7, None],
    "text": ["x", None],
    "flag": [True, None],
    "words": [["w"], None],
}
TYPES = {"ip": "string", "at": "timestamp[us]", "n": "int32?", "text": "string?", "flag": "bool?", "words": "list<string>?"}
NARROW, MIDDLE, WIDE = 2, 4, 6


def declared(width: int, origin: int = 0) -> Format:
    schema = Schema.of(dict(list(TYPES.items())[:width]))
    return Format.published(Stream("visits", schema, col("at"), 0), origin)


def message(sent: Format) -> tuple[Header, Any]:
    arrays = [pa.array(COLUMNS[f.name], f.type.arrow) for f in sent.schema.fields]
    columns = columns_from_arrow(pa.RecordBatch.from_arrays(arrays, schema=sent.schema.arrow), sent.schema)
    origin = np.arange(2 * sent.origin, dtype=np.int64).reshape(2, sent.origin) if sent.origin else None
    return Header(wire.BATCH, 1, fingerprint=sent.fingerprint, created=5), sent.encode(Batch(columns, np.array([1, 2]), origin))


def through(read: Format, sent: Format) -> Element:
    return door_of(read, {"schema": sent.schema.to_json()}).element(*message(sent))


@pytest.mark.parametrize("origin", [0, 1])
@pytest.mark.parametrize("read", [NARROW, MIDDLE, WIDE])
@pytest.mark.parametrize("sent", [NARROW, MIDDLE, WIDE])
def test_what_comes_out_has_the_columns_of_the_query(sent: int, read: int, origin: int) -> None:
    schema = declared(read).schema
    batch = through(declared(read, origin), declared(sent, origin))
    assert isinstance(batch, Batch) and tuple(batch.columns) == schema.names
    found = columns_to_arrow(batch.columns, schema)
    found.validate(full=True)
    known = list(TYPES)[:sent]
    times = [value.as_py().timestamp() * 1e6 for value in found.column("at")]
    assert times == [1, 2] == batch.time.tolist() and batch.created == 5
    wanted = {name: COLUMNS[name] if name in known else [None, None] for name in schema.names if name != "at"}
    assert found.drop_columns("at").to_pydict() == wanted
    assert (None if batch.origin is None else batch.origin.tolist()) == ([[0], [1]] if origin else None)


def test_one_that_knows_the_same_costs_nothing() -> None:
    read = declared(MIDDLE)
    assert door_of(read, {"schema": read.schema.to_json()}) == door_of(read, {}) == StreamDoor(read, read, read)


@pytest.mark.parametrize("read", [NARROW, MIDDLE, WIDE])
@pytest.mark.parametrize("sent", [NARROW, MIDDLE, WIDE])
def test_rows_come_in_without_the_columns_that_nothing_reads_and_with_them(sent: int, read: int) -> None:
    """What the publisher does not know is NULL; what it left out is not there."""
    query, whole = declared(read), declared(sent)
    wanted = {"ip", "n", "words"} & set(query.schema.names)
    door, few = door_of(query, {"schema": whole.schema.to_json()}, wanted), whole.of_columns(wanted)
    assert set(few.schema.names) == {"at"} | wanted & set(whole.schema.names) and door.few.fingerprint == few.fingerprint
    unknown = set(query.schema.names) - set(whole.schema.names)
    for come_as, expected in ((few, {"at"} | wanted | unknown), (whole, set(query.schema.names))):
        batch = door.element(*message(come_as))
        assert isinstance(batch, Batch) and batch.time.tolist() == [1, 2]
        schema = Schema(tuple(field for field in query.schema.fields if field.name in expected))
        assert expected <= set(batch.columns) and columns_to_arrow(batch.columns, schema).column("ip").to_pylist() == COLUMNS["ip"]


def test_what_a_publisher_sends_is_checked_whole_also_where_nobody_reads_it() -> None:
    sent = declared(MIDDLE)
    header, body = message(sent)
    where = bytes(body).index(b"x", len(body) - 128)
    broken = bytes(body)[:where] + b"\xff" + bytes(body)[where + 1 :]
    with pytest.raises(ProtocolError, match="text"):
        door_of(declared(NARROW), {"schema": sent.schema.to_json()}).element(header, broken)


def test_what_is_no_batch_passes() -> None:
    door = door_of(declared(NARROW), {"schema": declared(WIDE).schema.to_json()})
    assert door.element(Header(wire.WATERMARK, 1, watermark=9), None) == Watermark(9)


@pytest.mark.parametrize(
    "columns",
    [
        {**TYPES, "n": "int64?"},
        {**TYPES, "ip": "string?"},
        {"at": "timestamp[us]", "n": "int32?"},
    ],
    ids=["another type", "may be NULL", "a column is missing that may not be NULL"],
)
def test_another_stream_is_refused_with_its_first_batch(columns: dict[str, str]) -> None:
    read, other = declared(MIDDLE), Schema.of(columns)
    door = door_of(read, {"schema": other.to_json()})
    with pytest.raises(ProtocolError, match="batch of another schema"):
        door.element(Header(wire.BATCH, 1, fingerprint=Format(other, 0, "at").fingerprint), b"")


@pytest.mark.parametrize("said", [7, [7], [{"name": "ip"}], [{"name": "ip", "type": "text"}], [{"name": "__time", "type": "int64"}]])
def test_what_is_no_schema(said: object) -> None:
    with pytest.raises(ProtocolError, match="schema: "):
        door_of(declared(NARROW), {"schema": said})
