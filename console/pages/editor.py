"""The editor: a query as a document or SQL, what it would become as one types, what it would answer, and what differs from what runs."""

from __future__ import annotations

import asyncio
import base64
import difflib
from typing import Any
from urllib.parse import quote

from nicegui import ui

from cep.errors import CepError, NotFound, QueryError, counted
from cep.service.yaml_documents import load_yaml, written_yaml
from console.alarms import query_page
from console.pages.previewing import PreviewPanel
from console.places import JSON, SQL, YAML, kind_of, place_of
from console.shell import Shell, button, confirm, panel, said_of
from console.watch import Sight
from driver.rest import path

PAUSE_S = 0.5
"""After a key, until what it would become is asked for."""
LANGUAGES: dict[str, Any] = {JSON: "JSON", YAML: "YAML", SQL: "SQL"}
FIRST = """# A query: YAML, JSON or SQL. What it would become stands beside it as you type.
name: per-ip
operators:
- name: window
  type: aggregate
  input: visits
  window: {type: time, size: 10s, advance: 10s}
  by: [ip]
  functions: {visits: {function: count}}
outputs:
- {stream: per_ip, input: window}
"""


class Editor:
    """What is typed, and what is said of it."""

    def __init__(self, shell: Shell, text: str, name: str) -> None:
        self.shell = shell
        self._asked: asyncio.Task[None] | None = None
        self._queries: list[str] = []
        self._build(text, name)
        self._asked = asyncio.create_task(self._ask(0.0))

    def _build(self, text: str, name: str) -> None:
        with ui.row().classes("items-center w-full gap-2"):
            self._name = (
                ui.input("name", value=name)
                .props("dense outlined")
                .classes("w-56")
                .tooltip("of a query that is SQL; a document has its own")
            )
            self._load = (
                ui.select([], label="open one that is deployed", on_change=self._open, with_input=True)
                .props("dense outlined")
                .classes("w-64")
            )
            self._kind = ui.label().classes("dim")
            with ui.row().classes("gap-2 ml-auto"):
                self.shell.needing(button("preview", self._preview))
                self.shell.needing(button("difference", self._differ))
                self.shell.needing(button("upgrade …", self._upgrade))
                self.shell.needing(button("deploy …", self._deploy, "main"))
        with ui.element("div").classes("halves"):
            with panel("Query"):
                self._text = ui.codemirror(text, on_change=self._typed, line_wrapping=True, indent="  ").classes("editor")
                self._wrong = ui.label().classes("bad plain")
            with ui.column().classes("w-full gap-3"):
                with panel("What it would become", "nothing is deployed"):
                    self._explained = ui.label().classes("plain")
                    self._pictures = ui.column().classes("w-full")
                self._answers = PreviewPanel(self.shell)
                with panel("Difference") as self._difference_panel:
                    self._difference = ui.column().classes("w-full gap-0 plain")
        self._difference_panel.visible = False

    def refresh(self, sight: Sight) -> None:
        names = [each["name"] for each in sight.queries if not each["lease_s"]]
        if names != self._queries:
            self._queries = names
            self._load.set_options(names)

    @property
    def _kind_now(self) -> str:
        return kind_of(self._text.value)

    def _send(self, to: str, text: str, kind: str) -> Any:
        named = f"?name={quote(self._name.value or 'unnamed', safe='')}" if kind == SQL else ""
        return self.shell.rest.send(to + (named if "?" not in to else named.replace("?", "&")), text, kind)

    def _typed(self) -> None:
        if self._asked is not None:
            self._asked.cancel()
        self._asked = asyncio.create_task(self._ask(PAUSE_S))

    async def _ask(self, pause_s: float) -> None:
        """What it would become, a moment after the last key."""
        await asyncio.sleep(pause_s)
        text, kind = self._text.value, self._kind_now
        self._text.set_language(LANGUAGES[kind])
        self._name.visible = kind == SQL
        self._kind.set_text(f"{LANGUAGES[kind]}, {counted(len(text.splitlines()), 'line')}")
        try:
            found = await asyncio.to_thread(self._send, "/explain", text, kind)
        except CepError as error:
            self._mark(text, error)
            return
        self._mark(text, None)
        self._explained.set_text(found["text"])
        self._explained.classes(remove="dim")
        self._pictures.clear()
        with self._pictures:
            for name, picture in found["pictures"].items():
                ui.label(f"pattern {name}").classes("dim")
                drawn = ui.element("img").classes("picture")
                drawn.props["src"] = f"data:image/svg+xml;base64,{base64.b64encode(picture.encode()).decode()}"

    def _mark(self, text: str, error: CepError | None) -> None:
        """Shows what is wrong under its place; None: nothing is."""
        if error is None:
            self._text.decorations = []
            self._wrong.set_text("")
            return
        self._explained.classes(add="dim")
        place = place_of(text, str(error), error.pointer if isinstance(error, QueryError) else "")
        if place is None:
            self._text.decorations = []
            self._wrong.set_text(said_of(error))
            return
        marks: list[dict[str, Any]] = [{"kind": "line", "line": place.line, "class": "cm-wrong-line"}]
        if place.end > place.start:
            marks.append({"kind": "mark", "from": place.start, "to": place.end, "class": "cm-wrong"})
        self._text.decorations = marks
        self._wrong.set_text(f"line {place.line}: {said_of(error)}")

    async def _open(self) -> None:
        name = str(self._load.value or "")
        if name in self._queries:
            text = await document_of(self.shell, name)
            if text is not None:
                self._text.set_value(text)

    async def _preview(self) -> None:
        text, kind = self._text.value, self._kind_now
        await self._answers.begin(lambda: self._send("/preview", text, kind))

    async def _named(self) -> str | None:
        """Which query it is; None, which is said: the text cannot be read."""
        if self._kind_now == SQL:
            return self._name.value or "unnamed"
        try:
            read = load_yaml(self._text.value)
        except ValueError:
            read = None
        if not isinstance(read, dict) or not isinstance(read.get("name"), str):
            ui.notify("the document has no name", type="negative")
            return None
        return str(read["name"])

    async def _deploy(self) -> None:
        name, text, kind = await self._named(), self._text.value, self._kind_now
        if name is None:
            return
        if name in self._queries:
            ui.notify(f"query {name!r} is deployed already: upgrade it, or delete it before", type="negative")
            return

        async def do() -> None:
            if await self.shell.call(lambda: self._send("/queries", text, kind), f"{name} is deployed"):
                ui.navigate.to(query_page(name))

        says = (
            "It is planned, its kernels are compiled where that has not been done, and then it runs on all instance managers that it needs."
        )
        confirm(f"Deploy {name}?", says, "deploy it", do)

    async def _upgrade(self) -> None:
        name, text, kind = await self._named(), self._text.value, self._kind_now
        if name is None:
            return
        way = path("queries", name) + "/upgrade"
        report: Any = await self.shell.call(lambda: self._send(f"{way}?dry_run=true", text, kind))
        if report is None:
            return
        if not report["possible"]:
            self._tell([f"! {line}" for line in report["text"].splitlines()])
            return

        async def do() -> None:
            if await self.shell.call(lambda: self._send(f"{way}?wait=true&timeout=50", text, kind), f"{name} is upgraded"):
                ui.navigate.to(query_page(name))

        says = f"It takes a checkpoint, and goes on from there as this query; subscribers and publishers stay.\n\n{report['text']}"
        confirm(f"Upgrade {name}?", says, "upgrade it", do)

    async def _differ(self) -> None:
        """Of the plans in words, which say the same whatever each is written in."""
        name, text, kind = await self._named(), self._text.value, self._kind_now
        if name is None:
            return
        try:
            here = (await asyncio.to_thread(self._send, "/explain", text, kind))["text"]
            there = (await asyncio.to_thread(self.shell.rest.get, path("queries", name) + "/explain"))["text"]
        except NotFound:
            self._tell([f"  there is no query {name!r} yet"])
            return
        except CepError as error:
            self._tell([f"! {said_of(error)}"])
            return
        lines = list(
            difflib.unified_diff(_plan_lines(there), _plan_lines(here), f"{name}, as it runs", "as it stands here", lineterm="", n=1)
        )
        self._tell(lines or ["  nothing differs"])

    def _tell(self, lines: list[str]) -> None:
        self._difference_panel.visible = True
        self._difference.clear()
        with self._difference:
            for line in lines:
                ui.label(line or " ").classes({"+": "plus", "-": "minus", "!": "bad"}.get(line[:1], ""))


def _plan_lines(explained: str) -> list[str]:
    """Without what was observed while it ran."""
    return explained.partition("\nobserved\n")[0].splitlines()


async def document_of(shell: Shell, name: str) -> str | None:
    """The document of a deployed query as YAML; None: it is not there, which is said."""
    found: Any = await shell.call(lambda: shell.rest.get(path("queries", name) + "?figures=false"))
    return None if found is None else written_yaml(found["document"])


def register(shell: Shell) -> None:
    @ui.page("/editor")
    async def editor(query: str = "") -> None:
        made: list[Editor] = []

        def refresh(sight: Sight) -> None:
            for each in made:
                each.refresh(sight)

        with shell.page("Editor", "/editor", refresh):
            text = await document_of(shell, query) if query else None
            made.append(Editor(shell, text or FIRST, query))
