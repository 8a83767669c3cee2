"""What the commands print is text: names, types and rows have square brackets, which are no markup."""

from __future__ import annotations

import io

import pytest
from rich.console import Group
from rich.table import Column, Table
from typer.testing import CliRunner

from cep.errors import CepError, QueryError
from driver import cli
from driver.terminal import complain, plain_console

#: A type, an end of markup that has not begun, what would be bold, and what would be a smiley.
TEXTS = ["timestamp[ms]?", "hot[/x]", "hot[bold]", "hot[x]", ":smiley:", "[link=x]y[/link]"]


@pytest.mark.parametrize("text", TEXTS)
def test_text_stays_what_it_is(text: str) -> None:
    """As a line, in a table, in its title and head, and in a group."""
    console = plain_console(file=io.StringIO(), width=100)
    table = Table(text, Column(text), title=text)
    table.add_row(text, text)
    console.print(text)
    console.print(Group(table, text))
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().count(text) == 7


@pytest.mark.parametrize("text", TEXTS)
def test_an_error_says_all_of_it(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    complain(f"stream 's': {text}")
    assert capsys.readouterr().err == f"error: stream 's': {text}\n"


@pytest.mark.parametrize("error", [CepError("no hot[/x]"), QueryError("no hot[/x]", pointer="/hot[/x]")])
def test_an_error_of_any_command(error: CepError, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fails(**_: object) -> None:
        raise error

    monkeypatch.setattr(cli, "app", fails)
    with pytest.raises(SystemExit, match="1"):
        cli.main()
    pointer = " (at /hot[/x])" if isinstance(error, QueryError) else ""
    assert capsys.readouterr().err == f"error: no hot[/x]{pointer}\n"


@pytest.mark.parametrize("words", [["hot[/x]"], ["explain"], ["status", "--hot[/x]"], ["top", "--sort", "hot[/x]"]])
def test_a_usage_error(words: list[str]) -> None:
    found = CliRunner().invoke(cli.app, words)
    assert found.exit_code == 2 and ("hot[/x]" in found.output or words == ["explain"])
