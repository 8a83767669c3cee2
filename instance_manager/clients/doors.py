"""How a publisher's batches come in: by its own declaration of the stream, for that may have got columns since it, or the query, knew it
(docs/features/streams_that_grow.md), and many rows without the columns that nothing reads. What is behind the door has the columns that the
query declared, or those of them that it reads."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cep.elements import Batch, Element
from cep.errors import ProtocolError, QueryError
from cep.kernels.columns import nulls
from cep.model.schema import Schema
from cep.transport import wire
from cep.transport.wire import Format, Header


@dataclass(frozen=True, slots=True)
class StreamDoor:
    """`sent`: how batches look that come; `few`: those that have just what is read; `read`: `sent`, with the columns of the query. One and
    the same, as nearly always, are `sent` and `read`."""

    sent: Format
    read: Format
    few: Format

    @staticmethod
    def of(sent: Format, read: Format, columns: Collection[str] | None) -> StreamDoor:
        """`columns` are read; None: all."""
        return StreamDoor(sent, read, sent if columns is None else sent.of_columns(columns))

    def element(self, header: Header, body: Any) -> Element:
        """What a message carries, with the query's columns: NULL where it was not sent. Raises ProtocolError."""
        come_as = self.few if header.fingerprint == self.few.fingerprint else self.sent
        element = wire.element_of(header, body, come_as)
        if self.sent is self.read or not isinstance(element, Batch):
            return element
        come, n = element.columns, len(element.time)
        fields = [f for f in self.read.schema.fields if f.name in come or f.name not in self.sent.schema]
        columns = {f.name: come[f.name] if f.name in come else nulls(f.type, n) for f in fields}
        return Batch(columns, element.time, element.origin, element.created)


def door_of(read: Format, document: Mapping[str, Any], columns: Collection[str] | None = None) -> StreamDoor:
    """The one of a publisher that opens with `document`, at a query that reads the stream so, and of it `columns`; None: all. A publisher
    of a schema that is none of the same stream is let in, and told what is wrong with its first batch. Raises ProtocolError: what it says
    is no schema."""
    said = document.get("schema")
    if said is None or said == read.schema.to_json():
        return StreamDoor.of(read, read, columns)
    try:
        sent = Schema.from_json(said)
    except QueryError as error:
        raise ProtocolError(f"schema: {error}") from None
    return StreamDoor.of(replace(read, schema=sent) if _is_the_same_stream(sent, read.schema) else read, read, columns)


def _is_the_same_stream(sent: Schema, read: Schema) -> bool:
    return all(sent[f.name] == f if f.name in sent else f.nullable for f in read.fields)
