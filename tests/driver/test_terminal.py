"""What the commands print is text: names, types and rows have square brackets, which are no markup."""

from __future__ import annotations

import io
from importlib.metadata import version
from pathlib import Path

import pytest
from rich.console import Group
from rich.table import Column, Table
from typer.testing import CliRunner

from cep.errors import CepError, QueryError, QueryFailed
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


def test_a_query_that_is_not_deployed_is_named_once() -> None:
    assert cli._refusal("ff", QueryFailed("ff", "SQ1", 0, "no")) == "query 'ff' failed in subquery 'SQ1' instance 0: no"
    assert cli._refusal("ff", QueryError("no outputs", "/outputs")) == "query 'ff': no outputs (at /outputs)"


@pytest.mark.parametrize("command", ["explain", "deploy"])
def test_yaml_in_a_file_that_does_not_say_so(command: str, tmp_path: Path) -> None:
    file = tmp_path / "query.txt"
    file.write_text("name: q\nstreams: []\n")
    with pytest.raises(CepError, match=r"query\.txt cannot be read as JSON \(the name of a file of YAML ends in \.yaml or \.yml\): "):
        CliRunner().invoke(cli.app, [command, str(file)], catch_exceptions=False)


@pytest.mark.parametrize("command", ["explain", "deploy"])
@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("q.json", '{"name": "q", "outputs": [], "name": "r"}', r"q\.json cannot be read as JSON .*The key 'name' stands twice"),
        ("q.yaml", "name: q\nstreams: [{name: s, schema: [{null: k}]}]\n", r"q\.yaml cannot be read as YAML: the key 'None' is no text"),
        ("q.yaml", "name: q\noutputs: []\nname: r\n", r"q\.yaml cannot be read as YAML: the key 'name' stands in line 1 already"),
    ],
)
def test_a_key_that_stands_twice_or_is_no_text(command: str, name: str, text: str, why: str, tmp_path: Path) -> None:
    (file := tmp_path / name).write_text(text)
    with pytest.raises(CepError, match=why):
        CliRunner().invoke(cli.app, [command, str(file)], catch_exceptions=False)


@pytest.mark.parametrize("command", ["explain", "deploy"])
def test_a_file_of_sql_is_no_document(command: str, tmp_path: Path) -> None:
    (file := tmp_path / "shop.sql").write_text("SELECT 1;\n")
    with pytest.raises(CepError, match=r"shop\.sql is SQL, not a document: `cep sql -f .*shop\.sql` runs its statements"):
        CliRunner().invoke(cli.app, [command, str(file)], catch_exceptions=False)


@pytest.mark.parametrize("words", [["hot[/x]"], ["explain"], ["status", "--hot[/x]"], ["top", "--sort", "hot[/x]"]])
def test_a_usage_error(words: list[str]) -> None:
    found = CliRunner().invoke(cli.app, words)
    assert found.exit_code == 2 and ("hot[/x]" in found.output or words == ["explain"])


def test_the_version_is_that_of_the_package() -> None:
    assert CliRunner().invoke(cli.app, ["--version"]).output == f"cep {version('numa-cep')}\n"


def test_a_command_that_is_nearly_one_is_named() -> None:
    assert "Did you mean 'status'" in CliRunner().invoke(cli.app, ["statsu"]).output


def test_shells_complete_commands_and_options(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("_CEP_COMPLETE", "complete_bash")
    for words, number, expected in (("cep str", 1, "streams"), ("cep tail --js", 2, "--json")):
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(number))
        with pytest.raises(SystemExit):
            cli.app(prog_name="cep")
        assert capsys.readouterr().out.split() == [expected]
