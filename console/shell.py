"""What every page has: the bar, light and dark, the keys, and how it asks before it does something."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nicegui import run, ui
from nicegui.events import KeyEventArguments

from cep.errors import CepError, QueryError
from cep.service.access import DEPLOY, Role
from console.alarms import BAD, alarms
from console.watch import ClusterWatch, Sight
from console.words import ago, clock
from driver.rest import Rest

STYLE = (Path(__file__).parent / "style.css").read_text()
TABS = (
    ("Now", "/", "n"),
    ("Queries", "/queries", "q"),
    ("Editor", "/editor", "e"),
    ("Streams", "/streams", "s"),
    ("Connectors", "/connectors", "c"),
    ("History", "/history", "h"),
)
KEYS = (
    *((key, f"go to {name}") for name, _, key in TABS),
    ("/", "filter the table"),
    ("t", "light, dark, as the system has it"),
    ("?", "these keys"),
    ("Esc", "close what is open"),
)
LOOK_S = 1.0
THEMES = {"light": False, "dark": True, "auto": None}
STALE_S = 5.0


@dataclass(frozen=True)
class Shell:
    """What pages are made with.

    Args:
        watch: what is known of the cluster.
        rest: asks it, on behalf of a person at a page.
    """

    watch: ClusterWatch
    rest: Rest

    @contextmanager
    def page(self, title: str, here: str, refresh: Callable[[Sight], None] | None = None) -> Iterator[None]:
        """A page; `refresh` is called with what is known, each second, while somebody has it open."""
        theme = ui.context.client.request.cookies.get("theme", "auto")
        ui.dark_mode(THEMES.get(theme))
        ui.page_title(f"{title} · cep")
        status = self._bar(here, theme)
        ui.keyboard(on_key=_Keys(theme, _overlay()).pressed)
        yield
        shown = [-1]

        def look() -> None:
            sight = self.watch.sight()
            status(sight)
            if refresh is not None and sight.at and sight.number != shown[0]:
                shown[0] = sight.number
                refresh(sight)

        look()
        ui.timer(LOOK_S, look)

    def _bar(self, here: str, theme: str) -> Callable[[Sight], None]:
        with ui.header().classes("bar"):
            ui.link("cep", "/").classes("brand")
            for name, to, _ in TABS:
                ui.link(name, to).classes("tab here" if to == here else "tab")
            with ui.element("div").classes("end"):
                dot = ui.element("div").classes("dot")
                said = ui.label()
                ui.label(self.rest.url)
                ui.link(f"theme: {theme}", f"/theme/{_next(theme)}").classes("do")
                ui.label("? keys")

        def status(sight: Sight) -> None:
            wrong = [alarm.grade for alarm in alarms(sight)]
            old_s = self.watch.now() - sight.at
            grade = "bad" if BAD in wrong else "odd" if wrong or old_s > STALE_S else ""
            dot.classes(replace=f"dot {grade}")
            late = f"as of {ago(old_s)}" if sight.at and old_s > STALE_S else f"{clock(sight.at)} UTC"
            said.set_text(f"{len(wrong)} to look at · {late}" if sight.at else sight.error or "asking …")

        return status

    def needing(self, made: ui.button, role: Role = DEPLOY) -> ui.button:
        """A button that only a token with this role may press; with another it says so."""

        def look() -> None:
            if (now := self.watch.sight().may(role)) != made.enabled:
                made.set_enabled(now)
                made.props["title"] = "" if now else f"this needs the role {role}, which the console's token does not have"

        look()
        ui.timer(LOOK_S, look)
        return made

    async def call(self, ask: Callable[[], object], done: str = "") -> object:
        """What the cluster answers, off the page's loop; None where it refuses, which is said. `done`: what is said else."""
        try:
            answer = await run.io_bound(ask)
        except CepError as error:
            ui.notify(said_of(error), type="negative", multi_line=True, timeout=0, close_button="close")
            return None
        if done:
            ui.notify(done, type="positive")
        return answer if answer is not None else True


def said_of(error: CepError) -> str:
    return f"{error} (at {error.pointer})" if isinstance(error, QueryError) and error.pointer else str(error)


def confirm(title: str, says: str, action: str, do: Callable[[], Awaitable[object]], harm: bool = False) -> None:
    """Asks before it is done; `says`: what will happen."""
    with asking(title, says) as dialog:
        answers(dialog, action, do, harm)


@contextmanager
def asking(title: str, says: str) -> Iterator[ui.dialog]:
    """A dialog, in which the block stands below what it says."""
    with ui.dialog(value=True) as dialog, ui.card().classes("w-[520px]"):
        ui.label(title).classes("title")
        ui.label(says).style("white-space: pre-line")
        yield dialog
    dialog.on("hide", dialog.delete)


def answers(dialog: ui.dialog, action: str = "", do: Callable[[], Awaitable[object]] | None = None, harm: bool = False) -> None:
    """The buttons of a dialog: it is left, or it is done, where there is something to do."""
    page = ui.context.client

    async def then() -> None:
        dialog.close()
        with page:  # the dialog, and the button in it, are gone by the time that it is done
            assert do is not None
            await do()

    with ui.row().classes("w-full justify-end"):
        button("leave it", dialog.close)
        if do is not None:
            button(action, then, "harm" if harm else "main")


def button(words: str, do: Callable[[], object], css: str = "") -> ui.button:
    return ui.button(words, on_click=do, color=None).props("flat no-caps dense").classes(f"act {css}")


def panel(head: str, note: str = "") -> ui.element:
    """A box with a head; what is made in it stands below."""
    box = ui.column().classes("panel w-full")
    with box, ui.element("div").classes("head"):
        ui.label(head)
        if note:
            ui.label(note).classes("note")
    return box


def facts(lines: Sequence[tuple[str, str]]) -> None:
    """Names and what they are, in two columns."""
    with ui.element("div").classes("facts"):
        for name, value in lines:
            ui.label(name)
            ui.label(value)


def _next(theme: str) -> str:
    names = list(THEMES)
    return names[(names.index(theme) + 1) % len(names)] if theme in names else "light"


def _overlay() -> ui.dialog:
    with ui.dialog() as overlay, ui.card():
        ui.label("Keys").classes("title")
        with ui.element("div").classes("keys"):
            for key, meaning in KEYS:
                with ui.element("kbd"):
                    ui.label(key)
                ui.label(meaning)
    return overlay


@dataclass(frozen=True)
class _Keys:
    theme: str
    overlay: ui.dialog

    def pressed(self, event: KeyEventArguments) -> None:
        if not event.action.keydown or event.action.repeat or event.modifiers.ctrl or event.modifiers.alt or event.modifiers.meta:
            return
        to = next((to for _, to, key in TABS if key == event.key.name), None)
        if to is not None:
            ui.navigate.to(to)
        elif event.key.name == "?":
            self.overlay.open()
        elif event.key.name == "t":
            ui.navigate.to(f"/theme/{_next(self.theme)}")
        elif event.key.name == "/":
            ui.run_javascript("document.querySelector('.filter input')?.focus()")
