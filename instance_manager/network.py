"""Logical channels between processes: what arrives goes to its channel, what leaves is numbered, credit goes back.

The inbound socket is always drained, so a slow channel never holds up another.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from cep.dataflow.channel import Inbox
from cep.dataflow.meter import Account, Meter
from cep.elements import Batch
from cep.errors import ProtocolError
from cep.transport import wire
from cep.transport.keyring import Speaker
from cep.transport.sockets import Sockets
from cep.transport.wire import Header
from instance_manager.ports import InPort, Relay, RemoteChannel

LOGGED = 20
RECEIVE_MESSAGES_MAX = 256  # per turn of the loop

LOG = logging.getLogger(__name__)

ControlHandler = Callable[[Header, Any], None]
Check = Callable[[Speaker, Header, Any], None]  # raises ProtocolError: that key may not say that
PublishedHandler = Callable[[Header, Any], Account | None]


class Network:
    """Moves messages between the sockets and the channels."""

    def __init__(
        self,
        sockets: Sockets,
        on_control: ControlHandler,
        on_published: PublishedHandler,
        on_broken: Callable[[InPort, Exception], None],
        meter: Meter,
        check: Check = lambda speaker, header, body: None,
    ) -> None:
        self.check = check
        self.sockets, self.on_control, self.on_published, self.on_broken = sockets, on_control, on_published, on_broken
        self.meter, self.account = meter, Account()  # the account: credits, and messages that belong to no stream
        self.incoming: dict[int, InPort] = {}
        self.channels: dict[int, RemoteChannel] = {}
        self.relays: Mapping[int, Relay] = {}  # those entered, by each id that a message about their instances may bear
        self.strays = 0  # messages for channels that are not (any more) here

    def receive(self) -> None:
        """Takes what has arrived, up to a bound."""
        for count in range(RECEIVE_MESSAGES_MAX):
            try:
                message = self.sockets.receive(look=not count)
            except ProtocolError as error:  # it has no sender that could be told
                self._stray("message not understood: %s", error)
                continue
            if message is None:
                return
            if self.sockets.speaker is None or self._may(self.sockets.speaker, *message):
                self.meter.charge(self._dispatch(*message))

    def _may(self, speaker: Speaker, header: Header, body: Any) -> bool:
        """May the message be heard that was sent under that key?"""
        try:
            self.check(speaker, header, body)
        except ProtocolError as error:
            self._stray("message is not allowed: %s", error)
            return False
        return True

    def _dispatch(self, header: Header, body: Any) -> Account:
        """Hands the message to what it is for. The account that the work is charged to: that of its channel, or the network's own."""
        if header.channel in self.relays:  # the instance is looked at next
            self.relays[header.channel].leave()
        if header.kind == wire.CREDIT and header.channel in self.channels:
            channel = self.channels[header.channel]
            channel.credit.grant(header.sequence, header.record, header.watermark)
            channel.on_credit()
        elif header.kind >= wire.CREDIT:
            self._control(header, body)
        elif header.channel in self.incoming:
            return self._accept(self.incoming[header.channel], header, body)
        elif (account := self.on_published(header, body)) is not None:
            return account
        else:
            self.strays += 1
        return self.account

    def _control(self, header: Header, body: Any) -> None:
        try:
            self.on_control(header, body)
        except ProtocolError as error:  # a client that talks nonsense gets no answer; no other is harmed
            self._stray("message of a client not understood: %s: %s", header, error)
        except Exception:
            self._stray("message of a client not understood: %s\n%s", header, traceback.format_exc())

    def _stray(self, text: str, *values: object) -> None:
        """All are counted; the first are logged, and then ever fewer, for logs fill disks."""
        self.strays += 1
        if self.strays <= LOGGED or not self.strays & self.strays - 1:
            LOG.warning(text + " (%d so far)", *values, self.strays)

    def _accept(self, remote: InPort, header: Header, body: Any) -> Account:
        try:
            element = wire.element_of(header, body, remote.format)
            size = len(body) if header.kind in wire.COSTLY_KINDS else 0
            if isinstance(element, Batch):
                remote.account.take(len(element), size)
            remote.inbox.accept(element, size, header.sequence, header.watermark, header.since)
        except Exception as error:  # a broken channel is its query's failure, not the process's
            self.on_broken(remote, error)
        return remote.account

    def emit(self, ports: Mapping[int, InPort]) -> None:
        """Gives back credit, and the combined watermark where it is waited for (CREDIT: sequence = bytes consumed, record = limit)."""
        for id_, remote in ports.items():
            inbox, returned = remote.inbox, remote.inbox.returned
            if inbox.credit_due or (returned > remote.told and (remote.paced or _is_idle(inbox))):
                remote.told = returned
                header = Header(wire.CREDIT, id_, sequence=inbox.consumed, watermark=returned, record=inbox.grant())
                self.sockets.send(remote.endpoint, header)

    def forget(self, inboxes: Iterable[int], channels: Iterable[int]) -> None:
        for id_ in inboxes:
            self.incoming.pop(id_, None)
        for id_ in channels:
            self.channels.pop(id_, None)


def _is_idle(inbox: Inbox) -> bool:
    """Its sender then waits for what it is asked for."""
    return inbox.merge is not None and inbox.name in inbox.merge.idle
