"""What should be true, from ZooKeeper; what is true, to ZooKeeper (DESIGN §2, §8).

One thread of our own does all ZooKeeper work: kazoo's callbacks only put a word on its queue. It is level-triggered: at every word it
reads the assignments of this instance manager and asks the loop for what is missing. On SUSPENDED everything goes on; after a new
session (LOST, then CONNECTED) the registration and the statuses, which are ephemeral, are written again.
"""

from __future__ import annotations

import json
import logging
import queue
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import ConnectionLoss, NodeExistsError, NoNodeError, SessionExpiredError
from kazoo.protocol.states import WatchedEvent
from kazoo.retry import KazooRetry

from cep.config import InstanceManagerConfig, node
from cep.elements import Barrier
from cep.plan import physical
from cep.plan.physical import PhysicalPlan
from instance_manager.accounts import steps
from instance_manager.hosting import Hosted, Preparation
from instance_manager.loop import Command

LOG = logging.getLogger(__name__)
_GONE = (ConnectionLoss, SessionExpiredError)


@dataclass(frozen=True, slots=True)
class Changed:
    """An assignment that was read has changed since."""

    key: str


Word = str | Changed | tuple[str, dict[str, Any]]


class Control(threading.Thread):
    """`facts` is what this instance manager registers: host, pid, node, core, endpoint, binding."""

    def __init__(
        self, config: InstanceManagerConfig, facts: dict[str, Any], preparation: Preparation, ask: Callable[[Command], None]
    ) -> None:
        super().__init__(name="control", daemon=True)
        self.config, self.facts, self.preparation, self.ask = config, facts, preparation, ask
        self.words: queue.Queue[Word] = queue.Queue()
        self.read: dict[str, dict[str, Any]] = {}  # assignments as last read, under a watch
        self.known: dict[str, dict[str, Any]] = {}  # assignments as last obeyed
        self.statuses: dict[str, dict[str, Any]] = {}
        self.client = KazooClient(
            config.cluster.zookeeper,
            timeout=config.cluster.session_timeout_s,
            connection_retry=KazooRetry(max_tries=-1, delay=0.05, backoff=1.5, max_delay=0.5),
            command_retry=KazooRetry(max_tries=3, delay=0.05, max_delay=0.5),
        )

    def run(self) -> None:
        self.client.add_listener(self._on_state)
        self.client.start(timeout=60)
        self.words.put("register")
        while (word := self.words.get()) != "close":
            self._try(word)
        self.client.stop()
        self.client.close()

    def close(self) -> None:
        self.words.put("close")
        self.join(timeout=5)

    def report(self, hosted: Hosted) -> None:
        """A new state of an instance; from the loop's thread."""
        rows = {output.name: output.rows for output in hosted.instance.outputs}
        status = {"epoch": hosted.epoch, "state": hosted.instance.state, "cause": hosted.instance.cause, "rows": rows}
        status |= {"table": hosted.table_version}
        if hosted.instance.done:
            status["operators"] = [step.to_json() for step in steps(hosted)]
        self.words.put((hosted.key, status))
        if hosted.traceback:
            LOG.error("%s failed:\n%s", hosted.instance.name, hosted.traceback)

    def _on_state(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            self.words.put("register")

    def _try(self, word: Word) -> None:
        try:
            self._do(word)
        except _GONE:
            # The connection is away; when it is back the listener says "register", which writes all that is true anew.
            LOG.warning("ZooKeeper is away; %r waits", word)
        except Exception:
            LOG.error("control: %s", traceback.format_exc())

    def _do(self, word: Word) -> None:
        if isinstance(word, tuple):
            self.statuses[word[0]] = word[1]
            self._write_status(*word)
        elif isinstance(word, Changed):
            self.read.pop(word.key, None)
            self._look()
        elif word == "register":
            self.read.clear()
            self._register()
            self._look()
        else:
            self._look()

    # What is true

    def _register(self) -> None:
        self._write_ephemeral(node("ims", self.config.id), self.facts)
        self.client.ensure_path(node("assignments", self.config.id))
        self.client.ensure_path(node("status", self.config.id))
        for key, status in self.statuses.items():
            self._write_status(key, status)

    def _write_status(self, key: str, status: dict[str, Any]) -> None:
        self._write_ephemeral(node("status", self.config.id, key), status)

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
        """Reads which assignments there are, and those that have changed since they were read: all at once, for each is a round trip."""
        keys = set(map(unquote, self.client.get_children(node("assignments", self.config.id), watch=self._on_change)))
        unread = {
            key: self.client.get_async(node("assignments", self.config.id, key), watch=self._on_data) for key in keys - self.read.keys()
        }
        for key, answer in unread.items():
            with suppress(NoNodeError):
                self.read[key] = json.loads(answer.get()[0])
        self.read = {key: document for key, document in self.read.items() if key in keys}
        self._oblige_all(self.read)

    def _oblige_all(self, found: dict[str, dict[str, Any]]) -> None:
        for key in self.known.keys() - found.keys():
            del self.known[key]
            self.ask(Command("remove", key))
            self._forget(key)
        fresh = [(key, document) for key, document in sorted(found.items()) if self._is_new(key, document)]
        for key, document in fresh:
            self._deploy(key, document)
        for key, document in found.items():
            before = self.known.get(key, {})
            if before != document:
                self.known[key] = document
                self._oblige(key, document, before)

    def _is_new(self, key: str, document: dict[str, Any]) -> bool:
        return key not in self.known or self.known[key]["epoch"] != document["epoch"]

    def _on_change(self, event: object) -> None:
        self.words.put("look")

    def _on_data(self, event: WatchedEvent) -> None:
        self.words.put(Changed(unquote(event.path.rsplit("/", 1)[1])))

    def _deploy(self, key: str, document: dict[str, Any]) -> None:
        if key in self.known:
            self.ask(Command("remove", key))
        try:
            data, _ = self.client.get(node("plans", document["query"]))
            plan = physical.from_json(json.loads(data))
            publishers = {stream: self._publishers(stream) for stream in plan.subquery(document["subquery"]).streams}
            hosted = self.preparation.prepare(plan, document, inbound_channels(plan, self.config.id), publishers)
        except _GONE:
            raise
        except Exception as error:  # what cannot be built is that query's failure
            LOG.error("%s cannot be built:\n%s", key, traceback.format_exc())
            status = {"epoch": document["epoch"], "state": "failed", "cause": f"{type(error).__name__}: {error}", "rows": {}}
            self.words.put((key, status))
            return
        for note in hosted.instance.notes:
            LOG.warning("%s: %s", hosted.instance.name, note)
        self.ask(Command("add", key, hosted))

    def _publishers(self, stream: str) -> list[str]:
        """The names of the publishers that are open."""
        try:
            return [unquote(name) for name in self.client.get_children(node("publishers", stream))]
        except NoNodeError:
            return []

    def _oblige(self, key: str, document: dict[str, Any], before: dict[str, Any]) -> None:
        verb = document["desired"]
        added = [each for each in document.get("subscriptions", ()) if each not in before.get("subscriptions", ())]
        if document.get("lost"):
            self.ask(Command("lose", key, lost=document["lost"]))
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
        tables = json.loads(data)["tables"]
        return {head: Barrier(tables[head]["version"], tuple(tables[head]["table"])) for head in document["tables"]}

    def _forget(self, key: str) -> None:
        self.statuses.pop(key, None)
        with suppress(NoNodeError):
            self.client.delete(node("status", self.config.id, key))


def inbound_channels(plan: PhysicalPlan, im: str) -> int:
    """How many channels of a plan end at an instance manager: they share its budget."""
    here = {(i.subquery, i.index) for i in plan.instances if i.im == im}
    fed = [plan.feeds[stream] for name, _ in here for stream in plan.subquery(name).streams if stream in plan.feeds]
    return sum(len(feed.producers) for feed in fed) + sum(
        (edge.target, j) in here for edge in plan.edges if edge.is_inner for _, j in plan.channels(edge)
    )
