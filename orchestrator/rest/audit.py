"""Who asked for what that changes something, from where, and what came of it: JSON lines in the cluster's home.

Rules:
1. A request never waits for its line, and never fails for it: lines go through a queue to a thread. What finds the queue full, or the disk,
   is lost and counted; the next line that is written says how many were (`lost`).
2. An orchestrator writes files of its own, so that two with one folder do not disturb each other; readers read those of all.
3. Files are bounded: FILE_BYTES_MAX each, FILES_MAX of an orchestrator.
4. No line has a token, be it a wrong one: that may be a right one of another cluster, or nearly a right one.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from io import TextIOWrapper
from logging.handlers import QueueHandler, QueueListener, RotatingFileHandler
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fastapi import Request

from cep.errors import CepError
from cep.service.access import Access
from cep.world.clock import Clock
from orchestrator.rest.rate_limit import TokenBuckets

FILE_BYTES_MAX, FILES_MAX = 8 << 20, 5
LINES_WAITING_MAX = 10_000
TEXT_CHARS_MAX = 500
"""Of anything in a line that a client has chosen."""

WRONG_TOKENS_PER_S, WRONG_TOKENS_OF_ALL_PER_S = 1 / 60, 1.0
"""Lines about wrong tokens, of an address and of all: whoever tries many does not push the rest out of the files."""

LAST_MAX = 1000
# No route takes such in a query string; where one is put there by mistake it is not kept.
_SECRET = {"token", "access_token", "api_key", "apikey", "key", "password", "secret", "authorization", "auth"}
_TAIL_BYTES = 1 << 20  # of each file, where the last lines are asked for
_NOTES = "cep.audit"


class AuditLog:
    """The files of one orchestrator.

    Args:
        home: the cluster's folder; the files are in `audit` in it.
        address: the orchestrator's URL, which names its files.
    """

    def __init__(self, home: str, address: str, clock: Clock) -> None:
        self.folder, self._clock = Path(home) / "audit", clock
        self._file = _File(self.folder / f"{_name(address)}.jsonl")
        waiting: queue.Queue[Any] = queue.Queue(LINES_WAITING_MAX)
        self._queue = _Queue(waiting, self._file)
        self._listener = QueueListener(waiting, self._file)
        self._begun, self._wrong = False, WrongTokens()

    def note(self, access: Access, request: Request, action: str, status: int, error: Exception | None) -> None:
        """A line for each thing that the request was about."""
        asked = {key: value for key, value in request.query_params.items() if key.lower() not in _SECRET}
        line = self._begin(access.name, request.client.host if request.client else "", action)
        about: list[tuple[str, CepError | None]] = request.scope.get(_NOTES) or [(_subject(request), None)]
        for subject, own in about:
            wrong = own or error
            outcome = {"status": status, "error": type(wrong).__name__ if wrong else None, "detail": _short(str(wrong)) if wrong else None}
            self._put(line | {"about": _short(subject), "asked": {key: _short(value) for key, value in asked.items()}} | outcome)

    def note_wrong_token(self, address: str, path: str) -> None:
        """That `address` has shown a token that no one was given; what it was does not stand there. Not each has a line."""
        left_out = self._wrong.take(address, self._clock.steady_ns() / 1e9)
        if left_out is not None:
            detail = f"no token of this cluster; {left_out:,} more since the last such line"
            outcome = {"about": _short(path), "asked": {}, "status": 401, "error": "Unauthorized", "detail": detail}
            self._put(self._begin("", address, "wrong token") | outcome)

    def _begin(self, token: str, address: str, action: str) -> dict[str, Any]:
        at = datetime.fromtimestamp(self._clock.wall_ns() / 1e9, UTC).isoformat(timespec="microseconds")
        return {"at": at, "token": token, "from": address, "action": action}

    def close(self) -> None:
        """Once all lines are written."""
        if self._begun:
            self._listener.stop()
        self._file.close()

    def _put(self, line: Mapping[str, Any]) -> None:
        if not self._begun:
            self._begun = True
            self._listener.start()
        self._queue.handle(logging.makeLogRecord({"msg": dict(line), "levelno": logging.INFO}))


class WrongTokens:
    """Which of the requests with a wrong token have a line: of an address one a minute, of all together one a second. Pure."""

    def __init__(self) -> None:
        self._of_each, self._of_all, self._left_out = TokenBuckets(WRONG_TOKENS_PER_S), TokenBuckets(WRONG_TOKENS_OF_ALL_PER_S), 0

    def take(self, address: str, now: float) -> int | None:
        """How many have had none since the last line; None: this one has none either. `now`: steady, in s."""
        if self._of_each.take(address, now) or self._of_all.take("", now):
            self._left_out += 1
            return None
        left_out, self._left_out = self._left_out, 0
        return left_out


def about(request: Request, subject: str, error: CepError | None = None) -> None:
    """The request is about this, and of many things this one came out so."""
    request.scope.setdefault(_NOTES, []).append((subject, error))


def last_lines(home: str, most: int) -> list[dict[str, Any]]:
    """The last that all orchestrators with this home have written, oldest first."""
    files = sorted((Path(home) / "audit").glob("*.jsonl*"), key=_age, reverse=True)
    found = [line for file in files for line in _tail(file)]
    return sorted(found, key=lambda line: str(line["at"]))[-most:]


def _age(file: Path) -> int:
    """How many files of the same orchestrator are newer: lines of one moment stay in their order."""
    last = file.suffix.removeprefix(".")
    return int(last) if last.isdecimal() else 0


def _tail(file: Path) -> Iterator[dict[str, Any]]:
    """What stands at its end. A line that is not whole, or not ours, is left out."""
    try:
        with file.open("rb") as opened:
            opened.seek(max(0, os.fstat(opened.fileno()).st_size - _TAIL_BYTES))
            lines = opened.read().splitlines()
    except OSError:
        return  # it has just been renamed
    for line in lines:
        with suppress(ValueError):
            read = json.loads(line)
            if isinstance(read, dict) and isinstance(read.get("at"), str):
                yield read


class _Queue(QueueHandler):
    """Puts lines where there is room for them."""

    def __init__(self, waiting: queue.Queue[Any], file: _File) -> None:
        super().__init__(waiting)
        self._file = file

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        return record

    def enqueue(self, record: logging.LogRecord) -> None:
        try:
            super().enqueue(record)
        except queue.Full:
            self._file.lost += 1


class _File(RotatingFileHandler):
    """Its owner's alone. A line that cannot be written is lost, and counted."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, maxBytes=FILE_BYTES_MAX, backupCount=FILES_MAX - 1, encoding="utf-8", delay=True)
        self.lost = 0

    def format(self, record: logging.LogRecord) -> str:
        line: Any = record.msg
        return json.dumps(line | ({"lost": self.lost} if self.lost else {}), separators=(",", ":"))

    def emit(self, record: logging.LogRecord) -> None:
        lost = self.lost
        super().emit(record)
        if self.lost == lost:
            self.lost -= lost

    def handleError(self, record: logging.LogRecord) -> None:
        self.lost += 1

    def _open(self) -> TextIOWrapper:
        path = Path(self.baseFilename)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        return open(path, "a", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600))


def _subject(request: Request) -> str:
    """What a request is about, as its address says: the query, the stream, or the node."""
    return str(request.path_params.get("name") or request.query_params.get("node") or "")


def _name(address: str) -> str:
    parts = urlsplit(address.partition(",")[0])
    return re.sub(r"[^A-Za-z0-9.-]", "_", f"{parts.hostname}-{parts.port}")


def _short(text: str) -> str:
    return text if len(text) <= TEXT_CHARS_MAX else f"{text[:TEXT_CHARS_MAX]}…"
