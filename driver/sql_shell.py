"""The shell of `cep sql`: lines become statements, with history and completion; rows of a SELECT until Ctrl-C."""

from __future__ import annotations

import readline
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from cep.errors import CepError
from driver.sql_console import SqlConsole, words_of
from driver.streaming_sql.errors import SqlError
from driver.streaming_sql.functions import AGGREGATES, SCALARS
from driver.streaming_sql.statements import statements
from driver.terminal import complain, out

HISTORY = Path.home() / ".cep_sql_history"
HISTORY_LINES = 1000
PROMPT, MORE = "cep> ", "...> "
_LEAVE = ("exit", "quit", "\\q", "exit;", "quit;")
_HELP = """Statements end with a semicolon. Ctrl-C ends the query of a SELECT, or forgets what has been written; Ctrl-D leaves.
CREATE STREAM | TABLE | VIEW | SINK | FUNCTION, INSERT INTO, SELECT, EXPLAIN, SET, SHOW STREAMS | QUERIES | …, DESCRIBE, DROP"""
WORDS = (
    "SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "JOIN", "LEFT JOIN", "ASOF JOIN", "UNION ALL", "CREATE STREAM",
    "CREATE TABLE",
    "CREATE VIEW", "CREATE SINK", "CREATE FUNCTION", "INSERT INTO", "EXPLAIN", "SHOW STREAMS", "SHOW QUERIES", "DESCRIBE", "DROP", "TUMBLE",
    "HOP", "SESSION", "CUMULATE", "DESCRIPTOR", "INTERVAL", "window_start", "window_end", "EMIT CHANGES", "EMIT AT END", "PARTITION BY",
)  # fmt: skip

Read = Callable[[str], str]


def shell(console: SqlConsole, read: Read = input) -> None:
    """Reads until Ctrl-D. An error is told, and the shell goes on."""
    out.print("SQL on a cluster: `help` says how, Ctrl-D leaves.")
    while True:
        try:
            text = whole_statement(read)
        except KeyboardInterrupt:
            out.print()
            continue
        except EOFError:
            return
        if text.strip() in _LEAVE:
            return
        if text.strip().rstrip(";") == "help":
            out.print(_HELP)
            continue
        run(console, text)


def run(console: SqlConsole, text: str) -> None:
    try:
        console.run(text)
    except KeyboardInterrupt:
        out.print("ended")
    except CepError as error:
        complain(str(error))


def whole_statement(read: Read) -> str:
    """Lines up to a semicolon that ends a statement. Raises EOFError, KeyboardInterrupt."""
    text = ""
    while True:
        text += read(MORE if text.strip() else PROMPT) + "\n"
        stripped = text.strip()
        if stripped in (*_LEAVE, "help") or (stripped.endswith(";") and is_whole(text)):
            return text


def is_whole(text: str) -> bool:
    """Does the semicolon at its end end a statement? Not inside a quote or a comment."""
    try:
        statements(text)
    except SqlError as error:
        return error.instead != "the quote that closes it"
    return True


class Completer:
    """Of readline: the words of the dialect, functions, and names of the catalogue as they are when a word is begun."""

    def __init__(self, console: SqlConsole) -> None:
        self.console = console
        self.found: list[str] = []

    def __call__(self, begun: str, number: int) -> str | None:
        if number == 0:
            known = [*WORDS, *SCALARS, *AGGREGATES, *words_of(self.console)]
            self.found = sorted({word for word in known if word.casefold().startswith(begun.casefold())})
        return self.found[number] if number < len(self.found) else None


def interactive(console: SqlConsole) -> None:
    """The shell on a terminal."""
    readline.set_completer(Completer(console))
    readline.parse_and_bind("tab: complete")
    readline.set_history_length(HISTORY_LINES)
    with suppress(OSError):
        readline.read_history_file(HISTORY)
    try:
        shell(console)
    finally:
        with suppress(OSError):
            readline.write_history_file(HISTORY)
