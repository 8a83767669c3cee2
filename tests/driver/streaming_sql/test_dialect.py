"""Texts as statements: what sqlglot lacks, and its traps.

Tests `dialect.py`, `statements.py`.
"""

from __future__ import annotations

import subprocess
import sys

import pytest
from sqlglot import exp

from driver.streaming_sql.dialect import NESTED_MAX, Emit, WindowTable
from driver.streaming_sql.errors import SqlError
from driver.streaming_sql.places import start_of
from driver.streaming_sql.statements import (
    CreateFunction,
    CreateStatement,
    CreateView,
    Describe,
    Drop,
    Explain,
    Insert,
    Select,
    SetOption,
    Show,
    statements,
)
from tests.support.paths import ROOT


def test_a_text_is_several_statements() -> None:
    text = """
    CREATE STREAM a (x BIGINT); CREATE VIEW v AS SELECT x FROM a; -- a comment; with a semicolon
    SET state_ttl = '1 d'; INSERT INTO s SELECT 'a;b' AS c FROM v; EXPLAIN SELECT x FROM v; SHOW STREAMS; DESCRIBE a; DROP VIEW v;
    CREATE FUNCTION f RETURNS DOUBLE AS 'm:f'; SELECT x FROM a
    """
    kinds = [type(each) for each in statements(text)]
    assert kinds == [CreateStatement, CreateView, SetOption, Insert, Explain, Show, Describe, Drop, CreateFunction, Select]


@pytest.mark.parametrize("text", ["", " ;; ", "-- nothing"])
def test_no_statement(text: str) -> None:
    assert statements(text) == []


@pytest.mark.parametrize(
    "written",
    [
        "TABLE(HOP(TABLE s PARTITION BY a, b, DESCRIPTOR(t), INTERVAL 2 SECOND, INTERVAL 10 SECOND, OFFSET => INTERVAL 1 SECOND)) AS w",
        "TABLE(HOP(TABLE s PARTITION BY (a, b), DESCRIPTOR(t), INTERVAL 2 SECOND, INTERVAL 10 SECOND, OFFSET => INTERVAL 1 SECOND)) w",
        "HOP(s PARTITION BY a, b, DESCRIPTOR(t), INTERVAL 2 SECOND, INTERVAL 10 SECOND, OFFSET => INTERVAL 1 SECOND) w",
    ],
)
def test_a_window_is_a_table(written: str) -> None:
    (select,) = statements(f"SELECT * FROM {written}")
    assert isinstance(select, Select)
    window = select.query.find(WindowTable)
    assert window is not None
    assert (window.args["name"], window.this.name, window.args["time"].name, window.alias) == ("HOP", "s", "t", "w")
    assert [each.name for each in window.args["partition_by"]] == ["a", "b"]
    assert [type(each) for each in window.expressions] == [exp.Interval, exp.Interval, exp.Kwarg]


@pytest.mark.parametrize("written, mode", [("CHANGES", "CHANGES"), ("EVERY INTERVAL '1' MINUTE", "EVERY"), ("AT END", "END")])
def test_emit_is_no_alias(written: str, mode: str) -> None:
    for text in (f"SELECT count(*) AS n FROM s EMIT {written}", f"SELECT k FROM s GROUP BY k EMIT {written}"):
        (select,) = statements(text)
        assert isinstance(select, Select)
        emit = select.query.find(Emit)
        assert emit is not None
        assert emit.args["mode"] == mode


def test_functions_are_read_as_they_are_written() -> None:
    (select,) = statements("SELECT lower(a), DATE_TRUNC('hour', t), count(DISTINCT x) FILTER (WHERE y > 1) FROM s")
    assert isinstance(select, Select)
    assert [each.name for each in select.query.find_all(exp.Anonymous)] == ["lower", "DATE_TRUNC", "count"]


def test_places_are_offsets_of_the_leftmost_part() -> None:
    text = "SELECT a,\n  longname + 1 > b FROM s"
    (select,) = statements(text)
    assert isinstance(select, Select)
    assert start_of(select.query.expressions[1]) == text.index("longname")


@pytest.mark.parametrize(
    "deep",
    ["(" * 100 + "1" + ")" * 100, "NOT " * 100 + "TRUE", "CASE " * 100, "[" * 100, "- " * 100 + "1"],
)
def test_what_is_deep_is_no_recursion_error(deep: str) -> None:
    with pytest.raises(SqlError, match=f"SQL-DEPTH at 1:.*more than {NESTED_MAX}"):
        statements(f"SELECT {deep} FROM s")


def test_a_long_chain_is_not_deep() -> None:
    assert len(statements("SELECT " + " + ".join(["1"] * 5_000) + " AS n FROM s")) == 1


def test_what_begins_no_statement_is_no_command() -> None:
    for text in (
        "VACUUM t",
        "CALL f()",
        "DELETE FROM s",
        "SELECT 1 AS x FROM s; TRUNCATE s",
        "CREATE INDEX i ON s (a)",
        "ALTER TABLE s ADD c INT",
    ):
        with pytest.raises(SqlError, match=r"SQL-STATEMENT|SQL-SYNTAX"):
            statements(text)


def test_importing_the_package_does_not_load_the_parser() -> None:
    asked = "print('sqlglot' in sys.modules)"
    code = f"import sys, numa_cep, driver.cli, orchestrator.rest.app; numa_cep.Query; {asked}; numa_cep.sql; {asked}"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=100, check=True)
    assert done.stdout.split() == ["False", "True"]
