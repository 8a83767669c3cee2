"""Publishers without input and output, and readers that have let them in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cep.elements import MIN_TIME
from cep.model.expr import col
from cep.model.schema import Schema
from cep.model.streams import Stream
from cep.transport import wire
from cep.transport.wire import Header
from driver.streams.commands import Send, StreamCommand
from driver.streams.publisher_core import PublisherCore
from driver.streams.readers import StreamReader

OURS, HERE, THERE = "ipc:///us", "ipc:///here", "ipc:///there"
STREAM = Stream("s", Schema.of({"n": "int64", "ts": "timestamp[us]"}), col("ts"), 1_000, idle_after=100_000)
LIMIT = 1 << 30


def document(query: str = "q", instance: int = 0, **more: Any) -> dict[str, Any]:
    return {"query": query, "endpoint": HERE, "instance": instance, "replica": 0, "route": None, "epoch": 1} | more


def core() -> PublisherCore:
    return PublisherCore(STREAM, "p", OURS)


def opened(*documents: dict[str, Any], limit: int = LIMIT) -> tuple[PublisherCore, list[StreamReader]]:
    """At these readers, which have let us in."""
    made = core()
    readers, _ = made.ask(documents or [document()])
    for reader in readers:
        let_in(made, reader, limit=limit)
    return made, readers


def let_in(made: PublisherCore, reader: StreamReader, watermark: int = MIN_TIME, beaten: int = 4, **more: Any) -> Sequence[StreamCommand]:
    said = {"here": True, "limit": LIMIT, "process": 1, "volatile": True} | more  # it offers no ring
    header = Header(wire.OPENED, reader.channel, sequence=more.get("sequence", 0), watermark=watermark)
    return made.heard(header, wire.to_json(said), beaten)


def hear(made: PublisherCore, reader: StreamReader, kind: int, body: Any = None, **header: int) -> Sequence[StreamCommand]:
    return made.heard(Header(kind, reader.channel, **header), b"" if body is None else wire.to_json(body), 0)


def send(made: PublisherCore, greatest: int, size: int = 10, rows: int = 1) -> list[tuple[StreamReader, Header]]:
    """As a shell does; only to readers with credit."""
    before = made.numbering.advance(greatest)
    found = []
    for readers in made.readers.queries():
        reader = made.choose(readers, size)
        assert reader is not None
        found.append((reader, header := made.numbering.batch(reader, size, 7, before)))
        reader.note(header, bytes(size))
    made.numbering.sent(rows)
    return found


def said(commands: Sequence[StreamCommand]) -> list[tuple[Any, ...]]:
    """Kind, endpoint and number of what is sent."""
    return [(each.header.kind, each.endpoint, each.header.sequence) for each in commands if isinstance(each, Send)]
