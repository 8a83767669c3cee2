"""Admission: Arrow data from outside are checked whole before a kernel sees them (docs/features/robustness.md).

Kernels read where offsets say, so one that lies leads them out of the buffer, and Arrow itself does not look at them unless it is asked.
Checked are: the metadata (Arrow's own reader), that buffers are long enough for their rows, that offsets do not descend and stay within
their bytes, that a `string` is UTF-8, that no NULL is where none is declared. Compressed batches are refused: a few bytes would become any
number of them. What is wrong is a ProtocolError that names the column.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa

from cep.errors import ProtocolError
from cep.kernels.soundness import ASCII, OUTSIDE, texts_are

_U16, _U32, _I32 = struct.Struct("<H"), struct.Struct("<I"), struct.Struct("<i")
_HEADER_SLOT, _DATA_SLOT, _COMPRESSION_SLOT = 8, 6, 10  # of the flatbuffers tables Message, DictionaryBatch, RecordBatch, in their vtables
_NO_BYTES = np.zeros(0, np.uint8)
_ALIGNED = 8


def read_batch(message: Any, schema: pa.Schema) -> pa.RecordBatch:
    """The batch of an IPC message. Raises ProtocolError: it is none of `schema`, or its buffers are not what they say."""
    try:
        parts = pa.ipc.read_message(message)
        if _is_compressed(parts.metadata):
            raise ProtocolError("a batch: expected one that is not compressed")
        batch = pa.ipc.read_record_batch(parts, schema)
        check_batch(batch)
    except ProtocolError:
        raise
    except Exception as error:  # what Arrow raises for bytes that are no message is half a dozen of types
        raise ProtocolError(f"a batch: expected an Arrow IPC message with {', '.join(schema.names)}: {error}") from None
    return batch


def read_stream(data: Any) -> tuple[pa.Schema, list[pa.RecordBatch]]:
    """The schema and all batches of an IPC stream. Raises ProtocolError."""
    try:
        buffer = pa.py_buffer(data)
        for message in pa.ipc.MessageReader.open_stream(buffer):
            if message.type != "schema" and _is_compressed(message.metadata, message.type == "dictionary"):
                raise ProtocolError("an Arrow IPC stream: expected batches that are not compressed")
        stream = pa.ipc.open_stream(buffer)
        batches = list(stream)
        for batch in batches:
            batch.validate(full=True)
    except ProtocolError:
        raise
    except Exception as error:
        raise ProtocolError(f"expected an Arrow IPC stream: {error}") from None
    return stream.schema, batches


def check_batch(batch: pa.RecordBatch) -> None:
    """Raises ProtocolError, or pa.ArrowException: a kernel must not see it."""
    batch.validate()
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if not field.nullable and column.null_count:
            raise ProtocolError(f"column {field.name!r}: {column.null_count} NULLs where none is declared")
        _check_column(field.name, column)


def _check_column(name: str, column: pa.Array) -> None:
    buffers = column.buffers()
    if any(buffer is not None and buffer.address % _ALIGNED for buffer in buffers[1:]):
        raise ProtocolError(f"column {name!r}: expected buffers at multiples of {_ALIGNED} bytes")
    if not _is_text(column.type):
        column.validate(full=True)
    elif len(column):
        offsets = np.frombuffer(buffers[1], np.int32, len(column) + 1, column.offset * 4)
        body = _NO_BYTES if buffers[2] is None else np.frombuffer(buffers[2], np.uint8)
        check_texts(name, pa.types.is_string(column.type), offsets, body)


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_binary(type_))


def check_texts(name: str, utf8: bool, offsets: np.ndarray, body: np.ndarray) -> None:
    """Checks texts in `body`, uint8[any], from and to `offsets`, int32[n + 1]. `utf8`: they have to be. Raises ProtocolError."""
    found = texts_are(offsets, body)
    if found == OUTSIDE:
        raise ProtocolError(f"column {name!r}: offsets of texts that descend, or lead out of their {len(body)} bytes")
    if utf8 and found != ASCII:
        _check_utf8(name, offsets, body)


def _check_utf8(name: str, offsets: np.ndarray, body: np.ndarray) -> None:
    texts = pa.Array.from_buffers(pa.string(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(body)])
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid as error:
        raise ProtocolError(f"column {name!r}: {error}") from None


def _is_compressed(metadata: Any, dictionary: bool = False) -> bool:
    """Has the record batch in the metadata of a message, which Arrow has verified, a description of how it is compressed? `dictionary`: the
    message is one, and the batch is inside of it."""
    found = memoryview(metadata)
    table: int | None = _U32.unpack_from(found, 0)[0]
    for slot in (_HEADER_SLOT, *([_DATA_SLOT] if dictionary else [])):
        table = None if table is None else _table(found, table, slot)
    return table is not None and _field(found, table, _COMPRESSION_SLOT) > 0


def _table(found: memoryview, table: int, slot: int) -> int | None:
    """Where the table lies that a field of another one refers to; None: the field is not there."""
    at = _field(found, table, slot)
    return at + int(_U32.unpack_from(found, at)[0]) if at else None


def _field(found: memoryview, table: int, slot: int) -> int:
    """Where a field of the flatbuffers table at `table` lies; 0: it has none."""
    vtable = table - _I32.unpack_from(found, table)[0]
    if slot >= _U16.unpack_from(found, vtable)[0]:
        return 0
    offset: int = _U16.unpack_from(found, vtable + slot)[0]
    return table + offset if offset else 0
