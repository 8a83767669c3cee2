"""`python -m benchmarks COMMAND`: run, compare, list, placement, model, kills, faults, elastic, state, leaks, cuts, fuzz, and others."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from benchmarks import model, report
from benchmarks.faults import connector_kills, cuts, elastic, fuzz, fuzz_links, kills, leaks, recoveries, states
from benchmarks.harness import Harness, RowOutcome
from benchmarks.measured import connectors, links, placement
from benchmarks.nexmark import command as nexmark
from benchmarks.rows import chosen

app = typer.Typer(help="The table of bars, in alternating pairs; what placement costs; a model of many nodes.", no_args_is_help=True)
app.command("placement")(placement.command)
app.command("model")(model.command)
app.command("cuts")(cuts.command)
app.command("fuzz")(fuzz.command)
app.command("fuzz-links")(fuzz_links.command)
app.command("kills")(kills.command)
app.command("connector-kills")(connector_kills.command)
app.command("faults")(recoveries.command)
app.command("elastic")(elastic.command)
app.command("state")(states.command)
app.command("leaks")(leaks.command)
app.command("nexmark")(nexmark.command)
app.command("links")(links.command)
app.command("connectors")(connectors.command)


def _work_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cep-benchmarks"


@app.command("run")
def run(
    names: Annotated[list[str] | None, typer.Argument(help="rows; none: all")] = None,
    pairs: Annotated[int, typer.Option(min=1, help="alternating pairs of each row")] = 8,
    out: Annotated[Path, typer.Option(help="where report.md and report.json go; rewritten after every row")] = Path("benchmark-report"),
    work: Annotated[Path | None, typer.Option(help="where datasets are kept and answers go; a folder in memory takes the disk out")] = None,
    records: Annotated[int | None, typer.Option(min=1000, help="smaller datasets, for a try")] = None,
) -> None:
    """Runs rows of the table. Leaves status 1 if an answer differs from its reference's."""
    try:
        rows = chosen(names or ())
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    harness = Harness(work or _work_folder(), pairs, records, lambda line: print(line, file=sys.stderr, flush=True))
    outcomes: list[RowOutcome] = []
    for row in rows:
        outcomes.append(harness.run(row))
        document = report.to_json(outcomes, pairs)
        written, _ = report.write(document, out)
    print(report.markdown(document))
    print(f"written: {written}")
    if any(outcome.unequal for outcome in outcomes):
        raise typer.Exit(1)


@app.command("list")
def list_rows() -> None:
    """The rows and their bars."""
    for row in chosen(()):
        bars = ", ".join(f"{bar.figure} {bar.sign} {bar.value:g}" for bar in row.bars)
        print(f"{row.name:20} {row.what} [{bars}]")


@app.command("compare")
def compare(before: Path, after: Path) -> None:
    """How the ratios of two reports (their report.json) differ, and where by more than noise."""
    try:
        print(report.compared(report.read(before), report.read(after)))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


if __name__ == "__main__":
    app()
