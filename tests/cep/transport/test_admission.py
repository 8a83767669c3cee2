"""Arrow data from outside: whatever their bytes say, they are a batch that Arrow finds whole, or refused with the column's name."""

from __future__ import annotations

import random
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cep.dataflow.operators.static_table import read_table
from cep.elements import Batch
from cep.errors import DataError, ProtocolError
from cep.kernels.columns import from_arrow
from cep.model.schema import Schema
from cep.model.tables import StaticTable
from cep.transport import admission, wire
from cep.transport.wire import Format, Header
from cep.world.store import DiskStore

WORDS = Format(Schema.of({"n": int, "x": float}))
TEXTS = Format(Schema.of({"n": int, "s": str, "b": bytes}))
MANY = Format(Schema.of({"n": "int64?", "s": "string?", "b": "binary", "o": "bool", "t": "timestamp[ms]?", "l": "list<string>"}))
ROWS = {"n": [1, 2, 3], "s": ["a", "bcd", "ä"], "b": [b"", b"\xff", b"12"], "o": [True, False, True], "x": [0.5, 1.5, 2.5]}
ROWS |= {"t": [1, 2, 3], "l": [["x"], [], ["yz", "ü"]]}
WITH_NULLS = ROWS | {"n": [1, None, 3], "s": [None, "b", "c"], "t": [None, None, 5]}


def message_of(wire_format: Format, rows: dict[str, list[Any]]) -> bytes:
    arrays = [pa.array(rows[field.name], field.type.arrow) for field in wire_format.schema.fields]
    columns = {field.name: from_arrow(a, field.type) for field, a in zip(wire_format.schema.fields, arrays, strict=True)}
    return bytes(wire_format.encode(Batch(columns, np.arange(len(arrays[0])))))


def with_offsets(wire_format: Format, true: list[int], false: list[int], rows: dict[str, list[Any]]) -> bytes:
    """The message of `rows` in which the offsets of a column are others."""
    message, before = message_of(wire_format, rows), struct.pack(f"<{len(true)}i", *true)
    assert message.count(before) == 1
    return message.replace(before, struct.pack(f"<{len(false)}i", *false))


@pytest.mark.parametrize("false", [[-1, 1, 4, 6], [0, 5, 4, 6], [0, 1, 4, 7], [0, 1, 2**31 - 1, 6], [0, -(2**31), 4, 6]], ids=str)
@pytest.mark.parametrize("wire_format, rows", [(TEXTS, ROWS), (MANY, ROWS | {"n": [1, None, 3]})], ids=["short", "by Arrow"])
def test_offsets_of_texts_that_lie(wire_format: Format, rows: dict[str, list[Any]], false: list[int]) -> None:
    """Before they led a kernel out of the buffer."""
    assert len(wire_format.decode(with_offsets(wire_format, [0, 1, 4, 6], [0, 1, 4, 6], rows))) == 3
    with pytest.raises(ProtocolError, match=r"column 's'|Offset|offset|expected an Arrow IPC message"):
        wire_format.decode(with_offsets(wire_format, [0, 1, 4, 6], false, rows))


@pytest.mark.parametrize("wire_format, rows", [(WORDS, ROWS), (TEXTS, ROWS), (MANY, WITH_NULLS)], ids=["words", "texts", "all types"])
def test_a_message_that_was_cut_off(wire_format: Format, rows: dict[str, list[Any]]) -> None:
    message = message_of(wire_format, rows)
    for size in range(len(message) - 8):  # what fills up the last word is not read
        with pytest.raises(ProtocolError):
            wire_format.decode(message[:size])


@pytest.mark.parametrize("wire_format, rows", [(WORDS, ROWS), (TEXTS, ROWS), (MANY, WITH_NULLS)], ids=["words", "texts", "all types"])
def test_mutated_messages_are_batches_or_refused(wire_format: Format, rows: dict[str, list[Any]]) -> None:
    """Bytes and words of a message set to anything, above all to what is beyond a bound."""
    message, choose = message_of(wire_format, rows), random.Random(20)
    taken = 0
    for _ in range(1500):
        body = bytearray(message)
        for _ in range(choose.choice((1, 1, 2, 8))):
            at = choose.randrange(len(body) - 8)
            value = choose.choice((0, 1, 7, 8, -1, 2**31 - 1, -(2**31), choose.getrandbits(31)))
            struct.pack_into(choose.choice(("<i", "<q")), body, at, value)
        try:
            batch = wire_format.decode(bytes(body))
        except ProtocolError:
            continue
        taken += 1
        wire_format.to_arrow(batch).validate(full=True)
    assert taken > 10


