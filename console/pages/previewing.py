"""Answers of a preview as they come: a query with a lease, which is over a minute after nobody looks."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from nicegui import ui

from cep.errors import CepError, NotFound, counted
from console.shell import Shell, button, panel, said_of
from console.tables import Head, Sheet
from driver.rest import path

SHOWN = 20
WAIT_S = 5
PAUSE_S = 0.5


class PreviewPanel:
    """At most one preview; it ends with the page."""

    def __init__(
        self, shell: Shell, title: str = "Answers", note: str = "of a preview, which runs beside what runs, and ends by itself"
    ) -> None:
        self.shell = shell
        self._reading: asyncio.Task[None] | None = None
        self._rows: deque[Mapping[str, Any]] = deque(maxlen=SHOWN)
        self._count = 0
        self._columns: tuple[str, ...] = ()
        self._sheet: Sheet | None = None
        with panel(title, note) as self.panel:
            with ui.row().classes("items-center gap-3"):
                self._said = ui.label().classes("dim")
                self._end_button = button("end", self.end)
            self._place = ui.column().classes("w-full")
        self.panel.visible = False
        ui.context.client.on_disconnect(self.end)

    async def begin(self, ask: Callable[[], Any]) -> None:
        """`ask`: makes the preview."""
        await self.end()
        self.panel.visible = self._end_button.visible = True
        self._said.set_text("deploying …")
        found: Any = await self.shell.call(ask)
        if found is None:
            self._said.set_text("refused")
            self._end_button.visible = False
            return
        self._reading = asyncio.create_task(self._read(found["name"], list(found["streams"])))

    async def end(self) -> None:
        """What runs is deleted; rows that have been shown stay."""
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None
        self._end_button.visible = False

    async def _read(self, name: str, streams: list[str]) -> None:
        self._rows.clear()
        self._count = 0
        try:
            while True:
                ended = all([await self._take(name, stream, len(streams)) for stream in streams])
                self._show()
                if ended:
                    self._said.set_text(f"{counted(self._count, 'row')}; it has ended")
                    return
                await asyncio.sleep(PAUSE_S)
        except CepError as error:
            self._said.set_text(said_of(error))
        finally:
            asyncio.get_running_loop().run_in_executor(None, self._delete, name)
            self._end_button.visible = False

    async def _take(self, name: str, stream: str, of: int) -> bool:
        """Whether the stream has ended."""
        asked = path("preview", name) + f"/answers?stream={quote(stream, safe='')}&max=1000&wait={WAIT_S if of == 1 else 1}"
        found = await asyncio.to_thread(self.shell.rest.get, asked)
        for row in found["rows"]:
            self._rows.append({"stream": stream, **row} if of > 1 else row)
        self._count += len(found["rows"])
        return bool(found["ended"])

    def _delete(self, name: str) -> None:
        try:
            self.shell.rest.delete(path("queries", name))
        except (NotFound, CepError):
            return  # its lease ends it

    def _show(self) -> None:
        self._said.set_text(
            f"{counted(self._count, 'row')}; the last {len(self._rows)}, newest first" if self._rows else "no answers yet …"
        )
        columns = tuple(dict.fromkeys(name for row in self._rows for name in row))
        if columns != self._columns or self._sheet is None:
            self._columns = columns
            self._place.clear()
            with self._place:
                self._sheet = Sheet([Head(name) for name in columns])
        self._sheet.show([[_cell(row.get(name)) for name in columns] for row in reversed(self._rows)])


def _cell(value: Any) -> str:
    return "NULL" if value is None else value if isinstance(value, str) else json.dumps(value)
