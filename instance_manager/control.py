"""What should be true, from ZooKeeper; what is true, to ZooKeeper (DESIGN §2, §8).

One thread of our own does all ZooKeeper work: kazoo's callbacks only put a word on its queue. It is level-triggered: it takes all words
that have come, reads the assignments that they are about, all at once, and asks the loop for what is missing. On SUSPENDED everything
goes on; after a new session (LOST, then CONNECTED) the registration and the statuses, which are ephemeral, are written again.
"""

from __future__ import annotations

import json
import logging
import queue
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from kazoo.client import KazooState
from kazoo.exceptions import ConnectionLoss, KazooException, NodeExistsError, NoNodeError, SessionExpiredError
from kazoo.protocol.states import WatchedEvent

from cep.compile.user_functions import error_text
from cep.config import InstanceManagerConfig, node, transactions
from cep.elements import Barrier
from cep.errors import CepError, ProtocolError
from cep.mark import Slot, label_of
from cep.model.limits import CAUSE_CHARS_MAX
from cep.plan.physical import PhysicalPlan, Worker
from cep.zookeeper import connect, outcome
from instance_manager.accounts import steps
from instance_manager.asked import check_assignment, cut, decoded, plan_of, tables_of
from instance_manager.hosting import Hosted, Preparation, is_arriving
from instance_manager.loop import Command
from instance_manager.straight_line import prepare

LOG = logging.getLogger(__name__)
_GONE = (ConnectionLoss, SessionExpiredError)
#: So soon after one change come the others of its transaction, one for each instance; to read them in one go costs half.
_BURST_S, _BURST_WORDS = 0.0005, 256
_REFUSED_SHOWN_MAX, _REASON_CHARS_MAX = 100, 1000
_AGAIN_S = 1.0  # while the loop waits for our word


@dataclass(frozen=True, slots=True)
class Changed:
    """An assignment that was read has changed since."""

    key: str


Word = str | Changed | tuple[str, dict[str, Any]]


