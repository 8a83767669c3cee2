"""PostgreSQL, by psycopg.

In: a table is polled by a column of whole numbers that rise, its cursor, which is a record's number. A row is read when every transaction
has ended that ran when its number was seen first: one that commits late may have a smaller number. Or the whole table is read now and then,
and each row taken that was not in it the last time.

Out: rows and token in one transaction. `numa_cep_tokens` has a row for each connector, with its epoch, so an old writer changes nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import pyarrow as pa
from pydantic import Field, model_validator

from connectors.contract import (
    AnswerSink,
    AnswerWriter,
    Connector,
    ConnectorError,
    ConnectorOptions,
    Fenced,
    Place,
    Polled,
    RecordReader,
    RecordSource,
    Secret,
    library,
)

EXTRA = "postgres"
TOKENS = "numa_cep_tokens"
CONNECT_S = 10
SILENT = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 20_000}
"""A server whose machine is gone is given up within half a minute, not when TCP gives it up; `conninfo` may say otherwise."""


Conninfo = Annotated[str, Field(min_length=1, description="Where it is, without the password: `host=db dbname=shop user=cep`.")]
Password = Annotated[Secret | None, Field(description="Such as `${env:SHOP_PASSWORD}`.")]
Name = Annotated[str, Field(min_length=1, max_length=130, description="`table`, or `schema.table`.")]


class PostgresIn(ConnectorOptions):
    """`from`: {"connector": "postgres", "conninfo": "host=db dbname=shop", "table": "orders", "cursor": "id"}"""

    conninfo: Conninfo
    password: Password = None
    table: Name
    cursor: Annotated[str | None, Field(description="A column of whole numbers that rise, each for one row; it should have an index.")] = (
        None
    )
    refresh_s: Annotated[
        float | None,
        Field(
            gt=0, le=86_400, description="In place of a cursor: the whole table is read so often, and rows come that are new or changed."
        ),
    ] = None
    columns: Annotated[tuple[str, ...] | None, Field(description="The columns to be read; default: all.")] = None
    poll_s: Annotated[float, Field(gt=0, le=3600, description="It is looked for new rows after so many seconds without one.")] = 0.5

    @model_validator(mode="after")
    def _by_one_of_them(self) -> PostgresIn:
        if (self.cursor is None) == (self.refresh_s is None):
            raise ValueError("expected one of cursor and refresh_s: how are rows found that are new?")
        return self


class PostgresOut(ConnectorOptions):
    """`to`: {"connector": "postgres", "conninfo": "host=db dbname=shop", "table": "alarms", "key": ["card"]}"""

    conninfo: Conninfo
    password: Password = None
    table: Name
    key: Annotated[tuple[str, ...], Field(description="Columns with a unique index: a row takes the place of the one with its key.")] = ()
    origin: Annotated[str | None, Field(description="A column of texts, with a unique index, that gets each row's origin.")] = None
    commit_s: Annotated[float, Field(gt=0, le=60, description="A transaction is committed after so many seconds.")] = 0.2

    def wanted_columns(self) -> Sequence[tuple[str, str]]:
        return [("key", name) for name in self.key]

    @model_validator(mode="after")
    def _one_of_them(self) -> PostgresOut:
        if self.key and self.origin:
            raise ValueError("expected one of key and origin: by which of them is a row known?")
        return self


class Postgres:
    """The library, and how a server is reached."""

    def __init__(self, options: PostgresIn | PostgresOut) -> None:
        self.options, self.psycopg = options, library("psycopg", EXTRA)
        self.sql = library("psycopg.sql", EXTRA)

    def connect(self, **more: Any) -> Any:
        """Raises ConnectorError."""
        known = {} if self.options.password is None else {"password": self.options.password}
        with self.failing():
            own = SILENT | self.psycopg.conninfo.conninfo_to_dict(self.options.conninfo)
            return self.psycopg.connect(**{"connect_timeout": CONNECT_S} | own | known, **more)

    def name(self, name: str) -> Any:
        """A table's, for a statement."""
        return self.sql.Identifier(*name.split(".", 1))

    def chosen(self) -> Any:
        """The columns that a source reads."""
        assert isinstance(self.options, PostgresIn)
        return self.sql.SQL("*") if self.options.columns is None else self.columns(self.options.columns)

    def columns(self, names: Sequence[str]) -> Any:
        return self.sql.SQL(", ").join(map(self.sql.Identifier, names))

    def statement(self, text: str, **parts: Any) -> Any:
        return self.sql.SQL(text).format(**parts)

    @contextmanager
    def failing(self) -> Iterator[None]:
        """What the server or the library says becomes a ConnectorError."""
        try:
            yield
        except self.psycopg.Error as error:
            raise ConnectorError(f"{self.options.table}: {str(error).strip()}") from None


