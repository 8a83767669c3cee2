"""Messages that no well-meaning process sends: of every kind, valid ones mutated, cut off, of wrong lengths, random; JSON that is odd.

The same for an instance manager in a test (`tests/instance_manager/test_broken_messages.py`) and for a cluster (`benchmarks.faults.fuzz`).
"""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from cep.elements import Batch, Fail, MoveBarrier
from cep.kernels.columns import Column, from_arrow
from cep.model.schema import DataType
from cep.transport import wire
from cep.transport.wire import Format, Header

KINDS = (*range(1, 9), *range(16, 27))
BATCH_LIKE = (*6 * (wire.BATCH,), wire.WATERMARK, wire.STATE, wire.BARRIER, wire.FAIL)
NUMBERS: Sequence[Any] = (0, 1, -1, 2**31, 2**53 + 1, 2**63, 2**64, 2**200, 1e10, 1e300, float("inf"), float("nan"), -0.5)
ODD: Sequence[Any] = (
    *NUMBERS,
    None,
    True,
    "",
    "x",
    "\0",
    "\ud800",
    "ä" * 5000,
    [],
    {},
    [[]],
    [None],
    {"a": 1},
    "ipc://",
    "ipc:///\0",
    10 * [0],
)
#: What a publisher may say that it sends.
SCHEMAS: Sequence[Any] = (
    *ODD,
    [{"name": "more", "type": "int64?"}],
    [{"name": "__time", "type": "int64"}],
    [{"name": "\ud800", "type": "string?"}],
    [{"name": "n", "type": {}}],
    [{"name": str(i), "type": "list<string>?"} for i in range(2000)],
)
KEYS = ("publisher", "endpoint", "sent_until", "last", "others", "entry", "id", "on_slow", "keep_s", "budget_bytes", "columns", "origin")
MORE_KEYS = ("event_time", "grain", "reader", "here", "ended", "schema", "number", "table", "move", "subquery", "instance", "cause")


@dataclass(frozen=True)
class Aims:
    """What messages may name."""

    channels: Sequence[tuple[int, Format]]  # of batches
    entries: Sequence[int]  # where publishers open
    names: Sequence[int]  # of all else: outlets, subscriptions, peers
    endpoint: str  # of ours, to which answers go

    def channel(self, choose: random.Random) -> int:
        return choose.choice((*(id_ for id_, _ in self.channels), *self.entries, *self.names, choose.getrandbits(64), 0))


def publisher_name(number: int) -> str:
    return f"p{number}"


PUBLISHERS = 200


def messages(aims: Aims, seed: int) -> Callable[[], bytes]:
    """One more, as it is written into a Unix socket: the size of the body, the header and the body."""
    choose = random.Random(seed)
    return lambda: _one(aims, choose)


