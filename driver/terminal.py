"""What the commands of `cep` share: where they write, and how they are told which cluster is meant."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from cep.errors import CepError, QueryError, counted
from driver.configuration.table import BY_NAME
from driver.processes.run_folder import token_or_run_folders
from driver.rest import Rest

PIPED_WIDTH = 200
"""Columns of a table that no terminal's width limits."""

LOOK_S = 0.5


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


def with_pointer(error: CepError) -> str:
    """What it says, and what of the query it means."""
    return f"{error} (at {error.pointer})" if isinstance(error, QueryError) and error.pointer else str(error)


Url = Annotated[str, typer.Option(envvar="CEP_URL", help=BY_NAME["url"].meaning)]
Token = Annotated[
    str | None, typer.Option(envvar="CEP_TOKEN", callback=token_or_run_folders, help="The cluster's token; default: that of $CEP_RUN.")
]
Authority = Annotated[
    str | None,
    typer.Option("--ca", envvar="CEP_CA", help="The authority by whose certificate REST is known, a file; of `cep keys`, ca.crt."),
]


def compiled_now(managers: Sequence[Mapping[str, Any]], before: Mapping[str, int] | None = None) -> list[str]:
    """A line for each instance manager of `GET /figures` that compiles a kernel. `before`: how many each had made ready then."""
    return [_line(each, (before or {}).get(each["im"])) for each in managers if each.get("compiling")]


def _line(manager: Mapping[str, Any], before: int | None) -> str:
    done = manager["compilations"] - before if before is not None else 0
    behind = f", {counted(done, 'kernel')} before it" if done else ""
    return f"{manager['im']} compiles {manager['compiling']}{behind}"


@contextmanager
def compiling_shown(rest: Rest, what: str) -> Iterator[None]:
    """On a terminal a line says what is compiled meanwhile; it is gone behind the block. `what` is done."""
    if not err.is_terminal:
        yield
        return
    over = threading.Event()
    with err.status(f"{what} …") as line:

        def look() -> None:
            before: dict[str, int] | None = None
            while not over.wait(LOOK_S):
                try:
                    managers = rest.get("/figures")["managers"]
                except CepError:  # whoever deploys hears of it
                    continue
                before = {each["im"]: each["compilations"] for each in managers} if before is None else before
                line.update("; ".join([f"{what} …", *compiled_now(managers, before)]))

        looking = threading.Thread(target=look, name="cep-progress", daemon=True)
        looking.start()
        try:
            yield
        finally:
            over.set()
            looking.join()
