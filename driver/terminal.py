"""What the commands of `cep` share: where they write, and how they are told which cluster is meant."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from driver.processes.run_folder import token_or_run_folders

PORT = 8765
URL = f"http://127.0.0.1:{PORT}"
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


Url = Annotated[str, typer.Option(envvar="CEP_URL", help="The orchestrator's address; of several, theirs with commas.")]
Token = Annotated[
    str | None, typer.Option(envvar="CEP_TOKEN", callback=token_or_run_folders, help="The cluster's token; default: that of $CEP_RUN.")
]
