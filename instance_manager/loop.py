"""The main loop: receive · process · emit · park. One thread runs it; everything of the engine happens here."""

from __future__ import annotations

import gc
import math
import os
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from cep.compile.user.functions import error_text
from cep.dataflow.channel import Inbox, LocalChannel
from cep.dataflow.meter import Account, Meter
from cep.elements import Fail, Stop
from cep.model.limits import CAUSE_CHARS_MAX
from cep.plan.channels import ChannelId
from cep.service.mark import SINCE, UNREAD, Mark, Slot
from cep.transport import wire
from cep.transport.sockets import Sockets
from cep.transport.wire import Header
from cep.world.clock import Clock, SystemClock
from cep.world.rings import Rings
from instance_manager.accounts import LoopAccounts, step_accounts
from instance_manager.clients.clients import SILENCE_S, Clients
from instance_manager.clients.rights import Rights
from instance_manager.control.commands import (
    GIVEN,
    AddInstance,
    AddSubscriptions,
    Command,
    Confirm,
    DrainInstance,
    DropSubscriptions,
    ExpectInstance,
    ExpectNoMore,
    FailInstance,
    FollowFeeds,
    HearCheckpoints,
    InstanceCommand,
    LoseStreams,
    NotePiece,
    RemoveInstance,
    RerouteBuckets,
    RunInstance,
    StopInstance,
    TakeMoveStep,
)
from instance_manager.fast_path.fast_path import FastPaths
from instance_manager.feeds import Feeds
from instance_manager.hosting import InstanceHost
from instance_manager.moves import Moves
from instance_manager.network import Network
from instance_manager.ports import PLAIN, InPort, RemoteChannel
from instance_manager.ready import Ready
from instance_manager.recovery.checkpoints import Background, Checkpoints, at_once
from instance_manager.telling import Telling

SLICE_NS = 5_000_000
POLL_NS = 1_000_000  # how long the loop waits awake where a query asks for it
TICK_NS = 100_000_000

Report = Callable[[InstanceHost], None]


