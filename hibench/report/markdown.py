"""The report as Markdown: its tables and words, to be put into an issue or a page."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from hibench.report import paper, shown
from hibench.report.definitions import DEFINITIONS
from hibench.report.figures import RunFigures
from hibench.report.key_figures import Row
from hibench.report.page import Chapter, chapters
from hibench.report.terminal import ONE_NODE

STEPS_SHOWN = 14


def markdown(runs: Sequence[RunFigures]) -> str:
    """The whole text. `runs`: at least one."""
    return "\n".join([*_head(runs), *(line for chapter in chapters(runs) for line in _chapter(chapter)), *_words()])


def _head(runs: Sequence[RunFigures]) -> Iterator[str]:
    workloads = ", ".join(dict.fromkeys(run.record.workload for run in runs))
    machines = "; ".join(dict.fromkeys(run.record.machine.cpu for run in runs))
    yield from (f"# HiBench: {_escaped(workloads)}", "", f"{len(runs)} runs on {_escaped(machines)}, {runs[0].record.began[:10]}.", "")
    for run in runs:
        if not run.record.result.equal:
            yield from (f"**ANSWERS DIFFER: {_escaped(run.record.workload)}, {_escaped(run.label)}. What it measured does not count.**", "")
    if any(len(run.record.machine.numa_nodes) == 1 for run in runs):
        yield from (ONE_NODE, "")


def _chapter(chapter: Chapter) -> Iterator[str]:
    yield from (f"## {_escaped(chapter.title)}", "")
    names = [run.label for run in chapter.runs]
    yield from _table(["", *names], chapter.table)
    if chapter.workload == paper.WORKLOAD:
        yield from (f"The paper's figures, on the paper's machine ({paper.MACHINE}). {paper.SOURCE}.", "")
        rows = [(f"{row.nodes}", (f"{row.unaware:,}", f"{row.aware:,}", f"+{row.gain_percent} %")) for row in paper.FIGURE_13]
        yield from _table(["NUMA nodes", "not NUMA-aware, tuples/s", "NUMA-aware, tuples/s", "gain"], rows)
    for run in chapter.runs:
        yield from _steps(run)
    for plan in chapter.plans:
        yield from (f"Plan of {_escaped(', '.join(plan.labels))}:", "", *_code(plan.text), "")
    yield from ("Settings:", "", *_table(["", *names], chapter.settings))
    for command, _ in chapter.commands:
        yield from (*_code(command), "")


def _steps(run: RunFigures) -> Iterator[str]:
    if run.steps:
        yield from (f"CPU time by step, {_escaped(run.label)}:", "")
        figures = [
            (each.name, (shown.thousands(each.rows), shown.seconds(each.cpu_seconds), shown.percent(each.share))) for each in run.steps
        ]
        yield from _table(["step", "rows", "CPU time", "share"], figures[:STEPS_SHOWN])


def _words() -> Iterator[str]:
    yield from ("## What the words mean", "")
    for word, meaning in DEFINITIONS:
        yield f"- **{word}**: {meaning}"
    yield ""


def _table(header: Sequence[str], rows: Sequence[Row]) -> Iterator[str]:
    yield _line(header)
    yield _line(["---", *["---:"] * (len(header) - 1)])
    yield from (_line([name, *texts]) for name, texts in rows)
    yield ""


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(_escaped(cell) if cell.strip("-:") else cell for cell in cells) + " |"


def _escaped(text: str) -> str:
    """Text that Markdown takes for text."""
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", text.replace("\n", " "))


def _code(text: str) -> list[str]:
    """A block of code; its fence is longer than any within it."""
    fence = "`" * max(3, 1 + max(map(len, re.findall(r"`+", text)), default=0))
    return [fence, text.rstrip("\n"), fence]
