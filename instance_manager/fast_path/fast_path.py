"""The fast path of a message through an instance that only passes tuples on.

A small message costs the plain path (receive, decode, inbox, step, operators, output, encode, send) some forty microseconds, nearly all of
it the interpreter. Where an instance only picks and renames columns, between one channel in and one out, a kernel takes the message as it
was received and writes the one that leaves (`cep.kernels.relay`). Rules:

1. What leaves, and what is counted, is what the plain path would have sent and counted. The kernel leaves every message that is not
   plainly simple to that, untouched.
2. While an instance is on the fast path its counters stand in the words that the kernel writes. `leave` gives them back to the objects
   that own them before other code looks at the instance: at a message about it that goes the plain path, a step, a command, a report.
3. Nothing may be under way when it is entered: nothing queued, gathered, blocked or held back, no watermark that is still to be told. So a
   tick has nothing to do there.
4. What leaves for a subscriber of a query that recovers is kept there, a run of messages for each call of the kernel; at once it is sent,
   too. What the kernel has counted of it is given back with all the rest, and so before any Barrier.
5. An instance that has to say that there is news (`HostRecovery.news`) enters when it has: the first message is it. One that tells at
   once, and has a checkpoint that is not committed yet, enters behind the commit. Neither is tried in vain meanwhile.
6. A path that is tried in vain, or left without having taken any message, waits twice as many steps before the next try as before this
   one.
"""

from __future__ import annotations

import numpy as np

from cep.dataflow.channel import Credit, WatermarkMerge, slack
from cep.dataflow.meter import Account, Meter
from cep.elements import MIN_TIME
from cep.kernels import relay
from cep.kernels.relay import pass_on
from cep.plan.channels import publisher_channel
from cep.transport import wire
from cep.transport.sockets import RelayingSockets, Sockets
from cep.transport.wire import Header
from instance_manager.clients.clients import Clients
from instance_manager.clients.subscriptions import SubscriptionChannel
from instance_manager.fast_path.form import OUT_BYTES, Entrance, Exit, Line, form_of, line_of, lines_of
from instance_manager.hosting import InstanceHost
from instance_manager.ports import PLAIN, Relay, RemoteChannel
from instance_manager.recovery.kept import KeptChannel
from instance_manager.recovery.runs import Run
from instance_manager.recovery.told import ToldChannel

WAIT_MAX = 16  # steps; it costs what a quarter of a step does, and one that could be short and is not costs five times as much

KEPT_BYTES = 1 << 20  # kept for a commit before a step looks whether that is too much


class FastPaths:
    """Chooses how messages go through each instance of a loop, and has what its fast paths share; used by the loop's thread."""

    def __init__(self, sockets: Sockets, clients: Clients, meter: Meter, on: bool = True) -> None:
        self.clients, self.meter = clients, meter
        self.sockets = sockets if on and isinstance(sockets, RelayingSockets) else None
        self.wait_max = WAIT_MAX
        self.messages = 0  # that were taken, as far as their paths were left since
        self.entered: dict[int, FastPath] = {}  # by every id that a message about their instance may bear
        self.out = np.empty(OUT_BYTES, np.uint8)
        self.meanwhile = Account()  # whose time it is until a message comes
        if self.sockets is not None:
            self.sockets.inbound.begin = self._begin

    def _begin(self) -> None:
        """Something will be read."""
        meter = self.meter
        meter.charge(self.meanwhile)
        meter.came_round(meter.mark)

    def relay(self, hosted: InstanceHost) -> Relay:
        """The fast path, where the instance can have one: it is on, sockets are local ones, and its operators a line."""
        line = None if self.sockets is None else line_of(hosted)
        return PLAIN if self.sockets is None or line is None else FastPath(self, self.sockets, hosted, line)

    def leave_all(self) -> list[InstanceHost]:
        """Those whose messages have been taken since they entered."""
        return [path.hosted for path in dict.fromkeys(self.entered.values()) if path.leave()]


