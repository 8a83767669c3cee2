"""The plots of a report. Each takes the runs side by side and gives SVG with a description, or None where no run has anything to show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from markupsafe import Markup

from hibench.report import paper
from hibench.report.figures import RunFigures
from hibench.report.svg import GRID, MUTED, colour, drawn, inline, legend, plain

STEPS_SHOWN = 14
_PERCENTILE_TICKS = (0, 50, 90, 99, 99.9, 99.99, 99.999, 99.9999)
_LOG_FROM = 30
"""A ratio of the largest to the smallest value from which an axis is logarithmic."""

RunsShown = Sequence[RunFigures]


def throughput(runs: RunsShown, name: str) -> Markup:
    """Bars: what the runs reached, and for the paper's own workload what the paper reports."""
    bars: list[tuple[str, float, str, str | None]] = [
        (run.label, run.record.result.events_per_second, colour(i), None) for i, run in enumerate(runs)
    ]
    if runs[0].record.workload == paper.WORKLOAD:
        for row in paper.FIGURE_13:
            where = f"paper, {row.nodes} node{'s' * (row.nodes > 1)}, {row.cores} cores"
            bars += [(f"{where}, NUMA-aware", row.aware, MUTED, "///"), (f"{where}, not NUMA-aware", row.unaware, GRID, "///")]
    described = "; ".join(f"{label}: {value:,.0f} a second" for label, value, *_ in bars)
    return inline(drawn(lambda axes: _bars(axes, bars), 0.9 + 0.3 * len(bars)), name, "Throughput", described)


def _bars(axes: Any, bars: Sequence[tuple[str, float, str, str | None]]) -> None:
    for place, (_, value, fill, hatch) in enumerate(bars):
        axes.barh(place, value, height=0.7, color="none" if hatch else fill, edgecolor=fill, hatch=hatch)
        axes.annotate(f"{value:,.0f}", (value, place), (4, 0), textcoords="offset points", va="center", annotation_clip=False)
    axes.set_yticks(range(len(bars)), [label for label, *_ in bars])
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.margins(x=0.14)
    axes.set_xlim(left=0)
    axes.set_xlabel("records a second")
    plain(axes, ("x",))


def latency_curve(runs: RunsShown, name: str) -> Markup | None:
    """Latency at each percentile, the axis stretched towards the last of them (as HDR histograms are shown)."""
    found = [(i, run) for i, run in enumerate(runs) if run.latency]
    if not found:
        return None
    described = "; ".join(f"{run.label}: {_percentiles_in_words(run)}" for _, run in found)
    return inline(drawn(lambda axes: _curves(axes, found), 3.6), name, "Latency by percentile", described)


def _percentiles_in_words(run: RunFigures) -> str:
    figures = run.latency
    assert figures is not None
    return ", ".join(f"p{each:g} {value:.3g} ms" for each, value in figures.percentiles.items()) + f", largest {figures.most:.3g} ms"


def _curves(axes: Any, runs: Sequence[tuple[int, RunFigures]]) -> None:
    curves = [(i, run.label, run.latency.curve) for i, run in runs if run.latency]
    for i, label, curve in curves:
        axes.plot([100 / (100 - each) for each in curve], list(curve.values()), color=colour(i), label=label, linewidth=1.8)
    last = max(max(curve) for *_, curve in curves)
    ticks = [each for each in _PERCENTILE_TICKS if each <= last] or [0]
    axes.set_xscale("log")
    axes.set_xticks([100 / (100 - each) for each in ticks], [f"{each:g} %" for each in ticks], minor=False)
    axes.set_xticks([], minor=True)
    axes.set_xlabel("share of answers that were no later")
    _milliseconds(axes, [value for *_, curve in curves for value in curve.values()])
    legend(axes)


def _milliseconds(axes: Any, values: Sequence[float]) -> None:
    """The vertical axis: logarithmic where the values are far apart, else from zero."""
    positive = [value for value in values if value > 0]
    if positive and min(values) > 0 and max(positive) / min(positive) > _LOG_FROM:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.set_ylabel("latency, ms")
    plain(axes, ("y",))


def latency_over_time(runs: RunsShown, name: str) -> Markup | None:
    """Median and 99th percentile of the answers delivered in each piece of the run."""
    found = [(i, run.label, run.latency.moments) for i, run in enumerate(runs) if run.latency]
    if not found:
        return None
    described = "; ".join(
        f"{label}: median between {min(m.p50 for m in moments):.3g} and {max(m.p50 for m in moments):.3g} ms, "
        f"99th percentile up to {max(m.p99 for m in moments):.3g} ms"
        for _, label, moments in found
    )
    return inline(drawn(lambda axes: _moments(axes, found), 3.4), name, "Latency over time", described)


def _moments(axes: Any, found: Sequence[tuple[int, str, Any]]) -> None:
    for i, label, moments in found:
        seconds = [moment.seconds for moment in moments]
        options = {"color": colour(i), "marker": "o", "markersize": 2.5}
        axes.plot(seconds, [moment.p50 for moment in moments], label=f"{label}, median", linewidth=1.6, **options)
        axes.plot(seconds, [moment.p99 for moment in moments], label=f"{label}, 99 %", linewidth=0.9, linestyle="--", **options)
    axes.set_xlabel("seconds since the first record was created")
    axes.set_xlim(left=0)
    _milliseconds(axes, [value for *_, moments in found for moment in moments for value in (moment.p50, moment.p99)])
    plain(axes, ("x",))
    legend(axes, 2)


