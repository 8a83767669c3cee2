"""Streams: where each comes from, which queries read it, how much passes, and the last rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nicegui import ui

from console.pages.previewing import PreviewPanel
from console.shell import Shell, button, facts, panel
from console.tables import Head, Sheet
from console.watch import Sight
from console.words import NONE, rate, span

HEADS = (
    Head("stream"),
    Head("comes from"),
    Head("read by"),
    Head("rows/s", True),
    Head("behind the clock", True),
    Head("columns", wide=True),
)
#: What is told of one that was picked, where it is declared.
DECLARED = ("event_time", "disorder", "partitioned_by", "idle_after", "watermark")


@dataclass(frozen=True, slots=True)
class Passing:
    """How much passes of a stream, and how far its watermark is behind the clock; None: no query that runs says."""

    rows_s: float | None = None
    lag_s: float | None = None


def passing(sight: Sight, stream: Mapping[str, Any]) -> Passing:
    """Of a stream that a query puts out, what it puts out; of another, what the query that reads most of it reads."""
    rates = sight.rates.queries
    if (feeding := rates.get(stream["fed_by"] or "")) is not None:
        sending = [flow for flow in feeding.flows if flow.name == stream["name"]]
        lags = [row.lag_s for row in feeding.instances if row.subquery in {flow.subquery for flow in sending}]
        return Passing(sum(flow.rows_s for flow in sending) if sending else None, _most(lags))
    found = []
    for reader in (rates[name] for name in stream["read_by"] if name in rates):
        arriving = [flow for flow in reader.arrivals if flow.name == stream["name"]]
        lags = [row.lag_s for row in reader.instances if row.subquery in {flow.subquery for flow in arriving}]
        if arriving:
            found.append((sum(flow.rows_s for flow in arriving), _most(lags)))
    return Passing(max(rows for rows, _ in found), _most([lag for _, lag in found])) if found else Passing()


def _most(lags: list[float | None]) -> float | None:
    return max((lag for lag in lags if lag is not None), default=None)


def origin(stream: Mapping[str, Any]) -> str:
    """In words."""
    if stream["fed_by"]:
        return f"query {stream['fed_by']}"
    if stream.get("files"):
        return f"files {', '.join(stream['files']['paths'])}"
    return ", ".join(each["name"] for each in stream["publishers"]) or "no publisher"


def _columns(stream: Mapping[str, Any]) -> str:
    return ", ".join(f"{each['name']} {each['type']}" for each in stream.get("schema", ()))


class StreamsPage:
    """The table, and what is said of the one that was chosen."""

    def __init__(self, shell: Shell) -> None:
        self.shell, self._sight = shell, Sight()
        with panel("Streams", "choose one to see its last rows"):
            self._sheet = Sheet(HEADS, filtered=True, on_pick=self._pick)
        with ui.element("div").classes("halves"):
            with panel("Declaration") as self._detail_panel:
                self._detail = ui.column().classes("w-full")
            self._rows = PreviewPanel(shell, "Rows as they come", "by a preview that passes them on, from now on")
        self._detail_panel.visible = False

    def refresh(self, sight: Sight) -> None:
        self._sight = sight
        rows = []
        previews = {each["name"] for each in sight.queries if each["lease_s"]}
        for stream in (each for each in sight.streams if each["fed_by"] not in previews):
            found = passing(sight, stream)
            readers = ", ".join(stream["read_by"]) or NONE
            speed = (NONE if found.rows_s is None else rate(found.rows_s), found.rows_s or 0.0)
            rows.append((stream["name"], origin(stream), readers, speed, (span(found.lag_s), found.lag_s or 0.0), _columns(stream)))
        self._sheet.show(rows)

    def _pick(self, name: str) -> None:
        stream = next((each for each in self._sight.streams if each["name"] == name), None)
        if stream is None:
            return
        self._detail_panel.visible = True
        self._detail.clear()
        lines = [("stream", name), ("comes from", origin(stream)), ("read by", ", ".join(stream["read_by"]) or NONE)]
        lines += [(key.replace("_", " "), str(stream[key])) for key in DECLARED if key in stream]
        lines += [(each["name"], each["type"]) for each in stream.get("schema", ())]
        with self._detail:
            facts(lines)
            self.shell.needing(button("show rows", lambda: self._look(name)))

    async def _look(self, name: str) -> None:
        document = {"name": "looking", "operators": [], "outputs": [{"stream": "rows", "input": name}]}
        await self._rows.begin(lambda: self.shell.rest.post("/preview", document))


def register(shell: Shell) -> None:
    @ui.page("/streams")
    def streams() -> None:
        made: list[StreamsPage] = []

        def refresh(sight: Sight) -> None:
            for each in made:
                each.refresh(sight)

        with shell.page("Streams", "/streams", refresh):
            made.append(StreamsPage(shell))
