"""Rows that are sent under a key are sent once: who sends them again, for it has heard no answer, is answered as before.

What was sent under which key is in a file, so that it outlives the gateway. Of rows that were being sent when it was killed the file says
which number the first had; queries that recover say how many rows of REST's publisher they have, and so which of these are there.
"""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from cep.errors import DataError, ProtocolError

KEPT_S = 3600.0
KEYS_MAX = 100_000
IN_MEMORY = ":memory:"

_TABLE = """CREATE TABLE IF NOT EXISTS sent
    (stream TEXT, key TEXT, since REAL, digest BLOB, first INTEGER, rows INTEGER, done INTEGER, PRIMARY KEY (stream, key))"""


class RowsKey(NamedTuple):
    """`digest`: of the rows that are sent under it."""

    name: str
    digest: bytes


class Sent(NamedTuple):
    """`first`: the number of the first row, while it is not known how many of them are there; `rows`: how many are, all if it is `done`."""

    digest: bytes
    first: int | None
    rows: int
    done: bool


class KeyFile:
    """The last keys. Several threads ask."""

    def __init__(self, path: str) -> None:
        self._lock = threading.Lock()
        self._file = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        for said in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = NORMAL", _TABLE, "CREATE INDEX IF NOT EXISTS old ON sent (since)"):
            self._file.execute(said)

    def get(self, stream: str, key: str) -> Sent | None:
        found = self._do("SELECT digest, first, rows, done FROM sent WHERE stream = ? AND key = ?", stream, key)
        return Sent(*found[0]) if found else None

    def begin(self, stream: str, key: RowsKey, first: int) -> None:
        """These rows are sent now, from that number on. The oldest keys are forgotten."""
        self._do("DELETE FROM sent WHERE since < ?", time.time() - KEPT_S)
        over = "SELECT rowid FROM sent ORDER BY since LIMIT max(0, (SELECT count(*) FROM sent) - ?)"
        self._do(f"DELETE FROM sent WHERE rowid IN ({over})", KEYS_MAX - 1)
        self._do("INSERT OR REPLACE INTO sent VALUES (?, ?, ?, ?, ?, 0, 0)", stream, key.name, time.time(), key.digest, first)

    def finish(self, stream: str, key: str, rows: int) -> None:
        self._do("UPDATE sent SET first = NULL, rows = ?, done = 1 WHERE stream = ? AND key = ?", rows, stream, key)

    def forget(self, stream: str, key: str) -> None:
        self._do("DELETE FROM sent WHERE stream = ? AND key = ?", stream, key)

    def in_doubt(self, stream: str) -> bool:
        """Was something being sent when its publisher went?"""
        return bool(self._do("SELECT 1 FROM sent WHERE stream = ? AND first IS NOT NULL LIMIT 1", stream))

    def settle(self, stream: str, accepted: int) -> None:
        """A publisher has opened: so many rows of all times are there."""
        self._do("UPDATE sent SET rows = max(0, ? - first), first = NULL WHERE stream = ? AND first IS NOT NULL", accepted, stream)

    def close(self) -> None:
        self._file.close()

    def _do(self, said: str, *values: Any) -> list[Any]:
        with self._lock:
            return self._file.execute(said, values).fetchall()


class KeptKeys:
    """What is being sent, and the file of what was."""

    def __init__(self, file: KeyFile) -> None:
        self.file = file
        self._running: dict[tuple[str, str], tuple[bytes, asyncio.Task[int]]] = {}

    def sending(self, stream: str, key: str, body: bytes, send: Callable[[bytes], Coroutine[Any, Any, int]]) -> asyncio.Task[int]:
        """What sends these rows, by their digest, or has sent them. Raises DataError: the key had other rows."""
        digest, name = hashlib.sha256(body).digest(), (stream, key)
        of, task = self._running.get(name, (None, None))
        known = self.file.get(stream, key) if task is None else None
        if (of or (known and known.digest) or digest) != digest:
            raise DataError(f"Idempotency-Key {key!r}: other rows were sent under it; expected the same again, or another key")
        if task is None:
            task = asyncio.create_task(_known(known.rows) if known is not None and known.done else self._sent(stream, key, digest, send))
            self._running[name] = digest, task
            task.add_done_callback(lambda _: self._running.pop(name))
        return task

    async def _sent(self, stream: str, key: str, digest: bytes, send: Callable[[bytes], Coroutine[Any, Any, int]]) -> int:
        """One that is refused is forgotten; of one that fails otherwise the next publisher knows how much is there."""
        try:
            return await send(digest)
        except (DataError, ProtocolError):
            self.file.forget(stream, key)
            raise


async def _known(rows: int) -> int:
    return rows
