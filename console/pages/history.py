"""History: what happened when, and by whose token; figures of the last hours."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import quote

from nicegui import ui

from cep.errors import CepError
from console.drawing import SvgDrawing, SvgShape, line_of, path, text
from console.shell import Shell, panel, said_of
from console.tables import Head, Sheet
from console.watch import Sight
from console.words import NONE, clock, moment, rate, span

HEADS = (Head("when, UTC"), Head("what kind"), Head("about"), Head("what", wide=True), Head("token"), Head("from"), Head("status", True))
FIELDS: tuple[tuple[str, str, Callable[[float | None], str]], ...] = (
    ("rows_in_s", "rows in a second", lambda value: NONE if value is None else rate(value)),
    ("rows_out_s", "rows out a second", lambda value: NONE if value is None else rate(value)),
    ("cores", "cores", lambda value: NONE if value is None else f"{value:.2f}"),
    ("lag_s", "lag", span),
    ("latency_p99_s", "latency, p99", span),
)
EVERY_S = 10.0
EVENTS = 500
WIDTH, HEIGHT, LEFT = 640.0, 92.0, 60.0
POINTS = 360


def chart(times: Sequence[float], values: Sequence[float | None], shown: Callable[[float | None], str]) -> list[SvgShape]:
    """A curve of one figure, its greatest value and the times at the ends."""
    step = max(1, len(times) // POINTS)
    fewer = [_greatest(values[i : i + step]) for i in range(0, len(values), step)]
    most = _greatest(values)
    shapes = [path(f"M{LEFT} {y}H{WIDTH}", "grid", 1) for y in (2.0, (HEIGHT - 16) / 2, HEIGHT - 16)]
    shapes += [text(LEFT - 6, 10, shown(most), "small dim", "end"), text(LEFT - 6, HEIGHT - 15, "0", "small dim", "end")]
    if times:
        shapes += [text(LEFT, HEIGHT - 2, clock(times[0]), "small dim"), text(WIDTH, HEIGHT - 2, clock(times[-1]), "small dim", "end")]
    curve = line_of(fewer, WIDTH - LEFT, HEIGHT - 18)
    return [*shapes, SvgShape("g", {"transform": f"translate({LEFT:g} 1)"}, parts=(path(curve, "curve"),))] if curve else shapes


def _greatest(values: Sequence[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


class HistoryPage:
    """Asks anew every few seconds."""

    def __init__(self, shell: Shell) -> None:
        self.shell, self._names = shell, list[str]()
        with ui.row().classes("items-center gap-3 w-full"):
            self._query = (
                ui.select({"": "all queries"}, value="", label="of", on_change=self.ask, with_input=True)
                .props("dense outlined")
                .classes("w-72")
            )
            self._said = ui.label().classes("dim")
        with ui.element("div").classes("charts"):
            self._drawings = []
            for _, title, _ in FIELDS:
                with panel(title):
                    self._drawings.append(SvgDrawing("map"))
        with panel("What happened"):
            self._sheet = Sheet(HEADS, filtered=True)
        ui.timer(EVERY_S, self.ask, immediate=True)

    def refresh(self, sight: Sight) -> None:
        names = [each["name"] for each in sight.queries]
        if names != self._names:
            self._names = names
            self._query.set_options({"": "all queries"} | {name: name for name in names}, value=self._query.value or "")

    async def ask(self) -> None:
        try:
            found = await self._history()
        except CepError as error:
            self._said.set_text(said_of(error))
            return
        figures, events = found["figures"], found["events"]
        hours = len(figures["times"]) * figures["step_s"] / 3600
        admin = "" if any(each["kind"] == "asked" for each in events) else "; what was asked for, tokens with the role admin see"
        self._said.set_text(f"figures of the last {hours:.1f} h, one every {figures['step_s']:g} s{admin}")
        for (name, _, shown), drawing in zip(FIELDS, self._drawings, strict=True):
            drawing.draw(chart(figures["times"], figures[name], shown), WIDTH, HEIGHT)
        self._sheet.show([_line(each) for each in reversed(events)])

    async def _history(self) -> Any:
        name = str(self._query.value or "")
        of = f"&query={quote(name, safe='')}" if name else ""
        return await asyncio.to_thread(self.shell.rest.get, f"/history?last={EVENTS}{of}")


def _line(event: dict[str, Any]) -> tuple[object, ...]:
    status = event.get("status")
    return (
        (moment(event["at"]), event["at"]),
        event["kind"],
        event["about"],
        event["what"],
        event.get("token") or NONE,
        event.get("origin") or NONE,
        NONE if status is None else status,
    )


def register(shell: Shell) -> None:
    @ui.page("/history")
    def history() -> None:
        made: list[HistoryPage] = []

        def refresh(sight: Sight) -> None:
            for each in made:
                each.refresh(sight)

        with shell.page("History", "/history", refresh):
            made.append(HistoryPage(shell))
