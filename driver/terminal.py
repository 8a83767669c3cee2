"""What the commands of `cep` share: where they write, and how they are told which cluster is meant."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.console import Console

from driver.configuration.table import BY_NAME
from driver.processes.run_folder import token_or_run_folders

PIPED_WIDTH = 200
"""Columns of a table that no terminal's width limits."""

err = Console(stderr=True, soft_wrap=True)
out = Console(soft_wrap=True, width=None if sys.stdout.isatty() else PIPED_WIDTH)

Url = Annotated[str, typer.Option(envvar="CEP_URL", help=BY_NAME["url"].meaning)]
Token = Annotated[
    str | None, typer.Option(envvar="CEP_TOKEN", callback=token_or_run_folders, help="The cluster's token; default: that of $CEP_RUN.")
]
Authority = Annotated[
    str | None,
    typer.Option("--ca", envvar="CEP_CA", help="The authority by whose certificate REST is known, a file; of `cep keys`, ca.crt."),
]