class FastPath:
    """A `Relay` through one instance, whose operators are a `line`."""

    def __init__(self, paths: FastPaths, sockets: RelayingSockets, hosted: InstanceHost, line: Line) -> None:
        self.paths, self.sockets, self.hosted, self.line = paths, sockets, hosted, line
        self.output = hosted.instance.outputs[0]
        self.account = Account(owner=hosted.key)  # what it has cost since it was entered
        self.state, self.form = np.zeros(relay.STATE_WORDS, np.int64), np.zeros(0, np.int64)
        self.words, self.written = self.state.data, paths.out.data
        self.formed: tuple[object, ...] = ()  # what `form` was made of
        self.entrance: Entrance | None = None
        self.exit: Exit | None = None  # both while it is entered
        self.endpoint = ""
        self.keeps: KeptChannel | None = None  # where what leaves is kept
        self.kept, self.rows_at = (0, 0, 0), 0  # up to which number, with how many rows and bytes; and the form of that
        self.now = 0  # of the last message, µs since the epoch
        self._skip, self._skipped = 1, 0  # steps before it is tried again, and of those what is left

    @property
    def entered(self) -> bool:
        return self.entrance is not None

    # Messages

    def take(self, staging: np.ndarray, at: int, end: int) -> int:
        """A `cep.transport.connections.Taker`; at the first message that is not simple it stands aside."""
        self.now = self.paths.clients.clock.wall_ns() // 1000
        size = pass_on(staging, at, end, self.now, self.state, self.form, self.paths.out)
        if not size:
            self._stand_aside()
            return at
        if self.keeps is None:
            self.sockets.relay(self.endpoint, self.written[:size])
        else:
            self._keep(self.keeps, size)
        self.paths.meter.charge(self.account)
        return self.words[relay.READ_TO]

    def _keep(self, channel: KeptChannel, size: int) -> None:
        words = self.words
        following, rows, sent = self.kept
        self.kept = behind, rows_sent, bytes_sent = words[relay.NEXT_OUT], words[relay.ROWS], words[relay.SENT]
        channel.pass_on(Run(bytes(self.written[:size]), following, behind, rows_sent - rows, bytes_sent - sent, self.rows_at))

    def _stand_aside(self) -> None:
        if self.entrance is not None:
            self.sockets.inbound.takers.pop(self.entrance.id, None)

    # Entering

    def enter(self) -> None:
        """If nothing is under way, and what comes and leaves is eight bytes wide."""
        if self.sockets.at_hand:
            return  # messages that have been taken apart already: the next one would be one of these
        if self._skipped:
            self._skipped -= 1
            return
        own = self.hosted.recovery
        if own is not None and (self.hosted.entries or self.hosted.outlets) and (not own.news or self._awaits_commit()):
            return
        exit_ = self._exit()
        entrance = None if exit_ is None else self._entrance()
        if entrance is None or exit_ is None or not self._promised(entrance) or not self._formed(entrance, exit_):
            self._in_vain()
            return
        self.entrance, self.exit, self.endpoint, self.keeps = entrance, exit_, exit_.endpoint, exit_.keeps
        self._fill(entrance, exit_)
        for id_ in (entrance.id, entrance.named, exit_.channel.id, *self.hosted.outlets):
            self.paths.entered[id_] = self
        self.sockets.inbound.takers[entrance.id] = self.take

    def _awaits_commit(self) -> bool:
        return any(isinstance(target.channel, ToldChannel) and bool(target.channel.behind) for target in self.output.targets)

    def _in_vain(self) -> None:
        self._skip = self._skipped = min(2 * self._skip, self.paths.wait_max)

    def _entrance(self) -> Entrance | None:
        """None: something is under way."""
        if not (self.hosted.instance.rests and self.hosted.movement.rests):
            return None
        found = self._publisher() if self.hosted.entries else self._channel()
        return found if found is not None and found.open else None

    def _channel(self) -> Entrance | None:
        (input_,) = self.hosted.instance.inputs
        for id_, remote in self.hosted.ports.remote.items():
            if remote.inbox is input_.inboxes[0]:
                return Entrance(id_, id_, remote.inbox, remote.format, remote.account, input_.merge)
        return None

    def _publisher(self) -> Entrance | None:
        ((named, entry),) = self.hosted.entries.items()
        source = entry.source
        if len(source.publishers) != 1 or source.expected or source.ending or source.since > MIN_TIME or source.late.batches:
            return None
        (publisher,) = source.publishers.values()
        if publisher.incarnation and publisher.taken_until != source.watermark:
            return None
        id_ = publisher_channel(named, publisher.name)
        if (here := self.paths.clients.publishers.here.get(id_)) is None:
            return None
        return Entrance(id_, named, publisher.inbox, here.door.sent, entry.account, source.merge, source, publisher)

    def _exit(self) -> Exit | None:
        """None: there are several targets, or none, or something waits there."""
        target = self.output.targets[0] if len(self.output.targets) == 1 else None
        if target is None or target.queue or target.parts or target.promised < self.output.watermark:
            return None
        match target.channel:
            case RemoteChannel() as channel:
                return Exit(target, channel, channel.endpoint, channel.credit, self._head(channel))
            case ToldChannel() as channel:
                if channel.is_open and not channel.held and not channel.behind:
                    return Exit(target, channel, channel.terms.endpoint, channel.client, self._head(channel), channel)
            case KeptChannel() as channel:
                if not channel.terms.reader and channel.has_room(KEPT_BYTES) and not channel.drops(KEPT_BYTES):
                    return Exit(target, channel, "", _bounded(KEPT_BYTES), self._head(channel), channel)
            case SubscriptionChannel() as channel if not channel.held and not channel.terms.reader:
                return Exit(target, channel, channel.terms.endpoint, channel.client, self._head(channel))
        return None

    def _head(self, channel: RemoteChannel | SubscriptionChannel) -> Header:
        return Header(wire.BATCH, channel.id, 0, channel.stream, channel.format.fingerprint, since=self.output.since)

    def _merges(self, entrance: Entrance) -> list[WatermarkMerge]:
        return [entrance.merge, *[node.merge for node in self.line.nodes]]

    def _promised(self, entrance: Entrance) -> bool:
        """Is what all have promised the same, and by one alone?"""
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
        state[relay.NEXT], state[relay.NEXT_OUT] = inbox.sequence, exit_.channel.sequence
        state[relay.PROMISED], state[relay.SENT_UNTIL] = self.output.watermark, self.output.sent_until
        state[relay.OWED] = slack(inbox.share) - (inbox.consumed - inbox.granted)
        state[relay.SENT], state[relay.CONSUMED], state[relay.LIMIT] = credit.sent, credit.consumed, credit.limit
        if entrance.source is not None and entrance.publisher is not None:
            state[relay.NUMBERED] = entrance.source.records.get(entrance.publisher.name, 0)
        if exit_.keeps is not None and (found := lines_of(exit_.channel.format)) is not None:
            self.kept, self.rows_at = (exit_.channel.sequence, 0, credit.sent), found[0]

    # Leaving

    def leave(self) -> bool:
        """Has it passed anything on since it was entered?"""
        entrance, exit_ = self.entrance, self.exit
        if entrance is None or exit_ is None:
            return False
        self._stand_aside()
        self.entrance = self.exit = None
        for id_ in (entrance.id, entrance.named, exit_.channel.id, *self.hosted.outlets):
            self.paths.entered.pop(id_, None)
        if not self.state[relay.MESSAGES]:
            self._in_vain()
            return False
        self._skip = 1
        state = self.state.tolist()
        self.paths.messages += state[relay.MESSAGES]
        self._settle_entrance(entrance, state)
        self._settle_line(entrance, state)
        self._settle_exit(exit_, state)
        self._settle_account(entrance)
        return True

    def _settle_entrance(self, entrance: Entrance, state: list[int]) -> None:
        inbox, size = entrance.inbox, state[relay.BYTES]
        inbox.sequence = state[relay.NEXT]
        inbox.received += size
        inbox.consumed += size
        _take(state, entrance.account, size)
        if entrance.source is not None and entrance.publisher is not None:
            entrance.source.watermark = state[relay.PROMISED]
            entrance.source.records[entrance.publisher.name] = state[relay.NUMBERED]
            entrance.publisher.last_row_us = self.now
            if entrance.publisher.incarnation:
                entrance.publisher.taken_until = state[relay.PROMISED]
            self.paths.clients.publishers.hear(entrance.id)

    def _settle_line(self, entrance: Entrance, state: list[int]) -> None:
        promised = state[relay.PROMISED]
        for merge in self._merges(entrance):
            (port,) = merge.times
            merge.times[port] = merge.combined = promised
        for node in self.line.nodes:
            _take(state, node.account)
            node.rows_out += state[relay.ROWS]

    def _settle_exit(self, exit_: Exit, state: list[int]) -> None:
        output, channel = self.output, exit_.channel
        rows, promised = state[relay.ROWS], state[relay.PROMISED]
        _take(state, output.account)
        output.sent_until, output.watermark = state[relay.SENT_UNTIL], promised
        exit_.target.promised = promised
        exit_.target.sent_bytes += rows * exit_.row_bytes
        exit_.credit.sent, channel.sequence = state[relay.SENT], state[relay.NEXT_OUT]
        if isinstance(channel, SubscriptionChannel):
            channel.rows += rows
        if isinstance(channel, ToldChannel):
            channel.told_bytes += rows * exit_.row_bytes
        if output.latency is not None:
            output.latency.sum_us += state[relay.LATENCY]
            counts = state[relay.COUNTS :]
            output.latency.counts = [before + more for before, more in zip(output.latency.counts, counts, strict=True)]

    def _settle_account(self, entrance: Entrance) -> None:
        """Its time is that of the steps that it stands for, in equal parts."""
        accounts = [entrance.account, *[node.account for node in self.line.nodes], self.output.account]
        for account in accounts:
            account.busy_ns += self.account.busy_ns // len(accounts)
        entrance.account.busy_ns += self.account.busy_ns % len(accounts)
        self.account.busy_ns = 0


def _bounded(size: int) -> Credit:
    credit = Credit()
    credit.limit = size
    return credit


def _take(state: list[int], account: Account, size: int = 0) -> None:
    account.rows += state[relay.ROWS]
    account.batches += state[relay.MESSAGES]
    account.bytes += size