@pytest.mark.parametrize("rows", [ROWS, ROWS | {"n": [None, 1, 2]}], ids=["short", "by Arrow"])
def test_a_string_that_is_not_utf8(rows: dict[str, list[Any]]) -> None:
    message = message_of(MANY if rows["n"][0] is None else TEXTS, rows).replace("ä".encode(), b"\xe4\x41")
    with pytest.raises(ProtocolError, match=r"column 's'.*UTF8"):
        (MANY if rows["n"][0] is None else TEXTS).decode(message)


def test_a_character_that_two_strings_share() -> None:
    """All bytes together are UTF-8, each text is not."""
    message = with_offsets(TEXTS, [0, 1, 4, 6], [0, 1, 5, 6], ROWS)
    with pytest.raises(ProtocolError, match=r"column 's'.*UTF8"):
        TEXTS.decode(message)


def test_null_where_none_is_declared() -> None:
    nullable = Format(Schema.of({"n": "int64?", "s": str, "b": bytes}))
    with pytest.raises(ProtocolError, match="column 'n': 1 NULLs where none is declared"):
        TEXTS.decode(message_of(nullable, WITH_NULLS | {"s": ["a", "b", "c"]}))


def test_a_compressed_batch_is_refused() -> None:
    """A kilobyte of it may stand for any number of bytes."""
    arrays = [pa.array([0] * 1000), pa.array([0.0] * 1000), pa.array([0] * 1000)]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, WORDS.arrow, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=WORDS.arrow))
    messages = pa.ipc.MessageReader.open_stream(sink.getvalue())
    messages.read_next_message()
    with pytest.raises(ProtocolError, match="not compressed"):
        WORDS.decode(messages.read_next_message().serialize())
    with pytest.raises(ProtocolError, match="not compressed"):
        admission.read_stream(sink.getvalue())


def test_a_compressed_dictionary_is_refused() -> None:
    """Before a batch that is not: seven hundred bytes became five million."""
    batch = pa.record_batch({"word": pa.array(["a" * 100_000]).dictionary_encode()})

    def messages(compression: str | None) -> list[pa.Message]:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
            writer.write_batch(batch)
        return list(pa.ipc.MessageReader.open_stream(sink.getvalue()))

    (schema, plain, rows), (_, compressed, _) = messages(None), messages("zstd")
    for dictionary in (plain, compressed):
        stitched = b"".join(each.serialize().to_pybytes() for each in (schema, dictionary, rows))
        if dictionary is plain:
            assert admission.read_stream(stitched)[1][0].num_rows == 1
        else:
            with pytest.raises(ProtocolError, match="not compressed"):
                admission.read_stream(stitched)


@pytest.mark.parametrize("false", [[-5, 2, 4], [0, 400_000_000, 4], [0, 3, 2]], ids=str)
def test_an_inline_table_with_offsets_that_lie(false: list[int]) -> None:
    """Before they ended the instance manager by SIGSEGV."""
    sink, rows = pa.BufferOutputStream(), pa.record_batch({"k": pa.array(["ab", "cd"])})
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    data = sink.getvalue().to_pybytes().replace(struct.pack("<3i", 0, 2, 4), struct.pack("<3i", *false))
    with pytest.raises(DataError, match="the table in the query's document: cannot be read"):
        read_table(StaticTable(Schema.of({"k": str}), data=data), DiskStore())


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"1", b'{"number": "1"}', b'{"number": 1, "table": [-1]}', b'{"number": 1, "move": [1]}']
)
def test_barriers_that_are_none(body: bytes) -> None:
    with pytest.raises(ProtocolError, match=r"expected JSON|a Barrier: expected"):
        wire.element_of(Header(wire.BARRIER, 1), body, WORDS)


@pytest.mark.parametrize("body", [b"{}", b'{"subquery": 1, "instance": 0, "cause": ""}', b"[]"])
def test_fails_that_are_none(body: bytes) -> None:
    with pytest.raises(ProtocolError, match="a Fail: expected"):
        wire.element_of(Header(wire.FAIL, 1), body, WORDS)