def _one(aims: Aims, choose: random.Random) -> bytes:
    match choose.randrange(12):
        case 0:
            return choose.randbytes(choose.choice((1, 7, 8, 87, 88, 200, 4000)))
        case 1:
            header, body = _message(aims, choose)
            return struct.pack("<Q", choose.choice((0, 1, len(body) + 1, len(body) // 2, 2**31, 2**40, 2**64 - 1))) + header.pack() + body
        case 2:
            header, body = _message(aims, choose)
            whole = _mutated(header.pack(), choose)
            return struct.pack("<Q", len(body)) + whole + body
        case 3:
            header, body = _message(aims, choose)
            return (struct.pack("<Q", len(body)) + header.pack() + body)[: choose.randrange(88 + len(body))]
        case _:
            header, body = _message(aims, choose)
            return struct.pack("<Q", len(body)) + header.pack() + body


def _message(aims: Aims, choose: random.Random) -> tuple[Header, bytes]:
    if choose.random() < 0.6:
        return _of_rows(aims, choose)
    if aims.entries and choose.random() < 0.4:
        opening = {"publisher": publisher_name(choose.randrange(PUBLISHERS)), "endpoint": aims.endpoint, "sent_until": 0}
        if choose.random() < 0.3:
            opening["schema"] = choose.choice(SCHEMAS)
        return Header(wire.OPEN, choose.choice(aims.entries)), wire.to_json(opening)
    kind = choose.choice(KINDS)
    numbers = {name: _number(choose) for name in ("sequence", "record") if choose.random() < 0.5}
    signed = {name: choose.choice((0, -1, 2**62, 2**63 - 1, -(2**63))) for name in ("watermark", "created", "stamp", "since")}
    header = Header(kind, aims.channel(choose), **numbers, **{key: value for key, value in signed.items() if choose.random() < 0.5})
    return header, _json(aims, choose)


def _number(choose: random.Random) -> int:
    return choose.choice((0, 1, 2, 1000, 2**31, 2**61, choose.getrandbits(62)))


def _json(aims: Aims, choose: random.Random) -> bytes:
    match choose.randrange(8):
        case 0:
            return b""
        case 1:
            return choose.randbytes(choose.randrange(60))
        case 2:
            return b"[" * choose.choice((10, 100_000))
        case 3:
            return _dumped(choose.choice(ODD))
        case 4:
            barriers = {"number": 1}, {"number": 1, "table": [0] * 4096}, {"number": 2, "move": ["SQ2", 0, aims.endpoint]}
            return wire.to_json(choose.choice(barriers))
    document = {
        "publisher": publisher_name(choose.randrange(PUBLISHERS)),
        "endpoint": aims.endpoint,
        "sent_until": 0,
        "id": "s",
        "keep_s": 1,
    }
    for key in choose.sample((*KEYS, *MORE_KEYS), choose.randrange(6)):
        document[key] = choose.choice(ODD)
    return _dumped(document)


def _dumped(value: Any) -> bytes:
    return json.dumps(value).encode()


def _of_rows(aims: Aims, choose: random.Random) -> tuple[Header, bytes]:
    """A batch, mostly, with the numbers that would be right first."""
    channel, wire_format = choose.choice(aims.channels)
    if choose.random() < 0.1:
        wire_format = choose.choice(aims.channels)[1]
    body = _body(wire_format, choose)
    if choose.random() < 0.7:
        body = _mutated(body, choose)
    if choose.random() < 0.1:
        body = body[: choose.randrange(len(body))]
    fingerprint = wire_format.fingerprint if choose.random() < 0.9 else choose.getrandbits(64)
    header = Header(choose.choice(BATCH_LIKE), channel, choose.choice((0, 0, 0, 0, 0, 1, 2)), choose.choice((1, 1, 1, 0)), 0, fingerprint)
    watermark, stamp = choose.choice((-(2**63), -(2**63), 0, 2**63 - 1)), choose.choice((-(2**63), -(2**63), 0, 2**62))
    return header._replace(stamp=stamp, watermark=watermark), body


def _body(wire_format: Format, choose: random.Random) -> bytes:
    match choose.randrange(30):
        case 0:
            return bytes(wire.body_of(MoveBarrier(1, "SQ2", 0, "ipc:///x"), wire_format) or b"")
        case 1:
            return bytes(wire.body_of(Fail("SQ1", 0, "x"), wire_format) or b"")
    n = choose.choice((1, 3, 40))
    columns = {field.name: _column(field.type, n, field.nullable and choose.random() < 0.5, choose) for field in wire_format.schema.fields}
    time = np.array([choose.choice((0, 1, 10**9, 2**61, 2**63 - 1, -(2**63))) if choose.random() < 0.2 else i for i in range(n)], np.int64)
    origin = np.zeros((n, wire_format.origin), np.int64) if wire_format.origin else None
    return bytes(wire_format.encode(Batch(columns, time, origin)))


def _column(type_: DataType, n: int, nulls: bool, choose: random.Random) -> Column:
    texts = [choose.choice(("", "ab", "x" * 40, "\ufffd")) for _ in range(n)]
    plain = pa.array(texts if type_.is_text else [choose.choice((0, 1, 7)) for _ in range(n)])
    array = plain.cast(type_.arrow)
    if nulls:
        array = pa.array([None if i % 3 == 0 else each for i, each in enumerate(array.to_pylist())], type_.arrow)
    return from_arrow(array, type_)


def _mutated(body: bytes, choose: random.Random) -> bytes:
    made = bytearray(body)
    for _ in range(choose.choice((1, 1, 2, 9)) if len(made) > 8 else 0):
        at, value = choose.randrange(len(made) - 8), choose.choice((0, 1, -1, 8, 2**31 - 1, -(2**31), choose.getrandbits(31)))
        struct.pack_into(choose.choice(("<i", "<q", "<b")) if abs(value) < 128 else choose.choice(("<i", "<q")), made, at, value)
    return bytes(made)
