"""`cep sql` against a real cluster; and its shell, whose lines come from a list.

Tests `sql_command.py`, `sql_console.py`, `sql_shell.py`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cep.errors import CepError
from driver import LocalCluster
from driver.cli import app
from driver.sql_console import SqlConsole
from driver.sql_shell import Completer, shell
from driver.streaming_sql.errors import SqlError
from tests.support.waiting import HANG_S, until

BIDS = "CREATE STREAM bids (auction BIGINT NOT NULL, price BIGINT, at TIMESTAMP(3), WATERMARK FOR at AS at);"
SECONDS = "TABLE(TUMBLE(TABLE bids, DESCRIPTOR(at), INTERVAL '1' SECOND))"
COUNTS = f"SELECT auction, count(*) AS n FROM {SECONDS} GROUP BY auction, window_start, window_end"
ROWS = [{"auction": i % 2, "price": i, "at": 100 * i} for i in range(20)]


@pytest.fixture
def cep(cluster: LocalCluster) -> Callable[..., str]:
    def run(*words: str, lines: str = "") -> str:
        found = CliRunner().invoke(app, ["sql", "--url", cluster.rest.url, *words], input=lines)
        if found.exception is not None:
            raise found.exception
        return found.output

    return run


def send(cluster: LocalCluster) -> None:
    """The rows, once a query reads the stream; then it ends."""
    until(lambda: any(each["state"] == "running" for each in cluster.queries()))
    with cluster.publisher("bids") as out:
        out.send(ROWS)


def test_the_catalogue(cluster: LocalCluster, cep: Callable[..., str], tmp_path: Path) -> None:
    file = tmp_path / "statements.sql"
    file.write_text(f"""{BIDS}
        CREATE VIEW dear AS SELECT auction, price * 2 AS twice FROM bids WHERE price > 3;
        CREATE SINK counted; CREATE TABLE side (k BIGINT) WITH (path = '/data/side.csv'); CREATE FUNCTION f RETURNS DOUBLE AS 'm:f';
        SHOW STREAMS; SHOW VIEWS; SHOW SINKS; SHOW TABLES; SHOW FUNCTIONS; SHOW QUERIES;
        DESCRIBE DEAR; DESCRIBE bids; DROP VIEW dear; SHOW VIEWS;""")
    said = cep("-f", str(file))
    for expected in ("bids: created", "event time at, 0 s of disorder", "twice", "BIGINT", "NOT NULL", "/data/side.csv", "m:f, DOUBLE"):
        assert expected in said
    assert said.endswith("dear: dropped\nnone\n")
    assert [each["name"] for each in cluster.rest.get("/streams")] == ["bids"]
    assert "aggregate" in cep("-e", f"EXPLAIN {COUNTS};")
    with pytest.raises(SqlError, match="SQL-NAME at 1:19: there is no 'bidz'"):
        cep("-e", "SELECT price FROM bidz")
    with pytest.raises(SqlError, match="EXPLAIN ANALYZE"):
        cep("-e", f"EXPLAIN ANALYZE INSERT INTO counted {COUNTS}")
    with pytest.raises(CepError, match="no_such_file"):
        cep("-f", "no_such_file")
    with pytest.raises(CepError, match="got both"):
        cep("-f", "a", "-e", "b")


def test_rows_come_until_the_stream_ends(cluster: LocalCluster, cep: Callable[..., str]) -> None:
    cep("-e", BIDS)
    sender = threading.Thread(target=send, args=[cluster])
    sender.start()
    said = cep(lines=f"{COUNTS};")
    sender.join(HANG_S)
    assert sorted(said.splitlines()) == ["(4 rows)", "0 | 5", "0 | 5", "1 | 5", "1 | 5", "auction | n"]
    assert cluster.queries() == []


def test_instants_of_all_years_are_shown(cluster: LocalCluster, cep: Callable[..., str]) -> None:
    """As `cep tail` shows them. Before, one behind the year 9999 ended the shell with Python's OverflowError."""
    cep("-e", "CREATE STREAM far (v VARCHAR NOT NULL);")

    def sends() -> None:
        until(lambda: any(each["state"] == "running" for each in cluster.queries()))
        with cluster.publisher("far") as out:
            out.send([{"v": text} for text in ("9999-12-31T23:59:59-23:59", "2024-01-01T09:00+09:00")])

    sender = threading.Thread(target=sends)
    sender.start()
    said = cep(lines="SELECT CAST(v AS TIMESTAMP(6)) AS v FROM far; SHOW STREAMS;")
    sender.join(HANG_S)
    assert said.startswith("v\n+010000-01-01T23:58:59+00:00\n2024-01-01T00:00:00+00:00\n(2 rows)\n") and "far" in said


