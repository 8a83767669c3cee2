"""An instance that moves to another instance manager: what its old place, its new one and those that it talks to do.

`cep.dataflow.movement.instance_move` has the steps. What is asked comes with the assignment as a *step*, twice the move's number to listen
and one more to redirect, so that a later one is greater, and goes back in the status when it is done. Used by the engine's thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import pyarrow as pa

from cep.dataflow.build import STATE_FORMAT
from cep.dataflow.channel import Channel, Inbox, LocalChannel, unwatched
from cep.dataflow.meter import Account
from cep.dataflow.movement.bucket_move import pieces
from cep.dataflow.movement.instance_move import Arrival, belongings, move_document, value_of
from cep.elements import MIN_TIME, MoveBarrier, State
from cep.errors import ProtocolError
from cep.kernels.arrays import bytes_array, int64_array
from cep.plan.channels import ChannelId
from cep.transport import wire
from cep.transport.wire import Header
from instance_manager.clients.clients import Clients
from instance_manager.clients.redirects import Redirects
from instance_manager.clients.subscriptions import SubscriptionChannel, Terms
from instance_manager.control.assignment_checks import Moving
from instance_manager.hosting import NEIGHBOUR_BYTES, InstanceHost, transfer_channel
from instance_manager.network import Network
from instance_manager.ports import InPort, OutPort, RemoteChannel
from instance_manager.recovery.runs import messages_of

Inboxes = dict[int, Inbox]
Senders = dict[int, tuple[InstanceHost, LocalChannel]]


class Departure:
    """What an instance that has moved sends after itself, under credit; and behind it what still comes here for it."""

    def __init__(self, channel: RemoteChannel, elements: Iterable[State | MoveBarrier]) -> None:
        self.channel, self.elements = channel, deque(elements)
        self.later: list[tuple[Header, Any]] = []

    def pump(self) -> bool:
        """Sends what has credit. Was there anything?"""
        moved = False
        while self.elements and self._send(self.elements[0]):
            self.elements.popleft()
            moved = True
        if not self.elements:
            for header, body in self.later:
                self.channel.sockets.send(self.channel.endpoint, header, body)
            self.later = []
        return moved

    def _send(self, element: State | MoveBarrier) -> bool:
        size = element.rows.nbytes if isinstance(element, State) else 0
        if size and not self.channel.credit.allows(size):
            return False
        self.channel.send(element, size, MIN_TIME, MIN_TIME)
        return True

    def forward(self, header: Header, body: Any) -> None:
        """A message of a client for it."""
        self.later.append((header, None if body is None else bytes(body)))
        self.pump()


class Moves:
    """`inboxes` and `senders` are the ends of channels in this process; `inbox` gives out, or makes, the one of a channel."""

    def __init__(self, network: Network, clients: Clients, inbox: Callable[[ChannelId], Inbox], inboxes: Inboxes, senders: Senders) -> None:
        self.network, self.sockets, self.clients = network, network.sockets, clients
        self.inbox, self.inboxes, self.senders = inbox, inboxes, senders
        self.redirects = Redirects(clients)

    def add(self, hosted: InstanceHost) -> None:
        """It is at home; if it comes from elsewhere, it waits for what it had there."""
        if hosted.move.arrival is not None:
            inbox, buckets = hosted.move.arrival.inbox, hosted.movement.buckets
            inbox.on_arrival = partial(self._take, hosted, inbox, Arrival(hosted.instance, buckets, partial(self._take_client, hosted)))

    def stepped(self, hosted: InstanceHost) -> bool:
        """Channels of which it has taken the last element are forgotten; what it has, if it has just left, is sent after it. Was there
        anything?"""
        instance, move = hosted.instance, hosted.move
        while instance.switched:
            self._forget(hosted, hosted.ports.port_of(instance.switched.pop()))
        if move.departure is None and hosted.movement.place.left is not None and not instance.done:
            self._depart(hosted, hosted.movement.place.left)
        return move.departure is not None and move.departure.pump()

    def remove(self, hosted: InstanceHost) -> None:
        """It is not at home any more, and what would tell of it lets go of it."""
        hosted.instance.withdraw()
        if hosted.move.arrival is not None:
            hosted.move.arrival.inbox.on_arrival = unwatched

    def ask(self, hosted: InstanceHost, move: Moving | None) -> None:
        """What an instance has to do for a move of one of its query; None: there is none any more."""
        if move is None:
            self._tidy(hosted)
            return
        done = hosted.move.done
        if move.step <= hosted.step:
            return
        if done is not None and move.number > done.number:
            self._tidy(hosted)  # that the one before is over was not heard
        if (hosted.instance.subquery, hosted.instance.index) != move.place and not hosted.instance.done:
            if move.redirects:
                self._redirect(hosted, move)
            else:
                self._listen(hosted, move)
        elif move.redirects and move.target != self.sockets.endpoint and not hosted.instance.done:
            self.redirects.begin(hosted, move.barrier)
        hosted.move.done = move

    # Those that it talks to

    def _listen(self, hosted: InstanceHost, move: Moving) -> None:
        """Opens the channels from its new place."""
        for before in list(hosted.ports.from_place(move.place)):
            after = self._open_in(hosted, before, move)
            if move.subquery != hosted.instance.subquery:
                hosted.movement.listen(before.inbox, after.inbox)

    def _open_in(self, hosted: InstanceHost, before: InPort, move: Moving) -> InPort:
        channel, share, here = before.channel.at(move.number), hosted.ports.share, move.target == self.sockets.endpoint
        inbox = self.inbox(channel)
        inbox.share = 0 if not before.inbox.share else min(share, NEIGHBOUR_BYTES) if here else share
        inbox.on_arrival = hosted.wake
        account = Account() if here else hosted.ports.account_of(channel.edge)
        port = InPort(channel, inbox, before.format, account, "" if here else move.target, before.paced, before.sender)
        hosted.ports.add_in(port)
        if not here:
            self.network.incoming[port.id] = port
        return port

    def _redirect(self, hosted: InstanceHost, move: Moving) -> None:
        """Behind a Barrier it sends to the new place."""
        new: dict[Channel, Channel] = {port.way: self._open_out(hosted, port, move) for port in list(hosted.ports.to_place(move.place))}
        hosted.movement.redirect(move.barrier, new)
        moving = hosted.movement.buckets
        if moving is not None and move.subquery == hosted.instance.subquery:
            index = move.instance - hosted.instance.index + moving.index  # within its replica
            before = hosted.ports.port_of(moving.inboxes[index])
            (after,) = hosted.ports.from_place(move.place)
            self._forget(hosted, before)
            moving.meet(index, new[moving.channels[index]], after.inbox)

    def _open_out(self, hosted: InstanceHost, before: OutPort, move: Moving) -> Channel:
        channel = before.channel.at(move.number)
        if move.target == self.sockets.endpoint:
            way: RemoteChannel | LocalChannel = LocalChannel(self.inbox(channel))
        else:
            way = RemoteChannel(self.sockets, channel, before.stream, move.target, before.format)
        return self._add_out(hosted, replace(before, channel=channel, way=way))

    def _add_out(self, hosted: InstanceHost, port: OutPort) -> Channel:
        hosted.ports.add_out(port)
        if isinstance(port.way, LocalChannel):
            self.senders[port.id] = hosted, port.way
        else:
            port.way.on_credit = hosted.wake
            self.network.channels[port.id] = port.way
        return port.way

    def _forget(self, hosted: InstanceHost, port: InPort) -> None:
        """Nothing more comes on this channel."""
        hosted.ports.forget_in(port.id)
        self.inboxes.pop(port.id, None)
        self.network.forget([port.id], ())

    def _tidy(self, hosted: InstanceHost) -> None:
        """The move is over: channels to the old place go, or those to the new one, if nothing moved."""
        done, arrival = hosted.move.done, hosted.move.arrival
        if done is None or (arrival is not None and arrival.channel.move == done.number):
            return  # it is the one that has moved
        if done.redirects:
            self._forget_senders(hosted)
            return
        for port in [port for port in hosted.ports.incoming.values() if port.channel.move == done.number]:
            hosted.movement.listen_no_more(port.inbox)
            self._forget(hosted, port)

    def _forget_senders(self, hosted: InstanceHost) -> None:
        """All but the last that was opened of each channel."""
        outgoing = hosted.ports.outgoing
        latest = {port.channel.planned: port.id for port in outgoing.values()}
        for id_ in outgoing.keys() - latest.values():
            self.network.forget((), [id_])
            self.senders.pop(id_, None)
            self.inboxes.pop(id_, None)
            del outgoing[id_]

    # The old place

    def _depart(self, hosted: InstanceHost, barrier: MoveBarrier) -> None:
        """Nothing more comes, and everything that was to leave has left."""
        instance = hosted.instance
        channel = transfer_channel(instance.query, instance.subquery, instance.index, hosted.epoch, barrier.number)
        way = RemoteChannel(self.sockets, channel, "", barrier.endpoint, STATE_FORMAT)
        self._add_out(hosted, OutPort(channel, way, STATE_FORMAT))
        published = move_document("published", self.redirects.gone_on(hosted))
        hosted.move.departure = departure = Departure(
            way, [*belongings(instance, hosted.movement.buckets), *_clients_of(hosted), published, barrier]
        )
        self.clients.hand_over(hosted, departure.forward)
        hosted.movement.place.depart()

    # The new place

    def _take(self, hosted: InstanceHost, inbox: Inbox, arrival: Arrival) -> None:
        """Something of what it had has come. It is taken as it is received: what clients say next may be about it."""
        hosted.wake()
        while inbox.queue:
            element = inbox.take()[0]
            if not hosted.instance.done and arrival.take(element):
                self.clients.announce(hosted)
                self.clients.subscribe_all(hosted, hosted.move.wanted)
                self.redirects.settle(hosted)
                if hosted.move.to_drain:
                    hosted.instance.drain()

    def _take_client(self, hosted: InstanceHost, piece: State) -> None:
        match piece.part:
            case "received":
                for name, figures in value_of(piece).items():
                    account = hosted.ports.account_of(name)
                    account.rows, account.bytes, account.batches, account.cpu_ns = figures
            case "outlets":
                for outlet in hosted.outlets.values():
                    outlet.dropped_rows = value_of(piece)[outlet.stream]
            case "published":
                self.redirects.expect(hosted, value_of(piece))
            case "subscription":
                hosted.move.newest = _subscribed(self.clients, hosted, value_of(piece))
            case "held" if hosted.move.newest is not None:
                _hold(hosted.move.newest, piece.rows)
            case _:
                raise ProtocolError(f"{hosted.instance.name}: a piece of what moves that no operator has: {piece.part!r}")


# --- clients, as they travel -----------------------------------------------------------------------------------------


def _clients_of(hosted: InstanceHost) -> Iterator[State]:
    """Its subscriptions with what they hold, and what was counted beside the engine."""
    accounts = {name: [each.rows, each.bytes, each.batches, each.cpu_ns] for name, each in hosted.ports.received.items()}
    yield move_document("received", accounts)
    yield move_document("outlets", {outlet.stream: outlet.dropped_rows for outlet in hosted.outlets.values()})
    for outlet in hosted.outlets.values():
        for subscription in outlet.subscriptions.values():
            yield move_document("subscription", _terms_and_counts(subscription))
            yield from (State("", "held", 0, rows) for rows in pieces(_held(subscription)))


def _terms_and_counts(subscription: SubscriptionChannel) -> dict[str, Any]:
    client = subscription.client
    counts = [subscription.sent_until, subscription.sequence, subscription.rows, subscription.dropped]
    return {"stream": subscription.name, "terms": asdict(subscription.terms), "counts": counts, "closed": subscription.closed} | {
        "client": [client.sent, client.consumed, client.limit],
        "returned": subscription.credit.returned,
    }


def _held(subscription: SubscriptionChannel) -> pa.RecordBatch:
    """The messages that its client has no credit for."""
    held = list(messages_of(subscription.held))
    headers = bytes_array([header.pack() for header, _, _ in held], pa.binary())
    bodies = bytes_array([body for _, body, _ in held], pa.large_binary())
    return pa.record_batch({"header": headers, "body": bodies, "rows": int64_array([rows for _, _, rows in held])})


def _subscribed(clients: Clients, hosted: InstanceHost, found: Mapping[str, Any]) -> SubscriptionChannel:
    subscription = clients.take_over(hosted, found["stream"], Terms.from_json(found["terms"], clients.sockets.endpoint))
    subscription.sent_until, subscription.sequence, subscription.rows, subscription.dropped = found["counts"]
    subscription.closed = found["closed"]
    subscription.client.sent, subscription.client.consumed, subscription.client.limit = found["client"]
    subscription.credit.returned = found["returned"]
    return subscription


def _hold(subscription: SubscriptionChannel, rows: pa.RecordBatch) -> None:
    for each in rows.to_pylist():
        subscription.held.append((wire.unpack(each["header"]), each["body"], each["rows"]))
        subscription.held_bytes += len(each["body"] or b"")
