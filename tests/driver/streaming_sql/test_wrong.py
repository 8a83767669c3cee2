"""Wrong statements: each is refused by its code, at a place in the text, and says what to write instead; the page has them all.

Tests `wrong.py`, `errors.py`.
"""

from __future__ import annotations

import pytest

from cep.errors import QueryError
from driver import sql
from driver.streaming_sql.errors import CODES, SqlError
from driver.streaming_sql.functions import AGGREGATES, SCALARS
from driver.streaming_sql.wrong import GIVEN, WRONG, errors_page, refusals
from tests.support.paths import ROOT

REFUSALS = list(refusals())


def test_there_are_many_and_some_of_every_code() -> None:
    assert len(REFUSALS) >= 100
    assert WRONG.keys() == CODES.keys()


@pytest.mark.parametrize("code, statement, said", REFUSALS, ids=[f"{code} {statement[:60]}" for code, statement, _ in REFUSALS])
def test_a_wrong_statement_is_refused(code: str, statement: str, said: SqlError | None) -> None:
    assert said is not None, "it is taken"
    assert said.code == code
    message, shown, caret = str(said).split("\n")
    assert message.startswith(f"{code} at {said.line}:{said.column}: ")
    line = statement.split("\n")[said.line - 1]
    assert 1 <= said.column <= len(line) + 1
    column = caret.index("^") - 2
    assert shown[2:][column : column + 20] == line[said.column - 1 :][:20][: len(shown[2:]) - column]
    assert "Traceback" not in message and "sqlglot" not in message and "<class" not in message
    assert ";" in message or ":" in message


def test_a_cast_is_advised_only_where_one_helps() -> None:
    """Before, a CAST was advised, too, of what has to be a constant, and a constant in place of constants."""
    for statement, advice in (
        ("SELECT replace(channel, lower(channel), 'x') AS x FROM bid", "a constant"),
        ("SELECT round(price / 3, -1) AS x FROM bid", ""),
        ("SELECT split_part(channel, '/', -1) AS x FROM bid", ""),
        ("SELECT upper(price) AS x FROM bid", "a CAST of one of them"),
        ("SELECT split(channel, price) AS x FROM bid", "a CAST of one of them"),
    ):
        with pytest.raises(SqlError) as caught:
            sql(GIVEN + statement)
        assert caught.value.instead == advice, statement


def test_the_page_is_made_of_them() -> None:
    """`python -m driver.streaming_sql.wrong` prints it."""
    assert (ROOT / "docs/sql_errors.md").read_text() == errors_page()


def test_the_page_of_the_dialect_lists_every_function() -> None:
    page = (ROOT / "docs/features/sql.md").read_text()
    for heading, names in (("Of a row: ", SCALARS), ("Of a group: ", AGGREGATES)):
        line = next(line for line in page.splitlines() if line.startswith(heading))
        listed = line.removeprefix(heading).split(". ")[0].rstrip(".")
        assert listed == ", ".join(f"`{name}`" for name in sorted(names))


def test_an_error_is_one_of_the_query() -> None:
    with pytest.raises(QueryError, match=r"SQL-NAME at 2:6: there is no 's'") as caught:
        sql("SELECT a\nFROM s")
    assert isinstance(caught.value, SqlError)
    assert (caught.value.line, caught.value.column) == (2, 6)