class PostgresSource(RecordSource):
    """One partition: the table."""

    def __init__(self, options: PostgresIn) -> None:
        self.options = options

    @property
    def replayable(self) -> bool:
        return self.options.cursor is not None

    @property
    def numbered(self) -> bool:
        return self.replayable

    def partitions(self) -> Sequence[str]:
        return (self.options.table,)

    def open(self, partition: str, place: Place | None) -> RecordReader:
        return PostgresReader(self.options, place) if self.replayable else RefreshingReader(self.options)


class PostgresReader(RecordReader):
    """A place is the least number that may come. Rows up to `self.settled` are all there that ever will be."""

    def __init__(self, options: PostgresIn, place: Place | None) -> None:
        self.options, self.server = options, Postgres(options)
        self.next: int | None = place
        self.settled: int | None = None
        self.seen: tuple[int, int] | None = None  # a number, and the transaction before whose end all with such numbers are there
        self.waiting = threading.Event()
        self.connection = self.server.connect(autocommit=True)

    def poll(self, rows_max: int, timeout_s: float) -> Polled:
        with self.server.failing():
            found = self._rows(rows_max) if self._has_more() else None
            if found is None:
                self.waiting.wait(min(timeout_s, self.options.poll_s))
                found = self._rows(rows_max) if self._has_more() else None
        return found or Polled(self.next)

    def committed(self, place: Place) -> None:
        """The table stays as it is."""

    def close(self) -> None:
        self.connection.close()

    def _has_more(self) -> bool:
        """Have more rows been settled?"""
        if self.settled is not None and (self.next is None or self.next <= self.settled):
            return True
        ask = self.server.statement(
            "SELECT max({cursor}), pg_snapshot_xmin(pg_current_snapshot())::text::bigint, "
            "pg_snapshot_xmax(pg_current_snapshot())::text::bigint FROM {table}",
            cursor=self._cursor(),
            table=self.server.name(self.options.table),
        )
        greatest, oldest, following = self.connection.execute(ask).fetchone()
        if self.seen is not None and oldest >= self.seen[1]:
            self.settled, self.seen = self.seen[0], None
        elif greatest is not None and oldest >= following:  # nothing else runs
            self.settled = greatest
        if self.seen is None and greatest is not None and (self.settled is None or greatest > self.settled):
            self.seen = greatest, following
        return self.settled is not None and (self.next is None or self.next <= self.settled)

    def _rows(self, rows_max: int) -> Polled | None:
        cursor = self._cursor()
        ask = self.server.statement(
            "SELECT {cursor}, {columns} FROM {table} WHERE {cursor} <= %s AND (%s::bigint IS NULL OR {cursor} >= %s) "
            "ORDER BY {cursor} LIMIT %s",
            cursor=cursor,
            columns=self.server.chosen(),
            table=self.server.name(self.options.table),
        )
        found = self.connection.execute(ask, (self.settled, self.next, self.next, rows_max))
        rows = found.fetchall()
        if not rows:
            self.next = None if self.settled is None else self.settled + 1
            return None
        numbers, *values = map(list, zip(*rows, strict=True))
        names = [each.name for each in found.description][1:]
        self.next = numbers[-1] + 1
        batch = pa.RecordBatch.from_arrays([pa.array(each) for each in values], names=names)
        return Polled(self.next, rows=batch, numbers=numbers)

    def _cursor(self) -> Any:
        return self.server.sql.Identifier(self.options.cursor)


