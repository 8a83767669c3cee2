"""The ends of channels that an instance has in this process, and what relays messages from those that come in to those that go out.

A port has the structured name of its channel, and what flows there, from where or to where. The other end is in this process, an inbox that
both share, or in another one, to which messages go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from cep.dataflow.channel import Credit, Inbox, LocalChannel, watermark_after
from cep.dataflow.meter import Account
from cep.elements import MIN_TIME, Batch, Element
from cep.plan.channels import ChannelId
from cep.transport import wire
from cep.transport.sockets import Sockets
from cep.transport.wire import Format, Header

#: (subquery, instance)
InstancePlace = tuple[str, int]


class Relay(Protocol):
    """What takes a message from a port in to the port out beside the loop's receive · step · emit, which takes whatever a relay leaves.

    Used by the engine's thread."""

    @property
    def entered(self) -> bool:
        """Does it take messages now? Then the instance has nothing to do."""

    def enter(self) -> None:
        """Takes messages from now on, if it can."""

    def leave(self) -> bool:
        """Takes none any more; all that it has counted is where it is looked for. Has it taken any since it entered?"""


class PlainRelay:
    """Takes no message: all go through receive · step · emit."""

    entered = False

    def enter(self) -> None:
        """Nothing changes."""

    def leave(self) -> bool:
        return False


PLAIN = PlainRelay()


class RemoteChannel:
    """The sending end of a channel to another process."""

    shares = False

    def __init__(self, sockets: Sockets, channel: ChannelId, stream: str, endpoint: str, wire_format: Format) -> None:
        self.sockets, self.endpoint, self.format = sockets, endpoint, wire_format
        self.id, self.stream = channel.id, wire.stream_id(stream)
        self.credit = Credit()
        self.sequence = 0
        self.on_credit: Callable[[], None] = lambda: None  # for the instance that waits for it

    def send(self, element: Element, size: int, watermark: int, since: int) -> None:
        body = wire.body_of(element, self.format)
        header = self.header(element, watermark, since)
        self.sequence += 1
        if isinstance(element, wire.COSTLY):
            self.credit.spend(len(body or b""))
        self.sockets.send(self.endpoint, header, body)

    def header(self, element: Element, watermark: int, since: int) -> Header:
        created = element.created if isinstance(element, Batch) else 0
        return Header(
            wire.kind_of(element),
            self.id,
            self.sequence,
            self.stream,
            self.format.fingerprint,
            watermark_after(element, watermark),
            created,
            since=since,
        )


@dataclass(eq=False)
class InPort:
    """The receiving end of a channel."""

    channel: ChannelId
    inbox: Inbox
    format: Format
    account: Account  # of receiving and decoding
    endpoint: str = ""  # of the sender, which is in another process, and gets credit there; empty: it is here
    paced: bool = False  # the sender may read files: it waits for our watermark
    sender: InstancePlace | None = None  # None: another query's, or what this instance was at its old place
    told: int = MIN_TIME  # the combined watermark that the sender knows of
    id: int = field(init=False)  # that a header bears

    def __post_init__(self) -> None:
        self.id = self.channel.id


@dataclass(eq=False)
class OutPort:
    """The sending end of a channel."""

    channel: ChannelId
    way: RemoteChannel | LocalChannel
    format: Format
    receiver: InstancePlace | None = None  # None: what this instance is at its new place
    stream: str = ""  # that flows there
    id: int = field(init=False)

    def __post_init__(self) -> None:
        self.id = self.channel.id


@dataclass
class Ports:
    """All ports of an instance, by the ids of their channels; `share`: of the budget, for a channel from another process.

    `relay` is chosen when the instance is at home (`instance_manager.fast_path.fast_path.FastPaths.relay`)."""

    share: int = 0
    incoming: dict[int, InPort] = field(default_factory=dict)
    outgoing: dict[int, OutPort] = field(default_factory=dict)
    remote: dict[int, InPort] = field(default_factory=dict)  # of `incoming`, those whose senders are elsewhere
    received: dict[str, Account] = field(default_factory=dict)  # of what comes from other processes, by the name of the edge
    relay: Relay = PLAIN

    def account_of(self, edge: str) -> Account:
        """Of receiving; one for all channels of an edge."""
        return self.received.setdefault(edge, Account())

    def add_in(self, port: InPort) -> None:
        self.incoming[port.id] = port
        if port.endpoint:
            self.remote[port.id] = port

    def add_out(self, port: OutPort) -> None:
        self.outgoing[port.id] = port

    def forget_in(self, id_: int) -> None:
        self.incoming.pop(id_, None)
        self.remote.pop(id_, None)

    def tell_anew(self) -> None:
        """Senders are told what they may send and how far it has come, whatever they were told before."""
        for port in self.remote.values():
            port.told, port.inbox.credit_due = MIN_TIME, True

    def from_place(self, place: InstancePlace) -> Iterator[InPort]:
        """Of each channel from there the one that was opened last."""
        return iter({port.channel.planned: port for port in self.incoming.values() if port.sender == place}.values())

    def to_place(self, place: InstancePlace) -> Iterator[OutPort]:
        """Likewise, to there."""
        return iter({port.channel.planned: port for port in self.outgoing.values() if port.receiver == place}.values())

    def port_of(self, inbox: Inbox) -> InPort:
        return next(port for port in self.incoming.values() if port.inbox is inbox)
