"""What stands in ZooKeeper and cannot be read or acted on: it is set aside with its reason, and the rest goes on.

A node that is set aside stays as it is: what runs by it, an instance manager say, goes on, until it is mended or removed. A
query is set aside as a whole. Nothing that stands in ZooKeeper, whatever wrote it, makes code beyond this file raise.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from cep.errors import CepError, ProtocolError

_LOG = logging.getLogger(__name__)
SHOWN_MAX = 1000
REASON_CHARS_MAX = 2000


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The value of a node that is no JSON."""

    reason: str


def decode(data: bytes) -> Any:
    """A JSON value; what is none is Unreadable."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        return Unreadable(f"no JSON: {type(error).__name__}: {error}")


def readable(value: Any) -> Any:
    """Raises ProtocolError: the node holds no JSON."""
    if isinstance(value, Unreadable):
        raise ProtocolError(value.reason)
    return value


class Quarantine:
    """`nodes`: path -> why; `queries`: name -> why."""

    def __init__(self) -> None:
        self.nodes: dict[str, str] = {}
        self.queries: dict[str, str] = {}

    def set_aside(self, path: str, why: object) -> None:
        reason = described(why)
        if self.nodes.get(path) != reason:
            bug = why if isinstance(why, Exception) and not isinstance(why, CepError) else None
            _LOG.error("%s is set aside: %s", path, reason, exc_info=bug)
            self.nodes[path] = reason

    def set_query_aside(self, name: str, path: str, why: object) -> None:
        self.set_aside(path, why)
        self.queries[name] = self.nodes[path]

    def release(self, path: str) -> None:
        """It is as it should be, or gone."""
        self.nodes.pop(path, None)

    def release_below(self, folder: str, there: Iterable[str]) -> None:
        """Releases the nodes right below `folder` that are not `there` any more."""
        there = set(there)
        for path in [path for path in self.nodes if path.rpartition("/")[0] == folder and path not in there]:
            del self.nodes[path]

    def clear(self) -> None:
        self.nodes.clear()
        self.queries.clear()

    def to_json(self) -> list[dict[str, str]]:
        return [{"node": path, "reason": reason} for path, reason in sorted(self.nodes.items())[:SHOWN_MAX]]


def described(why: object) -> str:
    """So much of a reason as can be shown."""
    from_code = isinstance(why, Exception) and not str(why)
    text = type(why).__name__ if from_code else f"{type(why).__name__}: {why}" if isinstance(why, Exception) else str(why)
    return text if len(text) <= REASON_CHARS_MAX else f"{text[:REASON_CHARS_MAX]}…"
