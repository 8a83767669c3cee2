"""`cep config`: looks at what a cluster is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Column, Table
from rich.text import Text

from cep.errors import ClusterError, meant
from driver.configuration.file import read_file
from driver.configuration.flags import CONFIG, root_config
from driver.configuration.page import table
from driver.configuration.table import ROLES
from driver.configuration.told import ToldValue, tell_all
from driver.terminal import err, out

app = typer.Typer(help="Looks at the configuration of a cluster.", no_args_is_help=True)


@app.command()
def check(file: Annotated[Path, typer.Argument(help="A TOML file with options.")]) -> None:
    """Says all that is wrong in a configuration, with lines; the exit status says whether anything is."""
    found = read_file(file)
    for mistake in found.mistakes:
        err.print(str(mistake), markup=False, highlight=False)
    if found.mistakes:
        raise typer.Exit(1)
    out.print(f"{file}: {len(found.values)} options, all well", markup=False, highlight=False)


@app.command()
def show(
    context: typer.Context,
    config: Annotated[str | None, CONFIG] = None,
    role: Annotated[str | None, typer.Option("--role", help="Only what this command reads.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
) -> None:
    """Shows every option, its value here, and where that comes from: the default, the file, the environment. Secrets are ***."""
    if role is not None and role not in ROLES:
        raise ClusterError(f"--role: expected one of {', '.join(ROLES)}, got {role!r}{meant(role, ROLES)}")
    told, mistakes = tell_all(config or root_config(context))
    values = [each for each in told.values.values() if role is None or role in each.option.roles]
    if as_json:
        print(json.dumps([_document(each) for each in values], indent=2))
    else:
        out.print(_table(values))
    for mistake in mistakes:
        err.print(str(mistake), markup=False, highlight=False)
    if mistakes:
        raise typer.Exit(1)


@app.command("table")
def print_table() -> None:
    """Prints the table of all options, as it stands in docs/configuration.md."""
    print(table(), end="")


def _document(value: ToldValue) -> dict[str, object]:
    shown = value.shown if value.option.secret and value.value is not None else value.value
    return {"name": value.option.name, "value": shown, "unit": value.option.unit, "source": value.source}


def _table(values: list[ToldValue]) -> Table:
    shown = Table("option", Column("value", overflow="fold"), "unit", Column("from", overflow="fold"))
    for each in values:
        shown.add_row(each.option.name, Text(each.shown), each.option.unit, Text(each.source))
    return shown
