"""PostgreSQL with a real server: the suites, upserts, and rows of transactions that commit late."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

import psycopg
import pyarrow as pa
import pytest
from pydantic import ValidationError

from connectors.conformance import SinkBench, SinkSuite, SourceBench, SourceSuite
from connectors.contract import ConnectorError, Polled
from connectors.shipped.postgres import PostgresIn, PostgresOut
from tests.support.postgres import INITDB, PostgresServer, postgres
from tests.support.waiting import until

pytestmark = pytest.mark.skipif(not INITDB, reason="needs PostgreSQL")
TABLES = count()


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres() as made:
        yield made


@pytest.fixture(scope="module")
def admin(server: PostgresServer) -> Iterator[psycopg.Connection]:
    with server.connect() as connection:
        yield connection


class PostgresSourceBench(SourceBench):
    def __init__(self, server: PostgresServer, admin: psycopg.Connection, silence_s: float = 0.0, **options: object) -> None:
        self.silence_s = silence_s
        self.admin, self.table = admin, f"in_{next(TABLES)}"
        self.end = {"connector": "postgres", "conninfo": server.conninfo, "table": f"public.{self.table}"}
        self.end |= options or {"cursor": "id", "poll_s": 0.02}
        admin.execute(f"CREATE TABLE {self.table} (id bigserial PRIMARY KEY, value text)")

    def feed(self, values: Sequence[bytes]) -> None:
        with self.admin.cursor() as cursor, cursor.copy(f"COPY {self.table} (value) FROM STDIN") as copy:
            for value in values:
                copy.write_row((value.decode(),))

    def value_of(self, polled: Polled, index: int) -> bytes:
        assert polled.rows is not None
        return str(polled.rows.column("value")[index].as_py()).encode()


class PostgresSinkBench(SinkBench):
    def __init__(self, server: PostgresServer, admin: psycopg.Connection, **options: object) -> None:
        self.admin, self.table = admin, f"out_{next(TABLES)}"
        self.end = {"connector": "postgres", "conninfo": server.conninfo, "table": self.table, **options}
        admin.execute(f"CREATE TABLE {self.table} (number bigint, text text, origin text UNIQUE)")
        admin.execute("DROP TABLE IF EXISTS numa_cep_tokens")

    def seen(self) -> list[int]:
        return [number for (number,) in self.admin.execute(f"SELECT number FROM {self.table}")]


class TestPostgresSource(SourceSuite):
    @pytest.fixture(params=[0.0, pytest.param(30.0, marks=pytest.mark.long)])
    def bench(self, request: pytest.FixtureRequest, server: PostgresServer, admin: psycopg.Connection) -> SourceBench:
        return PostgresSourceBench(server, admin, request.param)


class TestRefreshedSource(SourceSuite):
    @pytest.fixture
    def bench(self, server: PostgresServer, admin: psycopg.Connection) -> SourceBench:
        return PostgresSourceBench(server, admin, refresh_s=0.02)


class TestPostgresSink(SinkSuite):
    @pytest.fixture(params=[{}, pytest.param({"origin": "origin"}, marks=pytest.mark.long)], ids=["plain", "by origin"])
    def bench(self, request: pytest.FixtureRequest, server: PostgresServer, admin: psycopg.Connection) -> SinkBench:
        return PostgresSinkBench(server, admin, **request.param)


def rows(*pairs: tuple[int, str | None]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"number": number, "text": text} for number, text in pairs], SinkBench.SCHEMA)


def test_a_row_takes_the_place_of_the_one_with_its_key(server: PostgresServer, admin: psycopg.Connection) -> None:
    """Also of one that was written with the same commit."""
    bench = PostgresSinkBench(server, admin, key=["number"])
    admin.execute(f"CREATE UNIQUE INDEX ON {bench.table} (number)")
    writer = bench.sink().open("c", 1)
    writer.write(rows((1, "a"), (2, "b")), "x")
    writer.write(rows((1, "c"), (3, None)), "y")
    writer.commit("1")
    writer.write(rows((2, "d")), "z")
    writer.commit("2")
    writer.close()
    assert sorted(admin.execute(f"SELECT number, text FROM {bench.table}")) == [(1, "c"), (2, "d"), (3, None)]


@pytest.mark.parametrize(("index", "left"), [("", [(1, "a"), (2, "b"), (3, "c")]), (" NULLS NOT DISTINCT", [(2, "b"), (3, "c")])])
def test_a_key_with_a_null_is_what_the_index_says(
    server: PostgresServer, admin: psycopg.Connection, index: str, left: list[object]
) -> None:
    """However many come with one commit."""
    if index and admin.info.server_version < 150_000:
        pytest.skip("needs PostgreSQL 15")
    for commits in ([(1, None, "a"), (2, None, "b"), (3, "k", "c")],), ([(1, None, "a"), (3, "k", "x")], [(2, None, "b")], [(3, "k", "c")]):
        bench = PostgresSinkBench(server, admin, key=["text", "more"])
        admin.execute(f"ALTER TABLE {bench.table} ADD more text")
        admin.execute(f"CREATE UNIQUE INDEX ON {bench.table} (text, more){index}")
        writer = bench.sink().open("c", 1)
        for token, each in enumerate(commits):
            numbers, keys, texts = zip(*each, strict=True)
            columns = {"number": numbers, "text": keys, "more": ["m"] * len(each), "origin": texts}
            writer.write(pa.RecordBatch.from_pydict(columns), "x")
            writer.commit(str(token))
        writer.close()
        assert sorted(admin.execute(f"SELECT number, origin FROM {bench.table}")) == left


def test_a_row_that_has_come_has_its_origin(server: PostgresServer, admin: psycopg.Connection) -> None:
    bench = PostgresSinkBench(server, admin, origin="origin")
    for epoch in (1, 2):
        writer = bench.sink().open("c", epoch)
        writer.write(rows((1, "a"), (1, "a")), "q.1.l.0.7")
        writer.commit(str(epoch))
        writer.close()
    assert sorted(admin.execute(f"SELECT number, origin FROM {bench.table}")) == [(1, "q.1.l.0.7-0"), (1, "q.1.l.0.7-1")]


def test_a_transaction_that_commits_late_is_waited_for(server: PostgresServer, admin: psycopg.Connection) -> None:
    """It has smaller numbers than rows that are there before it."""
    bench = PostgresSourceBench(server, admin)
    reader = bench.source().open("t", None)
    with psycopg.connect(server.conninfo) as late:
        late.execute("SELECT txid_current()")
        admin.execute(f"INSERT INTO {bench.table} VALUES (2, 'two')")
        late.execute(f"INSERT INTO {bench.table} VALUES (1, 'one')")
        assert [len(reader.poll(10, 0.01)) for _ in range(5)] == [0] * 5
    polled = until(lambda: reader.poll(10, 0.1))
    assert [bench.value_of(polled, at) for at in range(len(polled))] == [b"one", b"two"] and polled.numbers == [1, 2]
    reader.close()


def test_a_table_that_is_read_again_gives_what_is_new_or_changed(server: PostgresServer, admin: psycopg.Connection) -> None:
    bench = PostgresSourceBench(server, admin, refresh_s=0.01, columns=["value"])
    bench.feed([b"one", b"two"])
    reader = bench.source().open("t", None)

    def come() -> list[str]:
        polled = reader.poll(10, 0.2)
        return [] if polled.rows is None else sorted(polled.rows.column("value").to_pylist())

    assert until(come) == ["one", "two"] and come() == []
    admin.execute(f"UPDATE {bench.table} SET value = 'three' WHERE value = 'two'")
    admin.execute(f"DELETE FROM {bench.table} WHERE value = 'one'")
    bench.feed([b"four"])
    assert until(come) == ["four", "three"] and come() == []
    bench.feed([b"one"])
    assert until(come) == ["one"]
    reader.close()


def test_rows_are_found_by_one_of_cursor_and_refresh() -> None:
    for options in ({}, {"cursor": "id", "refresh_s": 1}):
        with pytest.raises(ValidationError, match="expected one of cursor and refresh_s"):
            PostgresIn.model_validate({"conninfo": "x", "table": "t", **options})


def test_what_the_server_says_is_told(server: PostgresServer, admin: psycopg.Connection) -> None:
    bench = PostgresSinkBench(server, admin)
    bench.end |= {"table": "not_there"}
    writer = bench.sink().open("c", 1)
    with pytest.raises(ConnectorError, match='not_there: relation "not_there" does not exist'):
        writer.write(rows((1, "a")), "x")
    writer.close()
    bench.end |= {"conninfo": "host=/nowhere"}
    with pytest.raises(ConnectorError, match="No such file or directory"):
        bench.sink().open("c", 1)


def test_a_server_that_falls_silent_is_given_up(server: PostgresServer, admin: psycopg.Connection) -> None:
    """As the options of the connection say, if they do."""
    bench = PostgresSinkBench(server, admin)
    for said, expected in (("", "20000"), (" tcp_user_timeout=7", "7")):
        bench.end |= {"conninfo": server.conninfo + said}
        writer = bench.sink().open("c", 1)
        assert writer.connection.info.get_parameters()["tcp_user_timeout"] == expected  # type: ignore[attr-defined]
        writer.close()


def test_one_of_key_and_origin() -> None:
    with pytest.raises(ValidationError, match="expected one of key and origin"):
        PostgresOut(conninfo="x", table="t", key=("a",), origin="o")
