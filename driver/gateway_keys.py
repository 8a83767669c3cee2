"""Rows that are sent under a key are sent once: who sends them again, for it has heard no answer, is answered as before.

Keys are kept here, in memory: a gateway that dies forgets them.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from cep.errors import DataError

KEPT_S = 3600.0
KEYS_MAX = 100_000


class _Sent(NamedTuple):
    since: float
    digest: bytes
    task: asyncio.Task[int]


class KeptKeys:
    """The last ones, the oldest first."""

    def __init__(self) -> None:
        self._sent: OrderedDict[tuple[str, str], _Sent] = OrderedDict()

    def sending(self, stream: str, key: str, body: bytes, send: Callable[[], Coroutine[Any, Any, int]]) -> asyncio.Task[int]:
        """What sends these rows, or has sent them. One that fails is forgotten. Raises DataError: the key had other rows."""
        self._forget()
        digest, name = hashlib.sha256(body).digest(), (stream, key)
        if (known := self._sent.get(name)) is not None:
            if known.digest != digest:
                raise DataError(f"Idempotency-Key {key!r}: other rows were sent under it; expected the same again, or another key")
            return known.task
        task = asyncio.create_task(send())
        self._sent[name] = _Sent(time.monotonic(), digest, task)
        task.add_done_callback(lambda done: self._drop_failed(name, done))
        return task

    def _drop_failed(self, name: tuple[str, str], done: asyncio.Task[int]) -> None:
        if done.cancelled() or done.exception() is not None:
            self._sent.pop(name, None)

    def _forget(self) -> None:
        late = time.monotonic() - KEPT_S
        while self._sent and (len(self._sent) >= KEYS_MAX or next(iter(self._sent.values())).since < late):
            self._sent.popitem(last=False)
