"""Messages: what is packed is unpacked, batches of all types come back as they were, and what is no message is refused.

Tests `wire.py`, `ipc.py`.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.elements import (
    MAX_TIME,
    MIN_TIME,
    Batch,
    CheckpointBarrier,
    Element,
    End,
    Fail,
    Idle,
    MoveBarrier,
    State,
    Stop,
    Switch,
    TableBarrier,
    Watermark,
)
from cep.errors import ProtocolError
from cep.kernels.arrays import int64_array
from cep.kernels.columns import columns_from_arrow, columns_to_arrow
from cep.model.expr import col
from cep.model.schema import Schema
from cep.model.streams import Stream
from cep.transport import wire
from cep.transport.wire import Format, Header

UNSIGNED64, SIGNED64 = st.integers(0, 2**64 - 1), st.integers(MIN_TIME, MAX_TIME)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": SIGNED64,
    "float64": st.floats(),
    "timestamp[us]": st.integers(-(10**15), 10**15),
    "string": st.text(max_size=40),
    "binary": st.binary(max_size=40),
}


@st.composite
def batches(draw: st.DrawFn) -> tuple[Schema, pa.RecordBatch, Batch]:
    """A schema of up to all types, Arrow rows of it (sliced, so that offsets are not 0), and the batch with hidden columns."""
    names = draw(st.lists(st.sampled_from(sorted(VALUES)), max_size=7, unique=True))
    schema = Schema.of({f"f{i}": name + draw(st.sampled_from(("", "?"))) for i, name in enumerate(names)})
    n, skip = draw(st.integers(0, 20)), draw(st.integers(0, 9))
    arrays = []
    for f, name in zip(schema.fields, names, strict=True):
        value = st.none() | VALUES[name] if f.nullable else VALUES[name]
        arrays.append(pa.array(draw(st.lists(value, min_size=n + skip, max_size=n + skip)), f.type.arrow).slice(skip))
    rows = pa.RecordBatch.from_arrays(arrays, schema=schema.arrow) if arrays else pa.table({}).to_batches()
    time = np.array(draw(st.lists(SIGNED64, min_size=n, max_size=n)), np.int64)
    words = draw(st.integers(2, 4))
    origin = np.array(draw(st.lists(SIGNED64, min_size=words * n, max_size=words * n)), np.int64).reshape(n, words)
    columns = columns_from_arrow(rows, schema) if arrays else {}
    return schema, rows, Batch(columns, time, origin if draw(st.booleans()) else None, draw(st.integers(0, MAX_TIME)))


@given(st.data())
def test_headers(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(sorted(range(1, 10)) + sorted(range(16, 25))))
    sized = {"stream": st.integers(0, 2**32 - 1)}
    signed = dict.fromkeys(("watermark", "created", "stamp", "since"), SIGNED64)
    unsigned = dict.fromkeys(("sequence", "record"), st.integers(0, 2**wire.COUNT_BITS - 1)) | {"fingerprint": UNSIGNED64}
    fields = {name: data.draw(strategy) for name, strategy in (sized | signed | unsigned).items()}
    header = Header(kind, data.draw(UNSIGNED64), **fields)
    assert wire.unpack(header.pack()) == header


@pytest.mark.parametrize("frame", [b"", b"x", Header(wire.END, 1).pack()[:-1], Header(wire.END, 1).pack() + b"\0"], ids=len)
def test_a_header_of_another_size(frame: bytes) -> None:
    with pytest.raises(ProtocolError, match=f"expected 80 bytes, got {len(frame)}"):
        wire.unpack(frame)


@pytest.mark.parametrize("version, kind", [(0, 1), (wire.VERSION + 1, 1), (wire.VERSION, 0), (wire.VERSION, 10), (wire.VERSION, 255)])
def test_a_header_of_another_version_or_kind(version: int, kind: int) -> None:
    with pytest.raises(ProtocolError, match=f"version {version}, kind {kind}"):
        wire.unpack(struct.pack("<BB", version, kind) + Header(wire.END, 1).pack()[2:])


@pytest.mark.parametrize("counts", [{"sequence": 2**62}, {"record": 2**62}, {"sequence": 2**64 - 1, "record": 2**63}], ids=str)
def test_a_header_with_counts_that_no_sum_has_room_for(counts: dict[str, int]) -> None:
    with pytest.raises(ProtocolError, match=r"expected counts below 2\^62"):
        wire.unpack(Header(wire.CREDIT, 1, **counts).pack())


@given(batches(), st.integers(0, 7))
def test_batches(made: tuple[Schema, pa.RecordBatch, Batch], shift: int) -> None:
    """Whatever the address at which the transport hands the frame out."""
    schema, rows, batch = made
    wire_format = Format(schema, 0 if batch.origin is None else batch.origin.shape[1])
    body = wire.body_of(batch, wire_format)
    assert body is not None
    frame = memoryview(b"\0" * shift + bytes(body))[shift:]
    header = Header(wire.BATCH, 1, fingerprint=wire_format.fingerprint, created=batch.created)
    got = wire.element_of(header, frame, wire_format)
    assert isinstance(got, Batch)
    assert got.time.tolist() == batch.time.tolist() and got.created == batch.created
    assert (got.origin is None) == (batch.origin is None)
    assert got.origin is None or got.origin.tolist() == batch.origin.tolist()  # type: ignore[union-attr]
    if schema.fields:
        assert repr(columns_to_arrow(got.columns, schema).to_pylist()) == repr(rows.to_pylist())  # repr: NaN equals itself
    for column in got.columns.values():
        for array in (column.values, column.starts):
            assert array is None or array.ctypes.data % array.itemsize == 0


@given(st.lists(st.tuples(SIGNED64, st.text(max_size=20)), max_size=20), st.booleans())
def test_an_event_time_that_is_a_column_travels_once(rows: list[tuple[int, str]], plain: bool) -> None:
    fields = {"t": "timestamp[us]", "s": "string", **({} if plain else {"b": "bool"})}  # with a bool Arrow reads and writes
    stream = Stream("s", Schema.of(fields), col("t"), 0)
    time, texts = np.array([t for t, _ in rows], np.int64), pa.array([s for _, s in rows], pa.string())
    columns = [pa.array(time).cast(stream.schema["t"].type.arrow), texts, *([] if plain else [pa.array([True] * len(rows), pa.bool_())])]
    batch = Batch(columns_from_arrow(pa.RecordBatch.from_arrays(columns, schema=stream.schema.arrow), stream.schema), time)
    wire_format = Format.published(stream)
    body = bytes(wire_format.encode(batch))
    got = wire_format.decode(body)
    assert got.time.tolist() == time.tolist() == got.columns["t"].values.tolist()
    assert columns_to_arrow(got.columns, stream.schema).column("s").to_pylist() == texts.to_pylist()
    assert len(body) <= len(bytes(Format(stream.schema).encode(batch))) - 8 * len(rows)


def test_an_event_time_that_may_be_null_has_a_hidden_column() -> None:
    fields = {"t": "timestamp[us]?", "u": "timestamp[us]"}
    assert Format.published(Stream("s", Schema.of(fields), col("t"), 0)).time == wire.TIME
    assert Format.published(Stream("s", Schema.of(fields), None, None)).time == wire.TIME
    assert Format.published(Stream("s", Schema.of(fields), col("u"), 0)).time == "u"


STATE = State("op", "held", 1, pa.record_batch({"k": ["a", None, "ü"], "n": pa.array([1, 2, None])}).slice(1))
FAILS = Fail("SQ1", None, "no"), Fail("ü", 3, "'\n\"")
BARRIERS = (
    CheckpointBarrier(7),
    CheckpointBarrier(7, pauses=True),
    TableBarrier(8, (0, 1, 1, 0)),
    MoveBarrier(9, "SQ2", 3, "ipc:///x"),
    Switch(),
)


@pytest.mark.parametrize("element", [Watermark(5), Watermark(MAX_TIME), Idle(), *BARRIERS, End(), Stop(), *FAILS, STATE])
def test_other_elements(element: Element) -> None:
    wire_format = Format(Schema.of({"n": int}))
    watermark = element.time if isinstance(element, Watermark) else MIN_TIME
    header = wire.unpack(Header(wire.kind_of(element), 1, watermark=watermark).pack())
    assert wire.element_of(header, wire.body_of(element, wire_format), wire_format) == element


def test_a_batch_of_another_schema() -> None:
    ours, theirs = Format(Schema.of({"n": int})), Format(Schema.of({"m": int}))
    batch = Batch(columns_from_arrow(pa.record_batch({"m": [1]}), theirs.schema), np.zeros(1, np.int64))
    header = Header(wire.BATCH, 1, fingerprint=theirs.fingerprint)
    with pytest.raises(ProtocolError, match=r"another schema: expected .*n: int64"):
        wire.element_of(header, wire.body_of(batch, theirs), ours)


def test_fingerprints_differ_with_everything_that_a_reader_must_know() -> None:
    plain = {"a": "int64", "b": "string"}
    schemas = [plain, {"b": "string", "a": "int64"}, {"a": "int32", "b": "string"}, {"a": "int64?", "b": "string"}, {"a": "int64"}]
    formats = [Format(Schema.of(fields), origin) for fields in schemas for origin in (0, 2, 3)]
    formats += [Format(Schema.of(fields), origin, time) for fields in schemas for origin in (0, 2) for time in ("a", "")]
    assert len({each.fingerprint for each in formats}) == len(formats)
    assert Format(Schema.of(plain)).fingerprint == formats[0].fingerprint


def test_ids_are_frozen() -> None:
    """They meet in the headers of processes that were never told of each other, perhaps of other versions."""
    assert wire.name_id("per-ip/visits/0>1") == FROZEN
    assert wire.stream_id("visits") == wire.name_id("visits") & 0xFFFFFFFF


FROZEN = 1344274870380553034


@given(batches(), batches())
def test_what_the_engine_writes_is_what_arrow_writes(
    one: tuple[Schema, pa.RecordBatch, Batch], other: tuple[Schema, pa.RecordBatch, Batch]
) -> None:
    schema, _, batch = one
    wire_format = Format(schema, 0 if batch.origin is None else batch.origin.shape[1])
    assert bytes(wire_format.encode(batch)) == bytes(wire_format.to_arrow(batch).serialize())
    if other[0].fields != schema.fields and wire_format.layout is not None:
        foreign = Format(other[0]).to_arrow(other[2]).serialize()
        found = wire_format.layout.read(foreign)
        assert found is None or found[0] == len(other[2])


@given(batches())
def test_what_a_publisher_writes_is_what_arrow_writes(made: tuple[Schema, pa.RecordBatch, Batch]) -> None:
    schema, rows, batch = made
    wire_format = Format(schema)
    if wire_format.layout is None or not schema.fields or not len(batch):
        return
    written = wire_format.layout.write_arrow(rows.num_rows, rows.columns, batch.time)
    assert (written is None) == any(column.null_count for column in rows.columns)
    whole = pa.RecordBatch.from_arrays([*rows.columns, int64_array(batch.time)], schema=wire_format.arrow)
    assert written is None or written == bytes(whole.serialize())


def test_a_message_cut_short_is_not_read() -> None:
    wire_format = Format(Schema.of({"n": "int64", "t": str}))
    rows = pa.RecordBatch.from_arrays([pa.array([1, 2]), pa.array(["a", "bcd"]), pa.array([3, 4])], schema=wire_format.arrow)
    message, layout = bytes(rows.serialize()), wire_format.layout
    assert layout is not None and layout.read(pa.py_buffer(message)) is not None
    assert all(layout.read(pa.py_buffer(message[:size])) is None for size in range(len(message)))
