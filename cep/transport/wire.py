"""Messages between processes: a header of fixed size, and for a batch the Arrow IPC record-batch message (rule 4.14).

The receiver knows the schema of a channel from the plan; the fingerprint in the header says when it does not.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Collection, Generator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from cep.elements import (
    MIN_TIME,
    Barrier,
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
from cep.kernels.columns import Column, Columns, columns_from_arrow, columns_to_arrow, gathered, text_column
from cep.kernels.composed import source_of
from cep.kernels.text import gather
from cep.model.ids import name_id as name_id
from cep.model.schema import BOOL, DataType, Schema
from cep.model.streams import Stream
from cep.transport import admission
from cep.transport.ipc import MessageLayout

VERSION = 2
# version, kind, (6 bytes reserved), and then as in `Header`, 4 reserved behind the stream; a multiple of 8 bytes: what follows is aligned
_HEADER = struct.Struct("<BB6xQQI4xQqqqqQ")
HEADER_BYTES = _HEADER.size
_SIZED = struct.Struct("<QBB6xQQI4xQqqqqQ")  # the length of the body before it, as messages lie behind each other
SIZED_BYTES = _SIZED.size
_CHANNEL_FIELD = 3  # of it
COUNT_BITS = 62  # of sequence and record, so that sums of them fit a machine word

BATCH, WATERMARK, IDLE, BARRIER, END, STOP, FAIL, STATE, SWITCH = range(1, 10)
CREDIT, OPEN, OPENED, CLOSE, CLOSED, BEAT, SUBSCRIBE, SUBSCRIBED, UNSUBSCRIBE, REPORT, REDIRECT, UNKNOWN, COVERED, ACK = range(16, 30)
_new = tuple.__new__  # `Header._make` is a function around it
_KINDS = frozenset(range(1, 10)) | frozenset(range(16, 30))
_KIND_OF: dict[type, int] = {
    Batch: BATCH,
    Watermark: WATERMARK,
    Idle: IDLE,
    CheckpointBarrier: BARRIER,
    TableBarrier: BARRIER,
    MoveBarrier: BARRIER,
    End: END,
    Stop: STOP,
    Fail: FAIL,
    State: STATE,
    Switch: SWITCH,
}
#: What costs credit: all else is free.
COSTLY = (Batch, State)
COSTLY_KINDS = frozenset((BATCH, STATE))
LAYOUTS_KEPT = 256
#: A batch of so many rows is copied right to where it stands in its message; one of fewer costs less put together of pieces.
FILLED_MIN = 64
#: The hidden column of event times.
TIME = "__time"
_INSTANCES = 1 << 31  # more than a table of buckets can name
_PLACE = b"place"  # in the metadata of the schema of rows of state


class Header(NamedTuple):
    """What every message begins with.

    `watermark` holds after the element (for CREDIT: the receiver's combined watermark); `created` is the oldest creation time
    in ns (for CREDIT of a subscriber: the number of the element that it takes next); `stamp` is, on a published batch, the publisher's
    greatest event time before its first row; `since` is the first event time of a query attached to a live stream (rule 5.9), MIN_TIME
    where it saw everything.
    """

    kind: int
    channel: int
    sequence: int = 0
    stream: int = 0
    fingerprint: int = 0
    watermark: int = MIN_TIME
    created: int = 0
    stamp: int = MIN_TIME
    since: int = MIN_TIME
    record: int = 0  # on a published batch: the number of its first row in its partition

    def pack(self) -> bytes:
        return _HEADER.pack(*((VERSION,) + self))  # noqa: RUF005  # a tuple is handed on as it is: half the time


def unpack(frame: bytes | memoryview) -> Header:
    """Raises ProtocolError for bytes that are no header of this version."""
    if len(frame) != HEADER_BYTES:
        raise ProtocolError(f"message header: expected {HEADER_BYTES} bytes, got {len(frame)}")
    return unpack_from(frame, 0)


def unpack_from(frame: bytes | memoryview, at: int) -> Header:
    """The same of the bytes from `at` on, of which there are enough."""
    found = _HEADER.unpack_from(frame, at)
    return _header_of(found[0], found[1:])


def _header_of(version: int, fields: tuple[Any, ...]) -> Header:
    header: Header = _new(Header, fields)
    if version != VERSION or header.kind not in _KINDS:
        raise ProtocolError(f"message header: expected version {VERSION} and a known kind, got version {version}, kind {header.kind}")
    if (header.sequence | header.record) >> COUNT_BITS:
        raise ProtocolError(f"message header: expected counts below 2^{COUNT_BITS}, got {header.sequence} and {header.record}")
    return header


def pack_sized(size: int, header: Header) -> bytes:
    """How long the body is, and the header."""
    return _SIZED.pack(*((size, VERSION) + header))  # noqa: RUF005  # as in `Header.pack`


def unpack_sized_from(frame: bytes | memoryview, at: int) -> tuple[int, Header]:
    """The same of the bytes from `at` on, of which there are enough. Raises ProtocolError."""
    found = _SIZED.unpack_from(frame, at)
    return found[0], _header_of(found[1], found[2:])


def unpack_alike(frame: memoryview, at: int, channel: int, size: int) -> Generator[tuple[Header, bytes], None, int]:
    """The messages from `at` on that are of that channel, and whose bodies have `size` bytes, up to the first that is not; its result is
    where they end. A loop in C finds them, so that a small message costs less than its header alone. Raises ProtocolError."""
    layout = _alike(size)
    for found in layout.iter_unpack(frame[at : len(frame) - (len(frame) - at) % layout.size]):
        if found[0] != size or found[_CHANNEL_FIELD] != channel:
            break
        at += layout.size
        yield _header_of(found[1], found[2:-1]), found[-1]
    return at


@lru_cache(maxsize=256)
def _alike(size: int) -> struct.Struct:
    return struct.Struct(f"{_SIZED.format}{size}s")


def stream_id(name: str) -> int:
    """32 bits that stand for a stream in a header."""
    return name_id(name) & 0xFFFFFFFF


@dataclass(frozen=True)
class Format:
    """How the batches of a channel look on the wire: the stream's columns, then the hidden ones; `origin`: words of the origin,
    0 where it does not travel; `time`: the column that is the event time, TIME a hidden one, and "" none, only to clients, which read
    batches as Arrow does."""

    schema: Schema
    origin: int = 0
    time: str = TIME

    @staticmethod
    def published(stream: Stream, origin: int = 0) -> Format:
        """The format of what publishers send: an event time that is a column, and never NULL, does not travel twice."""
        column = stream.event_time_column
        return Format(stream.schema, origin, TIME if column is None or stream.schema[column].nullable else column)

    def of_columns(self, names: Collection[str]) -> Format:
        """The same with the columns `names` alone, and the one that is the event time."""
        fields = tuple(field for field in self.schema.fields if field.name in names or field.name == self.time)
        return self if len(fields) == len(self.schema.fields) else replace(self, schema=Schema(fields))

    @property
    def plain(self) -> Format:
        """The same without the origin: how clients get it."""
        return replace(self, origin=0)

    @cached_property
    def hides_time(self) -> bool:
        """Has the event time a hidden column?"""
        return self.time == TIME

    @cached_property
    def arrow(self) -> pa.Schema:
        hidden = [pa.field(TIME, pa.int64(), nullable=False)] * self.hides_time
        hidden += [pa.field(f"__origin{word}", pa.int64(), nullable=False) for word in range(self.origin)]
        return pa.schema(list(self.schema.arrow) + hidden)

    @cached_property
    def fingerprint(self) -> int:
        return self.schema.fingerprint ^ self.origin ^ (0 if self.hides_time else name_id(self.time))

    def to_arrow(self, batch: Batch) -> pa.RecordBatch:
        """The batch with its hidden columns."""
        arrays = list(columns_to_arrow(batch.columns, self.schema).columns)
        arrays += [int64_array(batch.time)] * self.hides_time
        if self.origin:
            assert batch.origin is not None, "the plan says that this channel carries the origin"
            arrays += [int64_array(batch.origin[:, word]) for word in range(self.origin)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow)

    def from_arrow(self, record_batch: pa.RecordBatch, created: int = 0) -> Batch:
        columns = columns_from_arrow(record_batch, self.schema)
        n, width = record_batch.num_rows, len(self.schema.fields)
        hidden = [_int64(record_batch.column(i)) for i in range(width, record_batch.num_columns)]
        time = hidden.pop(0) if self.hides_time else columns[self.time].values
        origin = np.stack(hidden, axis=1) if self.origin else None
        return Batch(columns, time if n else np.zeros(0, np.int64), origin, created)

    @cached_property
    def layout(self) -> MessageLayout | None:
        """None where Arrow has to write and read the batches."""
        return _layout_of(tuple(field.type for field in self.schema.fields), self.arrow)

    def encode(self, batch: Batch) -> bytes | memoryview | pa.Buffer:
        """The IPC message of a batch with its hidden columns."""
        n, layout = len(batch.time), self.layout
        if layout is None or not n:
            return self.to_arrow(batch).serialize()
        if n >= FILLED_MIN:
            found = [raw for name in self.schema.names if (raw := _raw(batch.columns, name)) is not None]
            if len(found) < len(self.schema.names):
                return self.to_arrow(batch).serialize()
            return layout.fill(n, [*found, *self._hidden_of(batch)])
        arrays: list[np.ndarray] = []
        texts: tuple[int, ...] = ()
        for name in self.schema.names:
            column = batch.columns[name]
            if column.valid is not None:
                return self.to_arrow(batch).serialize()
            if column.data is None:
                arrays.append(np.ascontiguousarray(column.values))
            else:
                offsets, body = gathered(column)
                arrays += offsets, body
                texts += (len(body),)
        return layout.write(n, [*arrays, *map(np.ascontiguousarray, self._hidden_of(batch))], texts)

    def _hidden_of(self, batch: Batch) -> list[np.ndarray]:
        """The hidden columns."""
        if not self.origin:
            return [batch.time] * self.hides_time
        assert batch.origin is not None, "the plan says that this channel carries the origin"
        return [batch.time] * self.hides_time + [batch.origin[:, word] for word in range(self.origin)]

    def decode(self, frame: Any, created: int = 0) -> Batch:
        """A batch from the bytes of an IPC message; its columns are views of `frame`. Raises ProtocolError: it is none, or lies."""
        message = frame if type(frame) is bytes else aligned(frame)  # bytes of Python lie at multiples of 16
        found = None if self.layout is None else self.layout.read(message)
        if found is None:
            return self.from_arrow(admission.read_batch(message, self.arrow), created)
        arrays, columns = iter(found[1]), {}
        for name, type_, of_texts in self._columns:
            values = next(arrays)
            if of_texts:
                body = next(arrays)
                admission.check_texts(name, type_.name == "string", values, body)
                columns[name] = text_column(type_, values, body)
            else:
                columns[name] = Column(type_, values)
        time = next(arrays) if self.hides_time else columns[self.time].values
        return Batch(columns, time, _side_by_side(list(arrays)) if self.origin else None, created)

    @cached_property
    def _columns(self) -> list[tuple[str, DataType, bool]]:
        """Name, type, and is it of texts?"""
        return [(field.name, field.type, field.type.is_text) for field in self.schema.fields]


@lru_cache(LAYOUTS_KEPT)
def _layout_of(types: tuple[DataType, ...], whole: pa.Schema) -> MessageLayout | None:
    """`whole`: the columns of `types` and the hidden ones. A thousand queries have channels of few layouts."""
    if any(type_.is_list or type_ == BOOL for type_ in types):
        return None
    dtypes = [None if type_.is_text else np.dtype(type_.name.replace("timestamp", "int64")) for type_ in types]
    return MessageLayout(whole, [*dtypes, *[np.dtype(np.int64)] * (len(whole) - len(types))])


class _Texts(NamedTuple):
    """Texts that lie anywhere in `data`: where each begins, int64[n], and its bytes, int32[n]."""

    data: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray

    @property
    def size(self) -> int:
        return int(np.add.reduce(self.lengths, dtype=np.int64))

    def put(self, offsets: np.ndarray, body: np.ndarray) -> None:
        """See `cep.transport.ipc.Scattered`."""
        offsets[0] = 0
        self.lengths.cumsum(out=offsets[1:])
        gather(self.data, self.starts, offsets, body)


def _raw(columns: Columns, name: str) -> np.ndarray | _Texts | None:
    """What a column is made of; None: it may have NULLs."""
    column, rows = source_of(columns, name)
    if column.valid is not None:
        return None
    values = column.values if rows is None else column.values[rows]
    if column.data is None or column.starts is None:
        return values
    return _Texts(column.data, column.starts if rows is None else column.starts[rows], values)


def _side_by_side(words: list[np.ndarray]) -> np.ndarray:
    """int64[n, len(words)]. Not `np.stack`, which takes longer than all the rest of a small batch."""
    found = np.empty((len(words[0]), len(words)), np.int64)
    for i, word in enumerate(words):
        found[:, i] = word
    return found


def _int64(array: pa.Array) -> np.ndarray:
    """As `numbers_in`, for each column of each message: the type is not looked at, which takes 0.15 µs."""
    return np.frombuffer(array.buffers()[1], np.int64, len(array), array.offset * 8) if len(array) else np.zeros(0, np.int64)


def aligned(frame: Any) -> pa.Buffer:
    """The bytes of `frame` at an address that kernels can read words from: a transport may hand out any address."""
    buffer = pa.py_buffer(frame)
    return buffer if buffer.address % 8 == 0 else pa.py_buffer(np.frombuffer(frame, np.uint8).copy())


def body_of(element: Element, wire_format: Format) -> bytes | memoryview | pa.Buffer | None:
    """What follows the header: an IPC message, JSON, or nothing."""
    match element:
        case Batch():
            return wire_format.encode(element)
        case Barrier():
            return _barrier_body(element)
        case State():
            return _state_body(element)
        case Fail(subquery, instance, cause):
            return to_json({"subquery": subquery, "instance": instance, "cause": cause})
    return None


def element_of(header: Header, frame: Any, wire_format: Format) -> Element:
    """The element that a message carries. Raises ProtocolError for a batch of another schema."""
    if header.kind == BATCH:
        if header.fingerprint != wire_format.fingerprint:
            raise ProtocolError(
                f"batch of another schema: expected {wire_format.schema}, "
                f"fingerprint {wire_format.fingerprint:x}, got {header.fingerprint:x}"
            )
        return wire_format.decode(frame, header.created)
    if header.kind == BARRIER:
        return _barrier_of(from_json(frame))
    if header.kind == STATE:
        return _state_of(frame)
    if header.kind == FAIL:
        return _fail_of(from_json(frame))
    plain: dict[int, Element] = {WATERMARK: Watermark(header.watermark), IDLE: Idle(), END: End(), STOP: Stop(), SWITCH: Switch()}
    return plain[header.kind]


def _fail_of(document: Any) -> Fail:
    match document:
        case {"subquery": str(subquery), "instance": int() | None as instance, "cause": str(cause)}:
            return Fail(subquery, instance, cause)
    raise ProtocolError(f"a Fail: expected a subquery, an instance and a cause, got {document!r:.200}")


def _barrier_body(barrier: Barrier) -> bytes:
    match barrier:
        case TableBarrier(number, table):
            return to_json({"number": number, "table": table})
        case MoveBarrier(number, subquery, index, endpoint):
            return to_json({"number": number, "move": [subquery, index, endpoint]})
        case CheckpointBarrier(number, True):
            return to_json({"number": number, "pauses": True})
    return to_json({"number": barrier.number})


def _barrier_of(document: Any) -> Barrier:
    match document:
        case {"number": int(number), "table": [*table]} if all(type(index) is int and 0 <= index < _INSTANCES for index in table):
            return TableBarrier(number, tuple(table))
        case {"number": int(number), "move": [str(subquery), int(index), str(endpoint)]}:
            return MoveBarrier(number, subquery, index, endpoint)
        case {"number": int(number), "pauses": True}:
            return CheckpointBarrier(number, True)
        case {"number": int(number), **rest} if not rest:
            return CheckpointBarrier(number)
    raise ProtocolError(f"a Barrier: expected a number, and a table or a move, got {document!r:.200}")


def _state_body(state: State) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    write_state(state, sink)
    return sink.getvalue()


def write_state(state: State, sink: pa.NativeFile) -> None:
    """An IPC stream, since every part has a schema of its own."""
    place = to_json({"operator": state.operator, "part": state.part, "port": state.port})
    rows = state.rows.replace_schema_metadata({_PLACE: place})
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows)


def _state_of(frame: Any) -> State:
    schema, (rows,) = admission.read_stream(aligned(frame))
    place = from_json(schema.metadata[_PLACE])
    return State(place["operator"], place["part"], place["port"], rows.replace_schema_metadata(None))


def kind_of(element: Element) -> int:
    return _KIND_OF[type(element)]


def to_json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def from_json(frame: Any) -> Any:
    """Raises ProtocolError."""
    try:
        return json.loads(bytes(frame))
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"expected JSON: {error}") from None