def cpu_by_step(runs: RunsShown, name: str) -> Markup | None:
    """CPU time of every step, the most expensive first."""
    costs = {run.label: {step.name: step.cpu_seconds for step in run.steps} for run in runs if run.steps}
    names = list(dict.fromkeys(step.name for run in runs for step in run.steps))
    if not names:
        return None
    names = sorted(names, key=lambda step: -max(cost.get(step, 0.0) for cost in costs.values()))[:STEPS_SHOWN]
    described = "; ".join(f"{label}: " + ", ".join(f"{step} {cost.get(step, 0):.3g} s" for step in names) for label, cost in costs.items())
    places = {run.label: i for i, run in enumerate(runs)}
    draw = _steps(names, costs, places)
    return inline(drawn(draw, 0.9 + len(names) * (0.18 + 0.14 * len(costs))), name, "CPU time by step", described)


def _steps(names: Sequence[str], costs: dict[str, dict[str, float]], places: dict[str, int]) -> Callable[[Any], None]:
    def draw(axes: Any) -> None:
        height = 0.8 / len(costs)
        for number, (label, cost) in enumerate(costs.items()):
            ys = [row + (number - (len(costs) - 1) / 2) * height for row in range(len(names))]
            axes.barh(ys, [cost.get(step, 0.0) for step in names], height=height * 0.9, color=colour(places[label]), label=label)
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.set_xlabel("CPU seconds, all instances")
        plain(axes, ("x",))
        legend(axes)

    return draw


def process_use(run: RunFigures, runs: RunsShown, name: str) -> Markup | None:
    """CPU and memory of a run's processes over time, stacked; the scales are those of all `runs`."""
    if not any(process.seconds for process in run.processes):
        return None
    described = "; ".join(
        f"{process.process}: up to {max(process.cores, default=0):.2g} cores, {max(process.anonymous_bytes, default=0) / 2**20:,.0f} MiB"
        for process in run.processes
    )
    tops = [_top(runs, _cores), _top(runs, _mebibytes)]

    def draw(panels: Any) -> None:
        for axes, of, label, top in zip(panels, (_cores, _mebibytes), ("cores in use", "anonymous memory, MiB"), tops, strict=True):
            _stack(axes, run, of)
            axes.set_title(label)
            axes.set_ylim(0, top * 1.05 or 1)
        legend(panels[0], 7)

    return inline(drawn(draw, 2.9, panels=(1, 2)), name, f"CPU and memory over time, {run.label}", described)


def _cores(process: Any) -> list[float]:
    return list(process.cores)


def _mebibytes(process: Any) -> list[float]:
    return [size / 2**20 for size in process.anonymous_bytes]


def _stacked(run: RunFigures, of: Callable[[Any], list[float]]) -> tuple[list[float], list[list[float]]]:
    """The moments at which any process was seen, and for each process its value there, the last one before where it has none of its own."""
    seconds = sorted({second for process in run.processes for second in process.seconds})
    rows = []
    for process in run.processes:
        values, known, last = dict(zip(process.seconds, of(process), strict=True)), [], 0.0
        for second in seconds:
            last = values.get(second, last)
            known.append(last)
        rows.append(known)
    return seconds, rows


def _top(runs: RunsShown, of: Callable[[Any], list[float]]) -> float:
    stacks = [_stacked(run, of)[1] for run in runs]
    return max((sum(column) for rows in stacks for column in zip(*rows, strict=True)), default=0.0)


def _stack(axes: Any, run: RunFigures, of: Callable[[Any], list[float]]) -> None:
    seconds, rows = _stacked(run, of)
    colours = [colour(i) for i in range(len(rows))]
    axes.stackplot(seconds, rows, labels=[process.process for process in run.processes], colors=colours, alpha=0.8)
    axes.set_xlabel("seconds")
    axes.margins(x=0)
    plain(axes)


def windows_complete(runs: RunsShown, name: str) -> Markup | None:
    """The share of its records that every window's answers count."""
    found = [(i, run.label, run.completeness) for i, run in enumerate(runs) if run.completeness]
    if not found:
        return None
    described = "; ".join(f"{label}: {figures.complete:,} of {figures.windows:,} windows complete" for _, label, figures in found)

    def draw(axes: Any) -> None:
        for i, label, figures in found:
            xs, ys = [w.seconds for w in figures.by_window], [100 * min(w.events, w.rows) for w in figures.by_window]
            axes.plot(xs, ys, color=colour(i), label=label, marker="o", markersize=3, linewidth=1.2, alpha=0.85)
        missing = 100 * (1 - min(figures.least for *_, figures in found))
        axes.set_ylim(100 - 1.2 * missing if missing else 0, 100 + 0.1 * missing if missing else 108)
        axes.set_xlabel("begin of the window, in seconds of event time after the first")
        axes.set_ylabel("%")
        plain(axes)
        legend(axes)

    return inline(drawn(draw, 2.2), name, "Completeness by window", described)
