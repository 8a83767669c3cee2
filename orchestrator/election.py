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
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError, NotEmptyError

from cep.config import node
from cep.errors import ProtocolError
from cep.model.shapes import read

_LOG = logging.getLogger(__name__)
_CANDIDATE = re.compile(r"[0-9a-f]{32}-[0-9]{10}")


@dataclass(frozen=True, slots=True)
class Candidate:
    """An orchestrator: its REST address, and its process, known by machine, number and time of birth."""

    rest: str
    machine: str
    pid: int
    born: str

    @staticmethod
    def here(rest: str) -> Candidate:
        return Candidate(rest, _machine(), os.getpid(), _born(os.getpid()) or "")

    @property
    def is_gone(self) -> bool:
        """It was a process of this machine, and is no more."""
        return self.machine == _machine() and _born(self.pid) != self.born

    @staticmethod
    def from_json(document: Any) -> Candidate:
        """Raises ProtocolError: it is none."""
        return read(Candidate, document)

    def to_json(self) -> dict[str, Any]:
        return {"rest": self.rest, "machine": self.machine, "pid": self.pid, "born": self.born}


class Election:
    """This orchestrator's candidacy. `wake` is called, from kazoo's thread, when it is worth asking again."""

    def __init__(self, client: KazooClient, candidate: Candidate, wake: Callable[[], None]) -> None:
        self._client, self._candidate, self._wake = client, candidate, wake
        self._id = uuid.uuid4().hex  # in the node's name: a creation that was answered by a lost connection is found again

    def leads(self) -> bool:
        """Stands for election if it does not yet; is it first?"""
        while True:
            standing = sorted(filter(_CANDIDATE.fullmatch, self._children()), key=_number)
            mine = next((name for name in standing if name.startswith(self._id)), None)
            if mine is None:
                self._stand()
                continue
            ahead = [name for name in standing[: standing.index(mine)] if not self._swept(name)]
            if not ahead:
                return True
            if self._client.exists(node("election", ahead[-1]), watch=lambda event: self._wake()) is not None:
                return False

    def take_office(self) -> int:
        """Names itself in `/orchestrator`; the version of that node is the fence of all its writes."""
        self._client.ensure_path(node("orchestrator"))
        stat = self._client.set(node("orchestrator"), json.dumps(self._candidate.to_json()).encode())
        return int(stat.version)

    def leader(self) -> str | None:
        """The REST address of whoever leads, or led last."""
        try:
            data, _ = self._client.get(node("orchestrator"))
        except NoNodeError:
            return None
        try:
            return Candidate.from_json(json.loads(data)).rest if data else None
        except (ValueError, RecursionError, ProtocolError):
            return None  # anybody may have written it; whoever leads next writes it anew

    def _children(self) -> list[str]:
        self._client.ensure_path(node("election"))
        return list(self._client.get_children(node("election")))

    def _stand(self) -> None:
        data = json.dumps(self._candidate.to_json()).encode()
        self._client.create(node("election", f"{self._id}-"), data, ephemeral=True, sequence=True)

    def _swept(self, name: str) -> bool:
        """Whether a candidate ahead is gone; it is removed if it was of this machine."""
        path = node("election", name)
        try:
            data, stat = self._client.get(path)
            if stat.ephemeralOwner == 0:
                raise ProtocolError("it would stay when its process has gone, so no orchestrator has made it")
            if not Candidate.from_json(json.loads(data)).is_gone:
                return False
            self._client.delete(path)
        except NoNodeError:
            pass
        except (ValueError, RecursionError, ProtocolError, NotEmptyError) as error:
            _LOG.error("%s is no candidate: %s: %s", path, type(error).__name__, error)
        return True


def _number(name: str) -> int:
    return int(name.rpartition("-")[2])


def _machine() -> str:
    """This boot of this machine, and this container's process numbers."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}/{os.readlink('/proc/self/ns/pid')}"


def _born(pid: int) -> str | None:
    """When a process was started, in ticks since boot; None: there is none, or it is dead and only not buried yet."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    state, *fields = stat.rpartition(")")[2].split()
    return None if state in "ZX" else fields[18]