def test_a_plan_with_what_was_observed(cluster: LocalCluster, cep: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    cep("-e", BIDS)
    sender = threading.Thread(target=send, args=[cluster])
    sender.start()
    said = cep("-e", f"EXPLAIN ANALYZE {COUNTS}")
    sender.join(HANG_S)
    assert "aggregate" in said and "(4 rows in " in said and "have not ended" not in said
    table = [[cell.strip() for cell in line.split("│")[1:5]] for line in said.splitlines() if "│" in line]
    assert ["bids", "read", "20", "20"] in table and ["group", "operator", "4", "4"] in table
    monkeypatch.setattr("driver.sql_console.ANALYZE_S", 0.5)
    assert "(0 rows in 0.5 s; its streams have not ended)" in cep("-e", f"EXPLAIN ANALYZE {COUNTS}")
    assert cluster.queries() == []


def test_a_query_stays_until_it_is_dropped(cluster: LocalCluster, cep: Callable[..., str]) -> None:
    said = cep("-e", f"{BIDS} INSERT INTO counted {COUNTS}; INSERT INTO others SELECT price FROM bids; SHOW QUERIES")
    assert "insert-into-counted: running" in said
    with cluster.query("insert-into-counted").subscribe("counted") as answers:
        send(cluster)
        assert sum(batch.num_rows for batch in answers) == 4
    assert "dropped" in cep("-e", 'DROP QUERY "insert-into-counted"; DROP QUERY "insert-into-others"; DROP QUERY IF EXISTS nothing')
    assert cluster.queries() == []


def test_control_c_ends_the_query(cluster: LocalCluster) -> None:
    heard = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"  # started with `&` it is ignored
    program = [sys.executable, "-P", "-c", f"{heard}; from driver.processes.command_line import main; main()"]
    words = ["sql", "--url", cluster.rest.url, "-e", f"{BIDS} SELECT price FROM bids"]
    with subprocess.Popen([*program, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        until(lambda: any(each["state"] == "running" for each in cluster.queries()))
        os.kill(child.pid, signal.SIGINT)
        assert child.wait(HANG_S) == 130
    assert cluster.queries() == []


def lines(*given: str) -> Callable[[str], str]:
    left = list(given)

    def read(prompt: str) -> str:
        if not left:
            raise EOFError
        return left.pop(0)

    return read


def test_the_shell_goes_on(cluster: LocalCluster, capsys: pytest.CaptureFixture[str]) -> None:
    console = SqlConsole(cluster)
    given = [
        "help",
        BIDS,
        "SELECT",
        "  'a;b' AS x",
        "FROM bidz;",
        "SHOW",
        "VIEWS",
        ";",
        "CREATE VIEW v AS SELECT 'a;",
        "b' AS x FROM bids;",
        "SHOW VIEWS;",
    ]
    shell(console, lines(*given))
    said = capsys.readouterr()
    assert "SQL-NAME at 3:6" in said.err
    assert "v: created" in said.out
    assert len(console.session.catalog.entries) >= 2
    shell(console, lines("exit", "SHOW NOTHING;"))
    assert capsys.readouterr().err == ""


def test_completion(cluster: LocalCluster) -> None:
    console = SqlConsole(cluster)
    console.run(f"{BIDS} CREATE VIEW bidders AS SELECT auction FROM bids")
    completer = Completer(console)
    found = [completer("bid", i) for i in range(3)]
    assert found == ["bidders", "bids", None]
    assert completer("auc", 0) == "auction"
    assert completer("sel", 0) == "SELECT"
