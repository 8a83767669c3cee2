"""`hibench report` and `hibench compare`."""

from __future__ import annotations

import json as documents
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from driver.terminal import plain_console
from hibench.errors import AnswersDiffer, OptionError, Regressed
from hibench.records.options import CacheOption

if TYPE_CHECKING:
    from hibench.report.compare import Compared
    from hibench.report.figures import RunFigures
    from hibench.runs.record import RunRecord

RunsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[RUN]...",
        help="Runs: ids, beginnings or patterns of ids, series, or folders of records.",
        show_default="those of the latest command",
    ),
]


def _file(what: str) -> object:
    return typer.Option(metavar="FILE", show_default=False, help=what)


def register(app: typer.Typer) -> None:
    """Adds the commands of this file to `hibench`."""
    app.command("report")(report)
    app.command("compare")(compare)


def report(
    runs: RunsArgument = None,
    html: Annotated[Path | None, _file("One self-contained page, with plots and drawings.")] = None,
    markdown: Annotated[Path | None, _file("Tables and words.")] = None,
    json: Annotated[Path | None, _file("All figures.")] = None,
    csv: Annotated[Path | None, _file("Appends latencies in HiBench's 13 columns.")] = None,
    hibench_report: Annotated[Path | None, _file("Appends rows to a hibench.report.")] = None,
    cache: CacheOption = None,
) -> None:
    """What the records of runs say: prints the key figures, and writes the reports that are asked for.

    Spark computes everything from the records (exact percentiles over all answers, completeness by window, time series). Exit code 1 if any
    run's answers are not the expected ones.
    """
    from hibench.records.cache import records_cache
    from hibench.report.chosen import chosen
    from hibench.report.files import write_files
    from hibench.runs.record import records_folder

    files = {"html": html, "markdown": markdown, "json": json, "csv": csv, "hibench-report": hibench_report}
    for option, file in files.items():
        _expect_writable(option, file)
    records = chosen(runs or [], records_folder(records_cache(cache)))
    found = _figures(records)
    console = plain_console()
    for line in write_files(found, files):
        console.print(line, soft_wrap=True)
    wrong = [f"{run.record.id} ({run.label})" for run in found if not run.record.result.equal]
    if wrong:
        raise AnswersDiffer(f"ANSWERS DIFFER, or were not checked, in {', '.join(wrong)}: nothing measured there counts")


def compare(
    first: Annotated[str, typer.Argument(help="A run, or several with commas between, as for `hibench report`.")],
    second: Annotated[str, typer.Argument(help="What is held against it.")],
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    noise: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Percent that a figure may become worse by.",
            show_default="the spread of repeated runs, at least 2; of single runs 10, latency 25",
        ),
    ] = None,
    cache: CacheOption = None,
) -> None:
    """What became worse from the first group of runs to the second: throughput, CPU, latency, completeness.

    Medians of each group are compared. Exit code 1 if a figure became worse beyond the noise, or answers of the second group are wrong.
    """
    from hibench.records.cache import records_cache
    from hibench.report.chosen import chosen
    from hibench.report.compare import compared
    from hibench.report.tables import session
    from hibench.runs.record import records_folder

    folder = records_folder(records_cache(cache))
    before, after = (chosen([name for name in names.split(",") if name], folder) for names in (first, second))
    with session() as spark:
        found = compared(spark, before, after, None if noise is None else noise / 100)
    if json:
        print(documents.dumps(found.to_json(), indent=1))
    else:
        _show(found, plain_console())
    if found.worse or found.unequal:
        raise Regressed("; ".join([*(f"answers differ: {run}" for run in found.unequal), *(f"worse: {each}" for each in found.worse)]))


def _figures(records: Sequence[RunRecord]) -> Sequence[RunFigures]:
    from hibench.report.figures import run_figures
    from hibench.report.tables import session

    with session() as spark:
        return run_figures(spark, records)


def _show(found: Compared, console: Console) -> None:
    table = Table("figure", "first", "second", "change", "noise", "")
    for each in found.differences:
        change = "" if each.change is None else f"{100 * each.change:+.1f} %"
        values = [f"{value:,.4g}" if value < 1000 else f"{value:,.0f}" for value in (each.first, each.second)]
        table.add_row(each.figure, *values, change, f"{100 * each.noise:.1f} %", Text("worse", "red") if each.worse else "")
    console.print(table)
    for line in found.unlike:
        console.print(f"not alike in {line}")


def _expect_writable(option: str, file: Path | None) -> None:
    """Said before the work rather than after it."""
    if file is None:
        return
    folder = file.absolute().parent
    if file.is_dir() or not folder.is_dir() or not os.access(file if file.exists() else folder, os.W_OK):
        raise OptionError(f"--{option}: expected a file that can be written, in a folder that exists; got {str(file)!r}")
