"""Dead letters of a query, by reason, with the last of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from nicegui import ui

from cep.errors import CepError, counted
from console.rates import QueryRates
from console.shell import Shell, panel
from console.tables import Head, Sheet
from driver.rest import path

REASONS = (Head("operator"), Head("of the last", True), Head("reason", wide=True))
SAMPLES = (Head("reason", wide=True), Head("where", wide=True), Head("record", wide=True, css="mono"))
SAMPLES_MAX = 100


class Letters:
    """Asked for when there are more, and not more often than every few seconds."""

    def __init__(self, shell: Shell, name: str) -> None:
        self.shell, self.name = shell, name
        self._count = 0
        with panel("Late rows and dead letters"):
            self._said = ui.label("none").classes("dim")
            self._reasons = Sheet(REASONS, rows=10)
            with ui.expansion("samples, the last first", value=True).classes("w-full").props("dense") as self._expansion:
                self._samples = Sheet(SAMPLES, rows=8)
        self._reasons.table.visible = self._expansion.visible = False
        self._asking = False

    def show(self, rates: QueryRates) -> None:
        late = f"{counted(rates.late, 'late row')}, further behind than the disorder of their stream allows"
        if not rates.dead:
            self._said.set_text(late if rates.late else "none")
        elif rates.dead != self._count and not self._asking:
            self._count, self._asking = rates.dead, True
            asyncio.get_running_loop().create_task(self._ask(late))

    async def _ask(self, late: str) -> None:
        try:
            found = await asyncio.to_thread(self.shell.rest.get, path("queries", self.name) + "/dead-letters")
            self._tell(found, late)
        except CepError as error:
            self._said.set_text(f"{late}; {self._count:,} dead letters: {error}")
        finally:
            await asyncio.sleep(3)
            self._asking = False

    def _tell(self, found: dict[str, Any], late: str) -> None:
        counts = ", ".join(f"{operator} {count:,}" for operator, count in found["counts"].items() if count)
        self._said.set_text(f"{late}; {counted(found['total'], 'dead letter')}: {counts}")
        letters = found["letters"]
        by_reason = Counter((each.get("operator", ""), each.get("reason", "")) for each in letters)
        self._reasons.show([(operator, count, reason) for (operator, reason), count in by_reason.most_common(20)])
        self._samples.show([(each.get("reason", ""), _where(each), each.get("record", "")) for each in reversed(letters[-SAMPLES_MAX:])])
        self._reasons.table.visible = self._expansion.visible = bool(letters)


def _where(letter: dict[str, Any]) -> str:
    return f"{letter.get('source', '')}, {letter.get('position', '')}"
