"""What should be true, from ZooKeeper, to the loop; what is true, from the loop, to ZooKeeper (docs/rules.md).

Everything is a word in one mailbox: of the connection, of watches, of the loop. `turn` takes those that have come and does one round: it
writes what is unwritten, reads the assignments that they are about, all at once, and asks the loop for what is missing. It does not wait,
and knows no thread. It is level-triggered: what could not be done stays to be done. On SUSPENDED everything goes on; when it is connected
again the registration and the statuses, which are ephemeral, are written again, and all assignments read.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from cep.compile.user.functions import error_text
from cep.config import InstanceManagerConfig, query_of_node
from cep.dataflow.reports import notes_of
from cep.errors import ProtocolError
from cep.model.limits import CAUSE_CHARS_MAX
from cep.plan.physical import PhysicalPlan
from cep.service.key_nodes import KeyNodes
from cep.service.logs import about
from cep.service.mark import Slot, label_of
from cep.transport.keyring import Keyring
from cep.world.coordination import Connection, ConnectionLost, Coordination
from cep.world.mailbox import Mailbox
from instance_manager.control.asked_nodes import AskedNodes
from instance_manager.control.assignment_checks import Assignment
from instance_manager.control.building import ReadPieces, built
from instance_manager.control.commands import (
    AddInstance,
    Command,
    Confirm,
    DrainInstance,
    ExpectInstance,
    ExpectNoMore,
    FailInstance,
    HearCheckpoints,
    InstanceCommand,
    RemoveInstance,
    RunInstance,
    StopInstance,
)
from instance_manager.control.obligations import Obligations
from instance_manager.control.own_nodes import OwnNodes, cut, status_of
from instance_manager.hosting import InstanceHost, Preparation

LOG = logging.getLogger(__name__)
_AGAIN_S = 1.0  # between attempts at what could not be done, while it is connected
#: So soon after one change come the others of its transaction, one for each instance; to read them in one go costs half.
BURST_S, BURST_WORDS = 0.0005, 256


@dataclass(frozen=True, slots=True)
class AssignmentChanged:
    """An assignment that was read has changed since."""

    key: str


@dataclass(frozen=True, slots=True)
class ListingChanged:
    """Assignments have come or gone."""


@dataclass(frozen=True, slots=True)
class CheckpointsChanged:
    """What is asked or committed of the checkpoints of a query has."""

    query: str


@dataclass(frozen=True, slots=True)
class StatusChanged:
    """The loop says how it is with an instance."""

    key: str
    status: dict[str, Any]


@dataclass(frozen=True, slots=True)
class KeysChanged:
    """Other keys may speak."""


@dataclass(frozen=True, slots=True)
class LoopIsBack:
    """The loop was away for so long that it may count as dead, and waits for Confirm."""


@dataclass(frozen=True, slots=True)
class CloseControl:
    """The end."""


ControlWord = Connection | AssignmentChanged | CheckpointsChanged | ListingChanged | StatusChanged | KeysChanged | LoopIsBack | CloseControl


class Control:
    """`ask`, `report`, `loop_is_back` and `close` may be called from any thread.

    Args:
        facts: what this instance manager registers: host, pid, node, core, endpoint, binding.
        ask: asks the loop.
        rekey: gives our sockets other keys; None: they have none.
    """

    def __init__(
        self,
        config: InstanceManagerConfig,
        facts: dict[str, Any],
        preparation: Preparation,
        ask: Callable[[Command], None],
        slot: Slot,
        coordination: Coordination,
        rekey: Callable[[Keyring], None] | None = None,
    ) -> None:
        self.mailbox: Mailbox[ControlWord] = Mailbox()
        self.obligations = Obligations(config.id, (facts["pid"], facts["started"]))
        self._preparation, self._ask, self._slot, self._coordination = preparation, ask, slot, coordination
        self._own, self._host = OwnNodes(coordination, config.id, facts), config.cluster.host
        self._asked = AskedNodes(coordination, config.id, self._on_listing, self._on_assignment, self._on_checkpoint)
        self._connected = self._to_register = self._to_look = self._to_confirm = False
        self._watched: set[str] = set()  # assignments as they were read have not changed since
        self._to_read: set[str] = set()
        self._recovering: set[str] = set()  # the queries here that recover
        self._to_hear: set[str] = set()  # those of which the checkpoints are to be read
        self._withdrawn: set[str] = set()  # what is to go, when what comes in the place of others is there
        self._waiting: dict[str, tuple[InstanceHost, list[InstanceCommand]]] = {}  # those, and what they are to be told
        self._failed = False
        self._rekey, self._keys = rekey, KeyNodes(coordination, self._on_keys)
        self._keyring: Keyring | None = None  # that our sockets have
        self._to_read_keys = False

    # --- for others

    def begin(self) -> None:
        """Connects as soon as ZooKeeper is there."""
        self._coordination.start(self.mailbox.put)

    def close(self) -> None:
        """Its next turn is the last."""
        self.mailbox.put(CloseControl())

    def report(self, hosted: InstanceHost) -> None:
        """A new state of an instance; from the loop's thread."""
        self.mailbox.put(StatusChanged(hosted.key, status_of(hosted)))
        if hosted.traceback:
            told = hosted.about(exception=hosted.traceback)
            LOG.error("%s failed: %s", hosted.instance.name, cut(hosted.instance.cause), extra=told)

    def loop_is_back(self) -> None:
        """It was away for longer than its lease; what it is asked from now on is what should be true now, and then it is told so."""
        self.mailbox.put(LoopIsBack())

    def _on_listing(self, path: str) -> None:
        self.mailbox.put(ListingChanged())

    def _on_assignment(self, path: str) -> None:
        self.mailbox.put(AssignmentChanged(unquote(path.rpartition("/")[2])))

    def _on_checkpoint(self, path: str) -> None:
        self.mailbox.put(CheckpointsChanged(unquote(path.rpartition("/")[2])))

    def _on_keys(self) -> None:
        self.mailbox.put(KeysChanged())

    # --- a turn

    def turn(self, words: Iterable[ControlWord]) -> bool:
        """One round with what has come. Is there to be another?"""
        for word in words:
            if isinstance(word, CloseControl):
                self._coordination.close()
                return False
            self._note(word)
        self._failed = False
        if self._connected:
            try:
                self._work()
            except ConnectionLost:
                self._failed = True
                LOG.warning("ZooKeeper is away")
            except Exception:
                self._failed = True
                LOG.error("control: %s", traceback.format_exc())
        return True

    @property
    def patience_s(self) -> float | None:
        """So long the next turn has time, if no word comes before; None: for ever."""
        return _AGAIN_S if self._failed and self._connected else None

    def _note(self, word: ControlWord) -> None:
        match word:
            case Connection():
                self._connected = word is Connection.CONNECTED
                self._to_register |= self._connected
                self._to_read_keys |= self._connected
            case StatusChanged(key, status):
                now = self.obligations.obeyed.get(key)
                if now is not None and (status["epoch"], status.get("attempt", 0)) >= (now.epoch, now.attempt):
                    self._own.say(key, status)  # else it is of one that is about to go
            case AssignmentChanged(key):
                self._to_read.add(key)
            case CheckpointsChanged(query):
                self._to_hear.add(query)
            case ListingChanged():
                self._to_look = True
            case KeysChanged():
                self._to_read_keys = True
            case LoopIsBack():
                self._to_look = self._to_confirm = True
                self._watched.clear()

    def _work(self) -> None:
        """Together, for each by itself would cost round trips. What has been done is not to be done any more."""
        if self._to_read_keys and self._rekey is not None:
            self._take_keys(self._rekey)
        if self._to_register:
            self._own.register(self.obligations.refused)
            self._watched.clear()
            self._to_hear |= self._recovering
            self._to_register, self._to_look = False, True
        if not self._own.is_written:
            self._own.write()
        if self._to_look:
            self._look()
            self._own.write()
        if self._to_read:
            self._read(self._to_read)
        self._remove_withdrawn()
        if self._to_hear:
            self._hear(self._to_hear)
        if self._to_confirm:
            self._to_confirm = False
            self._ask(Confirm())
        self._own.register_refused(self.obligations.refused)

    def _remove_withdrawn(self) -> None:
        """But for what works on until others of its query have come home."""
        relieved = {query_of_node(key) for key in self._waiting}
        for key in sorted(key for key in self._withdrawn if query_of_node(key) not in relieved):
            self._withdrawn.discard(key)
            self._ask(RemoveInstance(key))

    def _take_keys(self, rekey: Callable[[Keyring], None]) -> None:
        """Before anything else: whoever speaks to us has them, or is none of ours."""
        found = self._keys.read()
        self._to_read_keys = False
        if found is not None and found != self._keyring:
            rekey(found)
            self._keyring = found

    def _look(self) -> None:
        """Which assignments there are; those that are not watched are to be read."""
        there = self._asked.keys()
        self._watched &= there
        self._to_read = there - self._watched | self._to_read & there
        gone = self.obligations.withdrawn(there)
        self._withdrawn.update(gone)
        for key in gone:
            self._expect_no_more(key)
        self._own.forget(gone)
        self._to_look = False

    def _here(self, cause: str) -> str:
        """With the host, where there are several: a file is read on each reader's own."""
        return f"on host {self._host!r}: {cause}" if self._host else cause

    def _read(self, keys: set[str]) -> None:
        """Everything that is to be read first; then obeys them, one by one: what is wrong with one harms no other."""
        found = self._asked.assignments(keys)
        changed = self.obligations.understood(found)
        fresh = {key: now for key, now in changed.items() if self.obligations.is_new(key, now)}
        plans = self._asked.plans({now.query for now in fresh.values()}) if fresh else {}
        streams = {name for plan in plans.values() if isinstance(plan, PhysicalPlan) for name in plan.streams}
        publishers = self._asked.publishers(streams) if streams else {}
        wanted = self.obligations.tables_wanted(changed)
        tables = self._asked.tables(wanted) if wanted else {}
        self._watched -= keys  # of one that was withdrawn nothing tells that it is there again, but the listing
        self._watched |= {key for key, document in found.items() if not isinstance(document, ProtocolError)}
        self._to_read = set()
        pieces = ReadPieces()
        for key, now in fresh.items():
            self._expect_no_more(key)
            hosted = self._made(key, now, plans.get(now.query), publishers, pieces)
            if hosted is not None and now.relieves:
                self._expect(hosted)
            elif hosted is not None:
                self._bring_home(hosted)
        for key, now in changed.items():
            for command in self.obligations.obey(key, now, tables.get(now.query, {})):
                self._tell(command)

    def _expect(self, hosted: InstanceHost) -> None:
        """It comes home when all of its attempt are there, and what is to be told to it waits; meanwhile the one before it works on."""
        self._waiting[hosted.key] = hosted, []
        self._ask(ExpectInstance(hosted))
        self.mailbox.put(StatusChanged(hosted.key, status_of(hosted)))

    def _expect_no_more(self, key: str) -> None:
        if key in self._waiting:
            self._ask(ExpectNoMore(self._waiting.pop(key)[0]))

    def _tell(self, command: InstanceCommand) -> None:
        if command.key not in self._waiting:
            self._ask(command)
            return
        hosted, commands = self._waiting[command.key]
        commands.append(command)
        if isinstance(command, RunInstance | DrainInstance | StopInstance | FailInstance):
            del self._waiting[command.key]
            self._bring_home(hosted)
            for each in commands:
                self._ask(each)

    def _hear(self, queries: set[str]) -> None:
        """What is asked and committed of checkpoints, to all instances of these queries here."""
        self._recovering &= {now.query for now in self.obligations.obeyed.values()}
        found = self._asked.checkpoints(queries & self._recovering)
        self._to_hear = set()
        for key, now in self.obligations.obeyed.items():
            said = found.get(now.query)
            if isinstance(said, ProtocolError):
                self.obligations.refuse(key, said)
            elif said is not None:
                self._tell(HearCheckpoints(key, said))

    def _made(
        self,
        key: str,
        now: Assignment,
        plan: PhysicalPlan | ProtocolError | None,
        publishers: Mapping[str, list[str]],
        pieces: ReadPieces,
    ) -> InstanceHost | None:
        """None: it cannot be."""
        if key in self.obligations.obeyed and not now.relieves:
            self._withdrawn.discard(key)
            self._ask(RemoveInstance(key))  # its memory is wanted
        self._slot.enter(label_of(now.query, now.subquery, now.instance, ()))
        try:
            hosted = built(self._preparation, now, plan, publishers, pieces)
        except Exception as error:  # what cannot be built is that query's failure
            LOG.exception("%s cannot be built", key, extra=about(now.query, f"{now.subquery}/{now.instance}"))
            status = {"epoch": now.epoch, "state": "failed", "cause": cut(self._here(error_text(error, CAUSE_CHARS_MAX))), "rows": {}}
            status |= {"step": now.move.step if now.move is not None else 0, "attempt": now.attempt}
            self.mailbox.put(StatusChanged(key, status))
            self._withdrawn.add(key)
            return None
        finally:
            self._slot.leave()
        return hosted

    def _bring_home(self, hosted: InstanceHost) -> None:
        """In the place of what is there under its name."""
        self._withdrawn.discard(hosted.key)
        for note in notes_of(hosted.instance):
            LOG.warning("%s: %s", hosted.instance.name, note, extra=hosted.about())
        if hosted.recovery is not None:
            self._recovering.add(hosted.instance.query)
            self._to_hear.add(hosted.instance.query)
        self._ask(AddInstance(hosted))