class Control(threading.Thread):
    """`facts` is what this instance manager registers: host, pid, node, core, endpoint, binding."""

    def __init__(
        self, config: InstanceManagerConfig, facts: dict[str, Any], preparation: Preparation, ask: Callable[[Command], None], slot: Slot
    ) -> None:
        super().__init__(name="control", daemon=True)
        self.config, self.facts, self.preparation, self.ask, self.slot = config, facts, preparation, ask, slot
        self.words: queue.Queue[Word] = queue.Queue()
        self.was_away = False  # the loop waits for our word that it still counts as alive
        self.read: dict[str, dict[str, Any]] = {}  # assignments as last read, under a watch
        self.known: dict[str, dict[str, Any]] = {}  # assignments as last obeyed
        self.statuses: dict[str, dict[str, Any]] = {}
        self.written: set[str] = set()  # those whose status node is there, in this session
        self.process = [facts["pid"], facts["started"]]  # ours alone: what another of our id was asked is not for us
        self.refused: dict[str, str] = {}  # assignments that make no sense -> why
        self.told_refused: dict[str, str] = {}  # those of them that the registration names
        cluster = config.cluster
        self.client = connect(cluster.zookeeper, cluster.session_timeout_s, cluster.zookeeper_secret, commands_tried=3)

    def run(self) -> None:
        self.slot.begin()
        self.client.add_listener(self._on_state)
        self.client.start_async()  # whenever ZooKeeper is there the listener says "register"
        while "close" not in (words := self._next()):
            self._try(words)
        self.client.stop()
        self.client.close()

    def _next(self) -> list[Word]:
        """All words that have come; waits for one, and a moment longer for what was written together with it. Where all could not be
        read when the loop was back, it waits for our word: then that is tried again."""
        try:
            words = [self.words.get(timeout=_AGAIN_S if self.was_away else None)]
        except queue.Empty:
            return ["back"]
        with suppress(queue.Empty):
            while len(words) < _BURST_WORDS:
                words.append(self.words.get(timeout=_BURST_S))
        return words

    def close(self) -> None:
        self.words.put("close")
        self.join(timeout=5)

    def report(self, hosted: Hosted) -> None:
        """A new state of an instance; from the loop's thread."""
        rows = {output.name: output.rows for output in hosted.instance.outputs}
        status = {"epoch": hosted.epoch, "state": hosted.instance.state, "cause": cut(hosted.instance.cause), "rows": rows}
        status |= {"table": hosted.table_version, "step": hosted.step}
        if hosted.instance.state == "failed":
            status["failed_at"] = hosted.instance.failed_at
        if hosted.instance.done:
            status["operators"] = [step.to_json() for step in steps(hosted)]
        self.words.put((hosted.key, status))
        if hosted.traceback:
            LOG.error("%s failed:\n%s", hosted.instance.name, hosted.traceback)

    def _on_state(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            self.words.put("register")

    def _try(self, words: list[Word]) -> None:
        try:
            self._do(words)
        except _GONE:
            # The connection is away; when it is back the listener says "register", which writes all that is true anew.
            LOG.warning("ZooKeeper is away; %d words wait", len(words))
        except Exception:
            LOG.error("control: %s", traceback.format_exc())

    def _do(self, words: list[Word]) -> None:
        """Together, for each by itself would cost round trips."""
        statuses = dict(word for word in words if isinstance(word, tuple))
        self.statuses |= statuses
        changed = {word.key for word in words if isinstance(word, Changed)}
        for key in changed:
            self.read.pop(key, None)
        self.was_away |= "back" in words
        if "register" in words or "back" in words:
            self.read.clear()
        if "register" in words:
            self._register()
        elif statuses:
            self._write_statuses(statuses)
        if "register" in words or "look" in words or "back" in words:
            self._look()
            self._confirm()
        elif changed:
            self._read_anew(changed)
        if self.refused != self.told_refused:
            self._register_facts()

    def _confirm(self) -> None:
        """All assignments have been read as they are now; what they ask of the loop it has been asked before this."""
        if self.was_away:
            self.was_away = False
            self.ask(Command("confirm", ""))

    # What is true

    def _register(self) -> None:
        self._register_facts()
        self.client.ensure_path(node("assignments", self.config.id))
        self.client.ensure_path(node("status", self.config.id))
        self.written.clear()
        self._write_statuses(self.statuses)

    def _register_facts(self) -> None:
        self.told_refused = dict(self.refused)
        shown = dict(sorted(self.refused.items())[:_REFUSED_SHOWN_MAX])
        self._write_ephemeral(node("ims", self.config.id), self.facts | ({"refused": shown} if shown else {}))

    def _write_statuses(self, statuses: Mapping[str, dict[str, Any]]) -> None:
        """In transactions, all under way at once; if one cannot be written as it is, each of its statuses is written by itself."""
        writes = [(key, node("status", self.config.id, key), json.dumps(status).encode()) for key, status in statuses.items()]
        for together, answer in [(together, self._transaction(together)) for together in transactions(writes)]:
            if any(isinstance(result, KazooException) for result in answer.get()):
                for key, path, _ in together:
                    self._write_ephemeral(path, statuses[key])
            self.written.update(key for key, *_ in together)

    def _transaction(self, writes: Iterable[tuple[str, str, bytes]]) -> Any:
        transaction = self.client.transaction()
        for key, path, data in writes:
            if key in self.written:
                transaction.set_data(path, data)
            else:
                transaction.create(path, data, ephemeral=True)
        return transaction.commit_async()

    def _write_ephemeral(self, path: str, document: dict[str, Any]) -> None:
        """Ours, whatever is there: a node of an older session of ours is replaced, not updated, for it is about to vanish."""
        data = json.dumps(document).encode()
        try:
            self.client.create(path, data, ephemeral=True, makepath=True)
        except NodeExistsError:
            stat = self.client.exists(path)
            if stat is not None and stat.ephemeralOwner != self.client.client_id[0]:
                self.client.delete(path)
                self.client.create(path, data, ephemeral=True)
            else:
                self.client.set(path, data)

    # What should be true

    def _look(self) -> None:
        """Reads which assignments there are, and those that were not read yet."""
        keys = set(map(unquote, self.client.get_children(node("assignments", self.config.id), watch=self._on_change)))
        self._forget(sorted(self.known.keys() - keys))
        self.refused = {key: why for key, why in self.refused.items() if key in keys}
        self.read = {key: document for key, document in self.read.items() if key in keys}
        self._read_anew(keys - self.read.keys())

    def _read_anew(self, keys: Iterable[str]) -> None:
        """All at once, for each is a round trip; then obeys them, one by one: what is wrong with one harms no other."""
        there = dict(self._values({key: node("assignments", self.config.id, key) for key in sorted(keys)}, self._on_data))
        found = {key: document for key, document in there.items() if self._makes_sense(key, document)}
        self.read |= found
        found = {key: document for key, document in found.items() if document["process"] == self.process}
        fresh = {key: document for key, document in found.items() if self._is_new(key, document)}
        documents = self._values({document["query"]: node("plans", document["query"]) for document in fresh.values()})
        plans = {query: document if isinstance(document, ProtocolError) else plan_of(document) for query, document in documents}
        publishers = self._publishers({name for plan in plans.values() if isinstance(plan, PhysicalPlan) for name in plan.streams})
        for key, document in fresh.items():
            self.slot.enter(label_of(document["query"], document["subquery"], document["instance"], ()))
            try:
                self._deploy(key, document, plans.get(document["query"]), publishers)
            finally:
                self.slot.leave()
        for key, document in found.items():
            before = self.known.get(key, {})
            if before != document:
                self.known[key] = document
                self._try_to_oblige(key, document, before)

    def _makes_sense(self, key: str, document: Any) -> bool:
        try:
            if isinstance(document, ProtocolError):
                raise document
            check_assignment(key, document)
        except CepError as error:
            self._refuse(key, error)
            return False
        self.refused.pop(key, None)
        return True

    def _try_to_oblige(self, key: str, document: dict[str, Any], before: dict[str, Any]) -> None:
        try:
            self._oblige(key, document, before)
        except _GONE:
            # Only its tables are read, so what comes before them has been asked; they and what follows are when ZooKeeper is back.
            self.known[key] = document | {name: before.get(name, nothing) for name, nothing in (("tables", {}), ("subscriptions", ()))}
            raise
        except Exception as error:  # whatever it is that cannot be done for it
            self._refuse(key, error)

    def _refuse(self, key: str, error: Exception) -> None:
        """What was deployed by an earlier word of it goes on."""
        self.refused[key] = f"{type(error).__name__}: {error}"[:_REASON_CHARS_MAX]
        LOG.error("%s is not obeyed: %s", key, self.refused[key])

    def _values(self, paths: Mapping[str, str], watch: Callable[[WatchedEvent], None] | None = None) -> Iterator[tuple[str, Any]]:
        """(name, what is in the node of that name; None: no JSON; ProtocolError: it is not for us to read), of those that are there."""
        asked = {name: self.client.get_async(path, watch=watch) for name, path in paths.items()}
        for name, answer in asked.items():
            if (unreadable := _unreadable(answer)) is not None:
                yield name, unreadable
            elif (there := outcome(answer)) is not None:
                yield name, decoded(there[0])

    def _is_new(self, key: str, document: dict[str, Any]) -> bool:
        known = self.known.get(key)
        if known is None or known["epoch"] != document["epoch"]:
            return True
        arriving = is_arriving(document, self.config.id)  # perhaps back, before we heard that what was here is to go
        return arriving and (known.get("move") or {}).get("number") != document["move"]["number"]

    def _on_change(self, event: object) -> None:
        self.words.put("look")

    def _on_data(self, event: WatchedEvent) -> None:
        # Of a lost session every watch hears, without a path: then all is looked at
        self.words.put(Changed(unquote(event.path.rsplit("/", 1)[1])) if event.path else "look")

    def _deploy(
        self, key: str, document: dict[str, Any], made: PhysicalPlan | ProtocolError | None, publishers: Mapping[str, list[str]]
    ) -> None:
        if key in self.known:
            self.ask(Command("remove", key))
        try:
            if not isinstance(made, PhysicalPlan):
                raise made or ProtocolError(f"there is no plan of query {document['query']!r}")
            plan = self._placed(made, document)
            hosted = self.preparation.prepare(plan, document, inbound_channels(plan, self.config.id), publishers)
            prepare(hosted)
        except _GONE:
            raise
        except Exception as error:  # what cannot be built is that query's failure
            LOG.error("%s cannot be built:\n%s", key, traceback.format_exc())
            status = {"epoch": document["epoch"], "state": "failed", "cause": cut(error_text(error, CAUSE_CHARS_MAX)), "rows": {}}
            status |= {"step": (document.get("move") or {}).get("step", 0)}
            self.words.put((key, status))
            return
        for note in hosted.instance.notes:
            LOG.warning("%s: %s", hosted.instance.name, note)
        self.ask(Command("add", key, hosted))

    def _placed(self, plan: PhysicalPlan, document: dict[str, Any]) -> PhysicalPlan:
        """The plan as it will be when the instance is here; it is written so when that has come about."""
        if not is_arriving(document, self.config.id):
            return plan
        here = Worker(self.config.id, self.config.node, self.config.core, self.config.endpoint)
        return plan.with_instance_at(document["subquery"], document["instance"], here)

    def _publishers(self, streams: Iterable[str]) -> dict[str, list[str]]:
        """The names of the publishers that are open, by stream."""
        asked = {stream: self.client.get_children_async(node("publishers", stream)) for stream in streams}
        names: dict[str, list[str]] = {}
        for stream, answer in asked.items():
            if _unreadable(answer) is None and (there := outcome(answer)) is not None:
                names[stream] = [unquote(name) for name in there]
        return names

    def _oblige(self, key: str, document: dict[str, Any], before: dict[str, Any]) -> None:
        verb = document["desired"]
        added = [each for each in document.get("subscriptions", ()) if each not in before.get("subscriptions", ())]
        if document.get("lost"):
            self.ask(Command("lose", key, lost=document["lost"]))
        if document.get("move") != before.get("move"):
            self.ask(Command("move", key, move=document.get("move")))
        if document.get("tables", {}) != before.get("tables", {}):
            self.ask(Command("reroute", key, tables=self._tables(document)))
        if added:
            self.ask(Command("subscribe", key, subscriptions=added))
        if verb != "ready":
            subquery, instance = document.get("failed_subquery", document["subquery"]), document.get("failed_instance")
            self.ask(Command(verb, key, cause=document.get("cause") or "", subquery=subquery, instance=instance))

    def _tables(self, document: dict[str, Any]) -> dict[str, Barrier]:
        """The tables of buckets that the assignment names: it stays so until every instance has told its version."""
        data, _ = self.client.get(node("tables", document["query"]))
        tables = tables_of(decoded(data))
        return {head: tables[head] for head in document["tables"]}

    def _forget(self, keys: list[str]) -> None:
        """They are withdrawn."""
        for key in keys:
            del self.known[key]
            self.ask(Command("remove", key))
            self.statuses.pop(key, None)
            self.written.discard(key)
            self.refused.pop(key, None)
        for answer in [self.client.delete_async(node("status", self.config.id, key)) for key in keys]:
            outcome(answer)


def _unreadable(answer: Any) -> ProtocolError | None:
    """What is wrong with this node alone, such as a foreign access list: it harms no other. Not raised, for the reason of `outcome`."""
    answer.wait()
    if not isinstance(answer.exception, KazooException) or isinstance(answer.exception, (NoNodeError, *_GONE)):
        return None
    return ProtocolError(f"the node cannot be read: {type(answer.exception).__name__}")


def inbound_channels(plan: PhysicalPlan, im: str) -> int:
    """How many channels of a plan end at an instance manager: they share its budget."""
    here = {(i.subquery, i.index) for i in plan.instances if i.im == im}
    fed = [plan.feeds[stream] for name, _ in here for stream in plan.subquery(name).streams if stream in plan.feeds]
    return sum(len(feed.producers) for feed in fed) + sum(
        (edge.target, j) in here for edge in plan.edges if edge.is_inner for _, j in plan.channels(edge)
    )
