"""Checkpoints of the instances at home here: what is asked of them, what they have taken, and what a commit lets go.

Each time that an instance tells the orchestrator something costs that and ZooKeeper two to three milliseconds of CPU. So the pieces of one
query here are told of together, with the last of them; an instance to which something comes all the time does not say that nothing has
come; and that an instance wants no checkpoint any more is told with what it tells next.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from cep.dataflow.operators.operator import KeepsBlocks
from cep.dataflow.outputs.sink import CommittedSink
from cep.elements import MIN_TIME, CheckpointBarrier, Fail, Stop
from cep.errors import ClusterError
from cep.plan.checkpoints import CheckpointNumber, piece_name
from cep.world.archive import Archive
from cep.world.clock import Clock
from instance_manager.clients.publishers import Publishers
from instance_manager.control.assignment_checks import Checkpointing
from instance_manager.hosting import HostRecovery, InstanceHost
from instance_manager.recovery.increments import needs_document
from instance_manager.recovery.kept import KeptChannel
from instance_manager.recovery.pieces import TakenPart, TakenState, bytes_of, kept_of, sinks_of, states_made, taken_of

LOG = logging.getLogger(__name__)

#: So much may wait for a commit at a subscription before it asks for one, whatever the interval.
EARLY_BYTES = 8 << 20
#: Likewise, of what was told at once since the last checkpoint: its client remembers it.
EARLY_TOLD_BYTES = 24 << 20
#: Of what publishers have sent and keep until a commit, so much makes an instance ask for one.
EARLY_RECEIVED_BYTES = 64 << 20
#: What has news again so soon is taken to have some all the time, until it has had none for as long.
QUIET_NS = 2_000_000_000

#: Does a piece of work beside the engine's thread.
Background = Callable[[Callable[[], None]], None]


def at_once(work: Callable[[], None]) -> None:
    work()


@dataclass(frozen=True, slots=True)
class PieceStored:
    """A piece is on the disk, or is not, as `document` says."""

    key: str
    attempt: int
    document: Mapping[str, Any]


class Checkpoints:
    """Used by the engine's thread, but for `stored`, which is called beside it with what is to be told there.

    Args:
        process: in whose name pieces are written.
        cpu_ns: of the thread that asks.
    """

    def __init__(
        self,
        clock: Clock,
        process: tuple[int, int],
        background: Background,
        stored: Callable[[PieceStored], None],
        publishers: Publishers,
        cpu_ns: Callable[[], int],
    ) -> None:
        self.cpu_ns = cpu_ns
        self.clock, self.process, self.background, self.stored, self.publishers = clock, process, background, stored, publishers
        self._there: dict[str, list[InstanceHost]] = {}  # by query, those that recover

    def add(self, hosted: InstanceHost) -> None:
        if hosted.recovery is not None:
            hosted.movement.checkpoint.on_taken = partial(self._take, hosted)
            self._there.setdefault(hosted.instance.query, []).append(hosted)

    def remove(self, hosted: InstanceHost) -> None:
        hosted.movement.checkpoint.on_taken = None
        query = hosted.instance.query
        if others := [each for each in self._there.pop(query, []) if each is not hosted]:
            self._there[query] = others

    def hear(self, hosted: InstanceHost, said: Checkpointing) -> None:
        """What stands in `/checkpoints/<query>`; of another attempt than the instance's it says nothing to it."""
        own, asked = hosted.recovery, said.asked.packed
        if own is None:
            return
        if said.asked.attempt == own.attempt:
            hosted.movement.checkpoint.go_on(asked - 1 if said.pauses else asked)
            if asked > own.asked:
                own.asked = asked
                if hosted.instance.sources and not hosted.instance.done:
                    hosted.movement.begin(CheckpointBarrier(asked, said.pauses))
        if said.committed.attempt == own.attempt:
            self._cover(hosted, said.committed.packed)

    def _cover(self, hosted: InstanceHost, number: int) -> None:
        for sink in sinks_of(hosted):
            sink.cover(number)
        for subscription in kept_of(hosted):
            subscription.cover(number)
        own = hosted.recovery
        assert own is not None
        if covered := [each for each in own.taken if each <= number]:
            self.publishers.cover(own.taken[max(covered)])
            own.taken = {each: taken for each, taken in own.taken.items() if each > number}

    def give_up(self, hosted: InstanceHost, element: Stop | Fail) -> None:
        """Its query is stopped or has failed for good: an end that no commit covers is none, and what is told of it waits for no client."""
        if hosted.recovery is not None:
            hosted.recovery.given_up = True
        for each in kept_of(hosted):
            each.end(element)
        for sink in sinks_of(hosted):
            if isinstance(element, Stop):
                sink.cover(None)

    def stepped(self, hosted: InstanceHost) -> None:
        """An instance that has ended has no Barriers, and adds to every later checkpoint what it was in the end."""
        own = hosted.recovery
        if own is None:
            return
        ended = hosted.instance.state == "ended" and not hosted.instance.outputs.blocked()  # all that it has put out has come so far
        if ended and own.asked > own.last:
            self._take(hosted, own.asked)
            for each in kept_of(hosted):
                each.send(CheckpointBarrier(own.asked), 0, MIN_TIME, MIN_TIME)
        waiting = _waiting(hosted) if ended or not own.news else ()  # this comes with every step of every instance
        own.covered = not ended or own.given_up or all(each.is_delivered for each in waiting)
        own.news = own.news or self._has_news(hosted, own, waiting)
        wants = own.pressing or any(map(_presses, kept_of(hosted))) or _received(hosted) - own.received > EARLY_RECEIVED_BYTES
        wants |= ended and any(each.is_new for each in waiting)
        own.calls += wants and not own.wants
        own.wants = wants

    def _has_news(self, hosted: InstanceHost, own: HostRecovery, waiting: Iterable[KeptChannel | CommittedSink]) -> bool:
        """Since the last one was taken. What its operators do with what has come in, be it by a clock, is none before it comes out."""
        if _come(hosted) != own.come or any(each.is_new for each in waiting):
            return True
        return self.publishers.taken(hosted) != own.taken_last

    def _take(self, hosted: InstanceHost, packed: int) -> None:
        """Its state stands still now."""
        own = hosted.recovery
        assert own is not None
        began = self.clock.steady_ns()
        if self._has_news(hosted, own, _waiting(hosted)):
            own.is_busy, own.had_news_ns = began - own.had_news_ns < QUIET_NS, began
        own.last, own.pressing, own.received = packed, False, _received(hosted)
        own.come, own.taken_last = _come(hosted), self.publishers.taken(hosted)
        own.taken[packed] = own.taken_last
        for sink in sinks_of(hosted):
            sink.stage_for(packed)
        taken: list[TakenState] = list(taken_of(hosted, packed))
        number = CheckpointNumber.unpacked(packed)
        tables = [each.part.blocks for each in taken if isinstance(each, TakenPart) and each.part.blocks]
        oldest = min([blocks.oldest for blocks in tables], default=packed)
        own.pieces = {each: piece for each, piece in own.pieces.items() if each >= oldest}
        taken.append(needs_document(own.pieces))
        took_us = (self.clock.steady_ns() - began) // 1000
        name = piece_name(number, hosted.instance.subquery, hosted.instance.index, self.process)
        document = {"number": list(number), "piece": name, "took_us": took_us, "oldest": list(CheckpointNumber.unpacked(oldest))}
        document["whole"] = not tables
        self.background(partial(self._write, own.archive, hosted.key, document, taken))

    def _write(self, archive: Archive, key: str, told: Mapping[str, Any], taken: Sequence[TakenState]) -> None:
        began = self.cpu_ns()
        document: dict[str, Any] = {**told, "crc": 0, "bytes": 0, "error": ""}
        try:
            document |= archive.write(document["piece"], bytes_of(states_made(taken)))._asdict()
        except ClusterError as error:
            document["error"] = str(error)
        except Exception as error:  # whatever it is: a checkpoint of which nobody says that it failed is waited for, and nothing comes out
            document["error"] = f"piece {document['piece']!r} cannot be made: {type(error).__name__}: {error}"
            LOG.exception("instance %r: piece %r cannot be made", key, document["piece"])
        document["wrote_us"] = (self.cpu_ns() - began) // 1000
        self.stored(PieceStored(key, document["number"][0], document))

    def note(self, hosted: InstanceHost, stored: PieceStored) -> None:
        """One that is not of the last number is too late."""
        own = hosted.recovery
        number = CheckpointNumber(*stored.document["number"]).packed
        if own is not None and own.attempt == stored.attempt and number == own.last:
            own.written = stored.document
            if stored.document["error"]:
                self._tell(hosted)
                return
            own.pieces[number] = stored.document["piece"], stored.document["crc"]
            for node in hosted.instance.nodes:
                if isinstance(node.stateful, KeepsBlocks):
                    node.stateful.stored(number)
            self._tell_together(hosted)

    def _tell_together(self, hosted: InstanceHost) -> None:
        """Of this one and of the others of its attempt here, when all have theirs."""
        last = _written(hosted)
        beside = [each for each in self._there[hosted.instance.query] if (each.epoch, each.attempt) == (hosted.epoch, hosted.attempt)]
        if all(_written(each) == last for each in beside):
            for each in beside:
                self._tell(each)

    def _tell(self, hosted: InstanceHost) -> None:
        own = hosted.recovery
        assert own is not None
        own.stored = own.written
        recently = own.is_busy and self.clock.steady_ns() - own.had_news_ns < QUIET_NS
        own.news = recently or self._has_news(hosted, own, _waiting(hosted))
        hosted.wake()


def _written(hosted: InstanceHost) -> list[int] | None:
    """The number of the last that is on the disk."""
    own = hosted.recovery
    return None if own is None or own.written is None else own.written["number"]


def _presses(subscription: KeptChannel) -> bool:
    """Should there be a checkpoint, for what it keeps or its client remembers?"""
    return subscription.behind_bytes > EARLY_BYTES or subscription.told_bytes > EARLY_TOLD_BYTES


def _come(hosted: InstanceHost) -> tuple[int, int]:
    """How often its sources were read, and how many subscriptions have come: queries that read it are known by its pieces alone."""
    return hosted.instance.intake.reads, sum(outlet.opened for outlet in hosted.outlets.values())


def _received(hosted: InstanceHost) -> int:
    """Bytes that have come of publishers."""
    return sum(entry.account.bytes for entry in hosted.entries.values())


def _waiting(hosted: InstanceHost) -> list[KeptChannel | CommittedSink]:
    """What keeps something for a commit."""
    return [*kept_of(hosted), *sinks_of(hosted)]
