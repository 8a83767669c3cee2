"""What is told of a running connector."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

LETTERS_KEPT = 20
VALUE_CHARS = 200


class ConnectorFigures:
    """Each field is written by one thread, or under the interpreter's lock."""

    def __init__(self) -> None:
        self.state, self.error, self.note = "starting", "", ""
        self.rows = self.dead_letters = self.failures = 0
        self.behind: dict[str, int | None] = {}  # by partition
        self.letters: deque[dict[str, str]] = deque(maxlen=LETTERS_KEPT)
        self.since = self.last_row = 0.0

    def turn(self, state: str, error: str = "") -> None:
        """What it is at now, and what is wrong."""
        if state != self.state:
            self.state, self.since = state, time.time()
        self.error = error

    def took(self, rows: int) -> None:
        self.rows += rows
        self.last_row = time.time()

    def letter(self, place: str, reason: str, value: bytes, rows: int = 1) -> None:
        """A record that is no row of the stream; or so many from there on, for one reason."""
        self.dead_letters += rows
        self.letters.append({"place": place, "reason": reason[:500], "value": value[:VALUE_CHARS].decode(errors="replace")})

    def to_json(self) -> dict[str, Any]:
        known = [each for each in self.behind.values() if each is not None]
        return {
            "state": self.state,
            "error": self.error,
            "note": self.note,
            "since": self.since,
            "rows": self.rows,
            "dead_letters": self.dead_letters,
            "failures": self.failures,
            "behind": sum(known) if known and len(known) == len(self.behind) else None,
            "last_row": self.last_row or None,
            "letters": list(self.letters),
        }
