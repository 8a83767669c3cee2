"""Connectors: what brings rows and takes them away, how each does, and the last records that it could make no rows of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nicegui import ui

from console.shell import Shell, facts, panel
from console.tables import Head, Sheet
from console.watch import Sight
from console.words import NONE, ago, moment
from driver.rest import path

HEADS = (
    Head("connector"),
    Head("state"),
    Head("way"),
    Head("stream"),
    Head("rows", True),
    Head("waiting", True),
    Head("last row"),
    Head("failures", True),
    Head("dead letters", True),
    Head("what is wrong", wide=True, css="cut"),
)
LETTERS = (Head("where"), Head("reason", wide=True), Head("record", wide=True, css="mono"))


def way(connector: Mapping[str, Any]) -> str:
    """In words."""
    return f"{connector['way']} {connector['connector']}"


def told(connector: Mapping[str, Any], now: float) -> tuple[object, ...]:
    """Its row of the table."""
    waiting, last = connector["behind"], connector["last_row"]
    return (
        connector["name"],
        connector["state"],
        way(connector),
        connector["stream"],
        (f"{connector['rows']:,}", connector["rows"]),
        (NONE if waiting is None else f"{waiting:,}", waiting or 0),
        (NONE if last is None else ago(max(now - last, 0.0)), last or 0.0),
        connector["failures"],
        (f"{connector['dead_letters']:,}", connector["dead_letters"]),
        connector["error"] or connector["note"],
    )


class ConnectorsPage:
    """The table, and what is said of the one that was chosen."""

    def __init__(self, shell: Shell) -> None:
        self.shell, self._sight = shell, Sight()
        with panel("Connectors", "rows since each was started at its process; choose one to see more of it"):
            self._sheet = Sheet(HEADS, state=1, filtered=True, on_pick=self._pick)
        with ui.element("div").classes("halves") as self._more:
            with panel("Declaration"):
                self._detail = ui.column().classes("w-full")
            with panel("Dead letters", "the last of them"):
                self._said = ui.label("none").classes("dim")
                self._letters = Sheet(LETTERS, rows=10)
        self._more.visible = False

    def refresh(self, sight: Sight) -> None:
        self._sight = sight
        self._sheet.show([told(each, sight.at) for each in sight.connectors])

    async def _pick(self, name: str) -> None:
        connector = next((each for each in self._sight.connectors if each["name"] == name), None)
        if connector is None:
            return
        self._more.visible = True
        self._detail.clear()
        since = moment(connector["since"]) if connector["since"] else NONE
        lines = [
            ("connector", name),
            ("way", way(connector)),
            ("stream", connector["stream"]),
            ("state", f"{connector['state']} since {since}"),
        ]
        lines += [
            ("runs in", connector["place"] or "no process"),
            ("what is wrong", connector["error"] or NONE),
            ("note", connector["note"] or NONE),
        ]
        lines += [(key, str(value)) for key, value in connector["document"][connector["way"]].items() if key != "connector"]
        with self._detail:
            facts(lines)
        self._letters.show([])
        found: Any = await self.shell.call(lambda: self.shell.rest.get(path("connectors", name) + "/dead-letters"))
        letters = found if isinstance(found, list) else []
        self._said.set_text(f"{len(letters)} of {connector['dead_letters']:,}" if letters else "none that may be shown")
        self._letters.show([(each["place"], each["reason"], each["value"]) for each in reversed(letters)])


def register(shell: Shell) -> None:
    @ui.page("/connectors")
    def connectors() -> None:
        made: list[ConnectorsPage] = []

        def refresh(sight: Sight) -> None:
            for each in made:
                each.refresh(sight)

        with shell.page("Connectors", "/connectors", refresh):
            made.append(ConnectorsPage(shell))
