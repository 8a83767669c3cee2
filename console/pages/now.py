"""Now: what the whole cluster does, at a glance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from nicegui import ui

from console.alarms import BLOCKED, alarms, query_page
from console.drawing import SvgDrawing, SvgShape, line_of
from console.machine_map import WIDTH, edge_of, machine_map
from console.shell import Shell, panel
from console.tables import Head, Sheet
from console.watch import ClusterMoment, Sight
from console.words import NONE, bytes_of, rate, share, span

ALARMS_MAX, FLOWS_MAX = 14, 30
CURVE = (120.0, 26.0)


class Tile:
    """A figure, and how it has been."""

    def __init__(self, what: str, value_of: Callable[[ClusterMoment], float | None] | None = None) -> None:
        self._value_of = value_of
        with ui.column().classes("tile"):
            ui.label(what).classes("what")
            self._value = ui.label(NONE).classes("value")
            self._note = ui.label().classes("note")
            self._curve = None if value_of is None else SvgDrawing(stretched=True)

    def show(self, value: str, note: str, moments: tuple[ClusterMoment, ...]) -> None:
        self._value.set_text(value)
        self._note.set_text(note)
        if self._curve is not None and self._value_of is not None:
            points = line_of([self._value_of(each) for each in moments[-120:]], *CURVE)
            self._curve.draw([SvgShape("path", {"d": points, "class": "curve"})] if points else [], *CURVE)


class Tiles:
    """The row of figures at the top."""

    def __init__(self) -> None:
        with ui.element("div").classes("tiles"):
            self._in = Tile("rows in", lambda each: each.rows_in_s)
            self._out = Tile("rows out", lambda each: each.rows_out_s)
            self._lag = Tile("lag", lambda each: each.lag_s)
            self._latency = Tile("latency", lambda each: each.p99_s)
            self._cpu = Tile("load", lambda each: each.cpu)
            self._memory = Tile("memory", lambda each: float(each.memory_bytes))
            self._queries = Tile("queries")

    def show(self, sight: Sight) -> None:
        rates, moments = sight.rates, sight.moments
        latest = moments[-1] if moments else None
        slowest = max(rates.queries.values(), key=lambda each: each.lag_s or 0.0, default=None)
        self._in.show(f"{rate(rates.rows_in_s)}/s", "from streams and files", moments)
        self._out.show(f"{rate(rates.rows_out_s)}/s", "of all output streams", moments)
        self._lag.show(span(rates.lag_s), f"most: {slowest.name}" if slowest else "", moments)
        p50, p99 = (None, None) if latest is None else (latest.p50_s, latest.p99_s)
        self._latency.show(span(p99), f"p99; p50 {span(p50)}", moments)
        cores = len(rates.managers)
        self._cpu.show(f"{rates.cpu:.1f} cores", f"of {cores} instance managers", moments)
        limit = sum(each.get("memory_limit_bytes") or 0 for each in sight.figures["managers"])
        self._memory.show(bytes_of(rates.memory_bytes), f"of {bytes_of(limit)} that they may have", moments)
        states = Counter(each["state"] for each in sight.queries)
        running = states.pop("running", 0)
        others = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
        self._queries.show(f"{running}", f"running{'; ' if others else ''}{others}", moments)


class Alarms:
    """What is wrong."""

    def __init__(self) -> None:
        with panel("To look at"):
            self._list = ui.column().classes("w-full gap-1")
        self._shown: list[object] = [None]

    def show(self, sight: Sight) -> None:
        found = alarms(sight)
        if self._shown == found:
            return
        self._shown = list(found)
        self._list.clear()
        with self._list:
            for alarm in found[:ALARMS_MAX]:
                with ui.element("div").classes(f"alarm {alarm.grade}"):
                    ui.link(alarm.what, alarm.to) if alarm.to else ui.label(alarm.what)
            if len(found) > ALARMS_MAX:
                ui.label(f"and {len(found) - ALARMS_MAX:,} more").classes("dim")
            if not found:
                with ui.element("div").classes("alarm good"):
                    ui.label("nothing")


class Flows:
    """The busiest edges, those that are blocked first."""

    def __init__(self) -> None:
        with panel("Busiest edges and output streams", "blocked first"):
            heads = (Head("query"), Head("edge"), Head("balancer"), Head("rows/s", True), Head("bytes/s", True), Head("blocked", True))
            self._sheet = Sheet(heads, to=query_page)

    def show(self, sight: Sight) -> None:
        flows = sorted(sight.rates.flows, key=lambda flow: (flow.blocked <= BLOCKED, -flow.bytes_s))[:FLOWS_MAX]
        rows = []
        for flow in flows:
            edge = edge_of(sight.plans.get(flow.query), flow.name)
            balancer = "" if edge is None else edge["balancer"] + (f" ({', '.join(edge['fields'])})" if edge["fields"] else "")
            rows.append(
                (
                    flow.query,
                    flow.name,
                    balancer,
                    (rate(flow.rows_s), flow.rows_s),
                    (bytes_of(flow.bytes_s), flow.bytes_s),
                    (share(flow.blocked), flow.blocked),
                )
            )
        self._sheet.show(rows)


def register(shell: Shell) -> None:
    @ui.page("/")
    def now() -> None:
        shown: list[Callable[[Sight], None]] = []

        def refresh(sight: Sight) -> None:
            for show in shown:
                show(sight)

        with shell.page("Now", "/", refresh):
            shown.append(Tiles().show)
            with ui.element("div").classes("two"):
                with panel(
                    "Machines",
                    "a line or square for each instance, filled by its share of a core; beneath, what goes between instance managers",
                ):
                    drawing = SvgDrawing("map")
                with ui.column().classes("gap-3 w-full"):
                    shown.append(Alarms().show)
            shown.append(Flows().show)
            shown.append(lambda sight: drawing.draw(*_sized(machine_map(sight))))


def _sized(drawn: tuple[list[SvgShape], float]) -> tuple[list[SvgShape], float, float]:
    return drawn[0], WIDTH, drawn[1]
