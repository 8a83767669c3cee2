"""An instance that moves to another instance manager: what its old place, its new one and those that it talks to do.

`cep.dataflow.relocation` has the steps. What is asked comes with the assignment as a *step*, twice the move's number to listen and one
more to redirect, so that a later one is greater, and goes back in the status when it is done. Used by the engine's thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

import pyarrow as pa

from cep import wire
from cep.dataflow.build import STATE_FORMAT
from cep.dataflow.channel import Channel, Inbox, LocalChannel, unwatched
from cep.dataflow.relocation import Arrival, base_of, belongings, channel_at, document, transfer_name, value_of
from cep.dataflow.reroute import pieces
from cep.elements import MIN_TIME, Barrier, State
from cep.errors import ProtocolError
from cep.wire import Format, Header
from instance_manager.asked import Moving
from instance_manager.clients import Clients
from instance_manager.hosting import NEIGHBOUR_BYTES, Hosted
from instance_manager.network import Network, RemoteChannel, RemoteInbox
from instance_manager.redirects import Redirects
from instance_manager.subscriptions import Subscription, Terms

Inboxes = dict[tuple[str, int], Inbox]
Senders = dict[tuple[str, int], tuple[Hosted, LocalChannel]]


class Departure:
    """What an instance that has moved sends after itself, under credit; and behind it what still comes here for it."""

    def __init__(self, channel: RemoteChannel, elements: Iterable[State | Barrier]) -> None:
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

    def _send(self, element: State | Barrier) -> bool:
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
    """`inboxes` and `senders` are the ends of channels in this process, by name and epoch."""

    def __init__(self, network: Network, clients: Clients, inboxes: Inboxes, senders: Senders) -> None:
        self.network, self.sockets, self.clients = network, network.sockets, clients
        self.inboxes, self.senders = inboxes, senders
        self.redirects = Redirects(clients)

    def add(self, hosted: Hosted) -> None:
        """It is at home; if it comes from elsewhere, it waits for what it had there."""
        hosted.instance.on_departure = partial(self._depart, hosted)
        hosted.instance.on_followed = partial(self._followed, hosted)
        if hosted.arrival:
            inbox = hosted.inboxes[hosted.arrival][0]
            inbox.on_arrival = partial(self._take, hosted, inbox, Arrival(hosted.instance, partial(self._take_client, hosted)))

    def remove(self, hosted: Hosted) -> None:
        """It is not at home any more, and what would tell of it lets go of it."""
        hosted.instance.withdraw()
        if hosted.arrival in hosted.inboxes:
            hosted.inboxes[hosted.arrival][0].on_arrival = unwatched

    def ask(self, hosted: Hosted, asked: Mapping[str, Any] | None) -> None:
        """What an instance has to do for a move of one of its query; None: there is none any more."""
        if asked is None:
            self._tidy(hosted)
            return
        move = Moving(**asked)
        if move.step <= hosted.step:
            return
        if move.number > hosted.step // 2:
            self._tidy(hosted)  # that the one before is over was not heard
        if (hosted.instance.subquery, hosted.instance.index) != move.place and not hosted.instance.done:
            if move.step % 2:
                self._redirect(hosted, move)
            else:
                self._listen(hosted, move)
        elif move.step % 2 and move.target != self.sockets.endpoint and not hosted.instance.done:
            self.redirects.begin(hosted, move.barrier)
        hosted.step = move.step

    # Those that it talks to

    def _listen(self, hosted: Hosted, move: Moving) -> None:
        """Opens the channels from its new place."""
        for base, name in _latest(hosted.inboxes).items():
            if hosted.senders.get(base) == move.place:
                before, wire_format, _ = hosted.inboxes[name]
                after = self._open_inbox(hosted, channel_at(base, move.number), before, wire_format, move.target)
                if move.subquery != hosted.instance.subquery:
                    hosted.instance.next_inboxes[before] = after

    def _open_inbox(self, hosted: Hosted, name: str, before: Inbox, wire_format: Format, endpoint: str) -> Inbox:
        inbox, here = self._inbox(name, hosted.epoch), endpoint == self.sockets.endpoint
        inbox.share = 0 if not before.share else min(hosted.share, NEIGHBOUR_BYTES) if here else hosted.share
        inbox.on_arrival = hosted.wake
        hosted.inboxes[name] = inbox, wire_format, None if here else endpoint
        if not here:
            remote = RemoteInbox(inbox, wire_format, endpoint, hosted.receiving(name), base_of(name) in hosted.paced)
            self.network.inboxes[wire.name_id(name)] = hosted.remotes[wire.name_id(name)] = remote
        return inbox

    def _inbox(self, name: str, epoch: int) -> Inbox:
        """The receiving end of a channel, the same for both ends if they are here."""
        return self.inboxes.setdefault((name, epoch), Inbox(name, 0, epoch))

    def _redirect(self, hosted: Hosted, move: Moving) -> None:
        """Behind a Barrier it sends to the new place."""
        there = {base: name for base, name in _latest(hosted.channels).items() if hosted.receivers.get(base, ((), ""))[0] == move.place}
        new: dict[Channel, Channel] = {hosted.channels[name]: self._open_channel(hosted, base, move) for base, name in there.items()}
        hosted.instance.redirect(move.barrier, new)
        moving = hosted.instance.moving
        if moving is not None and move.subquery == hosted.instance.subquery:
            index = move.instance - hosted.instance.index + moving.index  # within its replica
            after = hosted.inboxes[channel_at(moving.inboxes[index].name, move.number)][0]
            self._followed(hosted, moving.inboxes[index])
            moving.meet(index, new[moving.channels[index]], after)

    def _open_channel(self, hosted: Hosted, base: str, move: Moving) -> Channel:
        name, (_, stream, wire_format) = channel_at(base, move.number), hosted.receivers[base]
        if move.target == self.sockets.endpoint:
            local = LocalChannel(self._inbox(name, hosted.epoch), hosted.epoch)
            self.senders[name, hosted.epoch] = hosted, local
            hosted.channels[name] = local
            return local
        return self._open_remote(hosted, name, stream, move.target, wire_format)

    def _open_remote(self, hosted: Hosted, name: str, stream: str, endpoint: str, wire_format: Format) -> RemoteChannel:
        channel = RemoteChannel(self.sockets, name, stream, endpoint, wire_format, 0, hosted.epoch)
        channel.on_credit = hosted.wake
        hosted.channels[name] = self.network.channels[channel.id] = channel
        return channel

    def _followed(self, hosted: Hosted, inbox: Inbox) -> None:
        """The last element of a channel from its old place has been taken."""
        del hosted.inboxes[inbox.name]
        self.inboxes.pop((inbox.name, hosted.epoch), None)
        hosted.remotes.pop(wire.name_id(inbox.name), None)
        self.network.forget([wire.name_id(inbox.name)], ())

    def _tidy(self, hosted: Hosted) -> None:
        """The move is over: channels to the old place go, or those to the new one, if nobody moved."""
        number, moved = divmod(hosted.step, 2)
        if hosted.arrival.endswith(f"#{number}"):
            return  # it is the one that has moved
        latest = set(_latest(hosted.channels).values())
        for name in list(hosted.channels):
            if moved and name not in latest:
                self.network.forget((), [wire.name_id(name)])
                self.senders.pop((name, hosted.epoch), None)
                self.inboxes.pop((name, hosted.epoch), None)
                del hosted.channels[name]
        for name in [name for name in hosted.inboxes if name.endswith(f"#{number}") and not moved]:
            hosted.instance.next_inboxes = {a: b for a, b in hosted.instance.next_inboxes.items() if b.name != name}
            self._followed(hosted, hosted.inboxes[name][0])

    # The old place

    def _depart(self, hosted: Hosted, barrier: Barrier) -> None:
        """Nothing more comes, and everything that was to leave has left."""
        move, instance = barrier.move, hosted.instance
        assert move is not None
        name = transfer_name(instance.name.rsplit("/", 2)[0], instance.subquery, instance.index, barrier.number)
        channel = self._open_remote(hosted, name, "", move.endpoint, STATE_FORMAT)
        published = document("published", self.redirects.gone_on(hosted))
        hosted.departure = Departure(channel, [*belongings(instance), *_clients_of(hosted), published, barrier])
        self.clients.hand_over(hosted, hosted.departure.forward)
        hosted.departure.pump()

    # The new place

    def _take(self, hosted: Hosted, inbox: Inbox, arrival: Arrival) -> None:
        """Something of what it had has come. It is taken as it is received: what clients say next may be about it."""
        hosted.wake()
        while inbox.queue:
            element = inbox.take()[0]
            if not hosted.instance.done and arrival.take(element):
                self.clients.announce(hosted)
                self.clients.subscribe_all(hosted, hosted.wanted)
                self.redirects.settle(hosted)
                if hosted.to_drain:
                    hosted.instance.drain()

    def _take_client(self, hosted: Hosted, piece: State) -> None:
        match piece.part:
            case "received":
                for name, figures in value_of(piece).items():
                    account = hosted.receiving(f"{name}/")
                    account.rows, account.bytes, account.batches, account.cpu_ns = figures
            case "outlets":
                for outlet in hosted.outlets.values():
                    outlet.dropped_rows = value_of(piece)[outlet.stream]
            case "published":
                self.redirects.expect(hosted, value_of(piece))
            case "subscription":
                hosted.newest = _subscribed(self.clients, hosted, value_of(piece))
            case "held" if hosted.newest is not None:
                _hold(hosted.newest, piece.rows)
            case _:
                raise ProtocolError(f"{hosted.instance.name}: a piece of what moves that nobody has: {piece.part!r}")


def _latest(names: Iterable[str]) -> dict[str, str]:
    """Channel as the plan names it -> the one that was opened last."""
    return {base_of(name): name for name in names}


# --- clients, as they travel -----------------------------------------------------------------------------------------


def _clients_of(hosted: Hosted) -> Iterator[State]:
    """Its subscriptions with what they hold, and what was counted beside the engine."""
    accounts = {name: [each.rows, each.bytes, each.batches, each.cpu_ns] for name, each in hosted.received.items()}
    yield document("received", accounts)
    yield document("outlets", {outlet.stream: outlet.dropped_rows for outlet in hosted.outlets.values()})
    for outlet in hosted.outlets.values():
        for subscription in outlet.subscriptions.values():
            yield document("subscription", _terms_and_counts(subscription))
            yield from (State("", "held", 0, rows) for rows in pieces(_held(subscription)))


_COUNTS = ("sent_until", "sequence", "rows", "dropped", "closed")


def _terms_and_counts(subscription: Subscription) -> dict[str, Any]:
    client = subscription.client
    counts = {name: getattr(subscription, name) for name in _COUNTS}
    return {"stream": subscription.name, "terms": asdict(subscription.terms), "counts": counts} | {
        "client": [client.sent, client.consumed, client.limit],
        "returned": subscription.credit.returned,
    }


def _held(subscription: Subscription) -> pa.RecordBatch:
    """The messages that its client has no credit for."""
    headers = pa.array([header.pack() for header, _, _ in subscription.held], pa.binary())
    bodies = pa.array([None if body is None else bytes(body) for _, body, _ in subscription.held], pa.large_binary())
    return pa.record_batch({"header": headers, "body": bodies, "rows": pa.array([rows for _, _, rows in subscription.held], pa.int64())})


def _subscribed(clients: Clients, hosted: Hosted, found: Mapping[str, Any]) -> Subscription:
    subscription = clients.take_over(hosted, found["stream"], Terms.from_json(found["terms"], clients.sockets.endpoint))
    for name, value in found["counts"].items():
        setattr(subscription, name, value)
    subscription.client.sent, subscription.client.consumed, subscription.client.limit = found["client"]
    subscription.credit.returned = found["returned"]
    return subscription


def _hold(subscription: Subscription, rows: pa.RecordBatch) -> None:
    for each in rows.to_pylist():
        subscription.held.append((wire.unpack(each["header"]), each["body"], each["rows"]))
        subscription.held_bytes += len(each["body"] or b"")
