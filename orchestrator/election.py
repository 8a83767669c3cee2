"""One leader among the orchestrators: the one whose node under `/election` is first. The others watch the node before theirs.

Level-triggered like the rest: `leads()` looks at what is there, does what is missing, and may be called at any time. A node
left by a process of this very machine that is gone is removed at once; without that, an orchestrator that is started again
would wait for the session of its own predecessor to run out.
"""

from __future__ import annotations

import json
import logging
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from cep.config import node
from cep.errors import ProtocolError
from cep.model.shapes import read_shape
from cep.world.births import born, machine
from cep.world.coordination import Coordination, NodeRefused, NodeWatch, NoNode, NotEmpty, Znode

_LOG = logging.getLogger(__name__)
_WORD = (1 << 64) - 1
_CANDIDATE = re.compile(r"[0-9a-f]{16}-[0-9]{10}")


@dataclass(frozen=True, slots=True)
class Candidate:
    """An orchestrator: its REST address, and its process, known by machine, number and time of birth."""

    rest: str
    machine: str
    pid: int
    born: str

    @staticmethod
    def here(rest: str) -> Candidate:
        return Candidate(rest, machine(), os.getpid(), born(os.getpid()) or "")

    @property
    def is_gone(self) -> bool:
        """It was a process of this machine, and is no more."""
        return self.machine == machine() and born(self.pid) != self.born

    @staticmethod
    def from_json(document: Any) -> Candidate:
        """Raises ProtocolError: it is none."""
        return read_shape(Candidate, document)

    def to_json(self) -> dict[str, Any]:
        return {"rest": self.rest, "machine": self.machine, "pid": self.pid, "born": self.born}


class Election:
    """This orchestrator's candidacy. `wake` is a watch: it is called when it is worth asking again."""

    def __init__(self, coordination: Coordination, candidate: Candidate, wake: NodeWatch) -> None:
        self._coordination, self._candidate, self._wake = coordination, candidate, wake

    def leads(self) -> bool:
        """Stands for election if it does not yet; is it first?"""
        while True:
            own = self._own_name()
            standing = sorted(filter(_CANDIDATE.fullmatch, self._names()), key=_number)
            mine = next((name for name in standing if name.startswith(own)), None)
            if mine is None:
                self._stand(own)
                continue
            ahead = [name for name in standing[: standing.index(mine)] if not self._swept(name)]
            if not ahead:
                return True
            [before] = self._coordination.get([node("election", ahead[-1])], self._wake)
            if isinstance(before, Znode):
                return False

    def take_office(self) -> int:
        """Names itself in `/orchestrator`; the version of that node is the fence of all its writes."""
        self._coordination.ensure([node("orchestrator")])
        return self._coordination.set(node("orchestrator"), json.dumps(self._candidate.to_json()).encode())

    def leader(self) -> str | None:
        """The REST address of the one that leads, or led last."""
        [found] = self._coordination.get([node("orchestrator")])
        if not isinstance(found, Znode):
            return None
        try:
            return Candidate.from_json(json.loads(found.data)).rest if found.data else None
        except (ValueError, RecursionError, ProtocolError):
            return None  # any process may have written it; the next leader writes it anew

    def _own_name(self) -> str:
        """How the name of its node begins. It names the session, with which the node goes: where a creation was answered by a lost
        connection the node is found again, and the node of a session that is over is not taken for its own."""
        return f"{self._coordination.session & _WORD:016x}-"

    def _names(self) -> list[str]:
        self._coordination.ensure([node("election")])
        [names] = self._coordination.children([node("election")])
        if isinstance(names, NodeRefused):
            raise names
        return names or []

    def _stand(self, name: str) -> None:
        data = json.dumps(self._candidate.to_json()).encode()
        self._coordination.create(node("election", name), data, ephemeral=True, sequence=True)

    def _swept(self, name: str) -> bool:
        """Whether a candidate ahead is gone; it is removed if it was of this machine."""
        path = node("election", name)
        [found] = self._coordination.get([path])
        try:
            if isinstance(found, NodeRefused):
                raise found
            return found is None or self._is_swept(path, found)
        except (ValueError, RecursionError, ProtocolError, NotEmpty, NodeRefused) as error:
            _LOG.error("%s is no candidate: %s: %s", path, type(error).__name__, error)
        return True

    def _is_swept(self, path: str, found: Znode) -> bool:
        if found.owner == 0:
            raise ProtocolError("it would stay when its process has gone, so no orchestrator has made it")
        # Its own: it stood for election while one session followed another.
        if found.owner != self._coordination.session and not Candidate.from_json(json.loads(found.data)).is_gone:
            return False
        with suppress(NoNode):
            self._coordination.delete(path)
        return True


def _number(name: str) -> int:
    return int(name.rpartition("-")[2])
