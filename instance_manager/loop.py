"""The main loop: receive · process · emit · park. One thread runs it; everything of the engine happens here."""

from __future__ import annotations

import gc
import math
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from cep import wire
from cep.compile.user_functions import error_text
from cep.dataflow.channel import Inbox, LocalChannel
from cep.dataflow.meter import Account, Meter
from cep.dataflow.relocation import base_of
from cep.elements import Barrier, Fail, Stop
from cep.mark import SINCE, Mark, Slot
from cep.model.limits import CAUSE_CHARS_MAX
from cep.transport import Sockets
from cep.wire import Header
from instance_manager.clients import SILENCE_S, Clients
from instance_manager.feeds import Feeds
from instance_manager.hosting import Hosted
from instance_manager.moves import Moves
from instance_manager.network import Network, RemoteChannel, RemoteInbox
from instance_manager.ready import Ready
from instance_manager.short_way import ShortWays

SLICE_NS = 5_000_000
POLL_NS = 1_000_000  # how long the loop waits awake where a query asks for it
TICK_NS = 100_000_000

Report = Callable[[Hosted], None]


@dataclass(frozen=True, slots=True)
class Command:
    """What the control thread asks of the loop, for one instance: add | run | drain | stop | fail | remove | subscribe | lose | reroute |
    move. Or, for none, confirm: what should be true has been read since it was away."""

    verb: str
    key: str
    hosted: Hosted | None = None
    cause: str = ""
    subquery: str = ""
    instance: int | None = None
    subscriptions: Sequence[dict[str, Any]] = ()
    lost: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, Barrier] = field(default_factory=dict)  # subquery -> its new table of buckets
    move: Mapping[str, Any] | None = None  # of an instance of its query


