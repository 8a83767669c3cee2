"""How the processes of a cluster log: lines of text for people, or a JSON document a line for what gathers logs.

A document has `time` (UTC), `level`, `process`, `logger` and `message`; `query` and `instance` where the line is about one; `exception`, a
traceback, where there is one; and what else the line was given by `about`. What ends a process or a thread is logged in the same form.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from cep.config import LOG_FORMS

TEXT, JSON = LOG_FORMS
_KEY = "about"  # of a record: what `about` gave
_LOG = logging.getLogger(__name__)


def begin_logging(process: str, form: str = TEXT, level: int = logging.WARNING, file: Path | None = None) -> None:
    """Of this process, called `process`, from now on: to `file`, or else to stderr, in `form`, one of LOG_FORMS. What was set before is
    taken back."""
    handler = logging.StreamHandler() if file is None else logging.FileHandler(file, delay=True)
    handler.setFormatter(JsonLines(process) if form == JSON else TextLines(process))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    if form == JSON:
        logging.captureWarnings(True)
        sys.excepthook = _log_end
        threading.excepthook = _log_thread


def about(query: str | None = None, instance: str | None = None, **more: Any) -> dict[str, Any]:
    """As `extra` of a call of a logger: what its line is about. `instance` as `cep status` has it, `SQ1/0`; `exception`: a traceback that
    was taken elsewhere."""
    told = {"query": query, "instance": instance, **more}
    return {_KEY: {name: value for name, value in told.items() if value is not None}}


class JsonLines(logging.Formatter):
    """A record as one line of JSON, whatever is in it."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self.process = process

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        own = {"time": at, "level": record.levelname, "process": self.process, "logger": record.name, "message": record.getMessage()}
        if (trace := _traceback(record)) is not None:
            own["exception"] = trace
        return json.dumps(getattr(record, _KEY, {}) | own, default=str)


class TextLines(logging.Formatter):
    """Time, process, level, logger and message; a traceback behind it."""

    def __init__(self, process: str) -> None:
        super().__init__(f"%(asctime)s {process.replace('%', '%%')} %(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        line, trace = super().format(record), getattr(record, _KEY, {}).get("exception")
        return line if trace is None else f"{line}\n{trace}"


def _traceback(record: logging.LogRecord) -> str | None:
    if record.exc_info and record.exc_info[0] is not None:
        return logging.Formatter().formatException(record.exc_info)
    found = getattr(record, _KEY, {}).get("exception")
    return None if found is None else str(found)


def _log_end(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    _LOG.critical("%s: %s", kind.__name__, error, exc_info=(kind, error, trace))


def _log_thread(given: threading.ExceptHookArgs) -> None:
    if given.exc_value is not None:
        name = "" if given.thread is None else given.thread.name
        _LOG.critical("thread %s ended: %s", name, given.exc_value, exc_info=(given.exc_type, given.exc_value, given.exc_traceback))
