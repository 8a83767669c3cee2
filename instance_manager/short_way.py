"""The short way of a message through an instance that only passes tuples on.

A small message costs the general way (receive, decode, inbox, step, operators, output, encode, send) some forty microseconds, nearly all of
it the interpreter. Where an instance only picks and renames columns, between one channel in and one out, a kernel takes the message as it
was received and writes the one that leaves (`cep.kernels.passing`). Rules:

1. What leaves, and what is counted, is what the general way would have sent and counted. The kernel leaves every message that is not
   plainly simple to that, untouched.
2. While an instance is on the short way its counters stand in the words that the kernel writes. `leave` gives them back to the objects
   that own them before anybody else looks at the instance: at a message about it that goes the general way, a step, a command, a report.
3. Nothing may be under way when it is entered: nothing queued, gathered, blocked or held back, no watermark that is still to be told. So a
   tick has nothing to do there.
4. Who tries in vain, or leaves without having passed anything on, waits twice as many steps before the next try as before this one.
"""

from __future__ import annotations

import numpy as np

from cep import wire
from cep.dataflow.channel import WatermarkMerge, slack
from cep.dataflow.meter import Account, Meter
from cep.elements import MIN_TIME
from cep.kernels import passing
from cep.kernels.passing import pass_on
from cep.local_sockets import LocalSockets
from cep.wire import Header
from instance_manager.clients import Clients
from instance_manager.hosting import Hosted, clock_us, publisher_channel
from instance_manager.network import RemoteChannel
from instance_manager.straight_line import OUT_BYTES, Entrance, Exit, Line, form_of, line_of
from instance_manager.subscriptions import Subscription

WAIT_MAX = 16  # steps; it costs what a quarter of a step does, and one that could be short and is not costs five times as much


class ShortWays:
    """Those of a loop's instances that have one; used by the loop's thread. None is taken where sockets are of another kind."""

    def __init__(self, sockets: object, clients: Clients, meter: Meter) -> None:
        self.sockets, self.clients, self.meter = sockets, clients, meter
        self.ways: dict[str, ShortWay] = {}  # by the key of their instance
        self.entered: dict[int, ShortWay] = {}  # by every id that a message about their instance may bear
        self.out = np.empty(OUT_BYTES, np.uint8)
        self.meanwhile = Account()  # whose time it is until a message comes
        if isinstance(sockets, LocalSockets):
            sockets.passing.begin = lambda: meter.charge(self.meanwhile)

    def add(self, hosted: Hosted) -> None:
        line = line_of(hosted)
        if line is not None and isinstance(self.sockets, LocalSockets):
            self.ways[hosted.key] = ShortWay(self, self.sockets, hosted, line)

    def remove(self, hosted: Hosted) -> None:
        self.leave(hosted)
        self.ways.pop(hosted.key, None)

    def leads_around(self, hosted: Hosted) -> bool:
        """Is it on the short way?"""
        return (way := self.ways.get(hosted.key)) is not None and way.entrance is not None

    def enter(self, hosted: Hosted) -> None:
        """If it can, now."""
        if (way := self.ways.get(hosted.key)) is not None:
            way.enter()

    def leave(self, hosted: Hosted) -> None:
        if (way := self.ways.get(hosted.key)) is not None:
            way.leave()

    def leave_all(self) -> list[Hosted]:
        """Who has passed something on since it entered."""
        return [way.hosted for way in dict.fromkeys(self.entered.values()) if way.leave()]


