"""What can be done with a query at its page. Each asks first, and says what will happen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from nicegui import ui

from cep.errors import counted
from console.shell import Shell, answers, asking, button, confirm
from console.watch import Sight
from driver.rest import path

OVER = ("stopped", "ended", "failed")
WAIT = "wait=true&timeout=50"


class QueryActions:
    """The buttons; which are there depends on the query's state."""

    def __init__(self, shell: Shell, name: str) -> None:
        self.shell, self.name = shell, name
        self._query: Mapping[str, Any] | None = None
        self._plan: Mapping[str, Any] | None = None
        self._sight = Sight()
        with ui.row().classes("gap-2 ml-auto"):
            self._buttons = {
                "start": button("start", self._start),
                "move": button("move …", self._move),
                "scale": button("scale …", self._scale),
                "upgrade": button("upgrade …", lambda: ui.navigate.to(f"/editor?query={quote(name, safe='')}")),
                "drain": button("drain …", self._drain),
                "stop": button("stop …", self._stop, "harm"),
                "delete": button("delete …", self._delete, "harm"),
            }
        for each in map(shell.needing, self._buttons.values()):
            each.visible = False

    def show(self, query: Mapping[str, Any] | None, plan: Mapping[str, Any] | None, sight: Sight) -> None:
        self._query, self._plan, self._sight = query, plan, sight
        state = None if query is None else query["state"]
        running = state == "running"
        there = {"start": state == "ready", "move": running, "scale": running and query is not None and query["recovery"] is not None}
        there |= {
            "upgrade": running,
            "drain": running,
            "stop": state in ("running", "draining", "ready", "deploying"),
            "delete": query is not None,
        }
        for name, is_there in there.items():
            self._buttons[name].visible = is_there

    def _post(self, way: str, document: Any = None) -> Callable[[], object]:
        return lambda: self.shell.rest.post(path("queries", self.name) + way, document)

    async def _start(self) -> None:
        await self.shell.call(self._post("/start"), f"{self.name} is starting")

    def _readers(self) -> str:
        """Which queries read what this one puts out, as a sentence."""
        fed = [each for each in self._sight.streams if each["fed_by"] == self.name]
        readers = sorted({query for each in fed for query in each["read_by"]})
        return f"\nIts answers are read by {', '.join(readers)}, which then get no more." if readers else ""

    def _stop(self) -> None:
        says = (
            f"All {counted(self._count(), 'instance')} of it stop. Windows that are open do not fire, and what they hold is lost. "
            f"Subscribers are told that it was stopped; publishers go on for other readers of their streams.{self._readers()}"
        )
        confirm(f"Stop {self.name}?", says, "stop it", lambda: self.shell.call(self._post("/stop?drain=false"), f"{self.name} stops"), True)

    def _drain(self) -> None:
        says = (
            "Its sources end now: what has come is processed, windows that are open fire with what they have, and then it is over. "
            f"Rows that are published from now on are not for it.{self._readers()}"
        )
        confirm(f"Drain {self.name}?", says, "drain it", lambda: self.shell.call(self._post("/stop?drain=true"), f"{self.name} drains"))

    def _delete(self) -> None:
        over = self._query is not None and self._query["state"] in OVER
        first = "It is over already." if over else "It is stopped first: windows that are open do not fire."
        says = f"{first} Its record, counts, dead letters and checkpoints are forgotten.{self._readers()}"

        async def do() -> None:
            found = await self.shell.call(lambda: self.shell.rest.delete(path("queries", self.name)), f"{self.name} is deleted")
            if found is not None:
                ui.navigate.to("/queries")

        confirm(f"Delete {self.name}?", says, "delete it", do, True)

    def _count(self) -> int:
        return 0 if self._query is None else int(self._query["instances"])

    def _move(self) -> None:
        instances = [] if self._plan is None else [f"{each['subquery']}/{each['index']}" for each in self._plan["instances"]]
        managers = [each["id"] for each in self._sight.managers]
        says = "It goes on there with its state while the query runs; answers do not change. Its channels wait for that."
        with asking(f"Move an instance of {self.name}", says) as dialog:
            which = (
                ui.select(instances, label="instance", value=instances[0] if instances else None).props("dense outlined").classes("w-full")
            )
            to = (
                ui.select(managers, label="instance manager", value=managers[0] if managers else None)
                .props("dense outlined")
                .classes("w-full")
            )

            async def do() -> None:
                subquery, _, index = str(which.value).rpartition("/")
                wanted = {"subquery": subquery, "instance": int(index), "im": to.value}
                await self.shell.call(self._post(f"/move?{WAIT}", wanted), f"{which.value} is on {to.value}")

            answers(dialog, "move it", do)

    def _scale(self) -> None:
        plan = self._plan or {"subqueries": [], "fixed": {}}
        sizes = {each["name"]: each["parallelism"] for each in plan["subqueries"] if each["name"] not in plan["fixed"]}
        fixed = "\n".join(f"{name} stays as it is: {why}." for name, why in plan["fixed"].items())
        says = "It takes a checkpoint and goes on from there with so many instances; it stands still meanwhile. Answers do not change."
        with asking(f"Scale a subquery of {self.name}", f"{says if sizes else 'None of them can be scaled.'}\n{fixed}") as dialog:
            if not sizes:
                answers(dialog)
                return
            which = ui.select({name: f"{name}, {counted(n, 'instance')} now" for name, n in sizes.items()}, label="subquery")
            count = ui.number("instances", min=1, precision=0).props("dense outlined").classes("w-full")
            which.props("dense outlined").classes("w-full").on_value_change(lambda chosen: count.set_value(sizes[chosen.value]))
            which.set_value(next(iter(sizes)))

            async def do() -> None:
                wanted = {"subquery": which.value, "instances": int(count.value or 1)}
                before, after = sizes[which.value], counted(wanted["instances"], "instance")
                await self.shell.call(self._post(f"/scale?{WAIT}", wanted), f"{which.value} has {after}; it had {before}")

            answers(dialog, "scale it", do)
