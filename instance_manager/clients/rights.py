"""What a key may do here (`cep.transport.keyring`). A message without one is of a process of this host, which the kernel has let in, or
there is no CURVE; a member of the cluster may do everything. Of all others:

- OPEN and a publisher's messages need `publish` for the stream, SUBSCRIBE and a reader's `subscribe`.
- A channel belongs to the name under whose key it was opened: no other may say anything on it. What has come from another instance
  manager with its instance belongs to whichever speaks first of those that have the role.
- What instances say to each other is not for clients, nor is what a query reads of another one.
- A client speaks for itself: the endpoint in its messages, where it is answered, is the one that its link is of. Else it could have
  members say something to others, which listen to these.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cep.errors import ProtocolError
from cep.plan.channels import publisher_channel
from cep.transport import wire
from cep.transport.keyring import Speaker
from cep.transport.wire import Header
from instance_manager.clients import client_documents
from instance_manager.clients.clients import Clients
from instance_manager.clients.publishers import MAX_ID
from instance_manager.clients.subscriptions import SubscriptionChannel
from instance_manager.hosting import InstanceHost

OWNERS_MAX = 1 << 16  # then those of channels that are not here any more are forgotten
_WITH_ENDPOINT = frozenset((wire.OPEN, wire.CLOSE, wire.SUBSCRIBE))
_OF_MEMBERS = frozenset((wire.OPENED, wire.CLOSED, wire.SUBSCRIBED, wire.REPORT, wire.REDIRECT, wire.UNKNOWN, wire.COVERED))


class NotAllowed(ProtocolError):
    """The key has not the role that this needs."""


class Rights:
    """Used by the engine's thread."""

    def __init__(self, clients: Clients) -> None:
        self.publishers, self.subscribers, self.forwarding = clients.publishers, clients.subscribers, clients.forwarding
        self.streams: dict[int, str] = {}  # by the ids of entries and outlets, also of those that have moved away
        self.owners: dict[int, str] = {}  # by channel

    def note(self, hosted: InstanceHost) -> None:
        """The instance is at home: what names its entries and outlets goes on doing so when it has moved."""
        self.streams |= {id_: entry.source.stream for id_, entry in hosted.entries.items()}
        self.streams |= {id_: outlet.stream for id_, outlet in hosted.outlets.items()}
        while len(self.streams) > OWNERS_MAX:
            del self.streams[next(iter(self.streams))]

    def check(self, speaker: Speaker, header: Header, body: Any) -> None:
        """Raises NotAllowed, and ProtocolError: the message is none."""
        if speaker.is_member:
            return
        if header.kind in _WITH_ENDPOINT:
            _check_itself(speaker, client_documents.text(client_documents.document_of(body), "endpoint"))
        match header.kind:
            case wire.OPEN:
                self._check_open(speaker, header, body)
            case wire.CLOSE if header.channel not in self.publishers.here:
                self._check_close(speaker, header.channel, client_documents.document_of(body))
            case wire.SUBSCRIBE:
                self._check_subscribe(speaker, header, body)
            case wire.BEAT:
                _check_beat(speaker, header, body)
            case kind if kind in _OF_MEMBERS:
                raise NotAllowed(f"{speaker.name} is no member of the cluster, and sent a message of kind {kind}")
            case _:
                self._check_channel(speaker, header.channel)

    def _check_open(self, speaker: Speaker, header: Header, body: Any) -> None:
        self._need(speaker, "publish", self._stream(header.channel))
        channel = publisher_channel(header.channel, client_documents.text(client_documents.document_of(body), "publisher"))
        self._own(speaker, channel, channel in self.publishers.here)

    def _check_close(self, speaker: Speaker, channel: int, document: Mapping[str, Any]) -> None:
        """The last word of one that is not here, or no more: the entry that it names need not be that of its channel."""
        entry = client_documents.read_count(document, "entry", most=MAX_ID)
        self._need(speaker, "publish", self._stream(entry))
        if (dropped := self.publishers.dropped.get(channel)) is not None:
            self._need(speaker, "publish", dropped.entry.source.stream)
        if entry in self.forwarding and self.owners.get(channel) != speaker.name:  # it is a member's word where it comes to
            raise NotAllowed(f"{speaker.name} closed channel {channel:x}, which is none that it has opened")

    def _check_subscribe(self, speaker: Speaker, header: Header, body: Any) -> None:
        self._need(speaker, "subscribe", self._stream(header.channel))
        document = client_documents.document_of(body)
        if document.get("reader"):
            raise NotAllowed(f"{speaker.name} is no query, and would read as query {document['reader']!r:.200}")
        if (found := self.subscribers.outlets.get(header.channel)) is not None:
            subscription = found[1].subscriptions.get(client_documents.text(document, "id"))
            if subscription is not None:
                self._own_subscription(speaker, subscription)

    def _check_channel(self, speaker: Speaker, channel: int) -> None:
        """A batch or a last word of a publisher, credit or goodbye of a reader; anything else is between instances."""
        if channel in self.publishers.here:
            self._need(speaker, "publish", self.publishers.here[channel].entry.source.stream)
        elif channel in self.subscribers.here:
            self._need(speaker, "subscribe", self.subscribers.here[channel].outlet.stream)
            self._own_subscription(speaker, self.subscribers.here[channel].subscription)
        elif self.owners.get(channel) != speaker.name:
            raise NotAllowed(f"{speaker.name} sent on channel {channel:x}, which is none that it has opened")
        self._own(speaker, channel, True)

    def _own_subscription(self, speaker: Speaker, subscription: SubscriptionChannel) -> None:
        if subscription.terms.reader:
            raise NotAllowed(f"channel {subscription.id:x} belongs to query {subscription.terms.reader!r}, and {speaker.name} sent on it")
        self._own(speaker, subscription.id, True)

    def _own(self, speaker: Speaker, channel: int, is_here: bool) -> None:
        owner = self.owners.get(channel, speaker.name)
        if is_here and owner != speaker.name:
            raise NotAllowed(f"channel {channel:x} belongs to {owner}, and {speaker.name} sent on it")
        if len(self.owners) >= OWNERS_MAX:
            here = self.publishers.here.keys() | self.subscribers.here.keys()
            self.owners = {each: name for each, name in self.owners.items() if each in here}
        self.owners[channel] = speaker.name

    def _stream(self, id_: int) -> str:
        """That an entry or an outlet is of; empty: nothing of that id is here, or was, and what is said to it is answered so."""
        if id_ in self.publishers.entries:
            return self.publishers.entries[id_][1].source.stream
        if id_ in self.subscribers.outlets:
            return self.subscribers.outlets[id_][1].stream
        return self.streams.get(id_, "")

    def _need(self, speaker: Speaker, role: str, stream: str) -> None:
        if stream and not speaker.may(role, stream):
            raise NotAllowed(f"{speaker.name} may not do that: it needs the role {role}:{stream}, and has {sorted(speaker.roles)}")


def _check_itself(speaker: Speaker, endpoint: str) -> None:
    if endpoint != speaker.endpoint:
        raise NotAllowed(f"{speaker.name} is at {speaker.endpoint!r}, and speaks for {endpoint!r:.200}")


def _check_beat(speaker: Speaker, header: Header, body: Any) -> None:
    """It is alive, and nothing else is by it: what another one has here ends with that one's silence."""
    if header.channel != wire.name_id(speaker.endpoint):
        raise NotAllowed(f"{speaker.name} is at {speaker.endpoint!r}, and sent the heartbeat of another process")
    if body:
        _check_itself(speaker, bytes(body).decode(errors="replace"))