class Loop:
    """Runs the subquery instances of this process until `stopping`."""

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
    ) -> None:
        self.sockets, self.report, self.on_tick = sockets, report, on_tick
        self.slot = slot or Mark.open(None).loop
        self.meter = Meter(time.perf_counter_ns, self.slot.words)
        self.account, self.idle = Account(), Account()  # what belongs to no instance; what was slept
        self.clients = Clients(sockets, budget_bytes, silence_s)
        self.network = Network(sockets, self._on_control, self.clients.published, self._on_broken, self.meter)
        self.feeds = Feeds(self.network)
        self.short_ways = ShortWays(sockets, self.clients, self.meter)
        self.network.passed_by = self.short_ways.entered
        self.clients.leave_short_way = self.short_ways.leave
        self.lease_s, self.on_return = lease_s, on_return
        self.turned = time.monotonic()
        self.in_doubt = False  # whether it still counts as alive
        self.asked = threading.Event()
        self.hosted: dict[str, Hosted] = {}
        self.ready = Ready()
        self.senders: dict[tuple[str, int], tuple[Hosted, LocalChannel]] = {}  # by channel, of those that end in this process
        self.leaving: list[Hosted] = []  # over and withdrawn, but not read to the end
        self.commands: deque[Command] = deque()
        self.inboxes: dict[tuple[str, int], Inbox] = {}  # by channel name and epoch, for both ends in this process
        self.moves = Moves(self.network, self.clients, self.inboxes, self.senders)
        self.stopping = self.polls = False
        self._next_tick = 0

    def run(self) -> None:
        self.slot.begin()
        while not self.stopping:
            if self._was_away():
                self._await_confirmation()
            elif not self.turn():
                self.meter.charge(self.account)
                self.short_ways.meanwhile = self.idle
                self._park()
                self.meter.charge(self.idle)
                self.short_ways.meanwhile = self.account

    def _park(self) -> None:
        """Until there is something to do, at most until the next tick; as the most eager of the queries here asks (ISE 4.3)."""
        if self.polls and self.sockets.poll(POLL_NS):
            return
        # Rounded up: what is less than a millisecond would be spent awake, and others want the core.
        self.sockets.park(max(0, -((time.monotonic_ns() - self._next_tick) // 1_000_000)))

    def _was_away(self) -> bool:
        """Who was away for longer than its session with ZooKeeper may count as dead, and its queries as failed. Before that is known it
        gives out nothing: an end that nobody else believes in looks complete."""
        now, before = time.monotonic(), self.turned
        self.turned = now
        if now - before > self.lease_s and not self.in_doubt and self.hosted:
            self.in_doubt = True
            self.on_return()
        return self.in_doubt

    def _await_confirmation(self) -> None:
        """Until the control thread has read what should be true; who is to fail fails first. Who waits comes round, and is not held."""
        self.slot.words[SINCE] = time.monotonic_ns()
        self.asked.wait(TICK_NS / 1e9)
        self.asked.clear()
        self._obey()

    def turn(self) -> bool:
        """Receive · process · emit. Is there more to do, whatever comes meanwhile?"""
        self.network.receive()
        self._obey()
        self._emit(self._process())
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

    def inbox(self, name: str, epoch: int) -> Inbox:
        """The receiving end of a channel of one deployment, the same for whoever asks first."""
        return self.inboxes.setdefault((name, epoch), Inbox(name, 0, epoch))

    # process

    def _process(self) -> list[Hosted]:
        """A slice to each instance that has something to do; an idle one is not looked at."""
        stepped = self.ready.take(self.hosted)
        for hosted in stepped:
            if self._step(hosted) and not hosted.instance.exhausted:
                self.ready.wake(hosted.key)
        return stepped

    def _step(self, hosted: Hosted) -> bool:
        end = self.slot.enter(hosted.label) + SLICE_NS
        self.short_ways.leave(hosted)
        self.meter.charge(self.account)
        try:
            moved = hosted.instance.step(lambda: time.monotonic_ns() > end)
            if hosted.departure is not None:
                moved |= hosted.departure.pump()
        except BaseException as error:  # whatever an operator does wrong is its query's failure, also SystemExit; others go on
            hosted.traceback = traceback.format_exc()
            hosted.instance.fail(error_text(error, CAUSE_CHARS_MAX))
            moved = True
        if moved:
            self.meter.charge(hosted.instance.account)
        self._tell(hosted)
        self.slot.leave()
        return moved

    def _tell(self, hosted: Hosted) -> None:
        """Reports a new state, an end only when all that it means has been sent."""
        state = hosted.instance.state
        if state == "ready" and any(attachment.source.expected for attachment in hosted.attachments):
            return  # it would miss what comes out meanwhile
        told = state, hosted.table_version, hosted.step
        if told != hosted.reported and not (hosted.instance.done and any(o.blocked for o in hosted.instance.outputs)):
            hosted.reported = told
            if hosted.instance.done:
                self.on_tick(self, True)
            self.report(hosted)

    # emit

    def _emit(self, stepped: Sequence[Hosted]) -> None:
        """Credit, and watermarks that have risen, go back to those who sent what has been taken."""
        for hosted in stepped:
            if hosted.remotes:
                self.network.emit(hosted.remotes)
            if hosted.entries:
                self.clients.emit(hosted)
            for name in (*hosted.inboxes, *hosted.channels):
                sender = self.senders.get((name, hosted.epoch))
                if sender is not None and sender[1].settle():
                    self.ready.wake(sender[0].key)
            self.short_ways.enter(hosted)
        self.meter.charge(self.network.account)

    def _tick(self) -> None:
        now = time.monotonic_ns()
        self.slot.words[SINCE] = now
        if now < self._next_tick:
            return
        self._next_tick = now + TICK_NS
        for hosted in self.ready.untold():
            if not self.short_ways.leads_around(hosted):
                hosted.instance.tick()
        self.clients.tick()
        self.feeds.tick()
        for hosted in [each for each in self.leaving if not self.clients.unread(each)]:
            self._remove(hosted)
        self.on_tick(self, False)

    @contextmanager
    def settled(self) -> Iterator[None]:
        """Everything that is counted is where it is looked for, and who has passed something on is to be reported."""
        passed = self.short_ways.leave_all()
        for hosted in passed:
            self.ready.report(hosted)
        yield
        for hosted in passed:
            self.short_ways.enter(hosted)

    # messages

    def _on_control(self, header: Header, body: Any) -> None:
        """Of a client; or of an instance that feeds one here, which is told by what it says or by whom it says it to."""
        if header.kind == wire.SUBSCRIBED or (header.kind == wire.UNSUBSCRIBE and not self.clients.knows(header.channel)):
            self.feeds.handle(header, body)
        elif header.kind not in (wire.OPEN, wire.CLOSE) or not self.moves.redirects.handle(header, body):
            self.clients.handle(header, body)

    def _on_broken(self, channel: str, error: Exception) -> None:
        for hosted in self.hosted.values():
            if channel in hosted.inboxes:
                hosted.instance.fail(f"{type(error).__name__}: {error}")
                hosted.wake()

    # commands

    def _obey(self) -> None:
        added = False
        while self.commands:
            command = self.commands.popleft()
            added |= command.verb == "add"
            hosted = command.hosted or self.hosted.get(command.key)
            if command.verb == "confirm":
                self.in_doubt = False
            elif hosted is not None:
                self.slot.enter(hosted.label)
                self._do(command, hosted)
                self.slot.leave()
        if added:
            # What was made for them lives as long as they do, and a full collection would walk it, too. Whoever leaves is freed because
            # nobody knows him any more; so nothing that he has may lead back to him. What is garbage by now would stay for ever.
            gc.collect()
            gc.freeze()

    def _do(self, command: Command, hosted: Hosted) -> None:
        try:
            if command.verb == "add":
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

    def _change(self, command: Command, hosted: Hosted) -> None:
        instance = hosted.instance
        self.short_ways.leave(hosted)
        hosted.wake()
        match command.verb:
            case "subscribe" if instance.arriving:
                hosted.wanted += command.subscriptions
            case "run" | "drain" | "reroute" if instance.arriving:
                hosted.to_drain |= command.verb == "drain"  # the rest is so where it comes from, and comes with it
            case "move":
                self.moves.ask(hosted, command.move)
            case "run" if instance.state == "ready":
                instance.state = "running"
                self._tell(hosted)  # before its first slice, together with the others of its query
            case "drain":
                instance.drain()
            case "stop":
                instance.close(Stop(), "stopped")
            case "fail":
                instance.close(Fail(command.subquery, command.instance, command.cause), "failed", command.cause)
            case "reroute":
                for head, barrier in command.tables.items():
                    instance.reroute(head, barrier)
            case "subscribe":
                self.clients.subscribe_all(hosted, command.subscriptions)
            case "lose":
                for attachment in hosted.attachments:
                    if attachment.source.stream in command.lost:
                        attachment.source.lose(command.lost[attachment.source.stream])
            case "remove" if self.clients.unread(hosted):
                self.leaving.append(hosted)  # its readers are still at it; those that are gone are noticed by their silence
            case "remove":
                self._remove(hosted)

    def _add(self, hosted: Hosted) -> None:
        if hosted.key in self.hosted:
            self._remove(self.hosted[hosted.key])
        self.hosted[hosted.key] = hosted
        hosted.wake = partial(self.ready.wake, hosted.key)
        for name, (inbox, wire_format, endpoint) in hosted.inboxes.items():
            inbox.on_arrival = hosted.wake
            if endpoint is not None:
                remote = RemoteInbox(inbox, wire_format, endpoint, hosted.receiving(name), base_of(name) in hosted.paced)
                self.network.inboxes[wire.name_id(name)] = hosted.remotes[wire.name_id(name)] = remote
        for name, channel in hosted.channels.items():
            if isinstance(channel, RemoteChannel):
                self.network.channels[wire.name_id(name)] = channel
                channel.on_credit = hosted.wake
            else:
                self.senders[name, hosted.epoch] = (hosted, channel)
        self.clients.add(hosted)
        self.feeds.add(hosted)
        self.moves.add(hosted)
        self.short_ways.add(hosted)
        self.polls |= hosted.polls
        hosted.wake()
        self._tell(hosted)

    def _remove(self, hosted: Hosted) -> None:
        self.leaving = [each for each in self.leaving if each is not hosted]
        del self.hosted[hosted.key]
        self.short_ways.remove(hosted)
        if hosted.polls:
            self.polls = any(each.polls for each in self.hosted.values())
        self.ready.forget(hosted)
        self.network.forget(map(wire.name_id, hosted.inboxes), map(wire.name_id, hosted.channels))
        for name in (*hosted.inboxes, *hosted.channels):
            self.inboxes.pop((name, hosted.epoch), None)
            if self.senders.get((name, hosted.epoch), (None,))[0] is hosted:
                del self.senders[name, hosted.epoch]
        self.moves.redirects.give_up(hosted)
        self.clients.remove(hosted)
        self.feeds.remove(hosted)
        self.moves.remove(hosted)
