"""What has held up the instance managers that a query is on, by cause, since its page was opened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nicegui import ui

from console.rates import QueryRates
from console.shell import panel
from console.tables import Head, Sheet
from console.watch import Sight
from console.words import span
from driver.trace import CauseRow, meanings, trace_between

STALLS = (
    Head("where"),
    Head("instance manager"),
    Head("cause"),
    Head("times", True),
    Head("in all", True),
    Head("the slowest", True),
)


class StallsPanel:
    """Those of the query's operators, and of the loops that they run in."""

    def __init__(self, query: str) -> None:
        self.query = query
        self._first: Mapping[str, Any] | None = None
        with panel("Stalls", "what took more than a millisecond at a time since this page was opened, and why"):
            self._sheet = Sheet(STALLS, rows=12)
            self._means = ui.column().classes("dim gap-0")
        self._causes: tuple[str, ...] = ()

    def show(self, rates: QueryRates, sight: Sight) -> None:
        if sight.trace is None:
            return
        own = self._own(sight.trace)
        if self._first is None:
            self._first = own
        found = trace_between(self._first, own, {row.im for row in rates.instances}).causes
        self._sheet.show([_line(row) for row in found])
        causes = tuple(meanings(found))
        if causes != self._causes:
            self._causes = causes
            self._means.clear()
            with self._means:
                for each in causes:
                    ui.label(each)

    def _own(self, trace: Mapping[str, Any]) -> Mapping[str, Any]:
        """Without what is of other queries."""
        parts = ("totals", "slowest")
        kept = ({part: [each for each in im[part] if each["query"] in (self.query, "")] for part in parts} for im in trace["managers"])
        return {"managers": [{**im, **mine} for im, mine in zip(trace["managers"], kept, strict=True)]}


def _line(row: CauseRow) -> tuple[object, ...]:
    worst = None if row.worst_ns is None else row.worst_ns / 1e9
    return row.where, row.im, row.cause, row.count, (span(row.total_ns / 1e9), row.total_ns), (span(worst), worst or 0.0)