class ShortWay:
    """Of one instance, whose operators are a `line`."""

    def __init__(self, ways: ShortWays, sockets: LocalSockets, hosted: Hosted, line: Line) -> None:
        self.ways, self.sockets, self.hosted, self.line = ways, sockets, hosted, line
        self.output = hosted.instance.outputs[0]
        self.account = Account()  # what it has cost since it was entered
        self.state, self.form = np.zeros(passing.STATE_WORDS, np.int64), np.zeros(0, np.int64)
        self.read_to, self.written = self.state[passing.READ_TO :].data, ways.out.data
        self.formed: tuple[object, ...] = ()  # what `form` was made of
        self.entrance: Entrance | None = None
        self.exit: Exit | None = None  # both while it is entered
        self.endpoint = ""
        self.now = 0  # of the last message, µs since the epoch
        self._skip, self._skipped = 1, 0  # steps before it is tried again, and of those what is left

    # On the way

    def take(self, staging: np.ndarray, at: int, end: int) -> int:
        """A `cep.local_sockets.Taker`; at the first message that is not simple it stands aside."""
        self.now = clock_us()
        size = pass_on(staging, at, end, self.now, self.state, self.form, self.ways.out)
        if not size:
            self._stand_aside()
            return at
        self.sockets.relay(self.endpoint, self.written[:size])
        self.ways.meter.charge(self.account)
        return self.read_to[0]

    def _stand_aside(self) -> None:
        if self.entrance is not None:
            self.sockets.passing.takers.pop(self.entrance.id, None)

    # Entering

    def enter(self) -> None:
        """If nothing is under way, and what comes and leaves is eight bytes wide."""
        if self.sockets.at_hand:
            return  # messages that have been taken apart already: the next one would be one of these
        if self._skipped:
            self._skipped -= 1
            return
        exit_ = self._exit()
        entrance = None if exit_ is None else self._entrance()
        if entrance is None or exit_ is None or not self._promised(entrance) or not self._formed(entrance, exit_):
            self._in_vain()
            return
        self.entrance, self.exit, self.endpoint = entrance, exit_, exit_.endpoint
        self._fill(entrance, exit_)
        for id_ in (entrance.id, entrance.named, exit_.channel.id, *self.hosted.outlets):
            self.ways.entered[id_] = self
        self.sockets.passing.takers[entrance.id] = self.take

    def _in_vain(self) -> None:
        self._skip = self._skipped = min(2 * self._skip, WAIT_MAX)

    def _entrance(self) -> Entrance | None:
        """None: something is under way."""
        if not self.hosted.instance.rests:
            return None
        found = self._publisher() if self.hosted.entries else self._channel()
        return found if found is not None and found.open else None

    def _channel(self) -> Entrance | None:
        (input_,) = self.hosted.instance.inputs
        for id_, remote in self.hosted.remotes.items():
            if remote.inbox is input_.inboxes[0]:
                return Entrance(id_, id_, remote.inbox, remote.format, remote.account, input_.merge)
        return None

    def _publisher(self) -> Entrance | None:
        ((named, entry),) = self.hosted.entries.items()
        source = entry.source
        if len(source.publishers) != 1 or source.expected or source.ending or source.since > MIN_TIME or source.late.batches:
            return None
        (publisher,) = source.publishers.values()
        id_ = publisher_channel(named, publisher.name)
        if id_ not in self.ways.clients.publishers:
            return None
        return Entrance(id_, named, publisher.inbox, entry.format, entry.account, source.merge, source, publisher)

    def _exit(self) -> Exit | None:
        """None: there are several targets, or none, or something waits there."""
        target = self.output.targets[0] if len(self.output.targets) == 1 else None
        if target is None or target.queue or target.parts or target.promised < self.output.watermark:
            return None
        match target.channel:
            case RemoteChannel() as channel:
                return Exit(target, channel, channel.endpoint, channel.credit, self._head(channel, channel.epoch))
            case Subscription() as channel if not channel.held and not channel.terms.reader:
                return Exit(target, channel, channel.terms.endpoint, channel.client, self._head(channel, 0))
        return None

    def _head(self, channel: RemoteChannel | Subscription, epoch: int) -> Header:
        return Header(wire.BATCH, channel.id, 0, epoch, channel.stream, channel.format.fingerprint, since=self.output.since)

    def _merges(self, entrance: Entrance) -> list[WatermarkMerge]:
        return [entrance.merge, *[node.merge for node in self.line.nodes]]

    def _promised(self, entrance: Entrance) -> bool:
        """Is what everybody has promised the same, and by one alone?"""
        return all(
            len(merge.times) == 1 and not merge.idle and merge.combined == self.output.watermark == min(merge.times.values())
            for merge in self._merges(entrance)
        )

    def _formed(self, entrance: Entrance, exit_: Exit) -> bool:
        """Is there a form of what comes and leaves? The one made last, if they are as they were."""
        formed = entrance.head, exit_.head
        if formed != self.formed:
            form = form_of(self.line.renamed, entrance, exit_, self.output.latency is not None)
            if form is None:
                return False
            self.formed, self.form = formed, form
        return True

    def _fill(self, entrance: Entrance, exit_: Exit) -> None:
        inbox, credit, state = entrance.inbox, exit_.credit, self.state
        state[:] = 0
        state[passing.NEXT], state[passing.NEXT_OUT] = inbox.sequence, exit_.channel.sequence
        state[passing.PROMISED], state[passing.SENT_UNTIL] = self.output.watermark, self.output.sent_until
        state[passing.OWED] = slack(inbox.share) - (inbox.consumed - inbox.granted)
        state[passing.SENT], state[passing.CONSUMED], state[passing.LIMIT] = credit.sent, credit.consumed, credit.limit
        if entrance.source is not None and entrance.publisher is not None:
            state[passing.NUMBERED] = entrance.source.records.get(entrance.publisher.name, 0)

    # Leaving

    def leave(self) -> bool:
        """Has it passed anything on since it was entered?"""
        entrance, exit_ = self.entrance, self.exit
        if entrance is None or exit_ is None:
            return False
        self._stand_aside()
        self.entrance = self.exit = None
        for id_ in (entrance.id, entrance.named, exit_.channel.id, *self.hosted.outlets):
            self.ways.entered.pop(id_, None)
        if not self.state[passing.MESSAGES]:
            self._in_vain()
            return False
        self._skip = 1
        state = self.state.tolist()
        self._settle_entrance(entrance, state)
        self._settle_line(entrance, state)
        self._settle_exit(exit_, state)
        self._settle_account(entrance)
        return True

    def _settle_entrance(self, entrance: Entrance, state: list[int]) -> None:
        inbox, size = entrance.inbox, state[passing.BYTES]
        inbox.sequence = state[passing.NEXT]
        inbox.received += size
        inbox.consumed += size
        _take(state, entrance.account, size)
        if entrance.source is not None and entrance.publisher is not None:
            entrance.source.watermark = state[passing.PROMISED]
            entrance.source.records[entrance.publisher.name] = state[passing.NUMBERED]
            entrance.publisher.last_row_us = self.now
            self.ways.clients.hear(entrance.id)

    def _settle_line(self, entrance: Entrance, state: list[int]) -> None:
        promised = state[passing.PROMISED]
        for merge in self._merges(entrance):
            (port,) = merge.times
            merge.times[port] = merge.combined = promised
        for node in self.line.nodes:
            _take(state, node.account)
            node.rows_out += state[passing.ROWS]

    def _settle_exit(self, exit_: Exit, state: list[int]) -> None:
        output, channel = self.output, exit_.channel
        rows, promised = state[passing.ROWS], state[passing.PROMISED]
        _take(state, output.account)
        output.sent_until, output.watermark = state[passing.SENT_UNTIL], promised
        exit_.target.promised = promised
        exit_.target.sent_bytes += rows * exit_.row_bytes
        exit_.credit.sent, channel.sequence = state[passing.SENT], state[passing.NEXT_OUT]
        if isinstance(channel, Subscription):
            channel.rows += rows
        if output.latency is not None:
            output.latency.sum_us += state[passing.LATENCY]
            counts = state[passing.COUNTS :]
            output.latency.counts = [before + more for before, more in zip(output.latency.counts, counts, strict=True)]

    def _settle_account(self, entrance: Entrance) -> None:
        """Its time is that of the steps that it stands for, in equal parts."""
        accounts = [entrance.account, *[node.account for node in self.line.nodes], self.output.account]
        for account in accounts:
            account.busy_ns += self.account.busy_ns // len(accounts)
        entrance.account.busy_ns += self.account.busy_ns % len(accounts)
        self.account.busy_ns = 0


def _take(state: list[int], account: Account, size: int = 0) -> None:
    account.rows += state[passing.ROWS]
    account.batches += state[passing.MESSAGES]
    account.bytes += size
