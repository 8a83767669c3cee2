"""The report as one HTML file that asks for nothing from outside: style, plots and drawings are in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from hibench.report import paper, plots, shown
from hibench.report.definitions import DEFINITIONS
from hibench.report.figures import RunFigures
from hibench.report.key_figures import Row, key_figures
from hibench.report.machine_view import MachineView, machine_views
from hibench.report.plan_drawing import Drawing, plan_drawing
from hibench.report.terminal import ONE_NODE


@dataclass(frozen=True)
class Plan:
    """A plan, or what an engine says of what it does, and the runs that were run so. `drawing` None: there is nothing to draw."""

    labels: tuple[str, ...]
    drawing: Drawing | None
    text: str


@dataclass(frozen=True)
class Chapter:
    """The runs of one workload in one mode, side by side, with everything that is said of them. `pace`: how their records came."""

    id: str
    workload: str
    mode: str
    pace: str
    runs: tuple[RunFigures, ...]
    table: list[Row]
    settings: list[Row]
    commands: list[tuple[Any, tuple[str, ...]]]
    plans: tuple[Plan, ...]
    machines: tuple[MachineView, ...]

    @property
    def title(self) -> str:
        return f"{self.workload}, {self.mode} mode, {self.pace}"

    @property
    def plots(self) -> dict[str, Markup | None]:
        """Drawn when they are asked for, which takes a second."""
        drawn = {name: draw(self.runs, f"{self.id}-{name}") for name, draw in _PLOTS.items()}
        return drawn | {run.label: plots.process_use(run, self.runs, f"{self.id}-processes-{i}") for i, run in enumerate(self.runs)}

    @property
    def page_nodes(self) -> list[int]:
        """The nodes at which any process of a run has memory."""
        return sorted({node for run in self.runs for process in run.pages for node in process.pages})


def page(runs: Sequence[RunFigures]) -> str:
    """The whole file. `runs`: at least one."""
    loader = PackageLoader("hibench.report")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.globals |= {"shown": shown, "paper": paper, "definitions": DEFINITIONS, "one_node": ONE_NODE}
    machines = [machine for machine, _ in _distinct(runs, lambda run: run.record.machine)]
    return environment.get_template("page.html.j2").render(chapters=chapters(runs), runs=runs, machines=machines)


def chapters(runs: Sequence[RunFigures]) -> list[Chapter]:
    """One for each workload, mode and kind of pace, in the order in which they come."""
    found: dict[tuple[str, str, str], list[RunFigures]] = {}
    for run in runs:
        pace = "as fast as the records can be read" if run.record.rate is None else "records at a given rate"
        found.setdefault((run.record.workload, run.record.mode, pace), []).append(run)
    return [_chapter(f"c{number}", pace, group) for number, ((_, _, pace), group) in enumerate(found.items())]


def settings_table(runs: Sequence[RunFigures]) -> list[Row]:
    """Every setting and fact of the records, a column for each run."""
    facts = [_settings_of(run) for run in runs]
    names = dict.fromkeys(name for each in facts for name in each)
    return [(name, tuple(each.get(name, shown.NONE) for each in facts)) for name in names]


def _settings_of(run: RunFigures) -> dict[str, str]:
    record = run.record
    general = {"run": record.id, "began": record.began, "engine": record.result.engine}
    general |= {"window": shown.NONE if record.window_ms is None else f"{record.window_ms:,} ms"}
    of_records = {f"records: {name}": _shown(value) for name, value in record.dataset.items()}
    return general | of_records | {name: _shown(value) for name, value in record.result.settings.items()}


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _chapter(id: str, pace: str, runs: list[RunFigures]) -> Chapter:
    record = runs[0].record
    return Chapter(
        id=id,
        workload=record.workload,
        mode=record.mode,
        pace=pace,
        runs=tuple(runs),
        table=key_figures(runs),
        settings=settings_table(runs),
        commands=_distinct(runs, lambda run: run.record.command),
        plans=tuple(_plans(runs)),
        machines=tuple(machine_views([(run.label, run.record) for run in runs])),
    )


def _plans(runs: Sequence[RunFigures]) -> list[Plan]:
    """Equal plans are one, with the words of the first run; what was observed differs a little from run to run."""
    words = {run.label: run.record.explanation for run in runs}
    plans = _distinct(runs, lambda run: run.record.plan or run.record.explanation)
    return [Plan(labels, None if isinstance(plan, str) else plan_drawing(plan), words[labels[0]]) for plan, labels in plans]


def _distinct(runs: Sequence[RunFigures], what: Callable[[RunFigures], Any]) -> list[tuple[Any, tuple[str, ...]]]:
    """(value, labels of the runs that have it), in the order in which they come; '' is no value."""
    found: list[tuple[Any, list[str]]] = []
    for run in runs:
        value = what(run)
        same = next((labels for known, labels in found if known == value), None)
        if same is None:
            found.append((value, [run.label]))
        else:
            same.append(run.label)
    return [(value, tuple(labels)) for value, labels in found if value != ""]


_PLOTS: dict[str, Callable[[Sequence[RunFigures], str], Markup | None]] = {
    "throughput": plots.throughput,
    "latency": plots.latency_curve,
    "moments": plots.latency_over_time,
    "steps": plots.cpu_by_step,
    "windows": plots.windows_complete,
}
