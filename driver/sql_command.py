"""`cep sql`: a shell, a file or a text of SQL on a cluster."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from cep.errors import CepError
from driver.cluster import Cluster
from driver.configuration.table import URL
from driver.terminal import Authority, Token, Url


def register(app: typer.Typer) -> None:
    """Adds it to the command line."""
    app.command()(sql)


def sql(
    file: Annotated[Path | None, typer.Option("-f", "--file", help="Runs a file of statements.")] = None,
    text: Annotated[str | None, typer.Option("-e", "--execute", help="Runs these statements.")] = None,
    url: Url = URL,
    token: Token = None,
    ca: Authority = None,
) -> None:
    """Asks a cluster in SQL: rows of a SELECT are shown as they come, until Ctrl-C, which ends its query; INSERT INTO leaves one running.

    Without -f and -e it is a shell, with history and completion; or runs what comes on its input.
    """
    given = _given(file, text)
    with Cluster(url, token, ca=ca) as cluster:
        console = import_module("driver.sql_console").SqlConsole(cluster)  # the parser is loaded by this command alone
        if given is None:
            import_module("driver.sql_shell").interactive(console)
        else:
            console.run(given)


def _given(file: Path | None, text: str | None) -> str | None:
    """What is to be run; None: what will be typed."""
    if file is not None and text is not None:
        raise CepError("expected -f FILE or -e TEXT, got both")
    if text is not None:
        return text
    if file is None:
        return None if sys.stdin.isatty() else sys.stdin.read()
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise CepError(f"{file}: {error}") from None
