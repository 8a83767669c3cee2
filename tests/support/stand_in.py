"""A small real instance manager for tests of the control plane: it plays the contract of docs/features/control.md and moves no tuple.

It registers, reads its assignments, and says what it was asked to be; a test may also have it say something else (`say`).
As a process (`python tests/support/stand_in.py '<config>'`) it is what the supervisor starts instead of the real one.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from collections.abc import Iterable
from typing import Any

from kazoo.client import KazooState
from kazoo.exceptions import NodeExistsError, NoNodeError
from kazoo.protocol.states import EventType

from cep.config import InstanceManagerConfig, node
from cep.world.zookeeper import connect

BECOMES = {"ready": "ready", "run": "running", "drain": "ended", "stop": "stopped", "fail": "failed"}


class StandIn:
    """One instance manager, with a ZooKeeper session and a thread of its own."""

    def __init__(
        self, zookeeper: str, im: str, endpoint: str = "", session_timeout_s: float = 6.0, pid: int | None = None, secret: str | None = None
    ):
        self.im = im
        self.facts = {"id": im, "host": "here", "pid": pid or os.getpid(), "node": 0, "core": 0, "endpoint": endpoint or f"ipc:///{im}"}
        self.assignments: dict[str, dict[str, Any]] = {}
        self.mute = False
        self._words: queue.Queue[Any] = queue.Queue()
        self._client = connect(zookeeper, session_timeout_s, secret)
        self._said: dict[str, dict[str, Any]] = {}
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.registered = threading.Event()

    def start(self) -> StandIn:
        self._client.add_listener(lambda state: self._words.put("connected") if state == KazooState.CONNECTED else None)
        self._client.start_async()
        self._thread.start()
        return self

    def vanish(self) -> None:
        """Its session ends now, as after a death once the session has timed out."""
        if self._thread.is_alive():
            self._words.put(None)
            self._thread.join()
            self._client.stop()
            self._client.close()

    def say(self, key: str, state: str, cause: str | None = None, **more: Any) -> None:
        """Of an instance."""
        self._words.put((key, state, cause, more))

    def _run(self) -> None:
        while (word := self._words.get()) is not None:
            try:
                self._obey(word)
            except Exception as error:
                if not self._client.connected:
                    continue
                raise error

    def _obey(self, word: Any) -> None:
        if word == "connected":
            self._register()
            self._look(self._children())
        elif word == "children":
            names = self._children()
            self._look(names ^ self.assignments.keys())
        elif isinstance(word, str):
            self._look({word})
        else:
            self._say(*word)

    def _register(self) -> None:
        for path in (node("ims"), node("assignments", self.im), node("status", self.im)):
            self._client.ensure_path(path)
        self._ephemeral(node("ims", self.im), self.facts)
        for key, document in self._said.items():
            self._ephemeral(node("status", self.im, key), document)
        self.registered.set()

    def _children(self) -> set[str]:
        return set(self._client.get_children(node("assignments", self.im), watch=self._woken))

    def _look(self, names: Iterable[str]) -> None:
        """At these assignments; all requests are on their way before the first answer is awaited."""
        base = node("assignments", self.im)
        asked = [(name, self._client.get_async(f"{base}/{name}", watch=self._woken)) for name in sorted(names)]
        for name, answer in asked:
            try:
                self._oblige(name, json.loads(answer.get()[0]))
            except NoNodeError:
                self._forget(name)

    def _oblige(self, name: str, assignment: dict[str, Any]) -> None:
        before = self.assignments.get(name, {})
        self.assignments[name] = assignment
        if not self.mute and any(before.get(key) != assignment.get(key) for key in ("desired", "epoch", "move")):
            self._say(name, self._becomes(assignment), assignment["cause"], {})

    def _becomes(self, assignment: dict[str, Any]) -> str:
        """An instance that moves is ready at its new place until it is redirected there."""
        move = assignment.get("move")
        if move and (move["subquery"], move["instance"]) == (assignment["subquery"], assignment["instance"]):
            here, redirected = move["im"] == self.im, move["step"] % 2 == 1
            if here and not redirected:
                return "ready"
            if redirected and not here:
                return "moved"
        return BECOMES[assignment["desired"]]

    def _forget(self, name: str) -> None:
        if self.assignments.pop(name, None) is not None and self._said.pop(name, None) is not None:
            self._client.delete(f"{node('status', self.im)}/{name}")

    def _say(self, key: str, state: str, cause: str | None, more: dict[str, Any]) -> None:
        document = {"epoch": self.assignments[key]["epoch"], "state": state, "cause": cause, "rows": {"per_ip": 7}, **more}
        document["step"] = (self.assignments[key].get("move") or {}).get("step", 0)
        self._said[key] = document
        self._ephemeral(f"{node('status', self.im)}/{key}", document)

    def _ephemeral(self, path: str, document: dict[str, Any]) -> None:
        data = json.dumps(document).encode()
        try:
            self._client.create(path, data, ephemeral=True)
        except NodeExistsError:
            stat = self._client.exists(path)
            if stat is not None and stat.ephemeralOwner == self._client.client_id[0]:
                self._client.set(path, data)
                return
            if stat is not None:
                self._client.delete(path)
            self._client.create(path, data, ephemeral=True)

    def _woken(self, event: Any) -> None:
        if event.type == EventType.CHILD:
            self._words.put("children")
        elif event.type != EventType.NONE:
            self._words.put(event.path.rpartition("/")[2])


def main() -> None:
    config = InstanceManagerConfig.from_json(json.loads(sys.argv[1]))
    cluster = config.cluster
    StandIn(cluster.zookeeper, config.id, config.endpoint, cluster.session_timeout_s, secret=cluster.zookeeper_secret).start()
    threading.Event().wait()


if __name__ == "__main__":
    main()
