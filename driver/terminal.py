"""What the commands of `cep` share: where they write, and how they are told which cluster is meant."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from driver.configuration.table import BY_NAME
from driver.processes.run_folder import token_or_run_folders

PIPED_WIDTH = 200
"""Columns of a table that no terminal's width limits."""


def plain_console(**options: Any) -> Console:
    """A console that prints text as it is, in the cells of tables too: names, types and rows come from users and are full of square
    brackets, which rich would take for markup. What is to look otherwise is a `rich.text.Text`. There is no other way to a terminal
    (`tests/project/test_layers.py`)."""
    return Console(markup=False, emoji=False, highlight=False, **options)


err = plain_console(stderr=True, soft_wrap=True)
out = plain_console(soft_wrap=True, width=None if sys.stdout.isatty() else PIPED_WIDTH)


def complain(what: str) -> None:
    """An error, as text, on stderr."""
    err.print(Text.assemble(("error:", "red"), " ", what))


Url = Annotated[str, typer.Option(envvar="CEP_URL", help=BY_NAME["url"].meaning)]
Token = Annotated[
    str | None, typer.Option(envvar="CEP_TOKEN", callback=token_or_run_folders, help="The cluster's token; default: that of $CEP_RUN.")
]
Authority = Annotated[
    str | None,
    typer.Option("--ca", envvar="CEP_CA", help="The authority by whose certificate REST is known, a file; of `cep keys`, ca.crt."),
]
