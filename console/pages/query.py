"""A query: its plan at work, its instances, what is late or refused, how long answers take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from nicegui import ui

from cep.errors import counted
from console.actions import QueryActions
from console.drawing import SvgDrawing
from console.heat import heat_map
from console.pages.letters import Letters
from console.pages.sampling import Sampling
from console.pages.stalls import StallsPanel
from console.plan_graph import plan_graph
from console.rates import QueryRates, quantile_s
from console.shell import Shell, facts, panel
from console.tables import Head, Sheet
from console.watch import Sight
from console.words import NONE, ago, bytes_of, moment, nanoseconds, rate, share, span

INSTANCES = (
    Head("instance"),
    Head("on"),
    Head("core", True),
    Head("rows/s", True),
    Head("CPU", True),
    Head("a row", True),
    Head("queue", True),
    Head("lag", True),
    Head("blocked", True),
    Head("state"),
    Head("waits for", css="cut"),
)

OPTIONS = ("split", "parallelism", "replicas", "hosts", "balancers", "message_policy", "rebalance")


class QueryPage:
    """What is shown of one."""

    def __init__(self, shell: Shell, name: str) -> None:
        self.shell, self.name = shell, name
        self._facts: tuple[tuple[str, str], ...] = ()
        self._build()

    def _build(self) -> None:
        with ui.row().classes("items-center w-full gap-3"):
            ui.label(self.name).classes("title")
            self._state = ui.label("").classes("state")
            self._said = ui.label("").classes("dim")
            self._actions = QueryActions(self.shell, self.name)
        self._cause = ui.label("").classes("bad")
        with panel("Plan", "rows a second, share of a core and time for each row, of all instances together"):
            self._plan = SvgDrawing("plan")
        with ui.element("div").classes("halves"):
            with panel("Latency of answers", "rows by how long after they were created they came out, the last minutes"):
                self._heat = SvgDrawing("map")
            with panel("Checkpoints, recoveries, what it reads and puts out"):
                self._about = ui.column().classes("w-full")
        with panel("Instances"):
            self._sheet = Sheet(INSTANCES)
        self._stalls = StallsPanel(self.name)
        with ui.element("div").classes("halves"):
            self._letters = Letters(self.shell, self.name)
            self._sampling = Sampling(self.shell, self.name)

    def refresh(self, sight: Sight) -> None:
        summary, rates = sight.query(self.name), sight.rates.queries.get(self.name, QueryRates(self.name))
        plan = sight.plans.get(self.name)
        self._show_state(summary, rates, sight)
        self._actions.show(summary, plan, sight)
        if plan is not None:
            self._plan.draw(*plan_graph(plan, rates))
        self._heat.draw(*heat_map(self.shell.watch.latencies(self.name)))
        self._sheet.show([_line(row, sight) for row in rates.instances])
        self._stalls.show(rates, sight)
        self._letters.show(rates)
        about = tuple(_about(summary, rates, plan, sight)) if summary is not None else ()
        if about != self._facts:
            self._facts = about
            self._about.clear()
            with self._about:
                facts(about)

    def _show_state(self, summary: Mapping[str, Any] | None, rates: QueryRates, sight: Sight) -> None:
        if summary is None:
            self._state.set_text("is not there")
            self._cause.set_text(f"There is no query {self.name!r}.")
            return
        state = "recovering" if (summary["recovery"] or {}).get("recovering") else summary["state"]
        since = summary["times"].get(summary["state"])
        self._state.set_text(state)
        self._state.classes(replace=f"state {state}")
        p50, p99 = quantile_s(rates.latencies, 0.5), quantile_s(rates.latencies, 0.99)
        figures = f"{rate(rates.rows_in_s)} rows/s in · {rate(rates.rows_out_s)} out · {rates.cpu:.2f} cores · lag {span(rates.lag_s)}"
        times = "" if p99 is None else f" · latency p50 {span(p50)}, p99 {span(p99)}"
        compiling = (f"{each['im']} compiles {each['compiling']}" for each in sight.figures["managers"] if each.get("compiling"))
        compiles = "; ".join(compiling if state == "deploying" else ())
        self._said.set_text(compiles or f"{'' if since is None else f'since {moment(since)} · '}{figures}{times}")
        cause = summary["cause"]
        where = "" if cause is None or cause["instance"] is None else f"/{cause['instance']}"
        self._cause.set_text("" if cause is None else f"{cause['subquery']}{where}: {cause['cause']}")


def _about(summary: Mapping[str, Any], rates: QueryRates, plan: Mapping[str, Any] | None, sight: Sight) -> list[tuple[str, str]]:
    recovery = summary["recovery"]
    lines = [("recovers", "no, it fails with an instance manager that it is on")] if recovery is None else _recovery(recovery, sight.at)
    if plan is not None:
        lines.append(
            ("reads", ", ".join(dict.fromkeys(edge["source"] for edge in plan["edges"] if edge["consumer"] == edge["source"])) or NONE)
        )
        options = plan["query"].get("options") or {}
        chosen = ", ".join(f"{key.replace('_', ' ')} {_shown(options[key])}" for key in OPTIONS if options.get(key))
        lines.append(("options", chosen or "as they are by default"))
    lines.append(("rows out, in all", ", ".join(f"{stream} {count:,}" for stream, count in _rows_out(summary, sight).items()) or NONE))
    lines.append(("state", bytes_of(rates.state_bytes)))
    lines.append(("late rows", f"{rates.late:,}"))
    if plan is not None:
        lines += [("note", note) for note in plan["notes"]]
    return lines


def _rows_out(summary: Mapping[str, Any], sight: Sight) -> Mapping[str, int]:
    """By output stream: of one that runs as its instances report it, for the summary has it from when its state changed last."""
    reported = dict.fromkeys(summary["rows"], 0)
    for each in sight.figures["instances"]:
        for step in each["operators"] if each["query"] == summary["name"] else ():
            if step["step"] == "output" and step["name"] in reported:
                reported[step["name"]] += step["rows_out"]
    return {stream: max(count, reported[stream]) for stream, count in summary["rows"].items()}


def _shown(option: Any) -> str:
    return " ".join(f"{name}: {value}" for name, value in option.items()) if isinstance(option, Mapping) else str(option)


def _recovery(recovery: Mapping[str, Any], now: float) -> list[tuple[str, str]]:
    taken, last = recovery["checkpoints"], recovery["checkpoints"]["last"]
    asked = f" ({taken['asked_s']:g} s asked for)" if taken["interval_s"] > taken["asked_s"] else ""
    lines = [("a checkpoint", f"every {taken['interval_s']:g} s{asked}")]
    if last is not None:
        size, took = bytes_of(last["bytes"]), span(taken["took_us"] / 1e6)
        lines.append(("the last one", f"{ago(now - last['at'])}, {size}; an instance stood still for {took} at most"))
    if taken["error"]:
        lines.append(("not taken", taken["error"]))
    lines.append(
        ("recovered", f"{counted(recovery['attempts'], 'time')}" + (f", lately from: {recovery['reason']}" if recovery["reason"] else ""))
    )
    return lines


def _line(row: Any, sight: Sight) -> tuple[object, ...]:
    manager = next((each for each in sight.rates.managers if each.im == row.im), None)
    figures = _state_of(row, sight)
    return (
        f"{row.subquery}/{row.instance}",
        row.im,
        NONE if manager is None or manager.core is None else manager.core,
        (rate(row.rows_s), row.rows_s),
        (f"{100 * row.cpu:.1f} %", row.cpu),
        (nanoseconds(row.ns_per_row), row.ns_per_row or 0.0),
        (bytes_of(row.queue_bytes), row.queue_bytes),
        (span(row.lag_s), row.lag_s or 0.0),
        (share(row.blocked), row.blocked),
        figures,
        row.waits_for,
    )


def _state_of(row: Any, sight: Sight) -> str:
    key = (row.query, row.subquery, row.instance)
    return next(
        (str(each["state"]) for each in sight.figures["instances"] if (each["query"], each["subquery"], each["instance"]) == key), ""
    )


def register(shell: Shell) -> None:
    @ui.page("/queries/{name}")
    def query(name: str) -> None:
        shown: list[Callable[[Sight], None]] = []

        def refresh(sight: Sight) -> None:
            for show in shown:
                show(sight)

        with shell.page(name, "/queries", refresh):
            shown.append(partial(QueryPage.refresh, QueryPage(shell, name)))