class Loop:
    """Runs the subquery instances of this process until `stopping`. `identity`: which process of its id it is; `background` does what is
    not for the engine's thread; `rings`: those of clients of this host; `cpu_ns`: CPU time of the thread that asks."""

    def __init__(
        self,
        sockets: Sockets,
        budget_bytes: int,
        report: Report,
        on_tick: Callable[[Loop, bool], None],
        slot: Slot | None = None,
        silence_s: float = SILENCE_S,
        lease_s: float = math.inf,
        on_return: Callable[[], None] = lambda: None,
        clock: Clock | None = None,
        process: int | None = None,
        fast_path: bool = True,
        identity: tuple[int, int] = (0, 0),
        background: Background = at_once,
        rings: Rings | None = None,
        cpu_ns: Callable[[], int] = lambda: 0,
    ) -> None:
        self.sockets, self.on_tick = sockets, on_tick
        self.telling = Telling(lambda: on_tick(self, True), report)
        self.clock = clock or SystemClock()
        self.slot = slot or Mark.open(None, self.clock.steady_ns).loop
        self.meter = Meter(self.clock.steady_ns, self.slot.words)
        self.accounts, self.idle = LoopAccounts(), Account()  # what belongs to no instance; what was slept
        self.account = self.accounts.rest
        self.clients = Clients(sockets, budget_bytes, silence_s, self.clock, process or int.from_bytes(os.urandom(6), "little"), rings)
        self.rights = Rights(self.clients)
        handlers = self._on_control, self.clients.publishers.published, self._on_broken
        self.network = Network(sockets, *handlers, self.meter, self.rights.check)
        self.feeds = Feeds(self.network)
        self.fast_paths = FastPaths(sockets, self.clients, self.meter, fast_path)
        self.network.relays = self.fast_paths.entered
        self.lease_ns, self.on_return = lease_s * 1e9, on_return
        self.turned = self.clock.steady_ns()
        self.in_doubt = False  # whether it still counts as alive
        self.asked = threading.Event()
        self.hosted: dict[str, InstanceHost] = {}
        self.checkpoints = Checkpoints(
            self.clock, identity, background, lambda stored: self.ask(NotePiece(stored)), self.clients.publishers, cpu_ns
        )
        self.ready = Ready()
        self.senders: dict[int, tuple[InstanceHost, LocalChannel]] = {}  # by channel, of those that end in this process
        self.leaving: list[InstanceHost] = []  # over and withdrawn, but not read to the end
        self.commands: deque[Command] = deque()
        self.inboxes: dict[int, Inbox] = {}  # by channel, for both ends in this process
        self.moves = Moves(self.network, self.clients, self.inbox, self.inboxes, self.senders)
        self.stopping = self.polls = False
        self.next_tick = 0  # by the steady clock, in ns

    def run(self) -> None:
        self.slot.begin()
        while not self.stopping:
            if not self.turn():
                self.meter.charge(self.account)
                self.fast_paths.meanwhile = self.idle
                self._park()
                self.meter.charge(self.idle)
                self.fast_paths.meanwhile = self.account

    def _park(self) -> None:
        """Until there is something to do, at most until the next tick; as the most eager of the queries here asks."""
        if self.in_doubt:  # it waits for nothing else
            self.asked.wait(TICK_NS / 1e9)
            self.asked.clear()
        elif not self.polls or not self.sockets.poll(POLL_NS):
            # Rounded up: what is less than a millisecond would be spent awake, and others want the core.
            self.sockets.park(max(0, -((self.clock.steady_ns() - self.next_tick) // 1_000_000)))

    def _was_away(self, now: int) -> bool:
        """A process that was away for longer than its lease (`ClusterConfig.lease_s`) may count as dead, and its queries as failed. Before
        that is known it gives out nothing: an end that no other process believes in looks complete."""
        before, self.turned = self.turned, now
        if now - before > self.lease_ns and not self.in_doubt and (self.hosted or self.commands):
            self.in_doubt = True
            self.on_return()
        return self.in_doubt

    def _await_confirmation(self) -> bool:
        """Has the control thread read what should be true, so that the loop may go on? Until then commands alone are obeyed: what is to
        fail fails before it gives anything out."""
        self.slot.words[SINCE] = self.turned
        self._obey()
        return not self.in_doubt

    def turn(self) -> bool:
        """Receive · process · emit. Is there more to do, whatever comes meanwhile?"""
        if self._was_away(self.clock.steady_ns()):
            return self._await_confirmation()
        self.meter.came_round(self.turned)
        self.network.receive()
        self._obey()
        self._emit(self._process())
        if not self.in_doubt:
            self._tick()
        return bool(self.ready)

    def ask(self, command: Command) -> None:
        """From any thread."""
        self.commands.append(command)
        self.asked.set()
        self.sockets.wake()

    def stop(self) -> None:
        """From any thread."""
        self.stopping = True
        self.sockets.wake()

    def inbox(self, channel: ChannelId) -> Inbox:
        """The receiving end of a channel, the same for both ends."""
        return self.inboxes.setdefault(channel.id, Inbox(str(channel), 0))

    # process

    def _process(self) -> list[InstanceHost]:
        """A slice to each instance that has something to do; an idle one is not looked at. A process that is stopped is mostly stopped at
        one of these: that one goes on to the end of its slice, and no other."""
        stepped = self.ready.take(self.hosted)
        for at, hosted in enumerate(stepped):
            if self._was_away(now := self.slot.enter(hosted.label)):
                self.slot.leave()
                for left in stepped[at:]:
                    self.ready.wake(left.key)
                return stepped[:at]
            self.ready.serve(hosted.key)
            if self._step(hosted, now + SLICE_NS) and not hosted.instance.exhausted:
                self.ready.wake(hosted.key)
        return stepped

    def _step(self, hosted: InstanceHost, end: int) -> bool:
        hosted.ports.relay.leave()
        self.meter.charge(self.account)
        try:
            moved = hosted.instance.step(lambda: self.clock.steady_ns() > end)
            if hosted.recovery is not None:
                self.checkpoints.stepped(hosted)
            if hosted.instance.switched or hosted.movement.place.left is not None:
                moved |= self.moves.stepped(hosted)
        except BaseException as error:  # whatever an operator does wrong is its query's failure, also SystemExit; others go on
            hosted.traceback = traceback.format_exc()
            hosted.instance.fail(error_text(error, CAUSE_CHARS_MAX))
            moved = True
        if moved:
            self.meter.charge(hosted.instance.account)
        if hosted.outlets and self.clients.subscribers.unread(hosted):  # before it is told that it has ended
            self.slot.words[UNREAD] = 1
        self.telling.tell(hosted)
        self.slot.leave()
        return moved

    # emit

    def _emit(self, stepped: Sequence[InstanceHost]) -> None:
        """Credit, and watermarks that have risen, go back to the senders of what has been taken."""
        for hosted in stepped:
            ports = hosted.ports
            if ports.remote:
                self.network.emit(ports.remote)
            if hosted.entries:
                self.clients.publishers.emit(hosted)
            for id_ in (*ports.incoming, *ports.outgoing):
                sender = self.senders.get(id_)
                if sender is not None and sender[1].settle():
                    self.ready.wake(sender[0].key)
            hosted.ports.relay.enter()
        self.meter.charge(self.network.account)

    def _tick(self) -> None:
        now = self.clock.steady_ns()
        self.slot.words[SINCE] = now
        if now < self.next_tick:
            return
        self.next_tick = now + TICK_NS
        for hosted in self.ready.untold():
            if not hosted.ports.relay.entered:
                hosted.instance.tick()
        self.telling.tick()
        self.clients.tick()
        self.feeds.tick()
        for hosted in [each for each in self.leaving if not self.clients.subscribers.unread(each)]:
            self._remove(hosted)
        if self.slot.words[UNREAD] or self.leaving:  # else there is nothing to look at, of perhaps thousands
            self.slot.words[UNREAD] = any(map(self.clients.subscribers.unread, self.hosted.values()))
        self.meter.charge(self.accounts.ticks)
        self.on_tick(self, False)

    @contextmanager
    def settled(self) -> Iterator[None]:
        """Everything that is counted is where it is looked for, and what was relayed is to be reported."""
        relayed = self.fast_paths.leave_all()
        for hosted in relayed:
            self.ready.report(hosted)
        yield
        for hosted in relayed:
            hosted.ports.relay.enter()

    # messages

    def _on_control(self, header: Header, body: Any) -> None:
        """Of a client; or of an instance that feeds one here, which is told by what it says or by where it says it."""
        if header.kind == wire.SUBSCRIBED or (header.kind == wire.UNSUBSCRIBE and not self.clients.knows(header.channel)):
            self.feeds.handle(header, body)
        elif header.kind not in (wire.OPEN, wire.CLOSE) or not self.moves.redirects.handle(header, body):
            self.clients.handle(header, body)

    def _on_broken(self, port: InPort, error: Exception) -> None:
        for hosted in self.hosted.values():
            if hosted.ports.incoming.get(port.id) is port:
                hosted.instance.fail(f"{type(error).__name__}: {error}")
                hosted.wake()

    # commands

    def _obey(self) -> None:
        if not self.commands:
            return
        added = False
        while self.commands:
            command = self.commands.popleft()
            if isinstance(command, Confirm):
                self.in_doubt = False
                continue
            added |= isinstance(command, AddInstance)
            hosted = command.hosted if isinstance(command, GIVEN) else self.hosted.get(command.key)
            if hosted is not None:
                self.slot.enter(hosted.label)
                self._do(command, hosted)
                self.slot.leave()
        if added:
            # What was made for them lives as long as they do, and a full collection would walk it, too. What leaves is freed because
            # nothing refers to it any more; so nothing that it has may refer back to it. What is garbage by now would stay for ever.
            gc.collect()
            gc.freeze()
        self.meter.charge(self.accounts.commands)

    def _do(self, command: InstanceCommand, hosted: InstanceHost) -> None:
        try:
            if isinstance(command, AddInstance):
                self._add(hosted)
            else:
                self._change(command, hosted)
        except Exception as error:  # what is asked for one instance and cannot be done is its query's failure; others go on
            self._spoil(command.key, error)

    def _spoil(self, key: str, error: Exception) -> None:
        if (hosted := self.hosted.get(key)) is not None:
            hosted.traceback = traceback.format_exc()
            hosted.instance.fail(f"{type(error).__name__}: {error}")
            hosted.wake()

    def _change(self, command: InstanceCommand, hosted: InstanceHost) -> None:
        instance = hosted.instance
        hosted.ports.relay.leave()
        hosted.wake()
        match command:
            case ExpectInstance():
                self._meet(hosted)
            case ExpectNoMore():
                self._part(hosted)
            case AddSubscriptions() if instance.state == "arriving":
                hosted.move.wanted += command.subscriptions
            case RunInstance() | DrainInstance() | RerouteBuckets() if instance.state == "arriving":
                hosted.move.to_drain |= isinstance(command, DrainInstance)  # the rest is so where it comes from, and comes with it
            case TakeMoveStep(_, move):
                self.moves.ask(hosted, move)
            case RunInstance() if instance.state == "ready":
                instance.run()
                hosted.ports.tell_anew()  # all senders are at home now, and what one was told before that may be lost
                self.telling.tell(hosted)  # before its first slice, together with the others of its query
            case DrainInstance():
                instance.drain()
            case StopInstance():
                self.checkpoints.give_up(hosted, Stop())
                instance.close(Stop())
            case FailInstance(_, subquery, index, cause):
                self.checkpoints.give_up(hosted, Fail(subquery, index, cause))
                instance.close(Fail(subquery, index, cause))
            case RerouteBuckets(_, tables):
                for head, barrier in tables.items():
                    hosted.movement.reroute(head, barrier)
            case AddSubscriptions(_, subscriptions):
                self.clients.subscribe_all(hosted, subscriptions)
            case DropSubscriptions(_, ids):
                hosted.move.wanted = [each for each in hosted.move.wanted if each["id"] not in ids]
                self.clients.subscribers.drop(hosted, ids)
            case FollowFeeds(_, feeds):
                self.feeds.follow(hosted, feeds)
            case LoseStreams(_, streams):
                for attachment in hosted.attachments:
                    if attachment.source.stream in streams:
                        attachment.source.lose(streams[attachment.source.stream])
            case HearCheckpoints(_, said):
                self.checkpoints.hear(hosted, said)
            case NotePiece(stored):
                self.checkpoints.note(hosted, stored)
            case RemoveInstance() if self.clients.subscribers.unread(hosted):
                self.leaving.append(hosted)  # its readers are still at it; those that are gone are noticed by their silence
            case RemoveInstance():
                self._remove(hosted)

    def _add(self, hosted: InstanceHost) -> None:
        if hosted.key in self.hosted:
            self._remove(self.hosted[hosted.key])
        self.hosted[hosted.key] = hosted
        for step in step_accounts(hosted):
            step.account.owner = hosted.key
        hosted.wake = partial(self.ready.wake, hosted.key)
        for port in hosted.ports.incoming.values():
            port.inbox.on_arrival = hosted.wake
        self._meet(hosted)
        for id_, out in hosted.ports.outgoing.items():
            if isinstance(out.way, RemoteChannel):
                out.way.on_credit = hosted.wake
            else:
                self.senders[id_] = (hosted, out.way)
        self.clients.add(hosted)
        self.rights.note(hosted)
        self.feeds.add(hosted)
        self.moves.add(hosted)
        self.checkpoints.add(hosted)
        hosted.ports.relay = self.fast_paths.relay(hosted)
        self.polls |= hosted.polls
        hosted.wake()
        self.telling.add(hosted)
        self.telling.tell(hosted)

    def _meet(self, hosted: InstanceHost) -> None:
        """What other processes say on its channels is heard."""
        self.network.incoming |= hosted.ports.remote
        self.network.channels |= {id_: out.way for id_, out in hosted.ports.outgoing.items() if isinstance(out.way, RemoteChannel)}

    def _part(self, hosted: InstanceHost) -> None:
        self.network.forget(hosted.ports.incoming, hosted.ports.outgoing)
        for id_ in (*hosted.ports.incoming, *hosted.ports.outgoing):
            self.inboxes.pop(id_, None)

    def _remove(self, hosted: InstanceHost) -> None:
        self.leaving = [each for each in self.leaving if each is not hosted]
        del self.hosted[hosted.key]
        hosted.ports.relay.leave()
        hosted.ports.relay = PLAIN  # a fast path refers to what has it
        if hosted.polls:
            self.polls = any(each.polls for each in self.hosted.values())
        self.ready.forget(hosted)
        self.telling.forget(hosted)
        self._part(hosted)
        for id_ in (*hosted.ports.incoming, *hosted.ports.outgoing):
            if self.senders.get(id_, (None,))[0] is hosted:
                del self.senders[id_]
        self.moves.redirects.give_up(hosted)
        self.clients.remove(hosted)
        self.feeds.remove(hosted)
        self.checkpoints.remove(hosted)
        self.moves.remove(hosted)