class RefreshingReader(RecordReader):
    """Knows what was in the table the last time. The next reader knows nothing, so all rows come again."""

    def __init__(self, options: PostgresIn) -> None:
        self.options, self.server = options, Postgres(options)
        self.seen: set[str] = set()
        self.new: list[tuple[Any, ...]] = []
        self.names: list[str] = []
        self.left_s = 0.0  # until it is read again
        self.waiting = threading.Event()
        self.connection = self.server.connect(autocommit=True)

    def poll(self, rows_max: int, timeout_s: float) -> Polled:
        if not self.new:
            waits = min(self.left_s, timeout_s)
            self.waiting.wait(waits)
            self.left_s -= waits
            if self.left_s > 0:
                return Polled(None)
            with self.server.failing():
                self._read()
            self.left_s = self.options.refresh_s or 0.0
        rows, self.new = self.new[:rows_max], self.new[rows_max:]
        if not rows:
            return Polled(None)
        columns = [pa.array(each) for each in zip(*rows, strict=True)]
        return Polled(None, rows=pa.RecordBatch.from_arrays(columns, names=self.names), behind=len(self.new))

    def committed(self, place: Place) -> None:
        """The table stays as it is."""

    def close(self) -> None:
        self.connection.close()

    def _read(self) -> None:
        ask = self.server.statement(
            "SELECT {columns} FROM {table}", columns=self.server.chosen(), table=self.server.name(self.options.table)
        )
        found = self.connection.execute(ask)
        self.names = [each.name for each in found.description]
        there = {repr(row): row for row in found.fetchall()}
        self.new = [row for known, row in there.items() if known not in self.seen]
        self.seen = set(there)


class PostgresSink(AnswerSink):
    """A table."""

    keeps_tokens = True

    def __init__(self, options: PostgresOut) -> None:
        self.options = options

    @property
    def commit_s(self) -> float:
        return self.options.commit_s

    def open(self, name: str, epoch: int) -> AnswerWriter:
        return PostgresWriter(self.options, name, epoch)


