"""Tables of files that are read again: which of their rows hold when (docs/semantics.md, Lookup)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tests.reference.rows import Values

#: The watermarks before everything and at the end.
BEGINNING, END = -(2**63), 2**63 - 1

#: From which watermark on the file has which rows.
Changes = Sequence[tuple[int, Sequence[Values]]]


class Versions:
    """What was read of a file every `refresh` µs of event time."""

    def __init__(self, refresh: int) -> None:
        self.refresh = refresh
        self.read: list[tuple[int, Sequence[Values]]] = []  # until when which rows hold, the oldest first

    def come_to(self, watermark: int, rows: Sequence[Values]) -> None:
        """The watermark is there, and the file has these rows."""
        if not self.read or watermark >= self.read[-1][0]:
            self.read.append((END if watermark == END else (watermark // self.refresh + 1) * self.refresh, rows))

    def rows_at(self, time: int) -> Sequence[Values]:
        """What a tuple of this event time meets."""
        return next(rows for until, rows in self.read if time < until)


def versions_of(refresh: int, watermarks: Iterable[int], changes: Changes) -> Versions:
    made = Versions(refresh)
    for watermark in (*watermarks, END):
        made.come_to(watermark, [rows for since, rows in changes if since <= watermark][-1])
    return made
