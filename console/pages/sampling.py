"""What a query is doing just now: flame graphs of the instance managers that it is on.

They are shown as images, in which a browser runs no script and loads nothing.
"""

from __future__ import annotations

import base64
from typing import Any

from nicegui import ui

from console.shell import Shell, button, panel
from driver.rest import path

SECONDS = 5


class Sampling:
    """Asked for by a button."""

    def __init__(self, shell: Shell, name: str) -> None:
        self.shell, self.name = shell, name
        with panel("Flame graph", "functions by how often a sampling profiler met them"):
            with ui.row().classes("items-center gap-3"):
                self._button = shell.needing(button(f"sample {SECONDS} s", self._sample))
                self._said = ui.label("").classes("dim")
            self._pictures = ui.column().classes("w-full")

    async def _sample(self) -> None:
        self._button.disable()
        self._said.set_text("sampling …")
        try:
            found: Any = await self.shell.call(lambda: self.shell.rest.post(path("queries", self.name) + f"/flame?seconds={SECONDS}"))
        finally:
            self._button.enable()
        if found is None:
            self._said.set_text("not drawn")
            return
        self._said.set_text(f"not on this host: {', '.join(found['elsewhere'])}" if found["elsewhere"] else "")
        self._pictures.clear()
        with self._pictures:
            for im, made in found["managers"].items():
                ui.label(f"{im}: {made['said']}").classes("dim")
                if made["picture"]:
                    data = base64.b64encode(made["picture"].encode()).decode()
                    picture = ui.element("img").classes("picture")
                    picture.props["src"] = f"data:image/svg+xml;base64,{data}"
                    picture.props["alt"] = f"flame graph of {im}"