class PostgresWriter(AnswerWriter):
    """Rows go into a temporary table, and at the commit from there to their own."""

    def __init__(self, options: PostgresOut, name: str, epoch: int) -> None:
        self.options, self.server, self.name, self.epoch = options, Postgres(options), name, epoch
        self.columns: tuple[str, ...] = ()
        self.connection = self.server.connect()
        try:
            with self.server.failing():
                self.kept = self._begin()
        except BaseException:
            self.connection.close()
            raise

    def token(self) -> str | None:
        return self.kept or None

    def write(self, rows: pa.RecordBatch, origin: str) -> None:
        with self.server.failing():
            names = tuple(rows.schema.names) + ((self.options.origin,) if self.options.origin else ())
            if names != self.columns:
                self._stage(names)
            columns = [column.to_pylist() for column in rows.columns]
            if self.options.origin:
                columns.append([f"{origin}-{at}" for at in range(rows.num_rows)])
            into = self.server.statement("COPY pg_temp.numa_cep_staged ({columns}) FROM STDIN", columns=self.server.columns(names))
            with self.connection.cursor().copy(into) as copy:
                for row in zip(*columns, strict=True):
                    copy.write_row(row)

    def commit(self, token: str) -> None:
        with self.server.failing():
            if self.columns:
                self._insert()
            said = self.server.statement(
                "UPDATE {tokens} SET token = %s WHERE connector = %s AND epoch = %s", tokens=self.server.name(TOKENS)
            )
            if self.connection.execute(said, (token, self.name, self.epoch)).rowcount != 1:
                self.connection.rollback()
                raise Fenced(f"{self.options.table}: a later writer of {self.name!r} has come than epoch {self.epoch}")
            self.connection.commit()
        self.kept = token

    def abort(self) -> None:
        with self.server.failing():
            self.connection.rollback()
        self.columns = ()  # the temporary table may have gone with it

    def close(self) -> None:
        self.connection.close()

    def _begin(self) -> str | None:
        """The token that is kept there. Raises Fenced."""
        tokens = self.server.name(TOKENS)
        self.connection.execute(
            self.server.statement(
                "CREATE TABLE IF NOT EXISTS {tokens} (connector text PRIMARY KEY, epoch bigint, token text)", tokens=tokens
            )
        )
        claim = self.server.statement(
            "INSERT INTO {tokens} VALUES (%s, %s, '') ON CONFLICT (connector) DO UPDATE SET epoch = excluded.epoch "
            "WHERE {tokens}.epoch <= excluded.epoch RETURNING token",
            tokens=tokens,
        )
        found = self.connection.execute(claim, (self.name, self.epoch)).fetchone()
        self.connection.commit()
        if found is None:
            raise Fenced(f"{self.options.table}: a later writer of {self.name!r} has come than epoch {self.epoch}")
        token: str = found[0]
        return token

    def _stage(self, names: tuple[str, ...]) -> None:
        """A temporary table with these columns of the table; its rows lie in the order in which they come."""
        if self.columns:
            self._insert()
        self.connection.execute("DROP TABLE IF EXISTS pg_temp.numa_cep_staged")
        self.connection.execute(
            self.server.statement(
                "CREATE TEMP TABLE numa_cep_staged ON COMMIT DELETE ROWS AS SELECT {columns} FROM {table} LIMIT 0",
                columns=self.server.columns(names),
                table=self.server.name(self.options.table),
            )
        )
        self.columns = names

    def _insert(self) -> None:
        """Of several rows with one key the last counts. Keys with a NULL are each their own, unless the index says otherwise, which only it
        knows: such rows go in one by one."""
        parts = {"table": self.server.name(self.options.table), "columns": self.server.columns(self.columns)}
        known = (self.options.origin,) if self.options.origin else self.options.key
        into = "INSERT INTO {table} ({columns}) SELECT "
        if not known:
            self._do(into + "{columns} FROM pg_temp.numa_cep_staged ORDER BY ctid", parts)
        else:
            parts |= {"known": self.server.columns(known), "then": self._then(known)}
            kept = " ON CONFLICT ({known}) DO {then}"
            whole = "DISTINCT ON ({known}) {columns} FROM pg_temp.numa_cep_staged WHERE num_nulls({known}) = 0 ORDER BY {known}, ctid DESC"
            self._do(into + whole + kept, parts)
            apart = self._do("SELECT ctid::text FROM pg_temp.numa_cep_staged WHERE num_nulls({known}) > 0 ORDER BY ctid", parts).fetchall()
            if apart:
                one = into + "{columns} FROM pg_temp.numa_cep_staged WHERE ctid = %s::tid" + kept
                self.connection.cursor().executemany(self.server.statement(one, **parts), apart)
        self._do("TRUNCATE pg_temp.numa_cep_staged", {})

    def _then(self, known: Sequence[str]) -> Any:
        """What becomes of a row whose key is there."""
        sql, others = self.server.sql, [name for name in self.columns if name not in known]
        if not others or self.options.origin:
            return sql.SQL("NOTHING")
        return sql.SQL("UPDATE SET ") + sql.SQL(", ").join(sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in others)

    def _do(self, text: str, parts: dict[str, Any]) -> Any:
        return self.connection.execute(self.server.statement(text, **parts))


POSTGRES = Connector(PostgresIn, PostgresSource, PostgresOut, PostgresSink, formats=False)
