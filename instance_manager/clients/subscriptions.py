"""Subscriptions to an output stream, at the instance that produces it (rule 5.9).

Rows are held within the byte budget; then they slow the query (`on_slow="block"`) or are dropped and counted (`"drop"`). A
subscription whose client is silent for `keep_s` is dropped with its rows, counted.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cep.dataflow.channel import Credit
from cep.elements import LAST, MAX_TIME, MIN_TIME, Batch, Element, Idle, Watermark
from cep.errors import QueryError
from cep.model.limits import HELD_BYTES_MAX, KEEP_S_MAX, KEEP_S_MIN, checked, checked_endpoint
from cep.plan.channels import ChannelId
from cep.plan.needed import restrict
from cep.transport import wire
from cep.transport.sockets import Sockets
from cep.transport.wire import TIME, Format, Header
from instance_manager.clients import client_documents
from instance_manager.recovery.runs import Kept, Run, rows_of, size_of

BUDGET_BYTES = 64 << 20
KEEP_S = 60.0
HOLDERS_MAX = 1 << 31


@dataclass(frozen=True)
class Terms:
    """What the client asked for. A query that reads the stream, `reader`, gets only the `columns` it needs, with their origin
    if it orders by it; `grain` as in `cep.dataflow.outputs.output`. A client may do without the event times of its rows. What a
    `resumable` one was sent is kept until it acknowledges it; other processes may have had it before, `holder` of them."""

    id: str
    endpoint: str
    on_slow: str = "block"
    keep_s: float = KEEP_S
    budget_bytes: int = BUDGET_BYTES
    reader: str = ""
    columns: Sequence[str] | None = None
    origin: bool = False
    event_time: bool = True
    grain: int = 0
    resumable: bool = False
    holder: int = 0

    def __post_init__(self) -> None:
        if self.on_slow not in ("block", "drop"):
            raise QueryError(f"on_slow: expected 'block' or 'drop', got {self.on_slow!r}", "/on_slow")
        checked(self.keep_s, "keep_s", KEEP_S_MIN, KEEP_S_MAX, "/keep_s")
        checked(self.budget_bytes, "budget_bytes", 1, HELD_BYTES_MAX, "/budget_bytes")
        checked_endpoint(self.endpoint, "/endpoint")

    @staticmethod
    def from_json(document: Mapping[str, Any], ours: str) -> Terms:
        """`ours`: the endpoint that will send. Raises ProtocolError for what cannot be terms."""
        return Terms(
            client_documents.text(document, "id"),
            client_documents.endpoint(document, ours),
            client_documents.text(document, "on_slow", "block"),
            client_documents.read_seconds(document, "keep_s", KEEP_S),
            client_documents.read_count(document, "budget_bytes", BUDGET_BYTES),
            client_documents.text(document, "reader", ""),
            None if document.get("columns") is None else client_documents.texts(document, "columns"),
            client_documents.flag(document, "origin", False),
            client_documents.flag(document, "event_time", True),
            client_documents.read_count(document, "grain", 0, MAX_TIME),
            client_documents.flag(document, "resumable", False),
            client_documents.read_count(document, "holder", 0, HOLDERS_MAX),
        )

    def format(self, whole: Format) -> Format:
        """What it gets, of a stream in format `whole`."""
        schema = whole.schema if self.columns is None else restrict(whole.schema, tuple(self.columns))
        return Format(schema, whole.origin if self.origin else 0, TIME if self.event_time else "")


class HeldCredit(Credit):
    """What a subscription lets its query send: as much as its budget holds."""

    def __init__(self, subscription: SubscriptionChannel) -> None:
        super().__init__()
        self.subscription: SubscriptionChannel = weakref.proxy(subscription)  # which has it: invariant 11 of ARCHITECTURE.md
        self.returned = MIN_TIME if subscription.terms.reader else MAX_TIME  # a client waits for no block

    def allows(self, size: int) -> bool:
        return self.subscription.has_room(size)


class SubscriptionChannel:
    """The sending end of the channel to one client; it holds what the client has no credit for."""

    shares = False

    def __init__(self, sockets: Sockets, channel: ChannelId, wire_format: Format, terms: Terms, sent_until: int = MIN_TIME) -> None:
        self.sockets, self.format, self.terms = sockets, terms.format(wire_format), terms
        self.name = channel.edge
        self.sent_until = sent_until  # the greatest event time that had come out before it
        self.id, self.stream = channel.id, wire.stream_id(channel.edge)
        self.held: deque[Kept] = deque()  # runs only where all is kept for a commit
        self.held_bytes = self.sequence = self.rows = self.dropped = 0
        self.client = Credit()
        self.credit: Credit = HeldCredit(self)
        self.answered = True  # its client has said where it goes on
        self.closed = False  # its last element is in `held` or gone
        self.lineage = ""  # of its numbers
        self.is_full = False  # it waits for its client to acknowledge
        self.is_late = False  # it is of late rows

    def begin_anew(self, attempt: int, restored: int = 0, is_first: bool = False) -> None:
        """It is made for that attempt of its query, which goes on from checkpoint `restored`. `is_first`: it gets all of it."""

    def following(self, number: int, counted: int) -> int:
        """From which number on it sends to a client that waits for `number`, as they were counted in attempt `counted`."""
        return number

    def going_on(self, following: int, known: int) -> dict[str, Any]:
        """What a client has to know that has heard of attempts up to `known`, and goes on from number `following`."""
        return {}

    def resume(self, following: int, acknowledged: int) -> None:
        """The client has said which number it waits for, and which is the first that it may ask for again."""

    def acknowledge(self, following: int) -> None:
        """The client will not ask again for what came before that number."""

    @property
    def first_unconfirmed(self) -> int:
        """The number of the first element that its client has not acknowledged, or from which it is to go on."""
        return self.sequence

    def leave(self) -> None:
        """Its client reads no more; perhaps it comes back, or another in its place."""

    def has_room(self, size: int) -> bool:
        return self.terms.on_slow == "drop" or self.fits(size)

    def fits(self, size: int) -> bool:
        """Is that within its budget? What is not is dropped, where it does not wait."""
        return not self.held or self.held_bytes + size <= self.terms.budget_bytes

    def send(self, element: Element, size: int, watermark: int, since: int) -> None:
        if isinstance(element, Batch):
            rows, created = len(element.time), element.created
        elif isinstance(element, Watermark | Idle) and not self.terms.reader:
            return  # a client reads rows, and waits for no watermark
        else:
            rows = created = 0
        if rows and not self.fits(size):
            self.dropped += rows
            return
        body = wire.body_of(element, self.format)
        header = Header(
            wire.kind_of(element), self.id, self.sequence, self.stream, self.format.fingerprint, watermark, created, since=since
        )
        self.sequence += 1
        self.rows += rows
        self.closed = not rows and isinstance(element, LAST)
        if self.held or not self._sent(header, body, rows):
            self.held.append((header, body, rows))
            self.held_bytes += len(body or b"")
            self.pump()

    @property
    def held_rows(self) -> int:
        return sum(map(rows_of, self.held))

    @property
    def kept_bytes(self) -> int:
        """All that it has in memory."""
        return self.held_bytes

    def pump(self) -> None:
        """Sends what the client has credit for."""
        while self.held and not isinstance(first := self.held[0], Run) and self._sent(*first):
            self.held.popleft()
            self.held_bytes -= size_of(first)

    def _sent(self, header: Header, body: Any, rows: int) -> bool:
        """Has the client credit for it? Then it goes."""
        if rows:
            size = len(body)
            if not self.client.allows(size):
                return False
            self.client.spend(size)
        self.sockets.send(self.terms.endpoint, header, body)
        return True

    def grant(self, header: Header) -> None:
        """Credit from the client."""
        self.client.grant(header.sequence, header.record, header.watermark)
        self.credit.returned = max(self.credit.returned, header.watermark)
        self.pump()
