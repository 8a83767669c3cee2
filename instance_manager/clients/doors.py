"""How a publisher's batches come in: by its own declaration of the stream, for that may have got columns since it, or the query, knew it
(docs/features/streams_that_grow.md). What is behind the door has the columns that the query declared."""

from __future__ import annotations

from collections.abc import Mapping
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
    """`sent`: how batches look that come; `read`: that, with the columns of the query. One and the same, as nearly always."""

    sent: Format
    read: Format

    def element(self, header: Header, body: Any) -> Element:
        """What a message carries, with the query's columns: NULL where it was not sent. Raises ProtocolError."""
        element = wire.element_of(header, body, self.sent)
        if self.sent is self.read or not isinstance(element, Batch):
            return element
        come, n = element.columns, len(element.time)
        columns = {f.name: come[f.name] if f.name in come else nulls(f.type, n) for f in self.read.schema.fields}
        return Batch(columns, element.time, element.origin, element.created)


def door_of(read: Format, document: Mapping[str, Any]) -> StreamDoor:
    """The one of a publisher that opens with `document`, at a query that reads the stream so. A publisher of a schema that is none of the
    same stream is let in, and told what is wrong with its first batch. Raises ProtocolError: what it says is no schema."""
    said = document.get("schema")
    if said is None or said == read.schema.to_json():
        return StreamDoor(read, read)
    try:
        sent = Schema.from_json(said)
    except QueryError as error:
        raise ProtocolError(f"schema: {error}") from None
    return StreamDoor(replace(read, schema=sent), read) if _is_the_same_stream(sent, read.schema) else StreamDoor(read, read)


def _is_the_same_stream(sent: Schema, read: Schema) -> bool:
    return all(sent[f.name] == f if f.name in sent else f.nullable for f in read.fields)
